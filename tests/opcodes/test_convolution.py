"""Shape rule and attributes of the convolution."""

from __future__ import annotations

from typing import Any

import pytest

from tests import xla_reference
from tests.opcodes.rules import accepts, inferred, read, refused, rewritten, written
from tests.raising import Wanted, raises
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import contraction as contraction_codes
from xlapy.base.error_codes.operations import convolution as codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ParseError
from xlapy.opcodes.attributes.dimensions import ConvDimensions, Precision, Window
from xlapy.opcodes.contraction import Algorithm
from xlapy.opcodes.convolution import (
    CONVOLUTION,
    ConvolutionAttributes,
    ConvolutionKind,
    SparsityConfig,
    TensorSparsity,
)


def attributes(window: str = "", labels: str = "bf0_oi0->bf0", **more: Any) -> dict[str, Any]:
    """Returns the attributes of a convolution; the window as in HLO text."""
    return {"window": read(CONVOLUTION, "window", f"{{{window}}}"), "dim_labels": ConvDimensions.parse(labels), **more}


@pytest.mark.parametrize(
    ("lhs", "rhs", "window", "labels", "more", "result"),
    [
        ("f32[2,3,8]", "f32[4,3,3]", "size=3", "bf0_oi0->bf0", {}, "f32[2,4,6]"),
        ("f32[2,3,8]", "f32[4,3,3]", "size=3 pad=1_1", "bf0_oi0->bf0", {}, "f32[2,4,8]"),
        ("f32[2,3,8]", "f32[4,3,3]", "size=3 stride=3", "bf0_oi0->bf0", {}, "f32[2,4,2]"),
        ("f32[2,3,8]", "f32[4,3,3]", "size=3 pad=-2_-1", "bf0_oi0->bf0", {}, "f32[2,4,3]"),
        ("f32[2,3,8]", "f32[4,3,3]", "size=3 lhs_dilate=2", "bf0_oi0->bf0", {}, "f32[2,4,13]"),
        ("f32[2,3,8]", "f32[4,3,3]", "size=3 rhs_dilate=2", "bf0_oi0->bf0", {}, "f32[2,4,4]"),
        ("f32[2,3,8]", "f32[4,3,3]", "size=3 rhs_dilate=4", "bf0_oi0->bf0", {}, "f32[2,4,0]"),
        ("f32[2,3,0]", "f32[4,3,3]", "size=3 pad=2_2 lhs_dilate=7", "bf0_oi0->bf0", {}, "f32[2,4,2]"),
        ("f32[2,3,0]", "f32[4,3,3]", "size=3", "bf0_oi0->bf0", {}, "f32[2,4,0]"),
        ("f32[2,3]", "f32[4,3]", "", "bf_oi->bf", {}, "f32[2,4]"),
        ("f32[7,8,9,2]", "f32[3,4,9,5]", "size=3x4 stride=2x1", "01fb_01io->f1b0", {}, "f32[5,5,2,3]"),
        ("f32[2,5,6,7,3]", "f32[2,3,4,3,9]", "size=2x3x4", "b012f_012io->b012f", {}, "f32[2,4,4,4,9]"),
        ("f32[2,6,8]", "f32[4,3,3]", "size=3", "bf0_oi0->bf0", {"feature_group_count": 2}, "f32[2,4,6]"),
        ("f32[6,3,8]", "f32[4,3,3]", "size=3", "bf0_oi0->bf0", {"batch_group_count": 2}, "f32[3,4,6]"),
        ("s8[2,3,8]", "s8[4,3,3]", "size=3", "bf0_oi0->bf0", {}, "s8[2,4,6]"),
        ("bf16[2,3,8]", "f32[4,3,3]", "size=3", "bf0_oi0->bf0", {}, "f32[2,4,6]"),
        ("f32[<=2,3,<=8]", "f32[4,3,3]", "size=3", "bf0_oi0->bf0", {}, "f32[<=2,4,<=6]"),
        ("f32[2,<=3,8]", "f32[4,<=3,<=3]", "size=3", "bf0_oi0->bf0", {}, "f32[2,4,<=6]"),
        ("f32[?,3,?]", "f32[4,3,3]", "size=3", "bf0_oi0->bf0", {}, "f32[?,4,?]"),
        ("f32[2,?,8]", "f32[4,3,3]", "size=3", "bf0_oi0->bf0", {}, "f32[2,4,6]"),
    ],
)
def test_convolution_infers(lhs: str, rhs: str, window: str, labels: str, more: dict[str, int], result: str) -> None:
    given = attributes(window, labels, **more)
    assert inferred(CONVOLUTION, lhs, rhs, **given) == result
    assert accepts(CONVOLUTION, result.replace("f32", "bf16"), lhs, rhs, **given)


def test_sparse_kernel_counts_its_blocks() -> None:
    given = attributes("size=3", sparsity_config=SparsityConfig(rhs=TensorSparsity(1, 4, 1, 1)))
    assert inferred(CONVOLUTION, "f32[2,12,8]", "(f32[4,3,3], u8[9])", **given) == "f32[2,4,6]"
    assert inferred(CONVOLUTION, "f32[2,12,8]", "f32[4,3,3]", **given) == "f32[2,4,6]"


def test_kind_is_a_hint_only() -> None:
    for kind in ConvolutionKind:
        given = attributes("size=3", convolution_kind=kind)
        assert inferred(CONVOLUTION, "f32[2,3,8]", "f32[4,3,3]", **given) == "f32[2,4,6]"


X, K = "f32[2,3,8]", "f32[4,3,3]"


@pytest.mark.parametrize(
    ("lhs", "rhs", "given", "wanted"),
    [
        ("token[]", K, attributes("size=3"), (shared.ARRAY_OPERAND, "lhs", "token[]")),
        (X, "(f32[4,3,3])", attributes("size=3"), (codes.SPARSE_KERNEL, "rhs", "(f32[4,3,3])")),
        (
            "f32[2,3]",
            K,
            attributes("size=3"),
            (codes.CONVOLUTION_RANK, "lhs", "rank 3", "f32[2,3]"),
        ),
        (
            X,
            "f32[4,3,3,1]",
            attributes("size=3"),
            (codes.CONVOLUTION_RANK, "rhs", "rank 3", "f32[4,3,3,1]"),
        ),
        (X, K, attributes("size=3x3"), (codes.SPATIAL_DIMENSIONS, "(bf0_oi0->bf0)")),
        (X, K, attributes(""), (codes.SPATIAL_DIMENSIONS, "(bf0_oi0->bf0)")),
        (
            X,
            K,
            attributes("size=3", "bf0_oi01->bf0"),
            (codes.SPATIAL_DIMENSIONS, "(bf0_oi01->bf0)"),
        ),
        (
            X,
            K,
            attributes("size=3", "bf0_oi0->bf"),
            (codes.SPATIAL_DIMENSIONS, "(bf0_oi0->bf)"),
        ),
        (
            X,
            K,
            attributes("size=3", "b?f0_oi0->bf0"),
            (codes.CONVOLUTION_LABELS, "b?f0_oi0->bf0", "[0, 2, 3]"),
        ),
        (
            X,
            K,
            attributes("size=3", "bf0_o?i0->bf0"),
            (codes.CONVOLUTION_LABELS, "bf0_o?i0->bf0", "[2, 0, 3]"),
        ),
        (
            X,
            K,
            attributes("size=3", "bf0_oi0->b?f0"),
            (codes.CONVOLUTION_LABELS, "bf0_oi0->b?f0", "[0, 2, 3]"),
        ),
        (
            X,
            K,
            attributes("size=3", feature_group_count=0),
            (codes.GROUP_COUNTS, "feature_group_count"),
        ),
        (X, K, attributes("size=3", batch_group_count=-2), (codes.GROUP_COUNTS, "batch_group_count")),
        (
            X,
            K,
            attributes("size=3", feature_group_count=3, batch_group_count=2),
            ((codes.GROUP_COUNTS, "feature_group_count 3", "batch_group_count 2")),
        ),
        (
            X,
            "f32[5,3,3]",
            attributes("size=3", batch_group_count=2),
            (codes.GROUP_COUNT_DIVIDES, "feature size 5", "f32[5,3,3]", "batch_group_count 2"),
        ),
        (
            X,
            "f32[4,1,3]",
            attributes("size=3", feature_group_count=3),
            (codes.GROUP_COUNT_DIVIDES, "feature size 4", "f32[4,1,3]", "feature_group_count 3"),
        ),
        (
            "f32[3,3,8]",
            K,
            attributes("size=3", batch_group_count=2),
            (codes.GROUP_COUNT_DIVIDES, "batch size 3", "f32[3,3,8]", "batch_group_count 2"),
        ),
        (
            X,
            "f32[4,1,3]",
            attributes("size=3", feature_group_count=2),
            (codes.GROUP_COUNT_DIVIDES, "feature size 3", "f32[2,3,8]", "feature_group_count 2"),
        ),
        (
            X,
            "f32[4,2,3]",
            attributes("size=3"),
            (codes.INPUT_FEATURES, "(f32[4,2,3])", "(f32[2,3,8])"),
        ),
        (
            X,
            K,
            attributes("size=3", sparsity_config=SparsityConfig(rhs=TensorSparsity(2, 4))),
            (codes.SPARSE_KERNEL, "1xN", "2x4"),
        ),
        (
            X,
            K,
            attributes("size=2"),
            (codes.KERNEL_WINDOW, "[2]", "[3]", "f32[4,3,3]"),
        ),
        (X, "f32[4,3,0]", attributes("size=0"), (attributes_codes.WINDOW_POSITIVE, "window dimension 0")),
        (X, K, attributes("size=3 stride=0"), (attributes_codes.WINDOW_POSITIVE, "window dimension 0")),
        (
            X,
            K,
            attributes("size=3 lhs_dilate=0"),
            (attributes_codes.WINDOW_POSITIVE, "window dimension 0"),
        ),
        (
            X,
            K,
            attributes("size=3 rhs_dilate=-1"),
            (attributes_codes.WINDOW_POSITIVE, "window dimension 0"),
        ),
        (
            X,
            K,
            attributes("size=3 pad=-5_-4"),
            (movement_codes.NEGATIVE_PADDING, "-5_-4"),
        ),
        (
            X,
            "f32[<=4,3,3]",
            attributes("size=3"),
            (codes.STATIC_OUTPUT_FEATURES, "f32[<=4,3,3]"),
        ),
        (
            "f8e5m2[2,3,8]",
            "f8e5m2fnuz[4,3,3]",
            attributes("size=3"),
            (contraction_codes.DOT_PRECISION_ORDER, "f8e5m2", "f8e5m2fnuz"),
        ),
    ],
)
def test_convolution_refuses(lhs: str, rhs: str, given: dict[str, Any], wanted: Wanted) -> None:
    refused(wanted, CONVOLUTION, None, lhs, rhs, **given)


@pytest.mark.parametrize(
    ("shape", "lhs", "wanted"),
    [
        ("f32[2,4,5]", X, (shared.RESULT_SHAPE, "f32[2,4,6]", "f32[2,4,5]")),
        ("f32[2,4,6]", "c64[2,3,8]", (contraction_codes.DOT_COMPLEX_RESULT, "c64[2,3,8]", "f32[2,4,6]")),
        ("token[]", X, (contraction_codes.DOT_ARRAY_RESULT, "token[]")),
    ],
)
def test_convolution_judges_the_declared_shape(shape: str, lhs: str, wanted: Wanted) -> None:
    refused(wanted, CONVOLUTION, shape, lhs, K, **attributes("size=3"))


# -- attributes


def test_convolution_prints_its_attributes_in_order() -> None:
    plain = ConvolutionAttributes.make(dim_labels=ConvDimensions.parse("bf_oi->bf"))
    assert written(CONVOLUTION, plain) == ["dim_labels"]
    everything = plain.replace(
        window=Window.make([1]),
        feature_group_count=2,
        batch_group_count=2,
        convolution_kind=ConvolutionKind.FPROP,
        operand_precision=(Precision.HIGH,),
        algorithm=Algorithm.DOT_F32_F32_F32,
        sparsity_config=SparsityConfig(TensorSparsity()),
    )
    assert written(CONVOLUTION, everything) == [
        "window",
        "dim_labels",
        "feature_group_count",
        "batch_group_count",
        "convolution_kind",
        "operand_precision",
        "algorithm",
        "sparsity_config",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "{lhs={sparsity=1x2 dimension=1 stride=1}}",
        "{rhs={sparsity=1x4 dimension=0 stride=2}}",
        "{lhs={sparsity=1x2 dimension=1 stride=1} rhs={sparsity=1x4 dimension=0 stride=2}}",
    ],
)
def test_sparsity_text_is_that_of_xla(text: str) -> None:
    assert rewritten(CONVOLUTION, "sparsity_config", text) == text
    body = f"convolution(a, b), dim_labels=bf_oi->bf, sparsity_config={text}"
    parameters = "a = f32[1,3] parameter(0)\n b = f32[2,3] parameter(1)"
    module = f"HloModule m\nENTRY e {{\n {parameters}\n ROOT c = f32[1,2] {body}\n}}"
    assert f"sparsity_config={text}" in xla_reference.parse_and_print(module)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{mid={}}", (attributes_codes.ATTRIBUTE_WORD, "lhs", "rhs", "'mid'")),
        ("{lhs={sparsity=2}}", (attributes_codes.ATTRIBUTE_FORM, "sparsity=1x4", "dimension=0", "stride=1")),
        ("{lhs={dimension=1x2}}", (attributes_codes.ATTRIBUTE_FORM, "sparsity=1x4", "dimension=0", "stride=1")),
    ],
)
def test_malformed_sparsity(text: str, wanted: Wanted) -> None:
    with raises(ParseError, *wanted):
        read(CONVOLUTION, "sparsity_config", text)
