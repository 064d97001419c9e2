"""The builder functions of convolutions: appended instructions, inferred shapes, errors."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tests.builder.programs import evaluate, listing, opcode_names, parameters
from tests.raising import Wanted, raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import convolution as codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import BuilderError
from xlapy.builder.contraction import PrecisionConfig
from xlapy.builder.core.padding import Padding
from xlapy.opcodes.attributes.dimensions import ConvDimensions, Precision, Window
from xlapy.opcodes.contraction import Algorithm
from xlapy.opcodes.custom import PaddingType

import_module("xlapy.interpreter.convolution")  # registers the interpreter's rules

NHWC = "b01f_01io->b01f"


def test_conv_has_default_dimension_numbers() -> None:
    result = ops.conv(*parameters("f32[2,3,8,9]", "f32[4,3,3,2]"), [1, 2], Padding.SAME)
    assert result.shape.to_text(layout=False) == "f32[2,4,8,5]"
    assert result.instruction.attributes.dim_labels == ConvDimensions.parse("bf01_oi01->bf01")
    assert result.instruction.attributes.window == Window.make([3, 2], [1, 2], [(1, 1), (0, 1)])


def test_conv_listing() -> None:
    x, y = parameters("f32[2,3,8]", "f32[4,3,3]")
    assert listing(ops.conv(x, y, [2], "SAME").builder.build()) == (
        "ENTRY test (p0: f32[2,3,8], p1: f32[4,3,3]) -> f32[2,4,4] {\n"
        "  p0 = f32[2,3,8] parameter(0)\n"
        "  p1 = f32[4,3,3] parameter(1)\n"
        "  ROOT convolution = f32[2,4,4] convolution(p0, p1), "
        "window={size=3 stride=2 pad=0_1}, dim_labels=bf0_oi0->bf0\n"
        "}"
    )


def test_conv_with_general_padding() -> None:
    result = ops.conv_with_general_padding(*parameters("f32[2,3,8]", "f32[4,3,3]"), [1], [(2, -1)])
    assert result.shape.to_text(layout=False) == "f32[2,4,7]"
    assert result.instruction.attributes.window == Window.make([3], [1], [(2, -1)])


@pytest.mark.parametrize("numbers", [NHWC, ConvDimensions.parse(NHWC)])
def test_conv_with_general_dimensions(numbers: Any) -> None:
    operands = parameters("f32[2,8,9,3]", "f32[3,2,3,4]")
    result = ops.conv_with_general_dimensions(*operands, [1, 1], Padding.VALID, numbers)
    assert result.shape.to_text(layout=False) == "f32[2,6,8,4]"


def test_conv_general() -> None:
    result = ops.conv_general(*parameters("f32[2,8,9,3]", "f32[3,2,3,4]"), [2, 1], [(1, 1), (0, 0)], NHWC)
    assert result.shape.to_text(layout=False) == "f32[2,4,8,4]"


def test_conv_general_dilated() -> None:
    config = PrecisionConfig((Precision.HIGH, Precision.DEFAULT), Algorithm.DOT_F32_F32_F32)
    result = ops.conv_general_dilated(
        *parameters("bf16[2,8,9,6]", "bf16[3,2,3,4]"),
        [1, 2],
        [(1, -1), (0, 2)],
        [2, 1],
        [1, 3],
        NHWC,
        2,
        1,
        config,
        "f32",
        [True, False],
    )
    assert result.shape.to_text(layout=False) == "f32[2,13,4,4]"
    attributes = result.instruction.attributes
    assert attributes.window == Window.make([3, 2], [1, 2], [(1, -1), (0, 2)], [2, 1], [1, 3], [True, False])
    assert (attributes.feature_group_count, attributes.batch_group_count) == (2, 1)
    assert attributes.operand_precision == (Precision.HIGH, Precision.DEFAULT)
    assert attributes.algorithm is Algorithm.DOT_F32_F32_F32


def test_batch_groups_and_empty_lists() -> None:
    result = ops.conv_general(*parameters("f32[4,3,8]", "f32[6,3,3]"), [], [(0, 0)], None, 1, 2)
    assert result.shape.to_text(layout=False) == "f32[2,6,6]"
    assert ops.conv(*parameters("f32[4,3]", "f32[6,3]"), [], "SAME").shape.to_text(layout=False) == "f32[4,6]"


def test_values() -> None:
    (x,) = parameters("f32[1,1,4]")
    result = ops.conv(x, np.array([[[1, 10, 100]]]), [1], "SAME")
    assert result.shape.to_text(layout=False) == "f32[1,1,4]"
    value = evaluate(result, np.array([[[1, 2, 3, 4]]], np.float32))
    assert value.reshape(-1).tolist() == [210, 321, 432, 43]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (([1], "SMAE"), (builder_codes.PADDING_FORM, "SAME", "VALID", "'SMAE'")),
        (([1, 1], "SAME"), (shared.ENTRY_PER_DIMENSION, "SAME")),
        (([1, 1], [(0, 0)]), (attributes_codes.WINDOW_ENTRIES, "[1, 1]")),
        (([1], [(0, 0), (1, 1)]), (attributes_codes.WINDOW_ENTRIES, "1", "2")),
        (([0], [(0, 0)]), (attributes_codes.WINDOW_POSITIVE, "window dimension 0")),
        (([1], [(-9, 0)]), (movement_codes.NEGATIVE_PADDING, "-9_0")),
        (([1], "VALID", 2), (codes.GROUP_COUNT_DIVIDES, "feature size 3", "feature_group_count 2")),
        (([1], "VALID", 2, 2), (codes.GROUP_COUNTS,)),
    ],
)
def test_refusals_name_the_callers_line(arguments: tuple[Any, ...], wanted: Wanted) -> None:
    x, y = parameters("f32[2,3,8]", "f32[4,3,3]")
    with raises(ShapeError, *wanted, "test_convolution.py"):
        ops.conv(x, y, *arguments)
    assert opcode_names(x) == []


def test_refusals_of_dimension_numbers() -> None:
    x, y = parameters("f32[2,3,8]", "f32[4,3,3]")
    with raises(BuilderError, codes.LABEL_TEXT, "dimension_numbers", "dim_labels", "'nchw'"):
        ops.conv_general(x, y, [1], "SAME", "nchw")
    with raises(BuilderError, shared.DIMENSION_NUMBER, "[2, 3]", "f32"):
        ops.conv_general(x, y, [1], "SAME", "bf0_oi01->bf0")


# -- dynamic convolutions

DYNAMIC = ([1, 1], [(0, 0), (0, 0)], [1, 1], [1, 1], NHWC, 1, 1, None)


def test_dynamic_conv_forward() -> None:
    x, y = parameters("f32[<=2,8,<=9,3]", "f32[3,2,3,4]")
    result = ops.dynamic_conv_forward(x, y, *DYNAMIC, Padding.SAME)
    assert result.shape.to_text(layout=False) == "f32[<=2,6,<=8,4]"
    attributes = result.instruction.attributes
    assert attributes.custom_call_target == "DynamicConvolutionForward"
    assert attributes.padding_type is PaddingType.SAME
    assert attributes.window == Window.make([3, 2])
    assert attributes.dim_labels == ConvDimensions.parse(NHWC)


def test_dynamic_conv_input_grad() -> None:
    sizes, x, y = parameters("s32[4]", "f32[<=2,8,9,3]", "f32[3,2,3,4]")
    result = ops.dynamic_conv_input_grad(sizes, x, y, *DYNAMIC, Padding.VALID, "bf16")
    assert result.shape.to_text(layout=False) == "bf16[<=2,6,8,4]"
    assert result.instruction.attributes.custom_call_target == "DynamicConvolutionInputGrad"
    assert [o.name for o in result.instruction.operands] == ["p0", "p1", "p2"]


def test_dynamic_conv_kernel_grad_is_static() -> None:
    result = ops.dynamic_conv_kernel_grad(*parameters("f32[<=2,8,<=9,3]", "f32[3,2,3,4]"), *DYNAMIC, Padding.SAME)
    assert result.shape.to_text(layout=False) == "f32[2,6,8,4]"
    assert result.instruction.attributes.custom_call_target == "DynamicConvolutionKernelGrad"


def test_dynamic_convolutions_take_no_algorithm() -> None:
    config = PrecisionConfig(algorithm=Algorithm.DOT_F32_F32_F32)
    with raises(BuilderError, builder_codes.DOT_ALGORITHM, "dot_f32_f32_f32"):
        ops.dynamic_conv_forward(*parameters("f32[2,8,9,3]", "f32[3,2,3,4]"), *DYNAMIC[:-1], config, Padding.SAME)


def test_same_counts_the_holes_of_dilation() -> None:
    result = ops.conv_general_dilated(*parameters("f32[2,3,8]", "f32[4,3,3]"), [1], "SAME", [2], [3], None)
    assert result.instruction.attributes.window == Window.make([3], [1], [(3, 3)], [2], [3])
    assert result.shape.to_text(layout=False) == "f32[2,4,15]"
