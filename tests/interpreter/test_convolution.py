"""The values of convolutions, compared with constants and with XLA:CPU."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.instruction import Array, evaluate_all, typed
from tests.interpreter.runners.products import Case, assert_like_xla, evaluate
from tests.raising import raises
from xlapy.base.element_types import ARRAY_TYPES, F8E8M0FNU
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import interpreting as interpreting_codes
from xlapy.base.error_codes.operations import convolution as codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.dimensions import ConvDimensions
from xlapy.opcodes.convolution import CONVOLUTION, ConvolutionAttributes
from xlapy.testing.random_values import random_array


def case(lhs: Array, rhs: Array, window: str, labels: str, more: str = "", result: str = "") -> Case:
    """Makes the case of a convolution with its inferred shape, and with the element type `result` if it is given."""
    attributes = f"window={{{window}}}, dim_labels={labels}{more}"
    shape = inferred_shape(Shape.of(lhs), Shape.of(rhs), window, labels, more)
    numbers = ConvDimensions.parse(labels)
    spatial = math.prod(rhs.shape[d] for d in numbers.kernel_spatial_dimensions)
    terms = spatial * rhs.shape[numbers.kernel_input_feature_dimension]
    text = shape.to_text()
    return Case("convolution", (lhs, rhs), result + text[text.index("[") :] if result else text, attributes, terms)


def inferred_shape(lhs: Shape, rhs: Shape, window: str, labels: str, more: str) -> Shape:
    fields = ConvolutionAttributes.by_key
    counts = dict(part.split("=") for part in more.split(", ") if "group_count" in part)
    return CONVOLUTION.result_shape(
        (lhs, rhs),
        ConvolutionAttributes.make(
            window=fields["window"].codec.read(HloCursor(f"{{{window}}}")),
            dim_labels=ConvDimensions.parse(labels),
            **{key: int(value) for key, value in counts.items()},
        ),
    )


def line(lhs: Any, rhs: Any, window: str, more: str = "") -> list[Any]:
    """Returns the values of a 1-d convolution of f32 (or given) elements."""
    left, right = (np.asarray(v, np.float32).reshape(1, 1, -1) for v in (lhs, rhs))
    (value,) = evaluate_all([case(left, right, f"size={right.size} {window}", "bf0_oi0->bf0", more)])
    return value.reshape(-1).tolist()


# -- windows, by constants


@pytest.mark.parametrize(
    ("lhs", "rhs", "window", "value"),
    [
        ([1, 2, 3, 4], [1, 10], "", [21, 32, 43]),
        ([1, 2, 3, 4], [1, 10, 100], "pad=1_1", [210, 321, 432, 43]),
        ([1, 2, 3, 4], [1, 10, 100], "pad=2_3", [100, 210, 321, 432, 43, 4, 0]),
        ([1, 2, 3, 4], [1, 10], "stride=2", [21, 43]),
        ([1, 2, 3, 4], [1, 10], "stride=3", [21]),
        ([1, 2, 3, 4], [1, 10], "stride=3 pad=0_1", [21, 4]),
        ([1, 2, 3, 4], [1, 10], "pad=-1_0", [32, 43]),
        ([1, 2, 3, 4], [1, 10], "pad=-1_-1", [32]),
        ([1, 2, 3, 4], [1, 10, 100], "pad=-2_3", [43, 4, 0]),
        ([1, 2, 3, 4], [1, 10], "pad=-2_-2", []),
        ([1, 2, 3, 4], [1, 10], "lhs_dilate=2", [1, 20, 2, 30, 3, 40]),
        ([1, 2, 3, 4], [1, 10], "lhs_dilate=2 stride=2", [1, 2, 3]),
        ([1, 2, 3, 4], [1, 10], "lhs_dilate=2 stride=3", [1, 30]),
        ([1, 2, 3, 4], [1, 10], "lhs_dilate=3 pad=-1_0", [0, 20, 2, 0, 30, 3, 0, 40]),
        ([1, 2, 3, 4], [1, 10], "rhs_dilate=2", [31, 42]),
        ([1, 2, 3, 4], [1, 10], "rhs_dilate=3", [41]),
        ([1, 2, 3, 4], [1, 10], "rhs_dilate=4", []),
        ([1, 2, 3, 4], [1, 10], "rhs_reversal=1", [12, 23, 34]),
        ([1, 2, 3, 4], [1, 10], "rhs_dilate=2 lhs_dilate=2", [21, 0, 32, 0, 43]),
        ([1, 2, 3, 4], [1, 10], "rhs_dilate=2 rhs_reversal=1 pad=1_0", [2, 13, 24]),
        ([1, 2], [1, 10, 100], "", []),
        ([], [1, 10], "pad=2_1", [0, 0]),
        ([], [1, 10], "lhs_dilate=5 pad=2_1", [0, 0]),
        ([5], [7], "lhs_dilate=9 rhs_dilate=9", [35]),
    ],
)
def test_windows(lhs: list[int], rhs: list[int], window: str, value: list[int]) -> None:
    assert line(lhs, rhs, window) == value


def test_padding_and_holes_are_skipped() -> None:
    inf = math.inf
    assert line([1, 2, 3, 4], [inf, 1, 1], "pad=1_1") == [3, inf, inf, inf]
    assert line([1, 2, 3, 4], [inf, 1, 1], "lhs_dilate=2") == [inf, 2, inf, 3, inf]


def test_two_spatial_dimensions() -> None:
    lhs = np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1)
    rhs = np.array([[1, 2], [10, 20]], np.float32).reshape(2, 2, 1, 1)
    value = evaluate("convolution", (lhs, rhs), "f32[1,2,3,1]", "window={size=2x2}, dim_labels=b01f_01io->b01f")
    assert value[0, :, :, 0].tolist() == [[142, 175, 208], [274, 307, 340]]


def test_features_are_summed_and_mapped() -> None:
    lhs = np.array([[1, 2], [3, 4]], np.int32)  # batch, feature
    rhs = np.array([[1, 10], [100, 1000], [0, 1]], np.int32)  # output, input
    value = evaluate("convolution", (lhs, rhs), "s32[2,3]", "dim_labels=bf_oi->bf")
    assert value.tolist() == [[21, 2100, 2], [43, 4300, 4]]


def test_feature_groups() -> None:
    lhs, rhs = np.array([[1, 2, 3, 4]], np.int32), np.array([[1, 10], [2, 20], [100, 1], [200, 2]], np.int32)
    attributes = "dim_labels=bf_oi->bf, feature_group_count=2"
    assert evaluate("convolution", (lhs, rhs), "s32[1,4]", attributes).tolist() == [[21, 42, 304, 608]]
    depthwise = np.array([[1], [10], [100], [1000]], np.int32)
    attributes = "dim_labels=bf_oi->bf, feature_group_count=4"
    assert evaluate("convolution", (lhs, depthwise), "s32[1,4]", attributes).tolist() == [[1, 20, 300, 4000]]


def test_batch_groups() -> None:
    lhs, rhs = np.array([[1], [2], [3], [4]], np.int32), np.array([[1], [10], [100], [1000]], np.int32)
    attributes = "dim_labels=bf_oi->bf, batch_group_count=2"
    value = evaluate("convolution", (lhs, rhs), "s32[2,4]", attributes)
    assert value.tolist() == [[1, 10, 300, 3000], [2, 20, 400, 4000]]


# -- element types, by constants


@pytest.mark.parametrize(
    ("lhs_type", "rhs_type", "lhs", "rhs", "result", "value"),
    [
        ("s8", "s8", [100, 100], [2, 2], "s8", -112),
        ("s8", "s8", [100, 100], [2, 2], "s32", 400),
        ("u8", "s8", [200, 100], [-2, 2], "s32", -200),
        ("s4", "s4", [5, 5], [3, 3], "s4", -2),
        ("s4", "s4", [5, 5], [3, 3], "s32", 30),
        ("s32", "s32", [2**30, 2**30], [4, 4], "s32", 0),
        ("s64", "s64", [2**62, 2**62], [3, 2], "s64", 2**62),
        ("pred", "pred", [1, 1], [1, 1], "pred", True),
        ("pred", "pred", [1, 1], [1, 1], "s32", 2),
        ("s32", "f32", [100, 100], [2.5, 2], "f32", 450),
        ("f32", "f32", [1.5, 1.5], [1.5, 1.5], "s32", 4),
        ("f8e4m3fn", "f8e5m2", [1.5, 448], [1.5, 2], "f32", 898.25),
        ("f4e2m1fn", "f4e2m1fn", [1.5, 6], [1.5, 6], "f32", 38.25),
        ("f16", "f16", [60000, 60000], [1, -0.5], "f16", 30000),
        ("bf16", "bf16", [1.5, 6], [1.5, 1 / 3], "f32", 4.25390625),
        ("c64", "c64", [1 + 2j, 1], [1j, 1], "c64", -1 + 1j),
        ("c64", "f32", [1 + 2j, 1], [1, 1], "c64", 2 + 2j),
    ],
)
def test_element_types(lhs_type: str, rhs_type: str, lhs: list[Any], rhs: list[Any], result: str, value: Any) -> None:
    left, right = typed(lhs_type, lhs).reshape(1, 1, -1), typed(rhs_type, rhs).reshape(1, 1, -1)
    found = evaluate("convolution", (left, right), f"{result}[1,1,1]", "window={size=2}, dim_labels=bf0_oi0->bf0")
    assert found.reshape(()) == typed(result, value)


def test_sums_over_the_window_are_rounded_once() -> None:
    narrow = typed("bf16", [1] + [2.0**-9] * 64).reshape(1, 1, 65)
    attributes = "window={size=65}, dim_labels=bf0_oi0->bf0"
    value = evaluate("convolution", (narrow, typed("bf16", np.ones((1, 1, 65)))), "bf16[1,1,1]", attributes)
    assert value.reshape(()) == 1.125


SPARSE = """HloModule m
ENTRY e {{ x = f32[{x}] parameter(0) v = f32[{kernel}] parameter(1) p = {position_type}[{kernel}] parameter(2)
  k = (f32[{kernel}], {position_type}[{kernel}]) tuple(v, p)
  ROOT r = f32[{result}] convolution(x, k), {more}, sparsity_config={{rhs={{{sparsity}}}}} }}
"""


def sparse(x: Any, values: Any, positions: Any, sparsity: str, result: str, more: str = "dim_labels=bf_io->bf") -> Any:
    arrays = np.array(x, np.float32), np.array(values, np.float32), np.array(positions, np.int32)
    sizes = [",".join(map(str, array.shape)) for array in arrays]
    text = SPARSE.format(x=sizes[0], kernel=sizes[1], position_type="s32", result=result, more=more, sparsity=sparsity)
    return np.asarray(xla.Client("interpreter").compile(text)(*arrays))


@pytest.mark.parametrize(
    ("x", "values", "positions", "sparsity", "expected"),
    [
        ([1, 2, 3, 4], [10], [1], "sparsity=1x4 dimension=0 stride=1", 20),
        ([1, 2, 3, 4, 5, 6, 7, 8], [10, 20], [1, 3], "sparsity=1x4 dimension=0 stride=1", 180),
        ([1, 2, 3, 4, 5, 6, 7, 8], [10], [5], "sparsity=1x8 dimension=0 stride=1", 60),
        ([1, 2, 3, 4, 5, 6, 7, 8], [10, 20], [3, 0], "sparsity=1x4 dimension=0 stride=2", 110),
        ([1, 2, 3, 4], [10, 20], [1, 1], "sparsity=1x2 dimension=0 stride=2", 110),
    ],
)
def test_sparse_kernels(x: list[int], values: list[int], positions: list[int], sparsity: str, expected: float) -> None:
    """The first three cases are those of XLA's evaluator."""
    assert sparse([x], [[v] for v in values], [[p] for p in positions], sparsity, "1,1").tolist() == [[expected]]


def test_a_sparse_kernel_equals_the_dense_kernel_with_zeros() -> None:
    rng = np.random.default_rng(3)
    x, stored = rng.integers(-3, 4, (2, 8, 5)), rng.integers(1, 4, (6, 4, 3))
    positions = rng.integers(0, 2, stored.shape)
    dense = np.zeros((6, 8, 3), np.float32)
    for o, i, w in np.ndindex(*stored.shape):
        dense[o, 2 * i + positions[o, i, w], w] = stored[o, i, w]
    more = "window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0"
    found = sparse(x, stored, positions, "sparsity=1x2 dimension=1 stride=1", "2,6,5", more)
    assert found.tolist() == evaluate("convolution", (x.astype(np.float32), dense), "f32[2,6,5]", more).tolist()


def test_batched_sparse_kernels() -> None:
    text = """HloModule m
    one { n = f32[] parameter(0) i = s32[] convert(n) x = f32[1,4] constant({{1,2,3,4}})
      v = f32[2,1] broadcast(n), dimensions={} p = s32[2,1] broadcast(i), dimensions={}
      k = (f32[2,1], s32[2,1]) tuple(v, p)
      c = f32[1,1] convolution(x, k), dim_labels=bf_io->bf, sparsity_config={rhs={sparsity=1x2 dimension=0 stride=1}}
      ROOT r = f32[] reshape(c) }
    ENTRY e { p = f32[3] parameter(0) ROOT m = f32[3] map(p), dimensions={0}, to_apply=one }
    """
    assert np.asarray(xla.Client("interpreter").compile(text)(np.array([0, 1, 1], np.float32))).tolist() == [0, 6, 6]


@pytest.mark.parametrize(
    ("sparsity", "positions", "error", "code", "values"),
    [
        (
            "sparsity=1x2 dimension=0 stride=1",
            [[0], [2]],
            ExecutionError,
            interpreting_codes.SPARSE_POSITION,
            ("position 2", "2"),
        ),
        (
            "sparsity=1x2 dimension=0 stride=1",
            [[-1], [0]],
            ExecutionError,
            interpreting_codes.SPARSE_POSITION,
            ("position -1", "2"),
        ),
        (
            "sparsity=1x2 dimension=1 stride=1",
            [[0], [0]],
            UnsupportedError,
            codes.SPARSE_KERNEL,
            ("dimension 0", "not 1"),
        ),
        (
            "sparsity=1x2 dimension=0 stride=4",
            [[0], [0]],
            UnsupportedError,
            codes.SPARSE_KERNEL,
            ("stores 2", "stride 4"),
        ),
        ("sparsity=1x2 dimension=0 stride=0", [[0], [0]], UnsupportedError, codes.SPARSE_KERNEL, ("stride 0",)),
    ],
)
def test_undefined_sparse_kernels(
    sparsity: str, positions: Any, error: type[Exception], code: ErrorCode, values: tuple[str, ...]
) -> None:
    with raises(error, code, *values):
        sparse([[1, 2, 3, 4]], [[5], [6]], positions, sparsity, "1,1")


def test_a_sparse_kernel_needs_valid_positions() -> None:
    attributes = "dim_labels=bf_oi->bf, sparsity_config={rhs={sparsity=1x2 dimension=1 stride=1}}"
    with raises(UnsupportedError, codes.SPARSE_KERNEL, "1x2", "dimension=1", "stride=1}"):
        evaluate("convolution", (np.ones((1, 4)), np.ones((3, 2))), "f64[1,3]", attributes)


# -- against XLA:CPU


def test_every_element_type_agrees_with_xla() -> None:
    rng = np.random.default_rng(1)
    cases: list[Case] = []
    for t in ARRAY_TYPES:
        if t.text in ("f6e3m2fn", "f6e2m3fn", "s1", "u1", "s2", "u2"):
            continue
        lhs, rhs = (
            typed(t.text, 2.0 ** rng.integers(-4, 5, size))
            if t is F8E8M0FNU
            else random_array(size, t.dtype, rng, special=t.is_integral)
            for size in ((2, 3, 6), (4, 3, 3))
        )
        cases.append(case(lhs, rhs, "size=3 pad=1_1", "bf0_oi0->bf0"))
        cases.append(case(lhs, rhs, "size=3 stride=2 rhs_dilate=2", "bf0_oi0->bf0"))
    assert_like_xla(cases)


PREFERRED = [
    ("s8", "s32"),
    ("u8", "u32"),
    ("s16", "s32"),
    ("s32", "s8"),
    ("pred", "s32"),
    ("bf16", "f32"),
    ("f16", "f32"),
    ("f32", "bf16"),
    ("f32", "f64"),
    ("f8e4m3fn", "f32"),
    ("f8e5m2fnuz", "bf16"),
    ("c64", "c128"),
    ("s8", "f32"),
]


def test_preferred_element_types_agree_with_xla() -> None:
    rng = np.random.default_rng(2)
    cases: list[Case] = []
    for operand, result in PREFERRED:
        dtype = typed(operand, 0).dtype
        lhs, rhs = (random_array(size, dtype, rng, special=False) for size in ((2, 6, 3), (3, 3, 4)))
        cases.append(case(lhs, rhs, "size=3 pad=1_0", "b0f_0io->b0f", result=result))
    assert_like_xla(cases)


WINDOWS = [
    "size=3",
    "size=3 pad=1_1",
    "size=3 pad=2_0 stride=2",
    "size=3 pad=-1_-2",
    "size=3 pad=-2_3",
    "size=3 lhs_dilate=2",
    "size=3 lhs_dilate=3 pad=2_1 stride=2",
    "size=3 rhs_dilate=2",
    "size=3 rhs_dilate=2 lhs_dilate=2 pad=1_1",
    "size=3 rhs_reversal=1",
    "size=3 rhs_reversal=1 rhs_dilate=2 pad=2_2 stride=3",
    "size=3 lhs_dilate=2 pad=-2_-1",
    "size=3 stride=7",
    "size=3 rhs_dilate=5",
]


def test_windows_agree_with_xla() -> None:
    rng = np.random.default_rng(3)
    cases: list[Case] = []
    for window in WINDOWS:
        for dtype in (np.float32, np.int32):
            lhs, rhs = (random_array(size, dtype, rng, special=False) for size in ((2, 3, 8), (4, 3, 3)))
            cases.append(case(lhs, rhs, window, "bf0_oi0->bf0"))
    assert_like_xla(cases)


def _labelled(labels: str, sizes: dict[str, int], rng: np.random.Generator) -> tuple[Array, Array]:
    """Makes operands whose dimensions have the sizes of their labels; spatial kernel dimensions have uppercase
    labels."""
    lhs, rhs = labels.split("->")[0].split("_")
    return (
        random_array([sizes[label] for label in lhs], np.float32, rng, special=False),
        random_array([sizes[label if label in "io" else "k" + label] for label in rhs], np.float32, rng, special=False),
    )


SIZES = {"b": 4, "f": 6, "i": 6, "o": 8, "0": 7, "1": 6, "2": 5, "k0": 3, "k1": 2, "k2": 3}
LABELS = [
    ("bf_io->bf", ""),
    ("fb_oi->fb", ""),
    ("0bf_io0->f0b", "size=3 pad=1_1"),
    ("b01f_01io->b01f", "size=3x2 pad=1_1x0_1"),
    ("bf01_oi01->bf01", "size=3x2 stride=2x1"),
    ("10fb_o1i0->0b1f", "size=3x2 lhs_dilate=2x1 rhs_reversal=0x1"),
    ("b012f_012io->b012f", "size=3x2x3 pad=1_1x0_0x2_0"),
    ("2fb10_0o1i2->b2f01", "size=3x2x3 stride=1x2x1"),
]


def test_labels_and_groups_agree_with_xla() -> None:
    rng = np.random.default_rng(4)
    cases: list[Case] = []
    for labels, window in LABELS:
        cases.append(case(*_labelled(labels, SIZES, rng), window, labels))
        cases.append(case(*_labelled(labels, SIZES | {"i": 3}, rng), window, labels, ", feature_group_count=2"))
        cases.append(case(*_labelled(labels, SIZES | {"f": 8, "i": 1}, rng), window, labels, ", feature_group_count=8"))
        cases.append(case(*_labelled(labels, SIZES, rng), window, labels, ", batch_group_count=2"))
        cases.append(case(*_labelled(labels, SIZES, rng), window, labels, ", batch_group_count=4"))
    assert_like_xla(cases)


ZERO_SIZES = [
    ((0, 3, 8), (4, 3, 3), "size=3"),
    ((2, 0, 8), (4, 0, 3), "size=3"),
    ((2, 3, 8), (0, 3, 3), "size=3"),
    ((2, 3, 0), (4, 3, 3), "size=3 pad=2_2"),
    ((2, 3, 2), (4, 3, 3), "size=3"),
    ((2, 3, 0), (4, 3, 1), "size=1"),
]


def test_zero_sizes_agree_with_xla() -> None:
    cases = [
        case(np.ones(lhs, dtype), np.ones(rhs, dtype), window, "bf0_oi0->bf0")
        for lhs, rhs, window in ZERO_SIZES
        for dtype in (np.float32, np.int8)
    ]
    assert_like_xla(cases)


def test_nonfinite_values_agree_with_xla() -> None:
    """Without padding or holes: there, XLA:CPU multiplies by zeros in some cases and skips them in others."""
    rng = np.random.default_rng(5)
    cases: list[Case] = []
    for name in ("f32", "f64", "bf16", "f16"):
        lhs, rhs = typed(name, rng.standard_normal((2, 3, 12))), typed(name, rng.standard_normal((4, 3, 3)))
        lhs[0, 0, 2], lhs[1, 1, 4], lhs[1, 2, 8], rhs[1, 1, 1], rhs[2, 0, 0] = np.inf, np.nan, -np.inf, 0, np.inf
        cases.append(case(lhs, rhs, "size=3", "bf0_oi0->bf0"))
    assert_like_xla(cases)


# -- large convolutions


@pytest.mark.parametrize("element_type", ["f32", "bf16", "s8", "s32"])
def test_a_residual_block(element_type: str) -> None:
    rng = np.random.default_rng(6)
    lhs, rhs = typed(element_type, rng.integers(-9, 9, (8, 56, 56, 64))), typed(element_type, np.ones((3, 3, 64, 64)))
    preferred = "s32" if element_type == "s8" else ""
    example = case(lhs, rhs, "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", result=preferred)
    (value,) = evaluate_all([example])
    corner = lhs[:, :2, :2].astype(np.float64).sum(axis=(1, 2, 3))
    assert np.array_equal(value[:, 0, 0, 0], corner.astype(value.dtype))


def test_many_groups_and_large_windows() -> None:
    depthwise = case(
        np.ones((4, 28, 28, 256), np.float32),
        np.ones((3, 3, 1, 256), np.float32),
        "size=3x3",
        "b01f_01io->b01f",
        ", feature_group_count=256",
    )
    gradient = case(
        np.ones((16, 30, 30, 4), np.float32), np.ones((28, 28, 4, 16), np.float32), "size=28x28", "b01f_01io->b01f"
    )
    first, second = evaluate_all([depthwise, gradient])
    assert (first == 9).all() and (second == 28 * 28 * 4).all()
