"""Runs functions of `xlapy.loops.mathematics` on arrays: as vector or scalar machine code, and in the evaluator."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.cpu.kernel_runner import run_kernel
from xlapy.cpu.llvm.jit import compile_text
from xlapy.loops import F32, F64, AxisKind, Builder, Kernel, ScalarType, evaluate
from xlapy.loops.mathematics import COMPLEX_MATHEMATICS, MATHEMATICS

Array = np.ndarray[Any, Any]


def type_of(array: Array) -> ScalarType:
    return F32 if array.dtype in (np.float32, np.complex64) else F64


def kernel(name: str, type: ScalarType, size: int, operands: int, lanes: int) -> Kernel:
    """Builds a kernel that applies a function to each element; with lanes = 1, it is scalar code."""
    builder = Builder("mathematics")
    given = [builder.buffer(f"x{number}", type, size) for number in range(operands)]
    result = builder.buffer("result", type, size, written=True)
    kind = AxisKind.SERIAL if lanes == 1 else AxisKind.VECTOR
    with builder.loop(size, kind, width=lanes) as i:
        builder.store(result, i, MATHEMATICS[name](builder, *(builder.load(buffer, i) for buffer in given)))
    return builder.kernel


def complex_kernel(name: str, type: ScalarType, size: int, operands: int) -> Kernel:
    """Builds a kernel that applies a function to complex elements, stored as adjacent real and imaginary parts."""
    builder = Builder("mathematics")
    given = [builder.buffer(f"x{number}", type, 2 * size) for number in range(operands)]
    result = builder.buffer("result", type, size if name == "abs" else 2 * size, written=True)
    with builder.loop(size, AxisKind.VECTOR, width=64 // type.byte_size) as i:
        numbers = [(builder.load(buffer, i * 2), builder.load(buffer, i * 2 + 1)) for buffer in given]
        parts = COMPLEX_MATHEMATICS[name](builder, *numbers)
        for at, part in enumerate(parts):
            builder.store(result, i * len(parts) + at, part)
    return builder.kernel


def run(name: str, *operands: Array, lanes: int | None = None) -> Array:
    """Runs machine code with full vectors, unless the number of lanes is given."""
    arrays = [np.ascontiguousarray(operand) for operand in operands]
    type, result = type_of(arrays[0]), np.empty_like(arrays[0])
    width = 64 // type.byte_size if lanes is None else lanes
    run_kernel(kernel(name, type, result.size, len(arrays), width), [*arrays, result])
    return result


def run_evaluated(name: str, *operands: Array) -> Array:
    type, result = type_of(operands[0]), np.empty_like(operands[0])
    memory = {f"x{number}": operand for number, operand in enumerate(operands)} | {"result": result}
    evaluate(kernel(name, type, result.size, len(operands), 1), memory)
    return result


def run_complex(name: str, operands: Sequence[Array]) -> Array:
    arrays = [np.ascontiguousarray(operand) for operand in operands]
    result = np.empty_like(arrays[0].real if name == "abs" else arrays[0])
    run_kernel(complex_kernel(name, type_of(arrays[0]), arrays[0].size, len(arrays)), [*arrays, result])
    return result


_CONTROL = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define i32 @exchange(i32 %new) {
  %place = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %place)
  %old = load i32, ptr %place
  store i32 %new, ptr %place
  call void @llvm.x86.sse.ldmxcsr(ptr %place)
  ret i32 %old
}
"""
_FLUSH_BOTH = 0x9FC0


@contextmanager
def flushing_denormals() -> Iterator[None]:
    """Makes this thread treat denormal operands and results as 0."""
    code = compile_text(_CONTROL, ["exchange"], {})
    exchange = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)(code.addresses["exchange"])
    before = exchange(_FLUSH_BOTH)
    yield
    exchange(before)
