"""The values of dot, ragged-dot and scaled-dot, compared with constants and with XLA:CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interpreter.runners.instruction import Array, evaluate_on_xla, typed
from tests.interpreter.runners.products import Case, assert_like_xla, evaluate
from xlapy.base.element_types import ARRAY_TYPES, F8E8M0FNU, PrimitiveType
from xlapy.testing.random_values import random_array

MATMUL = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
INNER = "lhs_contracting_dims={0}, rhs_contracting_dims={0}"
BATCHED = "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}"

XLA_TYPES = [t for t in ARRAY_TYPES if t.text not in ("f6e3m2fn", "f6e2m3fn", "s1", "u1", "s2", "u2")]
"""The element types of dots that XLA:CPU compiles."""


def inner(lhs: Any, rhs: Any, result: str, attributes: str = INNER) -> Any:
    """Returns the dot product of two vectors, as an array of shape []."""
    return evaluate("dot", (lhs, rhs), f"{result}[]", attributes)


# -- the specification's examples


def test_contracting_dimensions() -> None:
    lhs, rhs = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    value = evaluate("dot", (lhs, rhs), "f32[2,2]", "lhs_contracting_dims={1}, rhs_contracting_dims={1}")
    assert value.tolist() == [[6, 12], [15, 30]]


def test_batch_dimensions() -> None:
    lhs = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]
    rhs = [[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]]
    assert evaluate("dot", (lhs, rhs), "f32[2,2,2]", BATCHED).tolist() == lhs


def test_vector_and_matrix_products() -> None:
    assert inner([1, 2, 3], [4, 5, 6], "s32") == 32
    assert evaluate("dot", ([[1, 2], [3, 4]], [5, 6]), "s32[2]", MATMUL).tolist() == [17, 39]
    assert evaluate("dot", ([[1, 2]], [[3], [4]]), "s32[1,1]", MATMUL).tolist() == [[11]]
    outer = evaluate("dot", ([1, 2], [3, 4, 5]), "s32[2,3]", "lhs_contracting_dims={}")
    assert outer.tolist() == [[3, 4, 5], [6, 8, 10]]
    assert evaluate("dot", (2, 3), "s32[]", "lhs_contracting_dims={}, rhs_contracting_dims={}") == 6


def test_result_dimensions_are_batch_then_lhs_then_rhs() -> None:
    rng = np.random.default_rng(1)
    lhs, rhs = rng.integers(-9, 9, (2, 5, 3, 4, 6)), rng.integers(-9, 9, (6, 7, 5, 4, 2))
    attributes = "lhs_batch_dims={1,0}, rhs_batch_dims={2,4}, lhs_contracting_dims={4,3}, rhs_contracting_dims={0,3}"
    value = evaluate("dot", (lhs, rhs), "s64[5,2,3,7]", attributes)
    assert np.array_equal(value, np.einsum("abmkl,lnbka->bamn", lhs, rhs))


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "shape"),
    [
        ((2, 0), (0, 3), "f32[2,3]", (2, 3)),
        ((0, 2), (2, 3), "f32[0,3]", (0, 3)),
        ((2, 3), (3, 0), "s8[2,0]", (2, 0)),
    ],
)
def test_zero_sizes(lhs: tuple[int, ...], rhs: tuple[int, ...], result: str, shape: tuple[int, ...]) -> None:
    dtype = np.float32 if result.startswith("f32") else np.int8
    value = evaluate("dot", (np.ones(lhs, dtype), np.ones(rhs, dtype)), result, MATMUL)
    assert value.shape == shape and not value.any()


# -- integers


@pytest.mark.parametrize(
    ("element_type", "lhs", "rhs", "result", "value"),
    [
        ("s8", [100, 100], [2, 2], "s8", -112),
        ("s8", [100, 100], [2, 2], "s32", 400),
        ("s8", [-128] * 4, [-128] * 4, "s32", 65536),
        ("s8", [-128] * 2, [-128] * 2, "s16", -32768),
        ("u8", [255, 255], [255, 255], "u8", 2),
        ("u8", [200, 100], [2, 2], "s8", 88),
        ("s4", [5, 5], [3, 3], "s4", -2),
        ("s4", [-8, 7], [-8, 7], "s32", 113),
        ("s2", [1, 1], [1, 1], "s2", -2),
        ("u4", [15, 15], [15, 15], "u4", 2),
        ("s32", [2**30, 2**30], [4, 4], "s64", 2**33),
        ("s32", [2**30, 2**30], [4, 4], "s32", 0),
        ("s32", [2**30, 2**30], [4, 4], "f32", 2.0**33),
        ("s32", [100, 100], [200, 2], "s8", -24),
        ("s64", [2**62, 2**62], [3, 2], "s64", 2**62),
        ("s64", [-(2**63), 1], [1, -1], "s64", 2**63 - 1),
        ("s64", [2**63 - 1, 2**63 - 1], [2**63 - 1, 1], "s64", -(2**63)),
        ("u64", [2**64 - 1], [2**64 - 1], "u64", 1),
        ("u64", [2**63, 2**33], [1, 2**29], "u64", 2**63 + 2**62),
        ("u32", [2**32 - 1] * 3, [2**32 - 1] * 3, "u64", (3 * (2**32 - 1) ** 2) % 2**64),
        ("u32", [2**32 - 1] * 3, [2**32 - 1] * 3, "u32", 3),
    ],
)
def test_integers_wrap(element_type: str, lhs: list[int], rhs: list[int], result: str, value: float) -> None:
    assert inner(typed(element_type, lhs), typed(element_type, rhs), result) == typed(result, value)


def test_long_integer_sums_are_exact() -> None:
    ones = np.full(1 << 22, -1, np.int64)
    assert inner(ones, ones, "s64") == 1 << 22
    assert inner(ones, np.full(1 << 22, 2**40 + 1, np.int64), "s64") == -(1 << 22) * (2**40 + 1)


@pytest.mark.parametrize(
    ("element_type", "lhs", "rhs", "result", "value"),
    [
        ("pred", [1, 1], [1, 1], "pred", True),
        ("pred", [1, 0], [0, 1], "pred", False),
        ("pred", [1] * 256, [1] * 256, "pred", True),
        ("pred", [1] * 200, [1] * 200, "s8", -56),
        ("pred", [1, 1], [1, 1], "f32", 2.0),
        ("s32", [2**31 - 1, 1], [2, 2], "pred", False),  # the sum wraps to 0 in s32
        ("s32", [1, 0], [256, 1], "pred", True),
        ("f32", [0.25, 0], [1, 1], "pred", True),
        ("f32", [1, -1], [1, 1], "pred", False),
        ("f32", [np.nan, 0], [1, 1], "pred", True),
    ],
)
def test_pred(element_type: str, lhs: list[Any], rhs: list[Any], result: str, value: Any) -> None:
    assert inner(typed(element_type, lhs), typed(element_type, rhs), result) == typed(result, value)


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "value"),
    [
        ([1.5, 1.5], [1.5, 1.5], "s32", 4),
        ([100, 100], [2, 2], "s8", 127),
        ([-100, 100], [2, 0], "u8", 0),
        ([np.nan, 100], [2, 0], "s32", 0),
    ],
)
def test_float_sums_become_integers_last(lhs: list[float], rhs: list[float], result: str, value: int) -> None:
    assert inner(typed("f32", lhs), typed("f32", rhs), result) == typed(result, value)


# -- floating point


def test_sums_are_rounded_once() -> None:
    narrow = typed("bf16", [1] + [2.0**-9] * 64)
    assert inner(narrow, typed("bf16", [1] * 65), "bf16") == 1.125
    assert inner(typed("f16", [60000, 60000, 60000]), typed("f16", [1, 1, -1]), "f16") == 60000
    assert inner(typed("f8e5m2", [1] + [2.0**-4] * 64), typed("f8e5m2", [1] * 65), "f8e5m2") == 5
    just_above_half = typed("f64", [1, 2.0**-8, 2.0**-40])
    assert inner(just_above_half, typed("f64", [1, 1, 1]), "bf16") == 1 + 2.0**-7


@pytest.mark.parametrize("t", ["f32", "f64", "c64", "c128"])
def test_small_products_are_added_term_by_term(t: str) -> None:
    """Rounds like XLA: added to the first, the second term is rounded away; the third is not."""
    large = 2.0 ** (25 if t in ("f32", "c64") else 54)
    assert inner(typed(t, [large, 1, -large, 1]), typed(t, [1, 1, 1, 1]), t) == 1
    rng = np.random.default_rng(5)
    operands = [typed(t, rng.standard_normal(shape)) for shape in ((4, 3), (3, 3))]
    case = Case("dot", operands, f"{t}[4,3]", MATMUL)
    assert np.array_equal(evaluate("dot", operands, f"{t}[4,3]", MATMUL), evaluate_on_xla([case])[0])


def test_longer_sums_of_f32_round_each_sum_but_no_product() -> None:
    """XLA fuses multiplication and addition: (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, which a rounded product loses."""
    factor = 1 + 2.0**-12
    lhs, rhs = [-(1 + 2.0**-11), factor] + [0.0] * 6, [1.0, factor] + [0.0] * 6
    assert inner(typed("f32", lhs), typed("f32", rhs), "f32") == 2.0**-24
    assert inner(typed("f32", lhs[:3]), typed("f32", rhs[:3]), "f32") == 0
    operands = [typed("f32", np.random.default_rng(6).standard_normal((48, 48)))] * 2
    case = Case("dot", operands, "f32[48,48]", MATMUL)
    assert np.array_equal(evaluate("dot", operands, "f32[48,48]", MATMUL), evaluate_on_xla([case])[0])


def test_large_products_are_rounded_once() -> None:
    """Uses more products than are added one by one."""
    lhs, rhs = np.ones((1 << 10, 1 << 12), np.float32), np.full((1 << 12, 2), 2.0**-24, np.float32)
    rhs[0] = 1
    assert (evaluate("dot", [lhs, rhs], "f32[1024,2]", MATMUL) == np.float32(1 + 4095 * 2.0**-24)).all()


def test_not_finite() -> None:
    inf, nan = np.inf, np.nan
    assert inner(typed("f32", [inf, 1]), typed("f32", [2, 1]), "f32") == inf
    assert np.isnan(inner(typed("f32", [inf, 1]), typed("f32", [0, 1]), "f32"))
    assert np.isnan(inner(typed("f32", [inf, inf]), typed("f32", [1, -1]), "f32"))
    assert np.isnan(inner(typed("f32", [nan, 0]), typed("f32", [0, 0]), "f32"))
    assert inner(typed("f64", [1e30, 1]), typed("f64", [1e10, 1]), "f32") == inf
    assert np.isnan(inner(typed("f8e4m3fn", [448, 1]), typed("f8e4m3fn", [2, 1]), "f8e4m3fn"))


def test_wider_result_than_operands() -> None:
    assert inner(typed("f8e4m3fn", [448, 1.5]), typed("f8e5m2", [2, 1.5]), "f32") == 898.25
    assert inner(typed("f4e2m1fn", [6, 1.5]), typed("f4e2m1fn", [6, 1.5]), "f32") == 38.25
    assert inner(typed("f6e3m2fn", [28, 1]), typed("f6e2m3fn", [7.5, 1]), "f16") == 211
    assert inner(typed("f32", [1e30]), typed("f32", [1e30]), "f64") == float(np.float32(1e30)) ** 2


def test_operands_without_a_higher_precision_type() -> None:
    """A declared floating-point result needs no common type of the operands."""
    for lhs, rhs in (("f8e4m3", "f8e4m3fnuz"), ("f8e5m2", "f8e5m2fnuz")):
        operands = [typed(lhs, [1, 2]), typed(rhs, [3, 4])]
        for result in ("f32", lhs, rhs):
            product = evaluate("dot", operands, f"{result}[]", "lhs_contracting_dims={0}, rhs_contracting_dims={0}")
            assert product.astype(np.float32) == (11 if result == "f32" or "4m3" in result else 12)


def test_complex() -> None:
    assert inner(typed("c64", [1 + 2j, 1]), typed("c64", [1j, 1]), "c64") == -1 + 1j
    assert inner(typed("c64", [1 + 2j, 1]), typed("f32", [1, 1]), "c64") == 2 + 2j
    assert inner(typed("f32", [1, 1]), typed("f32", [1, 1]), "c128") == 2


def test_infinite_parts_of_complex_sums_are_not_lost() -> None:
    """(inf + i)(1 + i) is inf + i inf; a product with 1 + 0i, which BLAS adds, would make it NaN."""
    lhs, rhs = np.ones((4, 9), np.complex64), np.full((9, 4), 1 + 1j, np.complex64)
    lhs[0, 0] = complex(np.inf, 1)
    value = evaluate("dot", (lhs, rhs), "c64[4,4]", MATMUL)
    assert value[0].tolist() == [complex(np.inf, np.inf)] * 4
    assert value[1:].tolist() == [[9 + 9j] * 4] * 3


def test_precision_and_algorithm_change_nothing() -> None:
    lhs, rhs = typed("f32", [1 + 2.0**-12, 1]), typed("f32", [1 - 2.0**-12, 1])
    exact = float(np.float32(float(lhs[0]) * float(rhs[0]) + 1))
    for more in ("operand_precision={default,default}", "algorithm=dot_bf16_bf16_f32", "operand_precision={high,high}"):
        assert inner(lhs, rhs, "f32", f"{INNER}, {more}") == exact


# -- against XLA:CPU


def _arrays(lhs: str, rhs: str, sizes: tuple[tuple[int, ...], ...], seed: int) -> tuple[Array, ...]:
    """Returns integers of the whole range if all types are integers, else numbers whose sums are exact in float32."""
    rng = np.random.default_rng(seed)
    types = [PrimitiveType.from_text(lhs), PrimitiveType.from_text(rhs)]
    if F8E8M0FNU in types:  # powers of two only, the smallest of which are float32 denormals
        return tuple(typed("f8e8m0fnu", 2.0 ** rng.integers(-4, 5, size)) for size in sizes)
    whole = all(t.is_integral for t in types)
    return tuple(random_array(size, t.dtype, rng, special=whole) for t, size in zip(types, sizes, strict=True))


def test_every_element_type_agrees_with_xla() -> None:
    cases = [
        Case("dot", _arrays(t.text, t.text, sizes, 1), f"{t}{list(shape)}".replace(" ", ""), attributes, terms)
        for t in XLA_TYPES
        for sizes, shape, attributes, terms in (
            (((5, 7), (7, 3)), (5, 3), MATMUL, 7),
            (((2, 3, 4), (2, 4, 5)), (2, 3, 5), BATCHED, 4),
        )
    ]
    assert_like_xla(cases)


MIXED = [
    ("s8", "s8", "s32"),
    ("u8", "s8", "s32"),
    ("s16", "s16", "s64"),
    ("s64", "s64", "s8"),
    ("s32", "f32", "f32"),
    ("s32", "f32", "s32"),
    ("pred", "s32", "s32"),
    ("pred", "f32", "pred"),
    ("s8", "s8", "f32"),
    ("u32", "s32", "f64"),
    ("bf16", "bf16", "f32"),
    ("bf16", "f32", "f32"),
    ("f16", "f16", "f32"),
    ("f32", "f32", "bf16"),
    ("f32", "f32", "f64"),
    ("f64", "f64", "f32"),
    ("f8e4m3fn", "f8e5m2", "f32"),
    ("f8e5m2fnuz", "f8e4m3b11fnuz", "bf16"),
    ("f8e8m0fnu", "f8e8m0fnu", "f32"),
    ("f8e3m4", "f8e4m3", "f16"),
    ("c64", "f32", "c64"),
    ("f32", "f32", "c64"),
    ("c64", "c128", "c128"),
    ("s64", "s64", "pred"),
    ("u64", "u64", "u32"),
    ("f32", "f32", "s8"),
]


def test_mixed_element_types_agree_with_xla() -> None:
    cases = [
        Case("dot", _arrays(lhs, rhs, ((3, 6), (6, 4)), 2), f"{result}[3,4]", MATMUL, 6) for lhs, rhs, result in MIXED
    ]
    assert_like_xla(cases)


def test_dimension_numbers_agree_with_xla() -> None:
    rng = np.random.default_rng(3)
    layouts = [
        ((7,), (7,), (), INNER),
        ((3, 7), (7,), (3,), MATMUL),
        ((4,), (5,), (4, 5), ""),
        ((), (), (), ""),
        ((2, 3, 4), (4, 3, 5), (2, 5), "lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}"),
        ((2, 3, 4), (3, 2, 4), (), "lhs_contracting_dims={2,1,0}, rhs_contracting_dims={2,0,1}"),
        (
            (2, 5, 3, 7),
            (7, 4, 5, 2),
            (5, 2, 3, 4),
            "lhs_batch_dims={1,0}, rhs_batch_dims={2,3}, lhs_contracting_dims={3}, rhs_contracting_dims={0}",
        ),
        (
            (6, 4),
            (4, 6),
            (6,),
            "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        ((0, 3), (3, 2), (0, 2), MATMUL),
        ((2, 0), (0, 3), (2, 3), MATMUL),
        ((1, 1), (1, 1), (1, 1), MATMUL),
        ((17, 33), (33, 9), (17, 9), MATMUL),
    ]
    cases = [
        Case(
            "dot",
            (random_array(lhs, dtype, rng, special=False), random_array(rhs, dtype, rng, special=False)),
            f"{name}{list(shape)}".replace(" ", ""),
            attributes or "lhs_contracting_dims={}",
            33,
        )
        for lhs, rhs, shape, attributes in layouts
        for name, dtype in (("f32", np.float32), ("s32", np.int32))
    ]
    assert_like_xla(cases)


def test_nonfinite_values_agree_with_xla() -> None:
    rng = np.random.default_rng(4)
    cases: list[Case] = []
    for name in ("f32", "f64", "bf16", "f16", "f8e5m2"):
        lhs, rhs = (typed(name, rng.standard_normal((8, 8))) for _ in range(2))
        lhs[1, 2], lhs[3, 4], lhs[5, 5], rhs[2, 6], rhs[0, 0] = np.inf, np.nan, -np.inf, 0.0, np.inf
        cases.append(Case("dot", (lhs, rhs), f"{name}[8,8]", MATMUL, 8))
    assert_like_xla(cases)


# -- scaled dot


def test_scaled_dot_scales_blocks() -> None:
    lhs, rhs = typed("f8e4m3fn", np.ones((2, 4))), typed("f8e4m3fn", np.ones((4, 3)))
    lhs_scale, rhs_scale = typed("f8e8m0fnu", [[1, 2], [4, 8]]), typed("f8e8m0fnu", [[1, 1, 0.5], [2, 4, 1]])
    value = evaluate("scaled-dot", (lhs, rhs, lhs_scale, rhs_scale), "f32[2,3]", MATMUL)
    assert value.tolist() == [[2 + 8, 2 + 16, 1 + 4], [8 + 32, 8 + 64, 4 + 16]]


def test_scaled_dot_without_a_scale() -> None:
    lhs, rhs = typed("bf16", np.ones((2, 4))), typed("f4e2m1fn", np.full((4, 1), 1.5))
    unscaled, scale = typed("bf16", [[3]]), typed("f8e8m0fnu", [[4]])
    assert evaluate("scaled-dot", (lhs, rhs, unscaled, scale), "f32[2,1]", MATMUL).tolist() == [[24], [24]]
    scalar = typed("bf16", 3)
    assert evaluate("scaled-dot", (lhs, rhs, scalar, scale), "bf16[2,1]", MATMUL).tolist() == [[24], [24]]


def test_scaled_dot_of_other_types() -> None:
    lhs, rhs, scale = np.ones((2, 4), np.int8), np.ones((4, 1), np.int8), np.full((1, 1), 100, np.int8)
    assert evaluate("scaled-dot", (lhs, rhs, scale, scale), "s8[2,1]", MATMUL).tolist() == [[64], [64]]
    factor = typed("c64", [[1j]])
    value = evaluate("scaled-dot", (typed("c64", lhs), typed("c64", rhs), factor, factor), "c64[2,1]", MATMUL)
    assert value.tolist() == [[-4], [-4]]


# -- ragged dot

FREE = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"


def test_ragged_rows_are_multiplied_by_the_matrix_of_their_group() -> None:
    lhs, rhs = [[1, 0], [0, 1], [1, 1], [1, 1]], [[[1, 2], [3, 4]], [[10, 20], [30, 40]]]
    value = evaluate("ragged-dot", (lhs, rhs, [1, 2]), "s32[4,2]", FREE)
    assert value.tolist() == [[1, 2], [30, 40], [40, 60], [0, 0]]


def test_ragged_contraction_gives_one_result_per_group() -> None:
    attributes = "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}"
    value = evaluate("ragged-dot", ([[1, 2, 3, 4]], [[1], [10], [100], [1000]], [1, 0, 2]), "s32[3,1,1]", attributes)
    assert value.tolist() == [[[1]], [[0]], [[320]]]


def test_ragged_batches_outside_the_groups_are_zero() -> None:
    attributes = f"{BATCHED}, lhs_ragged_dims={{0}}"
    lhs, rhs = np.ones((4, 2, 3), np.float32), np.ones((4, 3, 1), np.float32)
    value = evaluate("ragged-dot", (lhs, rhs, [1, 2]), "f32[4,2,1]", attributes)
    assert value[..., 0].tolist() == [[3, 3], [3, 3], [3, 3], [0, 0]]


def test_groups_do_not_see_each_other() -> None:
    """Checks that a NaN in one group's part of an operand does not affect other groups."""
    nan = float("nan")
    attributes = "lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}"
    value = evaluate("ragged-dot", ([[nan, 2.0]], [[1.0], [3.0]], [1, 1]), "f32[2,1,1]", attributes)
    assert np.isnan(value[0]).all() and value[1].tolist() == [[6]]
    rows = evaluate("ragged-dot", ([[1.0], [1.0]], [[[nan]], [[5.0]]], [1, 1]), "f32[2,1]", FREE)
    assert np.isnan(rows[0]) and rows[1] == 5


def _loop(lhs: Array, rhs: Array, sizes: Array, batch: int, row: int) -> tuple[int, Array] | None:
    ends = np.cumsum(sizes[batch])
    group = int(np.searchsorted(ends, row, side="right"))
    return None if group == len(ends) else (group, lhs[batch, row] @ rhs[group, batch])


def test_group_sizes_of_every_batch() -> None:
    rng = np.random.default_rng(5)
    lhs, rhs = rng.integers(-9, 9, (3, 6, 4)), rng.integers(-9, 9, (2, 3, 4, 5))
    sizes = np.array([[2, 3], [0, 6], [4, 0]])
    attributes = (
        "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={1}, rhs_contracting_dims={2}, "
        "lhs_ragged_dims={1}, rhs_group_dims={0}"
    )
    value = evaluate("ragged-dot", (lhs, rhs, sizes), "s64[3,6,5]", attributes)
    for batch, row in np.ndindex(3, 6):
        found = _loop(lhs, rhs, sizes, batch, row)
        assert np.array_equal(value[batch, row], np.zeros(5) if found is None else found[1])


def test_group_sizes_of_every_batch_in_a_contraction() -> None:
    rng = np.random.default_rng(6)
    lhs, rhs = rng.integers(-9, 9, (6, 3, 4)), rng.integers(-9, 9, (5, 6, 3))
    sizes = np.array([[2, 3], [0, 6], [4, 0]])
    attributes = (
        "lhs_batch_dims={1}, lhs_contracting_dims={0}, rhs_batch_dims={2}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}"
    )
    value = evaluate("ragged-dot", (lhs, rhs, sizes), "s64[2,3,4,5]", attributes)
    for group, batch in np.ndindex(2, 3):
        start = int(sizes[batch, :group].sum())
        part = slice(start, start + int(sizes[batch, group]))
        assert np.array_equal(value[group, batch], lhs[part, batch].T @ rhs[:, part, batch].T)


def test_no_groups() -> None:
    value = evaluate("ragged-dot", (np.ones((4, 3)), np.ones((0, 3, 2)), np.zeros(0, np.int32)), "f64[4,2]", FREE)
    assert value.shape == (4, 2) and not value.any()


# -- speed


@pytest.mark.parametrize("element_type", ["f32", "bf16", "s32", "s64", "c64"])
def test_a_large_product(element_type: str) -> None:
    rng = np.random.default_rng(7)
    lhs, rhs = (typed(element_type, rng.integers(-50, 50, (1024, 1024))) for _ in range(2))
    value = evaluate("dot", (lhs, rhs), f"{element_type}[1024,1024]", MATMUL)
    wide = np.complex128 if element_type == "c64" else np.float64
    assert np.array_equal(value[:2], typed(element_type, lhs[:2].astype(wide) @ rhs.astype(wide)))
