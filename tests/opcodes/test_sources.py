"""Attributes and shape rules of parameter, constant and iota."""

from __future__ import annotations

import numpy as np
import pytest

from tests.raising import Wanted, raises
from xlapy import opcodes
from xlapy.base.element_types import ARRAY_TYPES, PRED
from xlapy.base.error_codes.operations import movement as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import modules as modules_codes
from xlapy.base.errors import ShapeError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.opcodes import sources as ops


def shape(text: str) -> Shape:
    return Shape.parse(text)


def refuses(*wanted: *Wanted):
    return raises(ShapeError, *wanted)


def test_parameter_takes_any_shape():
    for text in ("f32[]", "pred[0,3]", "(f32[2], token[])", "token[]", "f32[<=3]"):
        opcodes.PARAMETER.verify(shape(text), (), ops.ParameterAttributes.make(number=3))


def test_parameter_attributes_are_interned():
    assert ops.ParameterAttributes.make(number=7) is ops.ParameterAttributes.make(number=7)


def test_parameter_number_is_not_negative():
    with refuses(modules_codes.PARAMETER_NUMBERS, "-1"):
        opcodes.PARAMETER.verify(shape("f32[]"), (), ops.ParameterAttributes.make(number=-1))


def test_parameter_replication_has_one_entry_a_leaf():
    pair = shape("(f32[2], (s32[], pred[]))")
    opcodes.PARAMETER.verify(
        pair, (), ops.ParameterAttributes.make(number=0, parameter_replication=(True, False, True))
    )
    with refuses(codes.PARAMETER_REPLICATION, "parameter 0", "(f32[2], (s32[], pred[]))", "parameter_replication"):
        opcodes.PARAMETER.verify(pair, (), ops.ParameterAttributes.make(number=0, parameter_replication=(True,)))


def test_sources_take_no_operands():
    with refuses(shared.OPERAND_COUNT, "0", "1"):
        opcodes.PARAMETER.verify(shape("f32[]"), (shape("f32[]"),), ops.ParameterAttributes.make(number=0))


def test_constant_has_the_shape_of_its_literal():
    literal = Literal.of(np.zeros((2, 3), np.float32))
    attributes = ops.ConstantAttributes.make(literal=literal)
    opcodes.CONSTANT.verify(shape("f32[2,3]{0,1}"), (), attributes)
    with refuses(codes.CONSTANT_SHAPE, "f32[2,3]", "f32[3,2]"):
        opcodes.CONSTANT.verify(shape("f32[3,2]"), (), attributes)
    with refuses(codes.CONSTANT_SHAPE, "f32[2,3]", "s32[2,3]"):
        opcodes.CONSTANT.verify(shape("s32[2,3]"), (), attributes)


def test_constant_attributes_are_not_interned_but_compare_by_value():
    one = ops.ConstantAttributes.make(literal=Literal.of(np.arange(3)))
    other = ops.ConstantAttributes.make(literal=Literal.of(np.arange(3)))
    assert one is not other
    assert one == other
    assert one != ops.ConstantAttributes.make(literal=Literal.of(np.arange(4)))
    assert not ops.ConstantAttributes._interned


@pytest.mark.parametrize("element_type", ARRAY_TYPES, ids=str)
def test_iota_makes_every_numeric_type(element_type):
    made = Shape.array(element_type, (2, 3))
    attributes = ops.IotaAttributes.make(iota_dimension=1)
    if element_type is PRED:
        with refuses(shared.ELEMENT_TYPE, "pred[2,3]"):
            opcodes.IOTA.verify(made, (), attributes)
    else:
        opcodes.IOTA.verify(made, (), attributes)


def test_iota_dimension_is_a_dimension():
    with refuses(shared.DIMENSION_NUMBER, "iota_dimension 2", "s32[2,3]", "rank 2"):
        opcodes.IOTA.verify(shape("s32[2,3]"), (), ops.IotaAttributes.make(iota_dimension=2))
    with refuses(shared.DIMENSION_NUMBER, "iota_dimension -1", "s32[2,3]", "rank 2"):
        opcodes.IOTA.verify(shape("s32[2,3]"), (), ops.IotaAttributes.make(iota_dimension=-1))
    with refuses(shared.DIMENSION_NUMBER, "iota_dimension 0", "s32[]", "rank 0"):
        opcodes.IOTA.verify(shape("s32[]"), (), ops.IotaAttributes.make(iota_dimension=0))


def test_iota_makes_an_array():
    with refuses(shared.ARRAY_RESULT, "(s32[2])"):
        opcodes.IOTA.verify(shape("(s32[2])"), (), ops.IotaAttributes.make(iota_dimension=0))
