"""Import rules of MLIR's dialects arith, math and cf, which programs compute sizes with.

The operations work on scalars and tensors; `index` is imported as s64 and `i1` as pred. The dialects shape and tensor
are in `shapes`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import integer, text
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.types import element_type

_DIRECT_OPCODES: dict[str, OpDef] = {
    "arith.addf": opcodes.ADD,
    "arith.addi": opcodes.ADD,
    "arith.andi": opcodes.AND,
    "arith.divf": opcodes.DIVIDE,
    "arith.divsi": opcodes.DIVIDE,
    "arith.maximumf": opcodes.MAXIMUM,
    "arith.maxsi": opcodes.MAXIMUM,
    "arith.minimumf": opcodes.MINIMUM,
    "arith.minsi": opcodes.MINIMUM,
    "arith.mulf": opcodes.MULTIPLY,
    "arith.muli": opcodes.MULTIPLY,
    "arith.negf": opcodes.NEGATE,
    "arith.ori": opcodes.OR,
    "arith.remf": opcodes.REMAINDER,
    "arith.remsi": opcodes.REMAINDER,
    "arith.select": opcodes.SELECT,
    "arith.shli": opcodes.SHIFT_LEFT,
    "arith.shrsi": opcodes.SHIFT_RIGHT_ARITHMETIC,
    "arith.shrui": opcodes.SHIFT_RIGHT_LOGICAL,
    "arith.subf": opcodes.SUBTRACT,
    "arith.subi": opcodes.SUBTRACT,
    "arith.xori": opcodes.XOR,
    "math.absf": opcodes.ABS,
    "math.absi": opcodes.ABS,
    "math.acos": opcodes.ACOS,
    "math.acosh": opcodes.ACOSH,
    "math.asin": opcodes.ASIN,
    "math.asinh": opcodes.ASINH,
    "math.atan": opcodes.ATAN,
    "math.atan2": opcodes.ATAN2,
    "math.atanh": opcodes.ATANH,
    "math.cbrt": opcodes.CBRT,
    "math.ceil": opcodes.CEIL,
    "math.cos": opcodes.COSINE,
    "math.cosh": opcodes.COSH,
    "math.ctlz": opcodes.COUNT_LEADING_ZEROS,
    "math.ctpop": opcodes.POPCNT,
    "math.erf": opcodes.ERF,
    "math.exp": opcodes.EXPONENTIAL,
    "math.expm1": opcodes.EXPONENTIAL_MINUS_ONE,
    "math.floor": opcodes.FLOOR,
    "math.log": opcodes.LOG,
    "math.log1p": opcodes.LOG_PLUS_ONE,
    "math.powf": opcodes.POWER,
    "math.round": opcodes.ROUND_NEAREST_AFZ,
    "math.roundeven": opcodes.ROUND_NEAREST_EVEN,
    "math.rsqrt": opcodes.RSQRT,
    "math.sin": opcodes.SINE,
    "math.sinh": opcodes.SINH,
    "math.sqrt": opcodes.SQRT,
    "math.tan": opcodes.TAN,
    "math.tanh": opcodes.TANH,
}
_UNSIGNED_OPCODES: dict[str, OpDef] = {
    "arith.divui": opcodes.DIVIDE,
    "arith.maxui": opcodes.MAXIMUM,
    "arith.minui": opcodes.MINIMUM,
    "arith.remui": opcodes.REMAINDER,
}
_INTEGER_PREDICATES = ("EQ", "NE", "LT", "LE", "GT", "GE", "LT", "LE", "GT", "GE")
"""The directions of `arith.cmpi` by the number of the predicate: signed comparisons, then unsigned ones."""

_FIRST_UNSIGNED_PREDICATE = 6
_ORDERED_PREDICATES = {1: "EQ", 2: "GT", 3: "GE", 4: "LT", 5: "LE"}
"""The directions of ordered `arith.cmpf` predicates by number. They are false if an operand is NaN."""

_NEGATED_UNORDERED_PREDICATES = {8: "NE", 9: "LE", 10: "LT", 11: "GE", 12: "GT", 13: "EQ"}
"""The opposite directions of unordered `arith.cmpf` predicates by number.

An unordered predicate is true if an operand is NaN, so it is the negation of the opposite ordered comparison.
"""


@rule(*_DIRECT_OPCODES)
def elementwise(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    operands = builder.operands(operation)
    if operation.name == "arith.select" and len(operands) == 3 and operands[0].shape.is_scalar:
        operands[0] = builder.broadcast(operands[0], operands[1].shape.with_element_type(PRED))
    return builder.emit(_DIRECT_OPCODES[operation.name], operands)


@rule(*_UNSIGNED_OPCODES, operands=2)
def unsigned(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    lhs, rhs = builder.operands(operation)
    result = builder.emit(_UNSIGNED_OPCODES[operation.name], (_as_unsigned(builder, lhs), _as_unsigned(builder, rhs)))
    return _bitcast_to(builder, result, lhs.shape.element_type)


def _as_unsigned(builder: ComputationBuilder, value: Instruction) -> Instruction:
    element = value.shape.element_type
    return value if element is PRED else _bitcast_to(builder, value, _unsigned_type(element))


def _unsigned_type(element: PrimitiveType) -> PrimitiveType:
    if not element.is_integral:
        raise ShapeError(operation_codes.INTEGER_OPERANDS, f"it takes integers, not {element}")
    return PrimitiveType.from_name(f"U{element.bits}")


def _bitcast_to(builder: ComputationBuilder, value: Instruction, element: PrimitiveType) -> Instruction:
    """Reinterprets the bits as an element type of the same width."""
    if value.shape.element_type is element:
        return value
    return builder.emit(opcodes.BITCAST_CONVERT, (value,), shape=value.shape.with_element_type(element))


@rule("arith.ceildivsi", "arith.floordivsi", operands=2)
def rounded_division(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports ceiling and floor division: the quotient rounded toward zero, corrected by one.

    Ceiling division adds one if there is a remainder and the exact quotient is positive; floor division subtracts one
    if there is a remainder and it is negative.
    """
    lhs, rhs = builder.operands(operation)
    is_floor = operation.name == "arith.floordivsi"
    quotient, remainder = builder.emit(opcodes.DIVIDE, (lhs, rhs)), builder.emit(opcodes.REMAINDER, (lhs, rhs))
    zero = builder.full(0, lhs.shape)
    has_remainder = compare(builder, "NE", remainder, zero)
    is_negative = compare(builder, "NE", compare(builder, "LT", remainder, zero), compare(builder, "LT", rhs, zero))
    has_sign = is_negative if is_floor else builder.emit(opcodes.NOT, (is_negative,))
    corrected = builder.emit(opcodes.SUBTRACT if is_floor else opcodes.ADD, (quotient, builder.full(1, lhs.shape)))
    return builder.emit(opcodes.SELECT, (builder.emit(opcodes.AND, (has_remainder, has_sign)), corrected, quotient))


@rule("arith.maxnumf", "arith.minnumf", operands=2)
def extremum_ignoring_nan(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports `maxnumf` and `minnumf`, which return the other operand if one operand is NaN."""
    lhs, rhs = builder.operands(operation)
    result = builder.emit(opcodes.MAXIMUM if operation.name == "arith.maxnumf" else opcodes.MINIMUM, (lhs, rhs))
    result = builder.emit(opcodes.SELECT, (compare(builder, "NE", rhs, rhs), lhs, result))
    return builder.emit(opcodes.SELECT, (compare(builder, "NE", lhs, lhs), rhs, result))


def compare(builder: ComputationBuilder, direction: str, lhs: Instruction, rhs: Instruction) -> Instruction:
    """Emits a comparison with the default comparison type of the operands."""
    return builder.emit(opcodes.COMPARE, (lhs, rhs), CompareAttributes.make(direction=ComparisonDirection[direction]))


@rule("arith.cmpi", operands=2)
def compare_integers(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    lhs, rhs = builder.operands(operation)
    number = _predicate(operation, len(_INTEGER_PREDICATES))
    if number >= _FIRST_UNSIGNED_PREDICATE:
        lhs, rhs = _as_unsigned(builder, lhs), _as_unsigned(builder, rhs)
    elif lhs.shape.element_type is PRED:
        lhs, rhs = rhs, lhs  # As a signed one-bit integer, true is -1.
    return compare(builder, _INTEGER_PREDICATES[number], lhs, rhs)


@rule("arith.cmpf", operands=2)
def compare_floats(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    lhs, rhs = builder.operands(operation)
    number = _predicate(operation, 16)
    if number in _ORDERED_PREDICATES:
        return compare(builder, _ORDERED_PREDICATES[number], lhs, rhs)
    if number in _NEGATED_UNORDERED_PREDICATES and number != 8:
        return builder.emit(opcodes.NOT, (compare(builder, _NEGATED_UNORDERED_PREDICATES[number], lhs, rhs),))
    if number in (0, 15):
        return builder.full(number == 15, lhs.shape.with_element_type(PRED))
    is_nan = builder.emit(opcodes.OR, (compare(builder, "NE", lhs, lhs), compare(builder, "NE", rhs, rhs)))
    if number == 14:
        return is_nan
    if number == 8:
        return builder.emit(opcodes.OR, (is_nan, compare(builder, "EQ", lhs, rhs)))
    is_number = builder.emit(opcodes.NOT, (is_nan,))
    return is_number if number == 7 else builder.emit(opcodes.AND, (is_number, compare(builder, "NE", lhs, rhs)))


def _predicate(operation: ir.Operation, count: int) -> int:
    number = integer(operation, "predicate")
    if not 0 <= number < count:
        raise ShapeError(codes.ATTRIBUTE_CASE, f"its predicate must be from 0 to {count - 1}, but is {number}")
    return number


@rule("arith.extf", "arith.fptosi", "arith.index_cast", "arith.extsi", "arith.sitofp", "arith.truncf", operands=1)
def convert(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports conversions that interpret integers as signed: an `i1` is 0 or -1."""
    (operand,) = builder.operands(operation)
    shape = _result_shape(builder, operation, operand)
    if operand.shape.element_type is PRED:
        return builder.emit(opcodes.NEGATE, (builder.emit(opcodes.CONVERT, (operand,), shape=shape),))
    if shape.element_type is PRED:
        return _lowest_bit(builder, operand)
    return builder.emit(opcodes.CONVERT, (operand,), shape=shape)


@rule("arith.extui", "arith.fptoui", "arith.index_castui", "arith.trunci", "arith.uitofp", operands=1)
def convert_unsigned(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports conversions that interpret integers as unsigned. A conversion to fewer bits keeps the lowest bits."""
    (operand,) = builder.operands(operation)
    shape = _result_shape(builder, operation, operand)
    element = shape.element_type
    if element is PRED:
        return _lowest_bit(builder, operand)
    source = operand if operand.shape.element_type.is_floating else _as_unsigned(builder, operand)
    target = element if element.is_floating else _unsigned_type(element)
    converted = builder.emit(opcodes.CONVERT, (source,), shape=shape.with_element_type(target))
    return _bitcast_to(builder, converted, element)


@rule("arith.bitcast", operands=1)
def bitcast(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    (operand,) = builder.operands(operation)
    return _bitcast_to(builder, operand, _result_shape(builder, operation, operand).element_type)


def _result_shape(builder: ComputationBuilder, operation: ir.Operation, operand: Instruction) -> Shape:
    """Returns the operand's shape with the element type of the result."""
    declared = operation.results[0].type
    if isinstance(declared, ir.TensorType):
        return operand.shape.with_element_type(element_type(declared.element))
    return builder.declared_shape(operation.results[0])


def _lowest_bit(builder: ComputationBuilder, operand: Instruction) -> Instruction:
    bit = builder.emit(opcodes.AND, (operand, builder.full(1, operand.shape)))
    return compare(builder, "NE", bit, builder.full(0, operand.shape))


@rule("cf.assert", operands=1, results=0)
def assertion(builder: ComputationBuilder, operation: ir.Operation) -> Sequence[Instruction]:
    """Checks an assertion during the import. HLO has no assertions that are checked at run time."""
    check_holds(builder, builder.operands(operation)[0], text(operation, "msg"))
    return ()


def check_holds(builder: ComputationBuilder, condition: Instruction, message: str) -> None:
    """Raises `ShapeError` if a condition is false, and `UnsupportedError` if it is known only at run time."""
    value = builder.context.constants.value_of(condition)
    if value is None:
        raise UnsupportedError(
            codes.ASSERTION, f"whether {message!r} holds is not known before the program runs ({condition.name})"
        )
    if not value.all():
        raise ShapeError(codes.ASSERTION, f"this condition does not hold: {message}")
