"""Shape rules of the elementwise operations: the element types that each accepts, and one error for each constraint."""

from __future__ import annotations

import pytest

from tests.raising import Wanted, raises
from xlapy import opcodes
from xlapy.base.element_types import ARRAY_TYPES, C64, C128, F8E4M3FN, F32, F64, PRED, S4, S8, S32, U8, PrimitiveType
from xlapy.base.error_codes.operations import elementwise as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.opcodes import elementwise as ops
from xlapy.opcodes.attributes.codecs import NO_ATTRIBUTES, Attributes
from xlapy.opcodes.elementwise import (
    CompareAttributes,
    ComparisonDirection,
    ComparisonType,
    ReducePrecisionAttributes,
    bitcast_convert_shape,
    default_comparison_type,
)
from xlapy.opcodes.registry import OpDef, lookup

KINDS = {
    "p": [PRED],
    "s": [t for t in ARRAY_TYPES if t.is_signed],
    "u": [t for t in ARRAY_TYPES if t.is_unsigned],
    "f": [t for t in ARRAY_TYPES if t.is_floating],
    "c": [C64, C128],
}

# name -> the kinds of element types that XLA's shape inference and its back ends accept
UNARY = {
    "abs": "sfc",
    "acos": "fc",
    "acosh": "fc",
    "asin": "fc",
    "asinh": "fc",
    "atan": "fc",
    "atanh": "fc",
    "cbrt": "f",
    "ceil": "f",
    "cosine": "fc",
    "cosh": "fc",
    "count-leading-zeros": "su",
    "erf": "f",
    "exponential": "fc",
    "exponential-minus-one": "fc",
    "floor": "f",
    "imag": "fc",
    "is-finite": "f",
    "log": "fc",
    "log-plus-one": "fc",
    "logistic": "fc",
    "negate": "sufc",
    "not": "psu",
    "popcnt": "su",
    "real": "fc",
    "round-nearest-afz": "f",
    "round-nearest-even": "f",
    "rsqrt": "fc",
    "sign": "sfc",
    "sine": "fc",
    "sinh": "fc",
    "sqrt": "fc",
    "tan": "fc",
    "tanh": "fc",
}
BINARY = {
    "add": "psufc",
    "and": "psu",
    "atan2": "fc",
    "divide": "sufc",
    "maximum": "psuf",
    "minimum": "psuf",
    "mulhi": "su",
    "multiply": "psufc",
    "or": "psu",
    "power": "sufc",
    "remainder": "suf",
    "shift-left": "su",
    "shift-right-arithmetic": "su",
    "shift-right-logical": "su",
    "subtract": "sufc",
    "xor": "psu",
}


def shape(text: str) -> Shape:
    return Shape.parse(text)


def infer(op: OpDef, *operands: str, attributes: Attributes = NO_ATTRIBUTES) -> Shape:
    return op.result_shape([shape(text) for text in operands], attributes)


def accepted(op: OpDef, arity: int) -> set[PrimitiveType]:
    found: set[PrimitiveType] = set()
    for t in ARRAY_TYPES:
        try:
            op.result_shape([Shape.array(t, (2,))] * arity)
        except ShapeError:
            continue
        found.add(t)
    return found


@pytest.mark.parametrize("name", UNARY)
def test_element_types_of_a_unary_op(name: str) -> None:
    assert accepted(lookup(name), 1) == {t for kind in UNARY[name] for t in KINDS[kind]}


@pytest.mark.parametrize("name", BINARY)
def test_element_types_of_a_binary_op(name: str) -> None:
    assert accepted(lookup(name), 2) == {t for kind in BINARY[name] for t in KINDS[kind]}


def test_every_op_of_the_family_is_elementwise_but_bitcast_convert() -> None:
    family = [value for value in vars(ops).values() if isinstance(value, OpDef)]
    others = {"complex", "compare", "clamp", "select", "convert", "bitcast-convert", "reduce-precision"}
    assert {op.name for op in family} >= {*UNARY, *BINARY, *others}
    assert {op.family for op in family} == {"elementwise"}
    assert [op.name for op in family if not op.elementwise] == ["bitcast-convert"]


@pytest.mark.parametrize("name", ["add", "and", "maximum", "minimum", "mulhi", "multiply", "or", "xor"])
def test_commutative_ops(name: str) -> None:
    assert lookup(name).commutative
    assert sum(lookup(other).commutative for other in BINARY) == 8


def test_unary_shapes_keep_dimensions_and_layout() -> None:
    assert infer(opcodes.TANH, "f32[2,3]{0,1}") == shape("f32[2,3]{0,1}")
    assert infer(opcodes.IS_FINITE, "bf16[0,<=3]") == shape("pred[0,<=3]")
    assert infer(opcodes.ABS, "c64[2]") == shape("f32[2]")
    assert infer(opcodes.REAL, "c128[]") == shape("f64[]")
    assert infer(opcodes.IMAG, "f16[4]") == shape("f16[4]")


def test_a_dimension_dynamic_in_either_operand_is_dynamic() -> None:
    assert infer(opcodes.ADD, "f32[<=4,3]", "f32[4,<=3]") == shape("f32[<=4,<=3]")
    assert infer(opcodes.ADD, "f32[4,3]", "f32[4,3]") == shape("f32[4,3]")
    assert infer(opcodes.SELECT, "pred[<=4]", "f32[4]", "f32[4]") == shape("f32[<=4]")
    assert infer(opcodes.SELECT, "pred[]", "f32[4]", "f32[<=4]") == shape("f32[<=4]")


def test_complex_of_parts() -> None:
    assert infer(opcodes.COMPLEX, "f32[3]", "f32[3]") == shape("c64[3]")
    assert infer(opcodes.COMPLEX, "f64[3]", "f64[3]") == shape("c128[3]")


@pytest.mark.parametrize(
    ("op", "operands", "wanted"),
    [
        (opcodes.NEGATE, ["(f32[2], f32[])"], (shared.ARRAY_OPERAND,)),
        (opcodes.TANH, ["token[]"], (shared.ARRAY_OPERAND, "token[]")),
        (opcodes.EXPONENTIAL, ["s32[2]"], (shared.ELEMENT_TYPE, "s32[2]")),
        (opcodes.ABS, ["u8[2]"], (shared.ELEMENT_TYPE, "u8[2]")),
        (opcodes.FLOOR, ["c64[2]"], (shared.ELEMENT_TYPE, "c64[2]")),
        (opcodes.POPCNT, ["pred[2]"], (shared.ELEMENT_TYPE, "pred[2]")),
        (opcodes.NOT, ["f32[2]"], (shared.ELEMENT_TYPE, "f32[2]")),
        (
            opcodes.ADD,
            ["f32[2]", "f32[3]"],
            (shared.SAME_DIMENSIONS, "f32[2]", "f32[3]"),
        ),
        (opcodes.ADD, ["f32[2]", "f32[]"], (shared.SAME_DIMENSIONS, "f32[2]", "f32[]")),
        (opcodes.ADD, ["f32[1]", "f32[3]"], (shared.SAME_DIMENSIONS, "f32[1]", "f32[3]")),
        (
            opcodes.ADD,
            ["f32[2]", "bf16[2]"],
            (shared.SAME_ELEMENT_TYPE, "f32[2]", "bf16[2]"),
        ),
        (opcodes.ADD, ["f32[2]", "()"], (shared.ARRAY_OPERAND, "rhs")),
        (opcodes.ADD, ["token[]", "f32[2]"], (shared.ARRAY_OPERAND, "lhs", "token[]")),
        (opcodes.SUBTRACT, ["pred[2]", "pred[2]"], (shared.ELEMENT_TYPE,)),
        (opcodes.REMAINDER, ["c64[2]", "c64[2]"], (shared.ELEMENT_TYPE,)),
        (opcodes.MAXIMUM, ["c64[2]", "c64[2]"], (shared.ELEMENT_TYPE,)),
        (opcodes.SHIFT_LEFT, ["f32[2]", "f32[2]"], (shared.ELEMENT_TYPE, "f32[2]")),
        (opcodes.COMPLEX, ["f16[2]", "f16[2]"], (shared.ELEMENT_TYPE, "f32", "f64", "f16[2]")),
        (opcodes.COMPLEX, ["f32[2]", "f64[2]"], (shared.SAME_ELEMENT_TYPE,)),
        (
            opcodes.CLAMP,
            ["f32[]", "f32[2]", "f64[]"],
            (shared.SAME_ELEMENT_TYPE, "f64[]", "f32[2]"),
        ),
        (
            opcodes.CLAMP,
            ["s32[]", "f32[2]", "f32[]"],
            (shared.SAME_ELEMENT_TYPE, "s32[]", "f32[2]"),
        ),
        (opcodes.CLAMP, ["f32[3]", "f32[2]", "f32[]"], (codes.SCALAR_OR_SAME_DIMENSIONS, "f32[2]", "f32[3]")),
        (opcodes.CLAMP, ["f32[]", "f32[2]", "f32[1]"], (codes.SCALAR_OR_SAME_DIMENSIONS, "f32[2]", "f32[1]")),
        (opcodes.CLAMP, ["c64[]", "c64[2]", "c64[]"], (shared.ELEMENT_TYPE, "c64[2]")),
        (opcodes.CLAMP, ["f32[]", "token[]", "f32[]"], (shared.ARRAY_OPERAND, "token[]")),
        (opcodes.SELECT, ["s8[2]", "f32[2]", "f32[2]"], (shared.ELEMENT_TYPE, "s8[2]")),
        (opcodes.SELECT, ["pred[3]", "f32[2]", "f32[2]"], (codes.SCALAR_OR_SAME_DIMENSIONS, "f32[2]", "pred[3]")),
        (opcodes.SELECT, ["pred[2]", "f32[]", "f32[]"], (codes.SCALAR_OR_SAME_DIMENSIONS, "f32[]", "pred[2]")),
        (opcodes.SELECT, ["pred[]", "f32[2]", "f32[3]"], (shared.SAME_DIMENSIONS, "f32[2]")),
        (
            opcodes.SELECT,
            ["pred[]", "f32[2]", "s32[2]"],
            (shared.SAME_ELEMENT_TYPE, "f32[2]"),
        ),
        (opcodes.SELECT, ["pred[]", "(f32[2])", "(f32[2])"], (shared.ARRAY_OPERAND, "lhs", "(f32[2])")),
        (opcodes.ADD, ["f32[2]"], (shared.OPERAND_COUNT, "2", "1")),
        (opcodes.CLAMP, ["f32[2]"] * 2, (shared.OPERAND_COUNT, "3", "2")),
    ],
)
def test_refusals(op: OpDef, operands: list[str], wanted: Wanted) -> None:
    with raises(ShapeError, *wanted):
        infer(op, *operands)


# Comparison


def compare(operand: str, direction: str, order: ComparisonType | None = None) -> Shape:
    attributes = CompareAttributes.make(direction=ComparisonDirection[direction], type=order)
    return infer(opcodes.COMPARE, operand, operand, attributes=attributes)


def test_comparisons_give_pred() -> None:
    assert compare("f32[2,3]{0,1}", "LT") == shape("pred[2,3]{0,1}")
    assert compare("pred[2]", "GE", ComparisonType.UNSIGNED) == shape("pred[2]")
    assert compare("f8e4m3fn[2]", "LT", ComparisonType.TOTALORDER) == shape("pred[2]")
    assert compare("c64[2]", "NE", ComparisonType.FLOAT) == shape("pred[2]")


@pytest.mark.parametrize(
    ("operand", "direction", "order", "wanted"),
    [
        ("c64[2]", "LT", None, (codes.COMPLEX_ORDER, "c64[2]", "EQ", "NE", "LT")),
        ("s32[2]", "LT", ComparisonType.UNSIGNED, (codes.COMPARISON_TYPE, "s32[2]", "SIGNED", "UNSIGNED")),
        ("s32[2]", "LT", ComparisonType.TOTALORDER, (codes.COMPARISON_TYPE, "s32[2]", "SIGNED", "TOTALORDER")),
        ("u8[2]", "LT", ComparisonType.FLOAT, (codes.COMPARISON_TYPE, "u8[2]", "UNSIGNED", "FLOAT")),
        ("f32[2]", "LT", ComparisonType.SIGNED, (codes.COMPARISON_TYPE, "f32[2]", "FLOAT", "TOTALORDER", "SIGNED")),
        ("c64[2]", "EQ", ComparisonType.TOTALORDER, (codes.COMPARISON_TYPE, "c64[2]", "FLOAT", "TOTALORDER")),
    ],
)
def test_comparison_refusals(operand: str, direction: str, order: ComparisonType | None, wanted: Wanted) -> None:
    with raises(ShapeError, *wanted):
        compare(operand, direction, order)


def test_the_default_order_is_left_out() -> None:
    normalize = opcodes.COMPARE.canonicalize_attributes
    assert normalize is not None
    written = CompareAttributes.make(direction=ComparisonDirection.LT, type=ComparisonType.SIGNED)
    assert normalize(written, [shape("s32[2]")] * 2, shape("pred[2]")).type is None
    total = CompareAttributes.make(direction=ComparisonDirection.LT, type=ComparisonType.TOTALORDER)
    assert normalize(total, [shape("f32[2]")] * 2, shape("pred[2]")) is total
    assert [default_comparison_type(t).value for t in (F32, C64, S4, U8, PRED)] == [
        "FLOAT",
        "FLOAT",
        "SIGNED",
        "UNSIGNED",
        "UNSIGNED",
    ]


# Conversion


def verify(op: OpDef, operand: str, declared: str) -> None:
    op.verify(shape(declared), [shape(operand)])


@pytest.mark.parametrize(
    ("operand", "declared"),
    [
        ("f32[2,3]", "s4[2,3]"),
        ("pred[]", "c64[]"),
        ("c64[2]", "c128[2]"),
        ("u1[<=5]", "f8e8m0fnu[<=5]"),
        ("f32[<=2]", "s32[2]"),
        ("c64[2]", "f32[2]"),
    ],
)
def test_convert_keeps_dimensions(operand: str, declared: str) -> None:
    verify(opcodes.CONVERT, operand, declared)
    verify(opcodes.CONVERT, operand, operand)


@pytest.mark.parametrize(
    ("op", "operand", "declared", "wanted"),
    [
        (opcodes.CONVERT, "f32[2]", "s32[3]", (shared.RESULT_SHAPE, "f32[2]", "s32[3]")),
        (opcodes.CONVERT, "f32[2]", "(s32[2])", (shared.RESULT_SHAPE,)),
        (opcodes.CONVERT, "token[]", "s32[]", (shared.ARRAY_OPERAND, "token[]")),
        (opcodes.BITCAST_CONVERT, "()", "s32[]", (shared.ARRAY_OPERAND,)),
        (opcodes.BITCAST_CONVERT, "f32[]", "token[]", (shared.ARRAY_RESULT, "token[]")),
        (
            opcodes.BITCAST_CONVERT,
            "c64[2]",
            "f64[2]",
            (codes.BITCAST_CONVERT_COMPLEX, "c64[2]", "f64[2]"),
        ),
        (
            opcodes.BITCAST_CONVERT,
            "f32[2]",
            "c64[1]",
            (codes.BITCAST_CONVERT_COMPLEX, "f32[2]", "c64[1]"),
        ),
        (opcodes.BITCAST_CONVERT, "f32[2]", "s32[3]", (shared.RESULT_SHAPE, "f32[2]", "s32[2]", "s32[3]")),
        (opcodes.BITCAST_CONVERT, "f32[2]", "s8[8]", (shared.RESULT_SHAPE, "f32[2]", "s8[2,4]", "s8[8]")),
        (
            opcodes.BITCAST_CONVERT,
            "s8[2,3]",
            "s32[2]",
            (codes.BITCAST_CONVERT_LAST_DIMENSION, "s8[2,3]", "s32", "32"),
        ),
        (opcodes.BITCAST_CONVERT, "s8[]", "s32[]", (codes.BITCAST_CONVERT_LAST_DIMENSION, "s8[]", "s32")),
        (
            opcodes.BITCAST_CONVERT,
            "f6e2m3fn[4]",
            "s8[3]",
            (codes.BITCAST_CONVERT_WIDTHS, "6"),
        ),
    ],
)
def test_conversion_refusals(op: OpDef, operand: str, declared: str, wanted: Wanted) -> None:
    with raises(ShapeError, *wanted):
        verify(op, operand, declared)


@pytest.mark.parametrize(
    ("operand", "target", "expected"),
    [
        ("f32[2]", S32, "s32[2]"),
        ("f32[2]", S8, "s8[2,4]"),
        ("s8[2,4]", F32, "f32[2]"),
        ("u4[6,2]", S8, "s8[6]"),
        ("f64[]", S4, "s4[16]"),
        ("c128[3]", C64, "c64[3,2]"),
        ("c64[2]", C128, "c128[]"),
        ("pred[5]", U8, "u8[5]"),
        ("f32[<=2]", S8, "s8[<=2,4]"),
        ("s8[<=2,4]", F32, "f32[<=2]"),
        ("s8[0,8]", F64, "f64[0]"),
        ("s8[3]", F8E4M3FN, "f8e4m3fn[3]"),
    ],
)
def test_bitcast_convert_dimensions(operand: str, target: PrimitiveType, expected: str) -> None:
    assert bitcast_convert_shape(shape(operand), target) == shape(expected)
    verify(opcodes.BITCAST_CONVERT, operand, expected)


def test_reduce_precision() -> None:
    def reduce(operand: str, exponent_bits: int, mantissa_bits: int) -> Shape:
        attributes = ReducePrecisionAttributes.make(exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)
        return infer(opcodes.REDUCE_PRECISION, operand, attributes=attributes)

    assert reduce("f32[2,3]", 1, 0) == shape("f32[2,3]")
    with raises(ShapeError, codes.PRECISION_BITS, "exponent_bits"):
        reduce("f32[2]", 0, 3)
    with raises(ShapeError, codes.PRECISION_BITS, "mantissa_bits"):
        reduce("f32[2]", 5, -1)
    with raises(ShapeError, shared.ELEMENT_TYPE, "s32[2]"):
        reduce("s32[2]", 5, 10)


def test_a_declared_shape_must_be_the_inferred_one() -> None:
    opcodes.ADD.verify(shape("f32[2]"), [shape("f32[2]")] * 2)
    with raises(ShapeError, shared.RESULT_SHAPE, "(f32[2], f32[2])", "f32[2]", "f32[3]"):
        opcodes.ADD.verify(shape("f32[3]"), [shape("f32[2]")] * 2)
