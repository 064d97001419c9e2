"""Definitions of the elementwise operations: one result element from the operand elements at the same index.

Responsible for unary and binary arithmetic, comparison, selection, conversion and complex parts.
Does not depend on the IR or on values.
Source: "Element-wise unary functions", "Element-wise binary arithmetic operations", "Element-wise comparison
operations", Clamp, Select, ConvertElementType, BitcastConvertType, ReducePrecision, Complex of the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from xlapy.base.element_types import F32, PRED, PrimitiveType
from xlapy.base.error_codes.operations import elementwise as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.float_formats import HALF, SINGLE, FloatFormat
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import INTEGER, Attributes, EnumCodec, attribute, attributes
from xlapy.opcodes.registry import InferRule, OpDef, ProgramShapes, constraint, exactly
from xlapy.opcodes.requirements import compatible_ignoring_dynamic, require_array

TypeTest = Callable[[PrimitiveType], bool]


def is_float_or_complex(t: PrimitiveType) -> bool:
    return t.is_floating or t.is_complex


def is_number(t: PrimitiveType) -> bool:
    return t.is_integral or t.is_floating or t.is_complex


def is_real_number(t: PrimitiveType) -> bool:
    return t.is_integral or t.is_floating


def is_signed_number(t: PrimitiveType) -> bool:
    return t.is_signed or t.is_floating or t.is_complex


def is_integral(t: PrimitiveType) -> bool:
    return t.is_integral


def is_logical(t: PrimitiveType) -> bool:
    """Integers (bitwise) and PRED (logical)."""
    return t.is_integral or t is PRED


def is_floating(t: PrimitiveType) -> bool:
    return t.is_floating


def is_array_type(t: PrimitiveType) -> bool:
    return t.is_array


def is_ordered(t: PrimitiveType) -> bool:
    return t.is_array and not t.is_complex


def _require_type(name: str, operand: Shape, test: TypeTest, allowed: str) -> None:
    require_array(name, operand)
    if not test(operand.element_type):
        raise ShapeError(
            shared.ELEMENT_TYPE, f"{name} takes {allowed} elements, operand is {operand.to_text(layout=False)}"
        )


# -- unary


def _unary(name: str, summary: str, test: TypeTest, allowed: str) -> OpDef:
    """Defines an op whose result has the shape of its operand."""

    def infer(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
        _require_type(name, operands[0], test, allowed)
        return operands[0]

    return _unary_op(name, summary, "The shape of the operand.", allowed, infer)


def _unary_to(
    name: str, summary: str, test: TypeTest, allowed: str, result: Callable[[PrimitiveType], PrimitiveType]
) -> OpDef:
    """Defines an op whose result has the dimensions of its operand and another element type."""

    def infer(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
        _require_type(name, operands[0], test, allowed)
        return operands[0].with_element_type(result(operands[0].element_type))

    elements = "`pred` elements" if result(F32) is PRED else "real elements for complex ones"
    return _unary_op(name, summary, f"The dimensions of the operand, with {elements}.", allowed, infer)


def _unary_op(name: str, summary: str, result: str, allowed: str, infer: InferRule) -> OpDef:
    return OpDef(
        name=name,
        family="elementwise",
        arity=exactly(1),
        summary=summary,
        result=result,
        operands="operand",
        constraints=(
            constraint("The operand is an array.", shared.ARRAY_OPERAND),
            constraint(f"Its elements are {allowed}.", shared.ELEMENT_TYPE),
        ),
        infer=infer,
        elementwise=True,
    )


def _component(t: PrimitiveType) -> PrimitiveType:
    return t.component_type


_FLOATING = (is_floating, "floating-point")
_ANALYTIC = (is_float_or_complex, "floating-point or complex")
_SIGNED = (is_signed_number, "signed, floating-point or complex")

ABS = _unary_to("abs", "The absolute value; for a complex number, its real modulus.", *_SIGNED, _component)
ACOS = _unary("acos", "The inverse cosine, in radians.", *_ANALYTIC)
ACOSH = _unary("acosh", "The inverse hyperbolic cosine.", *_ANALYTIC)
ASIN = _unary("asin", "The inverse sine, in radians.", *_ANALYTIC)
ASINH = _unary("asinh", "The inverse hyperbolic sine.", *_ANALYTIC)
ATAN = _unary("atan", "The inverse tangent, in radians.", *_ANALYTIC)
ATANH = _unary("atanh", "The inverse hyperbolic tangent.", *_ANALYTIC)
CBRT = _unary("cbrt", "The real cube root, with the sign of the operand.", *_FLOATING)
CEIL = _unary("ceil", "The smallest integer that is not less than the element.", *_FLOATING)
COSINE = _unary("cosine", "The cosine of an angle in radians.", *_ANALYTIC)
COSH = _unary("cosh", "The hyperbolic cosine.", *_ANALYTIC)
COUNT_LEADING_ZEROS = _unary(
    "count-leading-zeros",
    "The number of zero bits above the highest one bit; the width of the type for 0.",
    is_integral,
    "integer",
)
ERF = _unary("erf", "The error function.", *_FLOATING)
EXPONENTIAL = _unary("exponential", "e to the power of the element.", *_ANALYTIC)
EXPONENTIAL_MINUS_ONE = _unary(
    "exponential-minus-one", "e to the power of the element minus 1, accurate near 0.", *_ANALYTIC
)
FLOOR = _unary("floor", "The largest integer that is not greater than the element.", *_FLOATING)
IMAG = _unary_to("imag", "The imaginary part; 0 for real elements.", *_ANALYTIC, _component)
IS_FINITE = _unary_to("is-finite", "True where the element is neither infinite nor NaN.", *_FLOATING, lambda _: PRED)
LOG = _unary(
    "log", "The natural logarithm; NaN for negative real numbers, the principal value for complex ones.", *_ANALYTIC
)
LOG_PLUS_ONE = _unary("log-plus-one", "The natural logarithm of 1 + x, accurate near 0.", *_ANALYTIC)
LOGISTIC = _unary("logistic", "1 / (1 + exp(-x)).", *_ANALYTIC)
NEGATE = _unary(
    "negate",
    "The negation; integers wrap, so the minimum is its own negation.",
    is_number,
    "integer, floating-point or complex",
)
NOT = _unary("not", "Inverts every bit of an integer; negates a pred.", is_logical, "integer or pred")
POPCNT = _unary("popcnt", "The number of one bits.", is_integral, "integer")
REAL = _unary_to("real", "The real part; real elements are unchanged.", *_ANALYTIC, _component)
ROUND_NEAREST_AFZ = _unary(
    "round-nearest-afz", "Rounds to the nearest integer; halves are rounded away from zero.", *_FLOATING
)
ROUND_NEAREST_EVEN = _unary(
    "round-nearest-even", "Rounds to the nearest integer; halves are rounded to the even one.", *_FLOATING
)
RSQRT = _unary("rsqrt", "1 / sqrt(x).", *_ANALYTIC)
SIGN = _unary("sign", "-1, 0 or 1; zeros keep their sign, NaN stays NaN, a complex number becomes x / |x|.", *_SIGNED)
SINE = _unary("sine", "The sine of an angle in radians.", *_ANALYTIC)
SINH = _unary("sinh", "The hyperbolic sine.", *_ANALYTIC)
SQRT = _unary(
    "sqrt", "The square root; NaN for negative real numbers, the principal value for complex ones.", *_ANALYTIC
)
TAN = _unary("tan", "The tangent of an angle in radians.", *_ANALYTIC)
TANH = _unary("tanh", "The hyperbolic tangent.", *_ANALYTIC)


# -- binary


def merge_operands(name: str, lhs: Shape, rhs: Shape) -> Shape:
    """The common shape of two operands of equal type and dimensions; a dimension dynamic in either is dynamic."""
    if lhs is rhs and lhs.is_array:
        return lhs
    require_array(name, lhs, "lhs")
    require_array(name, rhs, "rhs")
    given = f"given {lhs.to_text(layout=False)} and {rhs.to_text(layout=False)}"
    if lhs.element_type is not rhs.element_type:
        raise ShapeError(
            shared.SAME_ELEMENT_TYPE, f"{name} takes operands of the same element type, {given}; convert one of them"
        )
    if lhs.dimensions != rhs.dimensions:
        raise ShapeError(
            shared.SAME_DIMENSIONS, f"{name} takes operands of equal dimensions, {given}; broadcast one of them"
        )
    return _merge_dynamic(lhs, rhs)


def _merge_dynamic(shape: Shape, other: Shape) -> Shape:
    """The shape with the dynamic dimensions of both shapes, which have equal sizes."""
    if shape.dynamic_dimensions == other.dynamic_dimensions:
        return shape
    dynamic = tuple(a or b for a, b in zip(shape.dynamic_dimensions, other.dynamic_dimensions, strict=True))
    return Shape.array(shape.element_type, shape.dimensions, dynamic)


def _binary(name: str, summary: str, test: TypeTest, allowed: str, *, commutative: bool = False) -> OpDef:
    def infer(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
        shape = merge_operands(name, operands[0], operands[1])
        if not test(shape.element_type):
            raise ShapeError(
                shared.ELEMENT_TYPE, f"{name} takes {allowed} elements, given operands {shape.to_text(layout=False)}"
            )
        return shape

    shapes = constraint(
        "Both operands are arrays of the same element type and dimensions.",
        shared.ARRAY_OPERAND,
        shared.SAME_ELEMENT_TYPE,
        shared.SAME_DIMENSIONS,
    )
    return OpDef(
        name=name,
        family="elementwise",
        arity=exactly(2),
        summary=summary,
        result="The shape of the operands. A dimension that is dynamic in one of them is dynamic.",
        operands="lhs rhs",
        constraints=(shapes,)
        if test is is_array_type
        else (shapes, constraint(f"Their elements are {allowed}.", shared.ELEMENT_TYPE)),
        infer=infer,
        elementwise=True,
        commutative=commutative,
    )


_ARITHMETIC = (is_number, "integer, floating-point or complex")
_LOGICAL = (is_logical, "integer or pred")
_ANY = (is_array_type, "array")
_ORDERED = (is_ordered, "pred, integer or floating-point")
_INTEGRAL = (is_integral, "integer")

ADD = _binary("add", "lhs + rhs; integers wrap, and for pred the result is `or`.", *_ANY, commutative=True)
AND = _binary("and", "Conjunction: bitwise for integers, logical for pred.", *_LOGICAL, commutative=True)
ATAN2 = _binary(
    "atan2",
    ("The angle of the point (rhs, lhs) in (-pi, pi]: the inverse tangent of lhs / rhs in the right quadrant."),
    *_ANALYTIC,
)
DIVIDE = _binary(
    "divide",
    ("lhs / rhs; integer quotients are truncated toward zero, x / 0 is -1 (unsigned: all ones), and MIN / -1 is MIN."),
    *_ARITHMETIC,
)
MAXIMUM = _binary(
    "maximum",
    ("The larger operand; NaN if either is NaN. +0 is larger than -0, and for pred the result is `or`."),
    *_ORDERED,
    commutative=True,
)
MINIMUM = _binary(
    "minimum",
    ("The smaller operand; NaN if either is NaN. -0 is smaller than +0, and for pred the result is `and`."),
    *_ORDERED,
    commutative=True,
)
MULHI = _binary("mulhi", "The upper half of the double-width product.", *_INTEGRAL, commutative=True)
MULTIPLY = _binary("multiply", "lhs * rhs; integers wrap, and for pred the result is `and`.", *_ANY, commutative=True)
OR = _binary("or", "Disjunction: bitwise for integers, logical for pred.", *_LOGICAL, commutative=True)
POWER = _binary(
    "power",
    ("lhs to the power of rhs; integers wrap, and a negative exponent gives 0 except for the bases 1 and -1."),
    *_ARITHMETIC,
)
REMAINDER = _binary(
    "remainder",
    ("The remainder of the division truncated toward zero, with the sign of lhs; for integers, x rem 0 is x."),
    is_real_number,
    "integer or floating-point",
)
SHIFT_LEFT = _binary(
    "shift-left", "Shifts the bits of lhs left by rhs; 0 if rhs is at least the bit width.", *_INTEGRAL
)
SHIFT_RIGHT_ARITHMETIC = _binary(
    "shift-right-arithmetic",
    (
        "Shifts the bits of lhs right by rhs and fills with the sign bit; all sign bits if rhs is at least "
        "the bit width."
    ),
    *_INTEGRAL,
)
SHIFT_RIGHT_LOGICAL = _binary(
    "shift-right-logical",
    "Shifts the bits of lhs right by rhs and fills with zeros; 0 if rhs is at least the bit width.",
    *_INTEGRAL,
)
SUBTRACT = _binary("subtract", "lhs - rhs; integers wrap.", *_ARITHMETIC)
XOR = _binary("xor", "Exclusive or: bitwise for integers, logical for pred.", *_LOGICAL, commutative=True)


def _infer_complex(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    shape = merge_operands("complex", operands[0], operands[1])
    result = shape.element_type.complex_type
    if result is None:
        raise ShapeError(shared.ELEMENT_TYPE, f"complex takes f32 or f64 parts, given {shape.to_text(layout=False)}")
    return shape.with_element_type(result)


COMPLEX = OpDef(
    name="complex",
    family="elementwise",
    summary="The complex numbers with the given real and imaginary parts.",
    result="The dimensions of the operands, with `c64` elements for `f32`, and `c128` for `f64`.",
    operands="real imag",
    constraints=(
        constraint(
            "Both operands are arrays of the same element type and dimensions.",
            shared.ARRAY_OPERAND,
            shared.SAME_ELEMENT_TYPE,
            shared.SAME_DIMENSIONS,
        ),
        constraint("The element type is f32 or f64.", shared.ELEMENT_TYPE),
    ),
    arity=exactly(2),
    infer=_infer_complex,
    elementwise=True,
)


# -- comparison


class ComparisonDirection(Enum):
    EQ = "EQ"
    NE = "NE"
    GE = "GE"
    GT = "GT"
    LE = "LE"
    LT = "LT"


class ComparisonType(Enum):
    """The order of a comparison: FLOAT is IEEE's partial order, TOTALORDER is -NaN < -inf < -0 < +0 < inf < NaN."""

    FLOAT = "FLOAT"
    TOTALORDER = "TOTALORDER"
    SIGNED = "SIGNED"
    UNSIGNED = "UNSIGNED"


def default_comparison_type(t: PrimitiveType) -> ComparisonType:
    if t.is_floating or t.is_complex:
        return ComparisonType.FLOAT
    return ComparisonType.SIGNED if t.is_signed else ComparisonType.UNSIGNED


@attributes
class CompareAttributes(Attributes):
    """`type` is None when it is the default of the operands' element type."""

    direction: ComparisonDirection = attribute(EnumCodec(ComparisonDirection))
    type: ComparisonType | None = attribute(EnumCodec(ComparisonType), default=None)


def _infer_compare(operands: Sequence[Shape], attrs: CompareAttributes, _: ProgramShapes) -> Shape:
    shape = merge_operands("compare", operands[0], operands[1])
    t = shape.element_type
    if t.is_complex and attrs.direction not in (ComparisonDirection.EQ, ComparisonDirection.NE):
        raise ShapeError(
            codes.COMPLEX_ORDER,
            f"compare of complex operands {shape.to_text(layout=False)} takes EQ or NE, not {attrs.direction.value}",
        )
    _check_order(shape, attrs.type)
    return shape.with_element_type(PRED)


def _check_order(shape: Shape, order: ComparisonType | None) -> None:
    allowed = [default_comparison_type(shape.element_type)]
    if shape.element_type.is_floating:
        allowed.append(ComparisonType.TOTALORDER)
    if order is not None and order not in allowed:
        names = " or ".join(each.value for each in allowed)
        raise ShapeError(
            codes.COMPARISON_TYPE,
            f"compare of {shape.to_text(layout=False)} takes the order {names}, not {order.value}",
        )


def _canonicalize_compare_attributes(
    attrs: CompareAttributes, operands: Sequence[Shape], _: Shape
) -> CompareAttributes:
    if attrs.type is not None and operands and attrs.type is default_comparison_type(operands[0].element_type):
        return CompareAttributes.make(direction=attrs.direction, type=None)
    return attrs


COMPARE = OpDef(
    name="compare",
    family="elementwise",
    summary=("Compares elements: pred values that are true where `lhs direction rhs` holds; `type` selects the order."),
    result="The dimensions of the operands, with `pred` elements.",
    operands="lhs rhs",
    constraints=(
        constraint(
            "Both operands are arrays of the same element type and dimensions.",
            shared.ARRAY_OPERAND,
            shared.SAME_ELEMENT_TYPE,
            shared.SAME_DIMENSIONS,
        ),
        constraint("Complex elements are compared only with EQ and NE.", codes.COMPLEX_ORDER),
        constraint(
            "`type` is the order of the element type: SIGNED, UNSIGNED (also for pred) or FLOAT; for floats "
            "also TOTALORDER.",
            codes.COMPARISON_TYPE,
        ),
    ),
    arity=exactly(2),
    attributes=CompareAttributes,
    infer=_infer_compare,
    canonicalize_attributes=_canonicalize_compare_attributes,
    elementwise=True,
)


# -- ternary


def _infer_clamp(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    """`min` and `max` are scalars or have the operand's dimensions."""
    low, operand, high = operands
    for what, bound in (("min", low), ("max", high)):
        require_array("clamp", bound, what)
        require_array("clamp", operand)
        if bound.element_type is not operand.element_type:
            raise ShapeError(
                shared.SAME_ELEMENT_TYPE,
                f"clamp takes operands of the same element type: {what} is {bound.to_text(layout=False)} "
                f"and operand {operand.to_text(layout=False)}",
            )
        if bound.rank and bound.dimensions != operand.dimensions:
            raise ShapeError(
                codes.SCALAR_OR_SAME_DIMENSIONS,
                f"clamp takes {what} as a scalar or like the operand "
                f"{operand.to_text(layout=False)}, given {bound.to_text(layout=False)}",
            )
    if operand.element_type.is_complex:
        raise ShapeError(
            shared.ELEMENT_TYPE, f"clamp takes ordered elements, operand is {operand.to_text(layout=False)}"
        )
    return operand


def _infer_select(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    """The predicate is a scalar or has the dimensions of the values."""
    predicate, on_true, on_false = operands
    require_array("select", predicate, "predicate")
    if predicate.element_type is not PRED:
        raise ShapeError(shared.ELEMENT_TYPE, f"select takes a pred predicate, given {predicate.to_text(layout=False)}")
    shape = merge_operands("select", on_true, on_false)
    if predicate.rank and predicate.dimensions != shape.dimensions:
        raise ShapeError(
            codes.SCALAR_OR_SAME_DIMENSIONS,
            "select takes a predicate that is a scalar or like the values "
            f"{shape.to_text(layout=False)}, given {predicate.to_text(layout=False)}",
        )
    return _merge_dynamic(shape, predicate) if predicate.is_dynamic else shape


CLAMP = OpDef(
    name="clamp",
    family="elementwise",
    summary=("Limits the operand to the range from min to max; max if min > max."),
    result="The shape of `operand`.",
    operands="min operand max",
    constraints=(
        constraint(
            "All three operands are arrays of the same element type.", shared.ARRAY_OPERAND, shared.SAME_ELEMENT_TYPE
        ),
        constraint("Each bound is a scalar or has the dimensions of the operand.", codes.SCALAR_OR_SAME_DIMENSIONS),
        constraint("The elements are not complex.", shared.ELEMENT_TYPE),
    ),
    arity=exactly(3),
    infer=_infer_clamp,
    elementwise=True,
)
SELECT = OpDef(
    name="select",
    family="elementwise",
    summary="The element of on_true where pred is true, and of on_false elsewhere.",
    result="The shape of `on_true`.",
    operands="pred on_true on_false",
    constraints=(
        constraint(
            "All three operands are arrays, and pred has elements of type pred.",
            shared.ARRAY_OPERAND,
            shared.ELEMENT_TYPE,
        ),
        constraint(
            "on_true and on_false have the same element type and dimensions.",
            shared.ARRAY_OPERAND,
            shared.SAME_ELEMENT_TYPE,
            shared.SAME_DIMENSIONS,
        ),
        constraint("pred is a scalar or has the dimensions of the values.", codes.SCALAR_OR_SAME_DIMENSIONS),
    ),
    arity=exactly(3),
    infer=_infer_select,
    elementwise=True,
)


# -- conversion


def _check_convert(shape: Shape, operands: Sequence[Shape], _: Any, __: ProgramShapes) -> None:
    operand = operands[0]
    require_array("convert", operand)
    if not shape.is_array or shape.dimensions != operand.dimensions:
        raise ShapeError(
            shared.RESULT_SHAPE,
            "convert keeps the dimensions of its operand "
            f"{operand.to_text(layout=False)}, declared {shape.to_text(layout=False)}",
        )


def _check_bitcast_convert(shape: Shape, operands: Sequence[Shape], _: Any, __: ProgramShapes) -> None:
    operand = operands[0]
    require_array("bitcast-convert", operand)
    if not shape.is_array:
        raise ShapeError(
            shared.ARRAY_RESULT, f"bitcast-convert returns an array, declared {shape.to_text(layout=False)}"
        )
    if operand.element_type.is_complex != shape.element_type.is_complex:
        raise ShapeError(
            codes.BITCAST_CONVERT_COMPLEX,
            "bitcast-convert between real and complex types is not supported: "
            f"{operand.to_text(layout=False)} to {shape.to_text(layout=False)}",
        )
    expected = bitcast_convert_shape(operand, shape.element_type)
    if not compatible_ignoring_dynamic(shape, expected):
        raise ShapeError(
            shared.RESULT_SHAPE,
            f"bitcast-convert of {operand.to_text(layout=False)} has shape "
            f"{expected.to_text(layout=False)}, declared {shape.to_text(layout=False)}",
        )


def bitcast_convert_shape(operand: Shape, target: PrimitiveType) -> Shape:
    """Narrowing from B to B' bits appends a dimension of size B/B', widening consumes a last one of size B'/B.

    s32[4] as s8 is s8[4,4]; s8[4,4] as s16 is illegal, because its last dimension would have to be 2.
    """
    have, want = operand.element_type.bits, target.bits
    if max(have, want) % min(have, want):
        raise ShapeError(
            codes.BITCAST_CONVERT_WIDTHS,
            f"bitcast-convert of {operand.to_text(layout=False)} to {target} "
            f"needs bit widths of which one divides the other, given {have} and {want}",
        )
    if have == want:
        return operand.with_element_type(target)
    if have > want:
        dynamic = (*operand.dynamic_dimensions, False)
        return Shape.array(target, (*operand.dimensions, have // want), dynamic)
    if not operand.rank or operand.dimensions[-1] != want // have:
        raise ShapeError(
            codes.BITCAST_CONVERT_LAST_DIMENSION,
            f"bitcast-convert of {operand.to_text(layout=False)} to {target} needs a last dimension of {want // have}: "
            f"one element of {want} bits consists of elements of {have} bits",
        )
    return Shape.array(target, operand.dimensions[:-1], operand.dynamic_dimensions[:-1])


CONVERT = OpDef(
    name="convert",
    family="elementwise",
    summary=(
        "Converts the elements to another type. Conversion to a float rounds to the nearest value; "
        "conversion of a float to an integer truncates and saturates, and NaN becomes 0. Conversion of a "
        "complex number to a real type drops the imaginary part."
    ),
    result="The dimensions of the operand, with any element type, which is declared.",
    operands="operand",
    constraints=(
        constraint(
            "The operand is an array, and the result has the same dimensions.",
            shared.ARRAY_OPERAND,
            shared.RESULT_SHAPE,
        ),
    ),
    arity=exactly(1),
    check=_check_convert,
    elementwise=True,
)
BITCAST_CONVERT = OpDef(
    name="bitcast-convert",
    family="elementwise",
    summary=(
        "Reinterprets the bits as another element type; a narrower type adds an innermost dimension, a "
        "wider type removes it."
    ),
    result=(
        "The dimensions of the operand if both types are equally wide. A narrower type appends a dimension, "
        "and a wider type removes the last one."
    ),
    operands="operand",
    constraints=(
        constraint("Operand and result are arrays.", shared.ARRAY_OPERAND, shared.ARRAY_RESULT),
        constraint("The element types are both real or both complex.", codes.BITCAST_CONVERT_COMPLEX),
        constraint("One of the two bit widths divides the other.", codes.BITCAST_CONVERT_WIDTHS),
        constraint(
            "Widening from B to B' bits requires a last dimension of size B'/B.", codes.BITCAST_CONVERT_LAST_DIMENSION
        ),
        constraint(
            "The result has the operand's dimensions; narrowing from B to B' bits appends a dimension of size "
            "B/B', and widening removes the last dimension.",
            shared.RESULT_SHAPE,
        ),
    ),
    arity=exactly(1),
    check=_check_bitcast_convert,
)


@attributes
class ReducePrecisionAttributes(Attributes):
    exponent_bits: int = attribute(INTEGER)
    mantissa_bits: int = attribute(INTEGER)


def reduce_precision_format(element_type: PrimitiveType) -> FloatFormat:
    """The format from which reduce-precision rounds elements of a floating-point type.

    As in XLA, types of 8 bits and less count as F16, and F8E8M0FNU as F32: F8E4M3FN has numbers that 4 exponent bits of
    IEEE's design do not hold.
    """
    if element_type.bits > 8:
        return element_type.float_format
    return HALF if element_type.float_format.is_signed else SINGLE


def _infer_reduce_precision(operands: Sequence[Shape], attrs: ReducePrecisionAttributes, _: ProgramShapes) -> Shape:
    _require_type("reduce-precision", operands[0], *_FLOATING)
    if attrs.exponent_bits < 1:
        raise ShapeError(
            codes.PRECISION_BITS, f"reduce-precision needs exponent_bits >= 1, given {attrs.exponent_bits}"
        )
    if attrs.mantissa_bits < 0:
        raise ShapeError(
            codes.PRECISION_BITS, f"reduce-precision needs mantissa_bits >= 0, given {attrs.mantissa_bits}"
        )
    return operands[0]


REDUCE_PRECISION = OpDef(
    name="reduce-precision",
    family="elementwise",
    summary=(
        "Rounds to the precision and range of a float with `exponent_bits` and `mantissa_bits`; the element "
        "type is unchanged."
    ),
    result="The shape of the operand.",
    operands="operand",
    constraints=(
        constraint("The operand is an array of floating-point elements.", shared.ELEMENT_TYPE),
        constraint("`exponent_bits` is at least 1.", codes.PRECISION_BITS),
        constraint("`mantissa_bits` is at least 0.", codes.PRECISION_BITS),
    ),
    arity=exactly(1),
    attributes=ReducePrecisionAttributes,
    infer=_infer_reduce_precision,
    elementwise=True,
)
