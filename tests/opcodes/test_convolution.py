"""Shape rule and attributes of the convolution."""

from __future__ import annotations

from typing import Any

import pytest

from tests import xla_reference
from tests.opcodes.rules import accepts, inferred, read, refusal, rewritten, written
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
    ("lhs", "rhs", "given", "message"),
    [
        ("token[]", K, attributes("size=3"), "convolution takes arrays, lhs is token[]"),
        (X, "(f32[4,3,3])", attributes("size=3"), "convolution takes a sparse rhs as a tuple of 2, given (f32[4,3,3])"),
        (
            "f32[2,3]",
            K,
            attributes("size=3"),
            "convolution with 1 spatial dimensions takes lhs of rank 3, given f32[2,3]",
        ),
        (
            X,
            "f32[4,3,3,1]",
            attributes("size=3"),
            "convolution with 1 spatial dimensions takes rhs of rank 3, given f32[4,3,3,1]",
        ),
        (X, K, attributes("size=3x3"), "convolution has 1 input spatial dimensions (bf0_oi0->bf0), its window has 2"),
        (X, K, attributes(""), "convolution has 1 input spatial dimensions (bf0_oi0->bf0), its window has 0"),
        (
            X,
            K,
            attributes("size=3", "bf0_oi01->bf0"),
            "convolution has 1 input spatial dimensions (bf0_oi01->bf0), its kernel has 2",
        ),
        (
            X,
            K,
            attributes("size=3", "bf0_oi0->bf"),
            "convolution has 1 input spatial dimensions (bf0_oi0->bf), its output has 0",
        ),
        (
            X,
            K,
            attributes("size=3", "b?f0_oi0->bf0"),
            "convolution: the input dimensions must be 0 to 2, each once, b?f0_oi0->bf0 gives [0, 2, 3]",
        ),
        (
            X,
            K,
            attributes("size=3", "bf0_o?i0->bf0"),
            "convolution: the kernel dimensions must be 0 to 2, each once, bf0_o?i0->bf0 gives [2, 0, 3]",
        ),
        (
            X,
            K,
            attributes("size=3", "bf0_oi0->b?f0"),
            "convolution: the output dimensions must be 0 to 2, each once, bf0_oi0->b?f0 gives [0, 2, 3]",
        ),
        (
            X,
            K,
            attributes("size=3", feature_group_count=0),
            "convolution needs a positive feature_group_count, given 0",
        ),
        (X, K, attributes("size=3", batch_group_count=-2), "convolution needs a positive batch_group_count, given -2"),
        (
            X,
            K,
            attributes("size=3", feature_group_count=3, batch_group_count=2),
            (
                "convolution takes feature groups or batch groups, not both; "
                "given feature_group_count 3 and batch_group_count 2"
            ),
        ),
        (
            X,
            "f32[5,3,3]",
            attributes("size=3", batch_group_count=2),
            "convolution: kernel output feature size 5 of f32[5,3,3] is not a multiple of batch_group_count 2",
        ),
        (
            X,
            "f32[4,1,3]",
            attributes("size=3", feature_group_count=3),
            "convolution: kernel output feature size 4 of f32[4,1,3] is not a multiple of feature_group_count 3",
        ),
        (
            "f32[3,3,8]",
            K,
            attributes("size=3", batch_group_count=2),
            "convolution: input batch size 3 of f32[3,3,8] is not a multiple of batch_group_count 2",
        ),
        (
            X,
            "f32[4,1,3]",
            attributes("size=3", feature_group_count=2),
            "convolution: input feature size 3 of f32[2,3,8] is not a multiple of feature_group_count 2",
        ),
        (
            X,
            "f32[4,2,3]",
            attributes("size=3"),
            "convolution: the kernel takes 2 input features (f32[4,2,3]), the input has 3 (f32[2,3,8]) "
            "in 1 feature groups",
        ),
        (
            X,
            K,
            attributes("size=3", sparsity_config=SparsityConfig(rhs=TensorSparsity(2, 4))),
            "convolution takes 1xN sparsity, given 2x4",
        ),
        (
            X,
            K,
            attributes("size=2"),
            "convolution: window sizes [2] differ from the spatial sizes [3] of the kernel f32[4,3,3]",
        ),
        (X, "f32[4,3,0]", attributes("size=0"), "convolution: window dimension 0 has a non-positive size: 0"),
        (X, K, attributes("size=3 stride=0"), "convolution: window dimension 0 has a non-positive stride: 0"),
        (
            X,
            K,
            attributes("size=3 lhs_dilate=0"),
            "convolution: window dimension 0 has a non-positive base dilation: 0",
        ),
        (
            X,
            K,
            attributes("size=3 rhs_dilate=-1"),
            "convolution: window dimension 0 has a non-positive window dilation: -1",
        ),
        (
            X,
            K,
            attributes("size=3 pad=-5_-4"),
            "convolution: padding -5_-4 removes more than the 8 elements of a base area of 8 with dilation 1",
        ),
        (
            X,
            "f32[<=4,3,3]",
            attributes("size=3"),
            "convolution takes a kernel with a static output feature dimension, given f32[<=4,3,3]",
        ),
        (
            "f8e5m2[2,3,8]",
            "f8e5m2fnuz[4,3,3]",
            attributes("size=3"),
            "neither f8e5m2 nor f8e5m2fnuz is the more precise type; convert one of the operands",
        ),
    ],
)
def test_convolution_refuses(lhs: str, rhs: str, given: dict[str, Any], message: str) -> None:
    assert refusal(CONVOLUTION, None, lhs, rhs, **given) == message


@pytest.mark.parametrize(
    ("shape", "lhs", "message"),
    [
        ("f32[2,4,5]", X, "convolution has shape f32[2,4,6], declared f32[2,4,5]"),
        ("f32[2,4,6]", "c64[2,3,8]", "convolution of complex c64[2,3,8] has a complex result, declared f32[2,4,6]"),
        ("token[]", X, "convolution returns an array, declared token[]"),
    ],
)
def test_convolution_judges_the_declared_shape(shape: str, lhs: str, message: str) -> None:
    assert refusal(CONVOLUTION, shape, lhs, K, **attributes("size=3")) == message


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
    ("text", "message"),
    [
        ("{mid={}}", "expected lhs or rhs, found 'mid'"),
        ("{lhs={sparsity=2}}", "expected sparsity=1x4, dimension=0 or stride=1"),
        ("{lhs={dimension=1x2}}", "expected sparsity=1x4, dimension=0 or stride=1"),
    ],
)
def test_malformed_sparsity(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        read(CONVOLUTION, "sparsity_config", text)
