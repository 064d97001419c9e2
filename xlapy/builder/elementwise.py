"""Builder functions of elementwise operations: arithmetic, comparison, selection, conversion.

Responsible for the builder functions of `opcodes/elementwise.py`. Does not depend on how instructions are stored.
Source: "Element-wise unary functions", "Element-wise binary arithmetic operations", "Element-wise comparison
operations", Clamp, Select, ConvertElementType, BitcastConvertType, ReducePrecision, Complex, Conj of the specification.

Operands are arrays: XlaOps, or plain values (Python numbers, NumPy arrays, Literals), which become constants of the
other operand's element type. At least one operand is an XlaOp. Binary functions broadcast as
`builder/core/broadcasting.py` describes: scalars always; equal ranks along dimensions of size 1; different ranks by
`broadcast_dimensions`, which lists, for each dimension of the operand of lower rank, the matching dimension of the
other. Both operands have the same element type. Functions that back ends approximate accept a `result_accuracy`. Every
function raises `BuilderError` at the caller's line if the operands do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.builder import tuples
from xlapy.builder.core.accuracy import ResultAccuracy
from xlapy.builder.core.broadcasting import broadcast_operands, broadcast_scalar, constant_of, constants_like
from xlapy.builder.core.builder import append, builder_of
from xlapy.builder.core.op import Operand, XlaOp
from xlapy.opcodes import elementwise as defs
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType, ReducePrecisionAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.requirements import require_array

ElementType: TypeAlias = PrimitiveType | str | Any
"""A PrimitiveType, its text ("f32") or a NumPy dtype."""


def element_type_of(value: ElementType) -> PrimitiveType:
    """Returns the PrimitiveType. Raises InvalidArgumentError if the value does not denote one."""
    if isinstance(value, PrimitiveType):
        return value
    return PrimitiveType.from_text(value) if isinstance(value, str) else PrimitiveType.from_dtype(value)


def _approximated(op: OpDef, operand: XlaOp, result_accuracy: ResultAccuracy | None) -> XlaOp:
    with builder_of(op.name, (operand,)).building(op.name):
        result = append(op, (operand,))
        if result_accuracy is not None:
            result.instruction.result_accuracy = result_accuracy.to_text()
        return result


def _binary(op: OpDef, lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int]) -> XlaOp:
    builder = builder_of(op.name, (lhs, rhs))
    with builder.building(op.name):
        left, right = broadcast_operands(op.name, constants_like(builder, lhs, rhs), broadcast_dimensions)
        return builder.append(op, (left, right))


# -- unary


def abs(operand: XlaOp) -> XlaOp:
    """The absolute value of signed, floating-point or complex elements; for complex elements, the real modulus."""
    return append(defs.ABS, (operand,))


def acos(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The inverse cosine of floating-point or complex elements, in radians."""
    return _approximated(defs.ACOS, operand, result_accuracy)


def acosh(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The inverse hyperbolic cosine of floating-point or complex elements."""
    return _approximated(defs.ACOSH, operand, result_accuracy)


def asin(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The inverse sine of floating-point or complex elements, in radians."""
    return _approximated(defs.ASIN, operand, result_accuracy)


def asinh(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The inverse hyperbolic sine of floating-point or complex elements."""
    return _approximated(defs.ASINH, operand, result_accuracy)


def atan(operand: XlaOp) -> XlaOp:
    """The inverse tangent of floating-point or complex elements, in radians."""
    return append(defs.ATAN, (operand,))


def atanh(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The inverse hyperbolic tangent of floating-point or complex elements."""
    return _approximated(defs.ATANH, operand, result_accuracy)


def cbrt(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The cube root of floating-point elements."""
    return _approximated(defs.CBRT, operand, result_accuracy)


def ceil(operand: XlaOp) -> XlaOp:
    """Floating-point elements rounded up."""
    return append(defs.CEIL, (operand,))


def clz(operand: XlaOp) -> XlaOp:
    """The number of leading zero bits of integers, in their own type."""
    return append(defs.COUNT_LEADING_ZEROS, (operand,))


def cos(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The cosine of floating-point or complex elements, in radians."""
    return _approximated(defs.COSINE, operand, result_accuracy)


def cosh(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The hyperbolic cosine of floating-point or complex elements."""
    return _approximated(defs.COSH, operand, result_accuracy)


def erf(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The error function of floating-point elements."""
    return _approximated(defs.ERF, operand, result_accuracy)


def exp(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """e to the power of floating-point or complex elements."""
    return _approximated(defs.EXPONENTIAL, operand, result_accuracy)


def expm1(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """e^x - 1 of floating-point or complex elements, accurate near 0."""
    return _approximated(defs.EXPONENTIAL_MINUS_ONE, operand, result_accuracy)


def floor(operand: XlaOp) -> XlaOp:
    """Floating-point elements rounded down."""
    return append(defs.FLOOR, (operand,))


def imag(operand: XlaOp) -> XlaOp:
    """The imaginary part of complex elements; 0 for floating-point elements."""
    return append(defs.IMAG, (operand,))


def is_finite(operand: XlaOp) -> XlaOp:
    """PRED: whether floating-point elements are finite, neither infinite nor NaN."""
    return append(defs.IS_FINITE, (operand,))


def log(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The natural logarithm of floating-point or complex elements."""
    return _approximated(defs.LOG, operand, result_accuracy)


def log1p(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """log(1 + x) of floating-point or complex elements, accurate near 0."""
    return _approximated(defs.LOG_PLUS_ONE, operand, result_accuracy)


def logistic(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """1 / (1 + e^-x) of floating-point or complex elements."""
    return _approximated(defs.LOGISTIC, operand, result_accuracy)


def neg(operand: XlaOp) -> XlaOp:
    """The negative of integer (wrapping), floating-point or complex elements."""
    return append(defs.NEGATE, (operand,))


def not_(operand: XlaOp) -> XlaOp:
    """Logical not of PRED, bitwise not of integers."""
    return append(defs.NOT, (operand,))


def population_count(operand: XlaOp) -> XlaOp:
    """The number of one bits of integers, in their own type."""
    return append(defs.POPCNT, (operand,))


def real(operand: XlaOp) -> XlaOp:
    """The real part of complex elements; floating-point elements are returned unchanged."""
    return append(defs.REAL, (operand,))


def round(operand: XlaOp) -> XlaOp:
    """Floating-point elements rounded to the nearest integer, ties away from zero."""
    return append(defs.ROUND_NEAREST_AFZ, (operand,))


def round_nearest_afz(operand: XlaOp) -> XlaOp:
    """HLO's name for `round`."""
    return round(operand)


def round_nearest_even(operand: XlaOp) -> XlaOp:
    """Floating-point elements rounded to the nearest integer, ties to even."""
    return append(defs.ROUND_NEAREST_EVEN, (operand,))


def rsqrt(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """1 / sqrt(x) of floating-point or complex elements."""
    return _approximated(defs.RSQRT, operand, result_accuracy)


def sign(operand: XlaOp) -> XlaOp:
    """-1, 0 or 1 (NaN for NaN) of signed and floating-point elements; x / |x| for complex elements."""
    return append(defs.SIGN, (operand,))


def sin(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The sine of floating-point or complex elements, in radians."""
    return _approximated(defs.SINE, operand, result_accuracy)


def sinh(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The hyperbolic sine of floating-point or complex elements."""
    return _approximated(defs.SINH, operand, result_accuracy)


def sqrt(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The square root of floating-point or complex elements."""
    return _approximated(defs.SQRT, operand, result_accuracy)


def tan(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The tangent of floating-point or complex elements, in radians."""
    return _approximated(defs.TAN, operand, result_accuracy)


def tanh(operand: XlaOp, result_accuracy: ResultAccuracy | None = None) -> XlaOp:
    """The hyperbolic tangent of floating-point or complex elements."""
    return _approximated(defs.TANH, operand, result_accuracy)


def conj(operand: XlaOp) -> XlaOp:
    """The complex conjugate of complex or floating-point elements, as complex elements."""
    with builder_of("conj", (operand,)).building("conj"):
        return complex(real(operand), neg(imag(operand)))


def square(operand: XlaOp) -> XlaOp:
    """x * x."""
    return mul(operand, operand)


def reciprocal(operand: XlaOp) -> XlaOp:
    """1 / x in the element type of x."""
    return div(1, operand)


# -- binary


def add(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """lhs + rhs. Integers wrap; PRED is logical or."""
    return _binary(defs.ADD, lhs, rhs, broadcast_dimensions)


def and_(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """Logical and of PRED, bitwise and of integers."""
    return _binary(defs.AND, lhs, rhs, broadcast_dimensions)


def atan2(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """The angle of the point (x = rhs, y = lhs) in radians, floating-point or complex."""
    return _binary(defs.ATAN2, lhs, rhs, broadcast_dimensions)


def complex(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """The complex number with real part lhs and imaginary part rhs: C64 from two F32, C128 from two F64."""
    return _binary(defs.COMPLEX, lhs, rhs, broadcast_dimensions)


def div(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """lhs / rhs. Integers truncate toward zero; x/0 is -1 (all ones); MIN/-1 is MIN."""
    return _binary(defs.DIVIDE, lhs, rhs, broadcast_dimensions)


def max(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """The larger element. NaN if either is NaN; -0 < +0."""
    return _binary(defs.MAXIMUM, lhs, rhs, broadcast_dimensions)


def min(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """The smaller element. NaN if either is NaN; -0 < +0."""
    return _binary(defs.MINIMUM, lhs, rhs, broadcast_dimensions)


def mul(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """lhs * rhs. Integers wrap; PRED is logical and."""
    return _binary(defs.MULTIPLY, lhs, rhs, broadcast_dimensions)


def mulhi(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """The upper half of the double-width product of two integers."""
    return _binary(defs.MULHI, lhs, rhs, broadcast_dimensions)


def or_(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """Logical or of PRED, bitwise or of integers."""
    return _binary(defs.OR, lhs, rhs, broadcast_dimensions)


def pow(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """lhs to the power of rhs. Integers wrap; 0^0 is 1."""
    return _binary(defs.POWER, lhs, rhs, broadcast_dimensions)


def rem(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """The remainder of lhs / rhs with the sign of lhs. For integers, x rem 0 is x."""
    return _binary(defs.REMAINDER, lhs, rhs, broadcast_dimensions)


def shift_left(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """lhs << rhs. Shifts by the width or more give 0."""
    return _binary(defs.SHIFT_LEFT, lhs, rhs, broadcast_dimensions)


def shift_right_arithmetic(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """lhs >> rhs, filled with the sign bit."""
    return _binary(defs.SHIFT_RIGHT_ARITHMETIC, lhs, rhs, broadcast_dimensions)


def shift_right_logical(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """lhs >> rhs, filled with zeros. Shifts by the width or more give 0."""
    return _binary(defs.SHIFT_RIGHT_LOGICAL, lhs, rhs, broadcast_dimensions)


def sub(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """lhs - rhs. Integers wrap."""
    return _binary(defs.SUBTRACT, lhs, rhs, broadcast_dimensions)


def xor(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """Logical exclusive or of PRED, bitwise of integers."""
    return _binary(defs.XOR, lhs, rhs, broadcast_dimensions)


# -- comparison


def compare(
    lhs: Operand,
    rhs: Operand,
    broadcast_dimensions: Sequence[int] = (),
    *,
    direction: ComparisonDirection | str,
    type: ComparisonType | str | None = None,
) -> XlaOp:
    """PRED: compares lhs and rhs in a direction (EQ NE GE GT LE LT).

    `type` is the comparison type; None selects that of the element type (FLOAT, SIGNED or UNSIGNED). TOTALORDER orders
    floats as -NaN < -inf < ... < -0 < +0 < ... < inf < NaN. Complex elements support only EQ and NE.
    """
    builder = builder_of("compare", (lhs, rhs))
    with builder.building("compare"):
        attributes = CompareAttributes.make(
            direction=_member(ComparisonDirection, direction),
            type=None if type is None else _member(ComparisonType, type),
        )
        left, right = broadcast_operands("compare", constants_like(builder, lhs, rhs), broadcast_dimensions)
        return builder.append(defs.COMPARE, (left, right), attributes)


def _member(kind: Any, value: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(member.value for member in kind)
        raise ShapeError(codes.NAMED_CHOICE, f"compare takes one of {words}, given {value!r}") from None


def _compare_total_order(
    lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int], direction: ComparisonDirection
) -> XlaOp:
    operand = lhs if isinstance(lhs, XlaOp) else rhs
    floating = isinstance(operand, XlaOp) and operand.element_type.is_floating
    order = ComparisonType.TOTALORDER if floating else None
    return compare(lhs, rhs, broadcast_dimensions, direction=direction, type=order)


def eq(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """PRED: whether lhs is equal to rhs. False if either is NaN."""
    return compare(lhs, rhs, broadcast_dimensions, direction=ComparisonDirection.EQ)


def eq_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """`eq` in the total order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    return _compare_total_order(lhs, rhs, broadcast_dimensions, ComparisonDirection.EQ)


def ne(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """PRED: whether lhs is different from rhs. True if either is NaN."""
    return compare(lhs, rhs, broadcast_dimensions, direction=ComparisonDirection.NE)


def ne_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """`ne` in the total order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    return _compare_total_order(lhs, rhs, broadcast_dimensions, ComparisonDirection.NE)


def ge(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """PRED: whether lhs is greater than or equal to rhs. False if either is NaN."""
    return compare(lhs, rhs, broadcast_dimensions, direction=ComparisonDirection.GE)


def ge_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """`ge` in the total order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    return _compare_total_order(lhs, rhs, broadcast_dimensions, ComparisonDirection.GE)


def gt(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """PRED: whether lhs is greater than rhs. False if either is NaN."""
    return compare(lhs, rhs, broadcast_dimensions, direction=ComparisonDirection.GT)


def gt_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """`gt` in the total order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    return _compare_total_order(lhs, rhs, broadcast_dimensions, ComparisonDirection.GT)


def le(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """PRED: whether lhs is less than or equal to rhs. False if either is NaN."""
    return compare(lhs, rhs, broadcast_dimensions, direction=ComparisonDirection.LE)


def le_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """`le` in the total order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    return _compare_total_order(lhs, rhs, broadcast_dimensions, ComparisonDirection.LE)


def lt(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """PRED: whether lhs is less than rhs. False if either is NaN."""
    return compare(lhs, rhs, broadcast_dimensions, direction=ComparisonDirection.LT)


def lt_total_order(lhs: Operand, rhs: Operand, broadcast_dimensions: Sequence[int] = ()) -> XlaOp:
    """`lt` in the total order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN."""
    return _compare_total_order(lhs, rhs, broadcast_dimensions, ComparisonDirection.LT)


# -- ternary


def clamp(min: Operand, operand: Operand, max: Operand) -> XlaOp:
    """min(max(operand, min), max) of ordered elements. Scalars are broadcast if another operand is an array; other
    shapes are equal.
    """
    builder = builder_of("clamp", (min, operand, max))
    with builder.building("clamp"):
        return builder.append(defs.CLAMP, _broadcast_scalars(constants_like(builder, min, operand, max)))


def select(pred: Operand, on_true: Operand, on_false: Operand) -> XlaOp:
    """on_true where the PRED array `pred` is true, otherwise on_false. Scalars are broadcast if another operand is an
    array.

    Tuples of equal shape are selected leaf by leaf with a scalar `pred`; the result is a tuple.

    >>> b = xla.XlaBuilder("m")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
    >>> ops.select(x > 0.0, x, -x)
    <XlaOp select = f32[2,3] select>
    """
    builder = builder_of("select", (on_true, on_false, pred))
    with builder.building("select"):
        predicate = constant_of(builder, pred, PRED)
        if isinstance(on_true, XlaOp) or isinstance(on_false, XlaOp):
            values = constants_like(builder, on_true, on_false)
        else:
            values = [constant_of(builder, on_true), constant_of(builder, on_false)]
        if values[0].shape.is_tuple:
            return _select_tuple(predicate, values[0], values[1])
        return builder.append(defs.SELECT, _broadcast_scalars([predicate, *values]))


def _select_tuple(pred: XlaOp, on_true: XlaOp, on_false: XlaOp) -> XlaOp:
    if not on_true.shape.compatible(on_false.shape):
        raise ShapeError(
            codes.TUPLE_SELECTION,
            f"select takes tuples of the same shape, given {on_true.shape.to_text(layout=False)} "
            f"and {on_false.shape.to_text(layout=False)}",
        )
    if not pred.shape.is_scalar:
        raise ShapeError(
            codes.TUPLE_SELECTION,
            f"select of tuples takes a scalar predicate, given {pred.shape.to_text(layout=False)}",
        )
    parts = [
        select(pred, tuples.get_tuple_element(on_true, i), tuples.get_tuple_element(on_false, i))
        for i in range(len(on_true.shape.tuple_shapes))
    ]
    return tuples.tuple(pred.builder, parts)


def _broadcast_scalars(operands: Sequence[XlaOp]) -> list[XlaOp]:
    """Broadcasts the scalars among the operands to the dimensions of the first array."""
    array = next((operand.shape for operand in operands if operand.shape.rank), None)
    if array is None:
        return list(operands)
    return [broadcast_scalar(o, array.dimensions) if o.shape.is_scalar else o for o in operands]


# -- conversion


def convert_element_type(operand: XlaOp, new_element_type: ElementType) -> XlaOp:
    """Converts each element to another type, as C does; complex to real takes the real part.

    Floating-point to integer truncates and saturates; NaN gives 0.

    >>> b = xla.XlaBuilder("m")
    >>> x = ops.parameter(b, 0, xla.Shape.parse("f32[2,3]"), "x")
    >>> ops.convert_element_type(x, xla.PrimitiveType.BF16)
    <XlaOp convert = bf16[2,3] convert>
    """
    with builder_of("convert", (operand,)).building("convert"):
        target = element_type_of(new_element_type)
        if operand.element_type.is_complex and not target.is_complex:
            operand = real(operand)
        require_array("convert", operand.shape)
        return append(defs.CONVERT, (operand,), shape=operand.shape.with_element_type(target))


def bitcast_convert_type(operand: XlaOp, new_element_type: ElementType) -> XlaOp:
    """Reinterprets the bits of each element as another type.

    To a narrower type, a last dimension of size (bits / new bits) is appended; to a wider type, a last dimension of
    size (new bits / bits) is consumed. Conversions between real and complex types are an error.
    """
    with builder_of("bitcast-convert", (operand,)).building("bitcast-convert"):
        target = element_type_of(new_element_type)
        require_array("bitcast-convert", operand.shape)
        if not target.is_array:
            raise ShapeError(shared.ELEMENT_TYPE, f"bitcast-convert returns an array, given the element type {target}")
        shape = defs.bitcast_convert_shape(operand.shape, target)
        return append(defs.BITCAST_CONVERT, (operand,), shape=shape)


def reduce_precision(operand: XlaOp, exponent_bits: int, mantissa_bits: int) -> XlaOp:
    """Rounds floating-point elements to `exponent_bits` >= 1 and `mantissa_bits` >= 0; the element type stays."""
    attributes = ReducePrecisionAttributes.make(exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)
    return append(defs.REDUCE_PRECISION, (operand,), attributes)
