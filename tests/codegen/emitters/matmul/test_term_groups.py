"""Dots of narrow types by dot instructions: which instruction, for which machine, and with which results."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.codegen.emitters.matmul.test_dot import dot_text, product
from xlapy.base.element_types import (
    BF16,
    C64,
    F8E5M2,
    F8E8M0FNU,
    F16,
    F32,
    F64,
    PRED,
    S4,
    S8,
    S16,
    S32,
    S64,
    U4,
    U8,
    U16,
    U32,
)
from xlapy.base.flags import Flags
from xlapy.codegen.emitters.matmul.group_formats import group_format
from xlapy.codegen.region import region_of
from xlapy.codegen.strategies import choose_plan, emit_kernels
from xlapy.codegen.target import Target
from xlapy.cpu.compiler import compile_module
from xlapy.loops import evaluate, print_kernel
from xlapy.loops.dot_instructions import BF16_PAIRS, S16_PAIRS, U8_S8_QUADS

CPU = xla.Client("cpu")
RNG = np.random.default_rng(11)
DTYPES = {
    "f32": np.float32, "bf16": ml_dtypes.bfloat16, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "s4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "s8": np.int8, "u8": np.uint8, "s16": np.int16, "s32": np.int32,
    "u32": np.uint32, "s64": np.int64,
}  # fmt: skip
EVERYTHING = frozenset({BF16_PAIRS, S16_PAIRS, U8_S8_QUADS})


def machine(*instructions, vector_bytes=64):
    return Target(vector_bytes=vector_bytes, vector_registers=32, dot_instructions=frozenset(instructions))


# -- the choice


@pytest.mark.parametrize(
    "left, right, result, terms, expected",
    [
        (BF16, BF16, F32, 64, BF16_PAIRS),
        (BF16, BF16, BF16, 64, BF16_PAIRS),
        (F8E5M2, BF16, F32, 64, BF16_PAIRS),
        (S8, BF16, F32, 64, BF16_PAIRS),
        (U4, BF16, BF16, 64, BF16_PAIRS),
        (S8, S8, S32, 1 << 20, U8_S8_QUADS),
        (U8, S4, U32, 64, U8_S8_QUADS),
        (S8, S8, F32, 64, U8_S8_QUADS),
        (S8, S8, S64, 64, U8_S8_QUADS),
        (S8, S8, F32, 1 << 17, BF16_PAIRS),
        (S16, S8, S32, 64, S16_PAIRS),
        (S8, S8, S64, 1 << 17, None),
        (S16, S16, F32, 64, None),
        (U16, S8, S32, 64, None),
        (BF16, F32, F32, 64, None),
        (BF16, BF16, F64, 64, None),
        (F16, F16, F32, 64, None),
        (F8E8M0FNU, BF16, F32, 64, None),
        (PRED, S8, S32, 64, None),
        (C64, C64, C64, 64, None),
        (F32, F32, F32, 64, None),
    ],
)
def test_the_instruction_of_each_combination_of_types(left, right, result, terms, expected):
    found = group_format(machine(*EVERYTHING), left, right, result, terms)
    assert (found and found.instruction) is expected


def test_machines_without_instructions_for_bytes_use_pairs():
    found = group_format(machine(S16_PAIRS), S8, U8, S32, 64)
    assert found is not None and found.instruction is S16_PAIRS and not found.has_left_offset


def test_machines_without_dot_instructions_do_not_group():
    assert group_format(machine(), S8, S8, S32, 64) is None
    assert group_format(machine(U8_S8_QUADS), BF16, BF16, F32, 64) is None


@pytest.mark.parametrize("left, right, offset, swaps", [(U8, S8, 0, 0), (S8, U8, 0, 1), (S8, S8, 1, 0), (U8, U8, 1, 1)])
def test_signs_decide_the_order_of_the_factors(left, right, offset, swaps):
    found = group_format(machine(*EVERYTHING), left, right, S32, 64)
    assert found is not None
    assert (found.has_left_offset, found.swaps) == (bool(offset), bool(swaps))


# -- kernels, by the evaluator of loop IR


def kernel_of(text, target):
    (root,) = (i for i in xla.parse_hlo(text).entry_computation if i.op.name == "dot")
    region = region_of(root, target)
    plan = choose_plan(region).plan
    assert plan.strategy in ("direct-gemm", "skinny-gemm", "inner-products", "packed-gemm")
    (kernel,) = emit_kernels(plan, region)
    return kernel


def random_array(name, *shape):
    dtype = DTYPES[name]
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return RNG.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)
    if name in ("s4", "u4"):
        return RNG.integers(-8 if name == "s4" else 0, 8, shape).astype(dtype)
    return RNG.integers(-4, 5, shape).astype(dtype)


def operands(rows, terms, columns, form, types):
    left, right = random_array(types[0], rows, terms), random_array(types[1], terms, columns)
    return left, right, [m if t == "n" else np.ascontiguousarray(m.T) for m, t in zip((left, right), form, strict=True)]


def exact_product(left, right, dtype):
    wide = np.int64 if np.issubdtype(dtype, np.integer) else np.float64
    return (left.astype(wide) @ right.astype(wide)).astype(dtype)


SHAPES = [
    (1, 45, 5, "nt"),  # inner products, groups that are not whole
    (3, 16, 20, "nn"),  # direct
    (17, 17, 16, "nt"),  # packed by transposition
    (16, 18, 17, "tn"),  # rows of the left operand are contiguous
]
COMBINATIONS = [
    ("bf16", "bf16", "f32"),
    ("s8", "s8", "s32"),
    ("u8", "s8", "s32"),
    ("s8", "u8", "s32"),
    ("u8", "u8", "u32"),
    ("s16", "s16", "s32"),
]


@pytest.mark.parametrize("types", COMBINATIONS, ids="-".join)
@pytest.mark.parametrize("rows, terms, columns, form", SHAPES)
def test_kernels_compute_the_product(rows, terms, columns, form, types):
    """On every machine: the evaluator has all dot instructions."""
    kernel = kernel_of(product(rows, terms, columns, form, types), machine(*EVERYTHING, vector_bytes=32))
    assert "dot " in print_kernel(kernel)
    left, right, given = operands(rows, terms, columns, form, types)
    dtype = np.dtype(DTYPES[types[2]])
    arrays = [a.reshape(-1).view(b.type.dtype) for a, b in zip(given, kernel.buffers, strict=False)]
    result = np.zeros(rows * columns, dtype)
    arrays.append(result.view(kernel.buffers[-1].type.dtype))
    evaluate(kernel, {buffer.name: array for buffer, array in zip(kernel.buffers, arrays, strict=True)})
    np.testing.assert_array_equal(result.reshape(rows, columns), exact_product(left, right, dtype))


def test_contiguous_groups_are_loaded_at_once():
    text = print_kernel(kernel_of(product(1, 64, 5, "nt", ("s8", "s8", "s32")), machine(*EVERYTHING)))
    assert "load i32 in0[" in text and "load i32 in1[" in text and "load in" not in text


def test_small_sums_are_not_grouped():
    text = print_kernel(kernel_of(product(16, 12, 16, "nn", ("s8", "s8", "s32")), machine(*EVERYTHING)))
    assert "dot " not in text


def test_several_contracting_dimensions():
    text = dot_text("s8[9,4,6]", "s8[6,4,11]", "s32[9,11]", "lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}")
    left, right = random_array("s8", 9, 4, 6), random_array("s8", 6, 4, 11)
    expected = np.einsum("abc,cbd->ad", left.astype(np.int64), right.astype(np.int64))
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(left, right)), expected)


# -- results of this machine


@pytest.mark.parametrize(
    "types",
    [*COMBINATIONS, ("f8e5m2", "bf16", "bf16"), ("s4", "s8", "s32"), ("u4", "bf16", "f32"), ("s8", "s8", "s64")],
)
@pytest.mark.parametrize(
    "rows, terms, columns, form", [(1, 1027, 70, "nn"), (5, 300, 33, "nt"), (130, 301, 67, "tn"), (40, 1030, 50, "nt")]
)
def test_products_are_exact(rows, terms, columns, form, types):
    left, right, given = operands(rows, terms, columns, form, types)
    result = np.asarray(CPU.compile(product(rows, terms, columns, form, types))(*given))
    np.testing.assert_array_equal(result, exact_product(left, right, result.dtype))


def test_sums_of_bytes_wrap_at_32_bits():
    left = np.full((2, 1 << 17), -128, np.int8)
    result = np.asarray(CPU.compile(product(2, 1 << 17, 2, "nt", ("s8", "s8", "s32")))(left, left))
    assert result.tolist() == [[-(2**31)] * 2] * 2


def test_floats_of_bytes_do_not_wrap():
    left = np.full((2, 1 << 18), -128, np.int8)
    result = np.asarray(CPU.compile(product(2, 1 << 18, 2, "nt", ("s8", "s8", "f32")))(left, left))
    assert result.tolist() == [[2.0**32] * 2] * 2


@pytest.mark.parametrize("form", ["nn", "nt"])
def test_infinities_and_nan_stay_in_their_rows_and_columns(form):
    left, right = np.ones((20, 65)), np.ones((65, 30))
    left[3, 64], left[7, 5], left[7, 6], right[9, 4] = math.inf, math.inf, -math.inf, math.nan
    given = [m.astype(ml_dtypes.bfloat16) for m in (left, right if form == "nn" else right.T)]
    result = np.asarray(
        CPU.compile(product(20, 65, 30, form, ("bf16", "bf16", "f32")))(*map(np.ascontiguousarray, given))
    )
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(result, left @ right)


def test_accumulation_is_in_f32():
    """2^12 + 2^-12 fits in f32, but not in bf16."""
    left = np.zeros((1, 64), ml_dtypes.bfloat16)
    left[0, 0], left[0, 1], left[0, 2] = 4096.0, 2.0**-11, -4096.0
    right = np.ones((64, 24), ml_dtypes.bfloat16)
    result = np.asarray(CPU.compile(product(1, 64, 24, "nn", ("bf16", "bf16", "bf16")))(left, right))
    np.testing.assert_array_equal(result.astype(np.float32), np.full((1, 24), 2.0**-11))


def test_results_without_dot_instructions_are_as_close(monkeypatch):
    types = ("bf16", "bf16", "f32")
    left, right = (RNG.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((33, 200), (200, 40)))
    text = product(33, 200, 40, "nn", types)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    with_instructions = np.asarray(CPU.compile(text)(left, right))
    monkeypatch.setattr("xlapy.base.flags.current", lambda: Flags({"dot_instructions": False}))
    assert "dot " not in compile_module(xla.parse_hlo(text)).loops()
    for result in (with_instructions, np.asarray(CPU.compile(text)(left, right))):
        assert np.abs(result - exact).max() < 200 * 2.0**-24 * 16


def test_s32_operands_are_not_grouped():
    assert group_format(machine(*EVERYTHING), S32, S32, S32, 64) is None
