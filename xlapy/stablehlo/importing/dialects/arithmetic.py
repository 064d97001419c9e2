"""Import rules: operations of MLIR's own dialects arith, math and cf, as programs compute sizes with them.

Owns: their meaning on scalars and tensors; `index` is s64, `i1` pred. Must not know: shapes and tensors as such
(`shapes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import integer, text
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.core.types import element_type

_PLAIN: dict[str, OpDef] = {
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
_UNSIGNED: dict[str, OpDef] = {
    "arith.divui": opcodes.DIVIDE,
    "arith.maxui": opcodes.MAXIMUM,
    "arith.minui": opcodes.MINIMUM,
    "arith.remui": opcodes.REMAINDER,
}
_INTEGER_ORDERS = ("EQ", "NE", "LT", "LE", "GT", "GE", "LT", "LE", "GT", "GE")
_FIRST_UNSIGNED = 6
_ORDERED = {1: "EQ", 2: "GT", 3: "GE", 4: "LT", 5: "LE"}
_NEGATED = {8: "NE", 9: "LE", 10: "LT", 11: "GE", 12: "GT", 13: "EQ"}
"""Comparisons of floats by their numbers: true of NaN are those that are not the opposite, which is false of NaN."""


@rule(*_PLAIN)
def plain(scope: Scope, operation: ir.Operation) -> Instruction:
    operands = scope.operands(operation)
    if operation.name == "arith.select" and operands[0].shape.is_scalar:
        operands[0] = scope.broadcast(operands[0], operands[1].shape.with_element_type(PRED))
    return scope.emit(_PLAIN[operation.name], operands)


@rule(*_UNSIGNED, operands=2)
def unsigned(scope: Scope, operation: ir.Operation) -> Instruction:
    lhs, rhs = scope.operands(operation)
    result = scope.emit(_UNSIGNED[operation.name], (_as_unsigned(scope, lhs), _as_unsigned(scope, rhs)))
    return _as(scope, result, lhs.shape.element_type)


def _as_unsigned(scope: Scope, value: Instruction) -> Instruction:
    element = value.shape.element_type
    return value if element is PRED else _as(scope, value, PrimitiveType.from_name(f"U{element.bits}"))


def _as(scope: Scope, value: Instruction, element: PrimitiveType) -> Instruction:
    """The same bits as another type of the same width."""
    if value.shape.element_type is element:
        return value
    return scope.emit(opcodes.BITCAST_CONVERT, (value,), shape=value.shape.with_element_type(element))


@rule("arith.ceildivsi", "arith.floordivsi", operands=2)
def rounded_division(scope: Scope, operation: ir.Operation) -> Instruction:
    """The quotient towards zero, and one more or less where there is a remainder on the other side."""
    lhs, rhs = scope.operands(operation)
    is_floor = operation.name == "arith.floordivsi"
    quotient, remainder = scope.emit(opcodes.DIVIDE, (lhs, rhs)), scope.emit(opcodes.REMAINDER, (lhs, rhs))
    zero = scope.full(0, lhs.shape)
    has_remainder = compare(scope, "NE", remainder, zero)
    is_negative = compare(scope, "NE", compare(scope, "LT", remainder, zero), compare(scope, "LT", rhs, zero))
    wanted = is_negative if is_floor else scope.emit(opcodes.NOT, (is_negative,))
    moved = scope.emit(opcodes.SUBTRACT if is_floor else opcodes.ADD, (quotient, scope.full(1, lhs.shape)))
    return scope.emit(opcodes.SELECT, (scope.emit(opcodes.AND, (has_remainder, wanted)), moved, quotient))


@rule("arith.maxnumf", "arith.minnumf", operands=2)
def without_nan(scope: Scope, operation: ir.Operation) -> Instruction:
    """The other operand where one is NaN."""
    lhs, rhs = scope.operands(operation)
    found = scope.emit(opcodes.MAXIMUM if operation.name == "arith.maxnumf" else opcodes.MINIMUM, (lhs, rhs))
    found = scope.emit(opcodes.SELECT, (compare(scope, "NE", rhs, rhs), lhs, found))
    return scope.emit(opcodes.SELECT, (compare(scope, "NE", lhs, lhs), rhs, found))


def compare(scope: Scope, direction: str, lhs: Instruction, rhs: Instruction) -> Instruction:
    """A comparison in the order of the type."""
    return scope.emit(opcodes.COMPARE, (lhs, rhs), CompareAttributes.make(direction=ComparisonDirection[direction]))


@rule("arith.cmpi", operands=2)
def compare_integers(scope: Scope, operation: ir.Operation) -> Instruction:
    lhs, rhs = scope.operands(operation)
    number = _predicate(operation, len(_INTEGER_ORDERS))
    if number >= _FIRST_UNSIGNED:
        lhs, rhs = _as_unsigned(scope, lhs), _as_unsigned(scope, rhs)
    elif lhs.shape.element_type is PRED:
        lhs, rhs = rhs, lhs  # as a signed number of one bit, true is -1
    return compare(scope, _INTEGER_ORDERS[number], lhs, rhs)


@rule("arith.cmpf", operands=2)
def compare_floats(scope: Scope, operation: ir.Operation) -> Instruction:
    lhs, rhs = scope.operands(operation)
    number = _predicate(operation, 16)
    if number in _ORDERED:
        return compare(scope, _ORDERED[number], lhs, rhs)
    if number in _NEGATED and number != 8:
        return scope.emit(opcodes.NOT, (compare(scope, _NEGATED[number], lhs, rhs),))
    if number in (0, 15):
        return scope.full(number == 15, lhs.shape.with_element_type(PRED))
    is_nan = scope.emit(opcodes.OR, (compare(scope, "NE", lhs, lhs), compare(scope, "NE", rhs, rhs)))
    if number == 14:
        return is_nan
    if number == 8:
        return scope.emit(opcodes.OR, (is_nan, compare(scope, "EQ", lhs, rhs)))
    is_number = scope.emit(opcodes.NOT, (is_nan,))
    return is_number if number == 7 else scope.emit(opcodes.AND, (is_number, compare(scope, "NE", lhs, rhs)))


def _predicate(operation: ir.Operation, count: int) -> int:
    number = integer(operation, "predicate")
    if not 0 <= number < count:
        raise ShapeError(f"its predicate is one of 0 to {count - 1}, it is {number}")
    return number


@rule("arith.extf", "arith.fptosi", "arith.index_cast", "arith.extsi", "arith.sitofp", "arith.truncf", operands=1)
def convert(scope: Scope, operation: ir.Operation) -> Instruction:
    """A conversion of signed numbers; `i1` is 0 or -1."""
    (operand,) = scope.operands(operation)
    shape = _declared(scope, operation, operand)
    if operand.shape.element_type is PRED:
        return scope.emit(opcodes.NEGATE, (scope.emit(opcodes.CONVERT, (operand,), shape=shape),))
    if shape.element_type is PRED:
        return _lowest_bit(scope, operand)
    return scope.emit(opcodes.CONVERT, (operand,), shape=shape)


@rule("arith.extui", "arith.fptoui", "arith.index_castui", "arith.trunci", "arith.uitofp", operands=1)
def convert_unsigned(scope: Scope, operation: ir.Operation) -> Instruction:
    """A conversion of numbers without a sign; to fewer bits the lowest are kept."""
    (operand,) = scope.operands(operation)
    shape = _declared(scope, operation, operand)
    element = shape.element_type
    if element is PRED:
        return _lowest_bit(scope, operand)
    given = operand if operand.shape.element_type.is_floating else _as_unsigned(scope, operand)
    wanted = element if element.is_floating else PrimitiveType.from_name(f"U{element.bits}")
    return _as(scope, scope.emit(opcodes.CONVERT, (given,), shape=shape.with_element_type(wanted)), element)


@rule("arith.bitcast", operands=1)
def bitcast(scope: Scope, operation: ir.Operation) -> Instruction:
    (operand,) = scope.operands(operation)
    return _as(scope, operand, _declared(scope, operation, operand).element_type)


def _declared(scope: Scope, operation: ir.Operation, operand: Instruction) -> Shape:
    """The operand's shape with the element type of the result."""
    declared = operation.results[0].type
    if isinstance(declared, ir.TensorType):
        return operand.shape.with_element_type(element_type(declared.element))
    return scope.declared(operation.results[0])


def _lowest_bit(scope: Scope, operand: Instruction) -> Instruction:
    one = scope.emit(opcodes.AND, (operand, scope.full(1, operand.shape)))
    return compare(scope, "NE", one, scope.full(0, operand.shape))


@rule("cf.assert", operands=1, results=0)
def assertion(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    """What is known to hold is nothing; HLO cannot stop a program for what is known at run time only."""
    holds(scope, scope.operands(operation)[0], text(operation, "msg"))
    return ()


def holds(scope: Scope, condition: Instruction, message: str) -> None:
    """`ShapeError` with the message where a condition does not hold, `UnsupportedError` where that is not known."""
    found = scope.program.constants.value_of(condition)
    if found is None:
        raise UnsupportedError(f"whether {message!r} holds is not known before the program runs ({condition.name})")
    if not found.all():
        raise ShapeError(f"it does not hold: {message}")
