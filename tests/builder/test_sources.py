"""The builder functions of parameters, constants and iota."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builder.programs import evaluate, listing, opcode_names, parameters
from tests.raising import raises
from xlapy import ops
from xlapy.base import Shape, ShapeError
from xlapy.base.element_types import C64, F32, PRED, S8, S32
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.building import python_calls as python_calls_codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import modules as modules_codes
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.base.errors import BuilderError
from xlapy.base.literal import Literal
from xlapy.builder import XlaBuilder


@pytest.fixture
def builder() -> XlaBuilder:
    return XlaBuilder("test")


class TestParameter:
    def test_number_shape_name(self, builder: XlaBuilder) -> None:
        x = ops.parameter(builder, 0, Shape.parse("(f32[2], token[])"), "input")
        assert x.name == "input"
        assert x.shape.to_text(layout=False) == "(f32[2], token[])"
        assert x.instruction.number == 0
        assert x.instruction.parameter_replication is None

    def test_replication(self, builder: XlaBuilder) -> None:
        x = ops.parameter(builder, 0, Shape.parse("(f32[], s32[])"), replicated_at_leaf_buffers=[True, False])
        assert x.instruction.parameter_replication == (True, False)
        with raises(ShapeError, movement_codes.PARAMETER_REPLICATION, "parameter_replication"):
            ops.parameter(builder, 1, Shape.scalar(F32), replicated_at_leaf_buffers=[True, False])

    def test_taken(self, builder: XlaBuilder) -> None:
        for number in (3, 1, 0, 2):
            ops.parameter(builder, number, Shape.array(F32, (number,)))
        with raises(BuilderError, modules_codes.PARAMETER_NUMBERS, "number 2", "f32[2]", "s32[]"):
            ops.parameter(builder, 2, Shape.scalar(S32))

    def test_negative(self, builder: XlaBuilder) -> None:
        with raises(ShapeError, modules_codes.PARAMETER_NUMBERS, "-1"):
            ops.parameter(builder, -1, Shape.scalar(F32))

    def test_missing_shape(self, builder: XlaBuilder) -> None:
        with raises(BuilderError, python_calls_codes.ARGUMENT_TYPE, "'f32[2]'"):
            ops.parameter(builder, 0, "f32[2]")  # type: ignore[arg-type]


class TestConstant:
    @pytest.mark.parametrize(
        ("value", "shape"),
        [
            (True, "pred[]"),
            (3, "s32[]"),
            (0.5, "f32[]"),
            (1j, "c64[]"),
            ([1, 2], "s32[2]"),
            ([[1.5], [2]], "f32[2,1]"),
            (np.int8([1, 2]), "s8[2]"),
            (np.zeros((0, 3)), "f64[0,3]"),
            ((1, [2.5, 3]), "(s32[], f32[2])"),
            ((), "()"),
        ],
    )
    def test_natural_type(self, builder: XlaBuilder, value: object, shape: str) -> None:
        x = ops.constant(builder, value)
        assert (x.shape.to_text(layout=False), opcode_names(x)) == (shape, ["constant"])

    def test_element_type(self, builder: XlaBuilder) -> None:
        assert ops.constant(builder, [1, 2], S8).shape.to_text(layout=False) == "s8[2]"
        with raises(BuilderError, values_codes.VALUE_RANGE, "value 200", "s8"):
            ops.constant(builder, [1, 200], S8)
        with raises(BuilderError, values_codes.VALUE_RANGE, "f32"):
            ops.constant(builder, 1j, F32)

    def test_literal(self, builder: XlaBuilder) -> None:
        x = ops.constant_literal(builder, Literal.of(np.float32([1, 2])))
        assert x.instruction.literal.array.tolist() == [1, 2]

    def test_repeated_elements_are_broadcast(self, builder: XlaBuilder) -> None:
        x = ops.constant(builder, np.full((2, 3), 7, np.int32))
        assert listing(builder.build()) == (
            "ENTRY test () -> s32[2,3] {\n"
            "  constant = s32[] constant(7)\n"
            "  ROOT broadcast = s32[2,3] broadcast(constant), dimensions={}\n"
            "}"
        )
        assert x.shape.to_text(layout=False) == "s32[2,3]"

    def test_zeros_of_two_signs_are_not_repeated(self, builder: XlaBuilder) -> None:
        x = ops.constant(builder, np.float32([0.0, -0.0]))
        assert opcode_names(x) == ["constant"]
        assert np.signbit(evaluate(x)).tolist() == [False, True]

    def test_equal_nans_are_repeated(self, builder: XlaBuilder) -> None:
        x = ops.constant(builder, np.float32([np.nan, np.nan]))
        assert opcode_names(x) == ["constant", "broadcast"]

    def test_values_that_are_not_arrays(self, builder: XlaBuilder) -> None:
        with raises(BuilderError, values_codes.ARRAY_VALUE):
            ops.constant(builder, None)


class TestIota:
    def test_of_a_shape(self, builder: XlaBuilder) -> None:
        x = ops.iota(builder, Shape.parse("s32[2,3]"), 1)
        assert evaluate(x).tolist() == [[0, 1, 2], [0, 1, 2]]

    def test_of_a_type(self, builder: XlaBuilder) -> None:
        x = ops.iota(builder, C64, 3)
        assert evaluate(x).tolist() == [0, 1, 2]

    def test_refused(self, builder: XlaBuilder) -> None:
        with raises(BuilderError, codes.STATIC_DIMENSIONS, "f32[<=3]"):
            ops.iota(builder, Shape.parse("f32[<=3]"), 0)
        with raises(ShapeError, shared.DIMENSION_NUMBER, "iota_dimension 2", "f32[3]"):
            ops.iota(builder, Shape.parse("f32[3]"), 2)
        with raises(ShapeError, shared.ELEMENT_TYPE, "pred[3]"):
            ops.iota(builder, PRED, 3)
        with raises(ShapeError, values_codes.DIMENSION_SIZE, "dimension 0"):
            ops.iota(builder, F32, -1)
        with raises(BuilderError, codes.BUILT_ROOT):
            builder.build()


def test_values_of_parameters() -> None:
    x, y = parameters("f32[2]", "f32[2]")
    assert evaluate(y, np.float32([1, 2]), np.float32([3, 4])).tolist() == [3, 4]
    assert x.instruction.number == 0
