"""The elementwise builder functions: appended instructions, values on a few inputs, errors."""

from __future__ import annotations

import numpy as np
import pytest

from tests import xla_reference
from tests.builder.programs import evaluate, listing, opcode_names, parameters
from tests.raising import raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.element_types import BF16, C64, F32, S8, S32, U8, PrimitiveType
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.operations import elementwise as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.base.errors import BuilderError
from xlapy.builder import ResultAccuracy
from xlapy.opcodes.elementwise import ComparisonDirection, ComparisonType

UNARY = {
    "abs": "abs",
    "acos": "acos",
    "acosh": "acosh",
    "asin": "asin",
    "asinh": "asinh",
    "atan": "atan",
    "atanh": "atanh",
    "cbrt": "cbrt",
    "ceil": "ceil",
    "cos": "cosine",
    "cosh": "cosh",
    "erf": "erf",
    "exp": "exponential",
    "expm1": "exponential-minus-one",
    "floor": "floor",
    "imag": "imag",
    "is_finite": "is-finite",
    "log": "log",
    "log1p": "log-plus-one",
    "logistic": "logistic",
    "neg": "negate",
    "real": "real",
    "round": "round-nearest-afz",
    "round_nearest_even": "round-nearest-even",
    "rsqrt": "rsqrt",
    "sign": "sign",
    "sin": "sine",
    "sinh": "sinh",
    "sqrt": "sqrt",
    "tan": "tan",
    "tanh": "tanh",
}
BINARY = {
    "add": "add",
    "atan2": "atan2",
    "complex": "complex",
    "div": "divide",
    "max": "maximum",
    "min": "minimum",
    "mul": "multiply",
    "pow": "power",
    "rem": "remainder",
    "sub": "subtract",
}
INTEGER_BINARY = {
    "and_": "and",
    "mulhi": "mulhi",
    "or_": "or",
    "shift_left": "shift-left",
    "shift_right_arithmetic": "shift-right-arithmetic",
    "shift_right_logical": "shift-right-logical",
    "xor": "xor",
}
INTEGER_UNARY = {"clz": "count-leading-zeros", "not_": "not", "population_count": "popcnt"}


@pytest.mark.parametrize(
    ("function", "name", "kind"),
    [
        *[(f, n, "f32") for f, n in UNARY.items()],
        *[(f, n, "u8") for f, n in INTEGER_UNARY.items()],
    ],
)
def test_unary(function: str, name: str, kind: str) -> None:
    (x,) = parameters(f"{kind}[2,3]")
    result = getattr(ops, function)(x)
    assert opcode_names(result) == [name]
    assert result.shape.to_text(layout=False) == ("pred[2,3]" if name == "is-finite" else f"{kind}[2,3]")
    assert result.instruction.operands == (x.instruction,)


@pytest.mark.parametrize(
    ("function", "name", "kind"),
    [
        *[(f, n, "f32") for f, n in BINARY.items()],
        *[(f, n, "s32") for f, n in INTEGER_BINARY.items()],
    ],
)
def test_binary(function: str, name: str, kind: str) -> None:
    x, y = parameters(f"{kind}[2,3]", f"{kind}[2,3]")
    result = getattr(ops, function)(x, y)
    assert opcode_names(result) == [name]
    assert result.shape.to_text(layout=False) == ("c64[2,3]" if name == "complex" else f"{kind}[2,3]")
    assert result.instruction.operands == (x.instruction, y.instruction)


@pytest.mark.parametrize("function", [*BINARY, *INTEGER_BINARY])
def test_binary_of_two_types(function: str) -> None:
    x, y = parameters("f32[3]", "f64[3]")
    with raises(ShapeError, shared.SAME_ELEMENT_TYPE, "f32[3]", "f64[3]"):
        getattr(ops, function)(x, y)


class TestPlainValues:
    def test_number_takes_the_element_type_of_the_op(self) -> None:
        (x,) = parameters("bf16[3]")
        result = ops.mul(2, x)
        assert result.shape.to_text(layout=False) == "bf16[3]"
        assert opcode_names(result) == ["constant", "broadcast", "multiply"]

    def test_array(self) -> None:
        (x,) = parameters("f32[3]")
        assert evaluate(ops.sub(np.array([1, 2, 3]), x), np.float32([1, 1, 1])).tolist() == [0, 1, 2]

    def test_array_of_equal_elements_is_a_broadcast_scalar(self) -> None:
        (x,) = parameters("f32[100,100]")
        result = ops.add(x, np.ones((100, 100)))
        assert listing(result.builder.build()) == (
            "ENTRY test (p0: f32[100,100]) -> f32[100,100] {\n"
            "  p0 = f32[100,100] parameter(0)\n"
            "  constant = f32[] constant(1)\n"
            "  broadcast = f32[100,100] broadcast(constant), dimensions={}\n"
            "  ROOT add = f32[100,100] add(p0, broadcast)\n"
            "}"
        )

    def test_value_that_does_not_fit(self) -> None:
        (x,) = parameters("u8[3]")
        with raises(BuilderError, values_codes.VALUE_RANGE, "value 300", "u8"):
            ops.add(x, 300)
        with raises(BuilderError, values_codes.VALUE_RANGE, "value 1.5", "u8"):
            ops.add(x, 1.5)

    def test_no_number(self) -> None:
        (x,) = parameters("f32[3]")
        with raises(BuilderError, values_codes.ARRAY_VALUE, "'three'"):
            ops.add(x, "three")  # type: ignore[arg-type]

    def test_beside_a_tuple(self) -> None:
        (x,) = parameters("(f32[3])")
        with raises(BuilderError, shared.ARRAY_OPERAND, "p0", "(f32[3])"):
            ops.add(x, 1)


class TestResultAccuracy:
    @pytest.mark.parametrize(
        "name",
        ["cbrt", "cos", "erf", "exp", "expm1", "log", "log1p", "logistic", "rsqrt", "sin", "sqrt", "tan", "tanh"],
    )
    def test_text(self, name: str) -> None:
        (x,) = parameters("f32[2]")
        function = getattr(ops, name)
        assert function(x, ResultAccuracy(highest=True)).instruction.result_accuracy == "mode=highest"
        assert function(x, ResultAccuracy()).instruction.result_accuracy == ""
        assert function(x).instruction.result_accuracy == ""
        function(x, result_accuracy=ResultAccuracy(rtol=0.5, ulps=2))
        text = x.builder.build().as_hlo_text(print_metadata=False)
        assert "result_accuracy={mode=highest}" in text
        assert "result_accuracy={tolerance={atol=0,rtol=0.5,ulps=2}}" in text
        assert xla_reference.parse_and_print(text) == text

    @pytest.mark.parametrize("accuracy", [ResultAccuracy(atol=-1), ResultAccuracy(highest=True, ulps=1)])
    def test_refused(self, accuracy: ResultAccuracy) -> None:
        (x,) = parameters("f32[2]")
        with raises(BuilderError, builder_codes.ACCURACY, "result_accuracy"):
            ops.exp(x, accuracy)
        assert opcode_names(x) == []


class TestComposed:
    def test_conj(self) -> None:
        (x,) = parameters("c64[2]")
        result = ops.conj(x)
        assert opcode_names(result) == ["real", "imag", "negate", "complex"]
        assert evaluate(result, np.complex64([1 + 2j, -3j])).tolist() == [1 - 2j, 3j]

    def test_square_and_reciprocal(self) -> None:
        (x,) = parameters("f32[2]")
        assert evaluate(ops.tuple(x.builder, [ops.square(x), ops.reciprocal(x)]), np.float32([2, 4]))[1].tolist() == [
            0.5,
            0.25,
        ]


class TestCompare:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("eq", [0, 1, 0]),
            ("ne", [1, 0, 1]),
            ("ge", [0, 1, 1]),
            ("gt", [0, 0, 1]),
            ("le", [1, 1, 0]),
            ("lt", [1, 0, 0]),
        ],
    )
    def test_directions(self, name: str, expected: list[int]) -> None:
        x, y = parameters("s32[3]", "s32[]")
        result = getattr(ops, name)(x, y)
        assert result.instruction.direction is ComparisonDirection(name.upper())
        assert result.instruction.type is None
        assert evaluate(result, np.int32([1, 2, 3]), np.int32(2)).tolist() == [bool(e) for e in expected]

    @pytest.mark.parametrize("name", ["eq", "ne", "ge", "gt", "le", "lt"])
    def test_total_order(self, name: str) -> None:
        x, i = parameters("f32[3]", "s32[3]")
        assert getattr(ops, f"{name}_total_order")(x, x).instruction.type is ComparisonType.TOTALORDER
        assert getattr(ops, f"{name}_total_order")(1.0, x).instruction.type is ComparisonType.TOTALORDER
        assert getattr(ops, f"{name}_total_order")(i, i).instruction.type is None

    def test_words(self) -> None:
        x, y = parameters("f32[3]", "f32[3]")
        result = ops.compare(x, y, direction="GE", type="TOTALORDER")
        assert result.instruction.direction is ComparisonDirection.GE
        with raises(BuilderError, builder_codes.NAMED_CHOICE, "EQ", "NE", "GE", "GT", "LE", "LT", "'<'"):
            ops.compare(x, y, direction="<")

    def test_complex_has_no_order(self) -> None:
        (x,) = parameters("c64[3]")
        with raises(ShapeError, codes.COMPLEX_ORDER, "c64[3]", "EQ", "NE", "LT"):
            ops.lt(x, x)


class TestClamp:
    def test_scalars_are_broadcast(self) -> None:
        low, x, high = parameters("f32[]", "f32[4]", "f32[]")
        result = ops.clamp(low, x, high)
        assert opcode_names(result) == ["broadcast", "broadcast", "clamp"]
        assert evaluate(result, np.float32(0), np.float32([-1, 3, 9, 6]), np.float32(6)).tolist() == [0, 3, 6, 6]

    def test_plain_bounds(self) -> None:
        (x,) = parameters("s32[4]")
        assert evaluate(ops.clamp(-1, x, 5), np.int32([-4, 0, 5, 6])).tolist() == [-1, 0, 5, 5]

    def test_arrays_of_other_dimensions(self) -> None:
        low, x, high = parameters("f32[1]", "f32[4]", "f32[]")
        with raises(ShapeError, codes.SCALAR_OR_SAME_DIMENSIONS):
            ops.clamp(low, x, high)


class TestSelect:
    def test_scalar_predicate_is_broadcast(self) -> None:
        p, x, y = parameters("pred[]", "f32[2]", "f32[2]")
        result = ops.select(p, x, y)
        assert opcode_names(result) == ["broadcast", "select"]
        assert evaluate(result, np.bool_(False), np.float32([1, 2]), np.float32([3, 4])).tolist() == [3, 4]

    def test_scalar_values_are_broadcast(self) -> None:
        p, x = parameters("pred[3]", "f32[3]")
        value = evaluate(ops.select(p, x, 0), [True, False, True], np.float32([1, 2, 3]))
        assert value.tolist() == [1, 0, 3]

    def test_two_plain_values(self) -> None:
        (p,) = parameters("pred[2]")
        result = ops.select(p, 1, 2)
        assert result.shape.to_text(layout=False) == "s32[2]"
        assert evaluate(result, [True, False]).tolist() == [1, 2]

    def test_tuples_leaf_by_leaf(self) -> None:
        p, x, y = parameters("pred[]", "(f32[2], (s32[]))", "(f32[2], (s32[]))")
        result = ops.select(p, x, y)
        assert result.shape.to_text(layout=False) == "(f32[2], (s32[]))"
        assert opcode_names(result).count("select") == 2
        first, second = (np.float32([1, 2]), (np.int32(3),)), (np.float32([4, 5]), (np.int32(6),))
        value = evaluate(result, np.bool_(True), first, second)
        assert value[0].tolist() == [1, 2]
        assert value[1][0] == 3

    def test_tuples_need_a_scalar_predicate(self) -> None:
        p, x = parameters("pred[2]", "(f32[2])")
        with raises(ShapeError, builder_codes.TUPLE_SELECTION, "pred[2]"):
            ops.select(p, x, x)

    def test_tuples_of_two_shapes(self) -> None:
        p, x, y = parameters("pred[]", "(f32[2])", "(f32[3])")
        with raises(ShapeError, builder_codes.TUPLE_SELECTION, "(f32[2])", "(f32[3])"):
            ops.select(p, x, y)

    def test_predicate_type(self) -> None:
        p, x = parameters("s32[2]", "f32[2]")
        with raises(ShapeError, shared.ELEMENT_TYPE, "s32[2]"):
            ops.select(p, x, x)


class TestConversion:
    @pytest.mark.parametrize("target", [S32, "s32", np.int32, np.dtype("int32")])
    def test_convert(self, target: object) -> None:
        (x,) = parameters("f32[2]")
        result = ops.convert_element_type(x, target)
        assert result.shape.to_text(layout=False) == "s32[2]"
        assert evaluate(result, np.float32([1.9, -1.9])).tolist() == [1, -1]

    def test_astype(self) -> None:
        (x,) = parameters("f32[2]")
        assert x.astype(BF16).element_type is BF16

    def test_complex_to_real_takes_the_real_part(self) -> None:
        (x,) = parameters("c64[1]")
        result = ops.convert_element_type(x, F32)
        assert opcode_names(result) == ["real", "convert"]
        assert evaluate(result, np.complex64([3 + 4j])).tolist() == [3]

    def test_real_to_complex(self) -> None:
        (x,) = parameters("s32[1]")
        assert ops.convert_element_type(x, C64).shape.to_text(layout=False) == "c64[1]"

    def test_unknown_type(self) -> None:
        (x,) = parameters("f32[2]")
        with raises(BuilderError, values_codes.ELEMENT_TYPE, "'float'"):
            x.astype("float")  # type: ignore[arg-type]

    def test_tuple(self) -> None:
        (x,) = parameters("(f32[2])")
        with raises(ShapeError, shared.ARRAY_OPERAND, "(f32[2])"):
            x.astype(S32)

    @pytest.mark.parametrize(("target", "shape"), [(S32, "s32[3,2]"), (S8, "s8[3,2,4]"), (PrimitiveType.F64, "f64[3]")])
    def test_bitcast(self, target: PrimitiveType, shape: str) -> None:
        (x,) = parameters("f32[3,2]")
        assert ops.bitcast_convert_type(x, target).shape.to_text(layout=False) == shape

    def test_bitcast_value(self) -> None:
        (x,) = parameters("f32[1]")
        assert evaluate(ops.bitcast_convert_type(x, U8), np.float32([1])).tolist() == [[0, 0, 0x80, 0x3F]]

    def test_bitcast_keeps_dynamic_dimensions(self) -> None:
        (x,) = parameters("f32[<=4]")
        assert ops.bitcast_convert_type(x, U8).shape.to_text(layout=False) == "u8[<=4,4]"

    def test_bitcast_refused(self) -> None:
        x, pairs = parameters("f32[3]", "f32[3,2]")
        with raises(ShapeError, codes.BITCAST_CONVERT_COMPLEX):
            ops.bitcast_convert_type(pairs, C64)
        with raises(ShapeError, codes.BITCAST_CONVERT_LAST_DIMENSION):
            ops.bitcast_convert_type(x, PrimitiveType.F64)
        with raises(ShapeError, shared.ELEMENT_TYPE):
            ops.bitcast_convert_type(x, PrimitiveType.TUPLE)

    def test_reduce_precision(self) -> None:
        (x,) = parameters("f32[1]")
        with raises(ShapeError, codes.PRECISION_BITS, "exponent_bits"):
            ops.reduce_precision(x, 0, 3)
        assert evaluate(ops.reduce_precision(x, exponent_bits=8, mantissa_bits=2), np.float32([1.3])).tolist() == [1.25]
