"""Selections of positions: the machine code lists the same positions as the evaluation of the IR."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.cpu.kernel_runner import run_kernel
from xlapy.cpu.llvm import processor, shared_code
from xlapy.cpu.llvm.jit import compile_text
from xlapy.cpu.llvm.vectors.selections import emit_selection, selection_name
from xlapy.loops import I32, I64, Affine, Builder, Kernel, ScalarType, evaluate, print_kernel
from xlapy.loops.ir import Location


def selection(type: ScalarType, size: int, first: int, extent: int, start: int = 0) -> Kernel:
    """Lists positions of source[start:], and stores their number."""
    builder = Builder("selection")
    source = builder.buffer("source", type, size + start)
    found = builder.buffer("found", I32, size + 1, written=True)
    total = builder.buffer("total", I64, 1, written=True)
    count = builder.load(builder.buffer("count", I64, 1), Affine())
    limits = builder.constant(I64, first), builder.constant(I64, extent)
    place = Location(source, Affine((), start))
    result = builder.positions_in(limits, place, count, Location(found, Affine((), 1)))
    builder.store(total, Affine(), result)
    return builder.kernel


@pytest.mark.parametrize("size", [0, 1, 7, 8, 15, 16, 17, 40, 333])
@pytest.mark.parametrize(("type", "dtype"), [(I32, np.int32), (I64, np.int64)])
@pytest.mark.parametrize(("first", "extent"), [(0, 5), (3, 4), (7, 0), (0, 2**31 - 1), (2**30, 2**30)])
def test_positions(type: ScalarType, dtype: type, size: int, first: int, extent: int):
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(size)
    values = rng.integers(-2, 10, size + 3).astype(dtype)
    values[rng.random(len(values)) < 0.2] = limits.min
    values[rng.random(len(values)) < 0.2] = min(limits.max, 2**31 - 1)
    kernel = selection(type, size, first, extent, start=3)
    expected = np.flatnonzero((values[3:] >= first) & (values[3:] < first + extent))
    count = np.array([size])
    for run in (False, True):
        found, total = np.full(size + 1, -7, np.int32), np.zeros(1, np.int64)
        if run:
            run_kernel(kernel, [values, found, total, count])
        else:
            evaluate(kernel, {"source": values, "found": found, "total": total, "count": count})
        assert total[0] == len(expected)
        np.testing.assert_array_equal(found[1 : len(expected) + 1], expected)
        assert found[0] == -7
    assert "select positions of source[3]" in print_kernel(kernel)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
def test_the_function_for_each_size_of_registers(bits: int, vector_bytes: int):
    if vector_bytes > processor.vector_bytes():
        pytest.skip("this processor has no such registers")
    name = selection_name(bits, vector_bytes)
    text, declarations = emit_selection(bits, vector_bytes)
    code = compile_text("\n".join([*sorted(declarations), text, shared_code.ATTRIBUTES]), [name], {})
    word = ctypes.c_int64
    function = ctypes.CFUNCTYPE(word, ctypes.c_void_p, word, word, word, ctypes.c_void_p)(code.addresses[name])
    values = np.random.default_rng(0).integers(-5, 20, 101).astype(f"i{bits // 8}")
    found = np.full(101, -1, np.int32)
    total = function(values.ctypes.data, 101, 4, 9, found.ctypes.data)
    np.testing.assert_array_equal(found[:total], np.flatnonzero((values >= 4) & (values < 13)))
