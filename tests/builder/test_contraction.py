"""The builder functions of contractions: appended instructions, inferred shapes, errors."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tests.builder.programs import evaluate, opcode_names, parameters
from tests.raising import raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.element_types import F64, S32
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.building import python_calls as python_calls_codes
from xlapy.base.error_codes.operations import contraction as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.base.errors import ArgumentTypeError, BuilderError
from xlapy.builder.contraction import DotDimensionNumbers, PrecisionConfig, RaggedDotDimensionNumbers
from xlapy.opcodes.attributes.dimensions import Precision
from xlapy.opcodes.contraction import Algorithm, DotAttributes, RaggedDotAttributes

import_module("xlapy.interpreter.contraction")  # registers the interpreter's rules

BATCHED = DotDimensionNumbers((2,), (1,), (0,), (0,))


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "contracting"),
    [
        ("f32[3]", "f32[3]", "f32[]", ((0,), (0,))),
        ("f32[2,3]", "f32[3]", "f32[2]", ((1,), (0,))),
        ("f32[2,3]", "f32[3,4]", "f32[2,4]", ((1,), (0,))),
        ("f32[2,3,5]", "f32[3,4]", "f32[2,5,4]", ((1,), (0,))),
    ],
)
def test_dot(lhs: str, rhs: str, result: str, contracting: tuple[tuple[int, ...], ...]) -> None:
    product = ops.dot(*parameters(lhs, rhs))
    assert product.shape.to_text(layout=False) == result
    attributes = product.instruction.attributes
    assert (attributes.lhs_contracting_dims, attributes.rhs_contracting_dims) == contracting
    assert opcode_names(product) == ["dot"]


def test_values_of_dot() -> None:
    x, y = parameters("s32[2,2]", "s32[2,2]")
    value = evaluate(x @ y, np.array([[1, 2], [3, 4]], np.int32), np.array([[5, 6], [7, 8]], np.int32))
    assert value.tolist() == [[19, 22], [43, 50]]


def test_a_plain_value_takes_the_type_of_the_other_operand() -> None:
    (x,) = parameters("f32[2,3]")
    product = x @ np.arange(3)
    assert product.shape.to_text(layout=False) == "f32[2]"
    assert evaluate(product, np.ones((2, 3), np.float32)).tolist() == [3, 3]
    (y,) = parameters("f32[3]")
    assert (np.ones((4, 3)) @ y).shape.to_text(layout=False) == "f32[4]"


def test_dot_general() -> None:
    product = ops.dot_general(*parameters("f32[5,2,3]", "f32[5,3,4]"), BATCHED)
    assert product.shape.to_text(layout=False) == "f32[5,2,4]"
    assert product.instruction.attributes == DotAttributes.make(
        lhs_batch_dims=(0,), lhs_contracting_dims=(2,), rhs_batch_dims=(0,), rhs_contracting_dims=(1,)
    )


@pytest.mark.parametrize(("wanted", "text"), [(F64, "f64[2]"), ("bf16", "bf16[2]"), (np.int32, "s32[2]")])
def test_preferred_element_type(wanted: Any, text: str) -> None:
    assert ops.dot(*parameters("f32[2,3]", "f32[3]"), preferred_element_type=wanted).shape.to_text(layout=False) == text


def test_types_without_a_common_one_use_the_preferred_type() -> None:
    operands = parameters("f8e4m3[2,3]", "f8e4m3fnuz[3]")
    assert ops.dot(*operands, preferred_element_type="f32").shape.to_text(layout=False) == "f32[2]"
    with raises(ShapeError, codes.DOT_PRECISION_ORDER, "f8e4m3", "f8e4m3fnuz"):
        ops.dot(*operands)


def test_mixed_operands_have_the_more_precise_type() -> None:
    assert ops.dot(*parameters("bf16[2,3]", "f32[3]")).shape.to_text(layout=False) == "f32[2]"


def test_precision() -> None:
    config = PrecisionConfig((Precision.HIGH, Precision.HIGHEST), Algorithm.DOT_F32_F32_F32)
    attributes = ops.dot(*parameters("f32[3]", "f32[3]"), config).instruction.attributes
    assert attributes.operand_precision == (Precision.HIGH, Precision.HIGHEST)
    assert attributes.algorithm is Algorithm.DOT_F32_F32_F32
    plain = PrecisionConfig((Precision.DEFAULT, Precision.DEFAULT))
    assert ops.dot(*parameters("f32[3]", "f32[3]"), plain).instruction.attributes.operand_precision == ()


def test_refusals_name_the_callers_line() -> None:
    x, y = parameters("f32[2,3]", "f32[2,4]")
    wanted = (codes.DOT_PAIR_SIZES, "test_contraction.py", "contracting pair 0", "f32[2,3]", "f32[2,4]")
    with raises(ShapeError, *wanted):
        ops.dot(x, y)
    with raises(BuilderError, *wanted):
        ops.dot(x, y, preferred_element_type="f64")
    with raises(ShapeError, shared.DIMENSION_NUMBER, "lhs contracting dimension 1", "f32[]", "rank 0"):
        ops.dot(*parameters("f32[]", "f32[]"))
    with raises(ArgumentTypeError, python_calls_codes.ARGUMENT_TYPE, "lhs_contracting_dimensions[0]", "str 'x'"):
        ops.dot_general(x, y, DotDimensionNumbers(["x"], [0]))  # type: ignore[list-item]
    with raises(BuilderError, values_codes.ELEMENT_TYPE, "'f31'"):
        ops.dot(x, x[0], preferred_element_type="f31")
    assert "dot" not in opcode_names(x)


def test_refusal_of_a_real_result() -> None:
    with raises(BuilderError, codes.DOT_COMPLEX_RESULT, "c64[3]", "f32[]"):
        ops.dot(*parameters("c64[3]", "c64[3]"), preferred_element_type="f32")


def test_scaled_dot() -> None:
    operands = parameters("f8e4m3fn[4,32]", "f8e4m3fn[32,5]", "f8e8m0fnu[4,1]", "f8e8m0fnu[1,5]")
    product = ops.scaled_dot(*operands, DotDimensionNumbers((1,), (0,)), preferred_element_type="f32")
    assert product.shape.to_text(layout=False) == "f32[4,5]"
    assert opcode_names(product) == ["scaled-dot"]
    with raises(ShapeError, codes.SCALE_RANK, "lhs"):
        ops.scaled_dot(*operands[:2], operands[0][0], operands[3], DotDimensionNumbers((1,), (0,)))


def test_ragged_dot() -> None:
    numbers = RaggedDotDimensionNumbers(DotDimensionNumbers((1,), (1,)), (0,), (0,))
    product = ops.ragged_dot(*parameters("f32[4,3]", "f32[2,3,5]", "s32[2]"), numbers)
    assert product.shape.to_text(layout=False) == "f32[4,5]"
    assert product.instruction.attributes == RaggedDotAttributes.make(
        lhs_contracting_dims=(1,), rhs_contracting_dims=(1,), lhs_ragged_dims=(0,), rhs_group_dims=(0,)
    )
    value = evaluate(product, np.ones((4, 3), np.float32), np.ones((2, 3, 5), np.float32), np.array([1, 2], np.int32))
    assert value[:, 0].tolist() == [3, 3, 3, 0]


def test_ragged_dot_takes_a_precision_but_no_algorithm() -> None:
    numbers = RaggedDotDimensionNumbers(DotDimensionNumbers((1,), (1,)), (0,), (0,))
    operands = parameters("f32[4,3]", "f32[2,3,5]", "s32[2]")
    product = ops.ragged_dot(*operands, numbers, PrecisionConfig((Precision.HIGH, Precision.HIGH)), S32)
    assert product.shape.to_text(layout=False) == "s32[4,5]"
    assert product.instruction.attributes.operand_precision == (Precision.HIGH, Precision.HIGH)
    with raises(BuilderError, builder_codes.DOT_ALGORITHM):
        ops.ragged_dot(*operands, numbers, PrecisionConfig(algorithm=Algorithm.DOT_F32_F32_F32))
