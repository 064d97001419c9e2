"""Random modules on the interpreter and on XLA:CPU, instruction by instruction.

Owns what XLA:CPU cannot run, and the classes of operations on which it is known to differ (measured in
`tests/interpreter/test_elementwise_peer.py` and the tests of each family).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests import peer
from xlapy import ops
from xlapy.base.element_types import ARRAY_TYPES, F8E8M0FNU, PRED, PrimitiveType
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.ops.dimensions import Window
from xlapy.testing.comparison import rule_of_operation
from xlapy.testing.instruction_by_instruction import Step, assert_step, flat_module, steps_of
from xlapy.testing.random_arguments import random_arguments

Array = np.ndarray[Any, Any]

NEWER_THAN_JAXLIB = (ops.ATAN, ops.MULHI)
NOT_EXECUTABLE = {"acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "mulhi"}
TYPES = tuple(t for t in ARRAY_TYPES if t.name not in ("S1", "U1", "F6E3M2FN", "F6E2M3FN"))
"""What XLA:CPU computes with."""

_NEGATIVE_ZERO = re.compile(r"(?<![\w.])-0(?=[,)} ])")
_FUSION = re.compile(r" fusion\(([^)]*)\), kind=\w+, calls=")


def readable(text: str) -> str:
    """-0 written as -0.0: jaxlib prints the former, and reads it as +0."""
    return _NEGATIVE_ZERO.sub("-0.0", text)


def executable(text: str) -> str:
    """Fusions as calls and (row-major) bitcasts as reshapes: XLA:CPU expects both only behind its own passes."""
    return _FUSION.sub(r" call(\1), to_apply=", readable(text)).replace(" bitcast(", " reshape(")


def differences(module: Module, seed: int) -> Iterator[str]:
    """Every instruction of the entry on which XLA:CPU and the interpreter differ, with what they give."""
    shapes = [parameter.shape for parameter in module.entry_computation.parameters]
    arguments = random_arguments(shapes, seed, special=True)
    steps = [step for step in steps_of(module, arguments, without_small_numbers) if is_comparable(step)]
    if not steps:
        return
    flat, flat_arguments = flat_module(steps)
    results = peer.run_hlo(
        executable(flat.to_text(print_large_constants=True)),
        flat_arguments,
        fast=True,
        xla_disable_hlo_passes="constant_folding",
    )
    for step, result in zip(steps, results, strict=True):
        try:
            step, result = _without_fragile(step, result)
            assert_step(step, result, rule=_loosened(step), flush_denormals=True)
        except AssertionError as error:
            yield str(error)


def without_small_numbers(array: Array) -> Array:
    """Denormals become 0, which XLA:CPU takes them for; where it mistreats small normal numbers too, those become 1."""
    if array.dtype.kind == "c":
        result = np.array(array)
        part = np.dtype(np.float32 if array.dtype == np.complex64 else np.float64)
        result.real = without_small_numbers(array.real.astype(part))
        result.imag = without_small_numbers(array.imag.astype(part))
        return result
    t = PrimitiveType.from_dtype(array.dtype)
    if not t.is_floating:
        return array
    size = np.abs(array.astype(np.float64))
    smallest = float(ml_dtypes.finfo(array.dtype).smallest_normal)
    if is_fragile(t):
        return np.where(size < 8 * smallest, np.ones((), array.dtype), array)
    return np.where((size < smallest) & (size > 0), np.zeros((), array.dtype), array)


def _without_fragile(step: Step, result: Any) -> tuple[Step, Any]:
    """Small numbers of fragile types become 1 on both sides, wherever the interpreter gives one."""
    ours, theirs = _replaced(step.value, result)
    return Step(step.instruction, step.operands, ours), theirs


def _replaced(ours: Any, theirs: Any) -> tuple[Any, Any]:
    if isinstance(ours, tuple):
        pairs = [_replaced(left, right) for left, right in zip(ours, theirs, strict=True)]
        return tuple(left for left, _ in pairs), tuple(right for _, right in pairs)
    if not isinstance(ours, np.ndarray) or not is_fragile(PrimitiveType.from_dtype(ours.dtype)):
        return ours, theirs
    replaced = without_small_numbers(ours)
    small = replaced.view(np.uint8) != ours.view(np.uint8)
    return replaced, np.where(small, np.ones((), ours.dtype), theirs)


def is_fragile(t: PrimitiveType) -> bool:
    """Whether XLA:CPU mistreats the numbers of a type that are close to zero."""
    return t is F8E8M0FNU or t.name.endswith("FNUZ")


def is_comparable(step: Step) -> bool:
    instruction = step.instruction
    return all(map(_is_executable, _instructions(instruction))) and not any(is_excused(step))


def _instructions(instruction: Instruction) -> Iterator[Instruction]:
    yield instruction
    for computation in instruction.computations:
        for inner in computation:
            yield from _instructions(inner)


def _is_executable(instruction: Instruction) -> bool:
    shapes = [instruction.shape, *(operand.shape for operand in instruction.operands)]
    types = {leaf.element_type for shape in shapes for _, leaf in shape.leaves() if leaf.is_array}
    return instruction.op.name not in NOT_EXECUTABLE and types <= set(TYPES)


def is_excused(step: Step) -> Iterator[bool]:
    """The classes of operations that XLA:CPU refuses, gets wrong, or leaves undefined."""
    for instruction in _instructions(step.instruction):
        yield from _is_refused(instruction)
        if instruction is not step.instruction:
            yield from _is_misfolded(instruction)
    name, shape = step.instruction.op.name, step.instruction.shape
    arrays = [value for value in step.operands if isinstance(value, np.ndarray)]
    # no way through MLIR
    yield name == "constant" and shape.is_array and shape.element_type.is_complex and not all_finite(step.value)
    # the smallest number is a denormal f32
    yield name in ("constant", "iota") and shape.is_array and shape.element_type is F8E8M0FNU
    # the zeros of padding and dilation are multiplied by kernels like all others
    yield name == "convolution" and not all(map(all_finite, arrays))
    # products with infinite parts
    yield name in (*_REDUCTIONS, "dot") and not all(all_finite(a) for a in arrays if a.dtype.kind == "c")
    # parts that overflow, or nearly do
    is_complex = any(array.dtype.kind == "c" for array in arrays)
    yield name in ("tan", "exponential", "multiply", "divide") and is_complex and _is_huge(step.value)
    # no strict weak order
    yield name == "sort" and _is_plain(step.instruction.to_apply) and not all(map(all_finite, arrays))
    # partial products that are denormal, or overflow, or not, in some order
    yield name in _REDUCTIONS and any(map(_multiplies, step.instruction.computations)) and _wide_range(arrays)


_WHOLE_BYTES = (
    "concatenate", "pad", "sort", "topk", "dot", "convolution", "gather", "scatter", "select-and-scatter",
)  # fmt: skip
_REDUCTIONS = ("reduce", "reduce-window", "scatter", "select-and-scatter")
_INACCURATE = {
    ("cbrt", "F16"),
    ("cbrt", "F32"),
    ("cbrt", "F64"),
    ("log-plus-one", "F16"),
    ("log-plus-one", "F64"),
    ("tanh", "F64"),
    ("exponential-minus-one", "F16"),
    ("exponential-minus-one", "F32"),
    ("logistic", "F16"),
    ("logistic", "C64"),
    ("logistic", "C128"),
    ("cosine", "C64"),
    ("cosine", "C128"),
    ("sine", "C64"),
    ("sine", "C128"),
    ("log-plus-one", "C128"),
}


def _is_refused(instruction: Instruction) -> Iterator[bool]:
    name = instruction.op.name
    shapes = [instruction.shape, *(operand.shape for operand in instruction.operands)]
    types = {leaf.element_type for shape in shapes for _, leaf in shape.leaves() if leaf.is_array}
    # several elements a byte: not implemented, or aborts the process
    yield name in _WHOLE_BYTES and any(t.bits < 8 for t in types)
    # an index type that cannot hold the largest start
    yield name in ("dynamic-slice", "dynamic-update-slice") and any(t.is_integral and t.bits < 8 for t in types)
    yield name in _REDUCTIONS and shapes[0].is_tuple and any(t.bits < 8 for t in types)
    # rewritten to something illegal: the process aborts
    yield name == "reduce-window" and _removes_with_windows_of_one(instruction.attributes.window)
    yield name == "convolution" and _repeats_its_kernel(instruction)
    # not implemented
    yield name == "convolution" and shapes[1].element_type is not shapes[2].element_type
    yield name == "clamp" and PRED in types
    # aborts the process
    yield name == "bitcast-convert" and shapes[0].element_type.is_complex and shapes[0].rank != shapes[1].rank
    # reads six bits of the exponent
    yield name == "power" and any(t.is_integral for t in types)
    # counts the sign bits of a wider type
    yield name == "popcnt" and any(t.name in ("S2", "S4") for t in types)
    # noise on branch cuts and among infinities
    yield name in ("atan2", "power") and any(t.is_complex for t in types)
    yield any((name, t.name) in _INACCURATE for t in types)
    # makes a NaN infinite
    yield name == "reduce-precision" and instruction.attributes.mantissa_bits == 0


def _removes_with_windows_of_one(window: Window) -> bool:
    dimensions = window.dimensions
    return all(d.size == 1 for d in dimensions) and any(min(d.padding_low, d.padding_high) < 0 for d in dimensions)


def _repeats_its_kernel(convolution: Instruction) -> bool:
    """Whether XLA takes a dimension for that of a grouped convolution, which it cannot swap with the kernel's."""
    return any(
        d.size > 1 and (d.base_dilation, d.stride, d.window_dilation) == (d.size, d.size - 1, 1)
        and not (d.padding_low or d.padding_high or d.window_reversal)
        for d in convolution.attributes.window.dimensions
    )  # fmt: skip


def _is_misfolded(instruction: Instruction) -> Iterator[bool]:
    """What the compiler gets wrong where operands are constant: in called computations."""
    name = instruction.op.name
    # divides by zero itself
    yield name in ("divide", "remainder") and instruction.shape.element_type.is_integral
    # takes large unsigned positions for negative ones
    yield name.startswith("dynamic-") and instruction.operands[-1].shape.element_type.is_unsigned


def all_finite(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(all_finite, value))
    array = np.asarray(value)
    if array.dtype.kind != "c":
        array = array.astype(np.float64)
    return bool(np.isfinite(array).all())


def _is_huge(value: Array) -> bool:
    with np.errstate(all="ignore"):
        return not bool((np.abs(value) < np.finfo(value.dtype).max / 4).all())


def _is_plain(comparator: Computation) -> bool:
    return any(i.op is ops.COMPARE and i.attributes.type is None for i in comparator)


def _multiplies(computation: Computation) -> bool:
    return any(i.op is ops.MULTIPLY and not i.shape.element_type.is_integral for i in computation)


def _wide_range(arrays: Sequence[Array]) -> bool:
    """Whether products of some elements may leave the range of normal numbers."""
    for array in arrays:
        if PrimitiveType.from_dtype(array.dtype).is_integral or array.dtype == np.bool_:
            continue
        size = np.abs(array.astype(np.complex128))
        size = size[np.isfinite(size) & (size > 0)]
        part = array.real.dtype if array.dtype.kind == "c" else array.dtype
        if np.abs(np.log2(size)).sum() > -np.log2(float(ml_dtypes.finfo(part).smallest_normal)) - 2:
            return True
    return False


def _loosened(step: Step) -> str | None:
    """8-bit and narrower floats are computed in f16 and rounded again; some functions are not accurate."""
    instruction = step.instruction
    if not instruction.operands or not instruction.operands[0].shape.is_array:
        return None
    t = instruction.operands[0].shape.element_type
    rule = rule_of_operation(instruction.op.name, t.dtype)
    return "elementwise" if rule == "exact" and t.is_floating and t.bits <= 8 else None
