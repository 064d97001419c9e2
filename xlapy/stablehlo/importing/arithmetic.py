"""Import rules: operations of MLIR's own dialects arith, math and cf, as programs compute sizes with them.

Owns: their meaning on scalars and tensors; `index` is s64, `i1` pred. Must not know: shapes and tensors as such
(`shapes.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import ops
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.errors import ShapeError, UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.ops.elementwise import CompareAttributes, ComparisonDirection
from xlapy.ops.registry import OpDef
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.attributes import integer, text
from xlapy.stablehlo.importing.rules import rule
from xlapy.stablehlo.importing.scope import Scope
from xlapy.stablehlo.importing.types import element_type

_PLAIN: dict[str, OpDef] = {
    "arith.addf": ops.ADD,
    "arith.addi": ops.ADD,
    "arith.andi": ops.AND,
    "arith.divf": ops.DIVIDE,
    "arith.divsi": ops.DIVIDE,
    "arith.maximumf": ops.MAXIMUM,
    "arith.maxsi": ops.MAXIMUM,
    "arith.minimumf": ops.MINIMUM,
    "arith.minsi": ops.MINIMUM,
    "arith.mulf": ops.MULTIPLY,
    "arith.muli": ops.MULTIPLY,
    "arith.negf": ops.NEGATE,
    "arith.ori": ops.OR,
    "arith.remf": ops.REMAINDER,
    "arith.remsi": ops.REMAINDER,
    "arith.select": ops.SELECT,
    "arith.shli": ops.SHIFT_LEFT,
    "arith.shrsi": ops.SHIFT_RIGHT_ARITHMETIC,
    "arith.shrui": ops.SHIFT_RIGHT_LOGICAL,
    "arith.subf": ops.SUBTRACT,
    "arith.subi": ops.SUBTRACT,
    "arith.xori": ops.XOR,
    "math.absf": ops.ABS,
    "math.absi": ops.ABS,
    "math.acos": ops.ACOS,
    "math.acosh": ops.ACOSH,
    "math.asin": ops.ASIN,
    "math.asinh": ops.ASINH,
    "math.atan": ops.ATAN,
    "math.atan2": ops.ATAN2,
    "math.atanh": ops.ATANH,
    "math.cbrt": ops.CBRT,
    "math.ceil": ops.CEIL,
    "math.cos": ops.COSINE,
    "math.cosh": ops.COSH,
    "math.ctlz": ops.COUNT_LEADING_ZEROS,
    "math.ctpop": ops.POPCNT,
    "math.erf": ops.ERF,
    "math.exp": ops.EXPONENTIAL,
    "math.expm1": ops.EXPONENTIAL_MINUS_ONE,
    "math.floor": ops.FLOOR,
    "math.log": ops.LOG,
    "math.log1p": ops.LOG_PLUS_ONE,
    "math.powf": ops.POWER,
    "math.round": ops.ROUND_NEAREST_AFZ,
    "math.roundeven": ops.ROUND_NEAREST_EVEN,
    "math.rsqrt": ops.RSQRT,
    "math.sin": ops.SINE,
    "math.sinh": ops.SINH,
    "math.sqrt": ops.SQRT,
    "math.tan": ops.TAN,
    "math.tanh": ops.TANH,
}
_UNSIGNED: dict[str, OpDef] = {
    "arith.divui": ops.DIVIDE,
    "arith.maxui": ops.MAXIMUM,
    "arith.minui": ops.MINIMUM,
    "arith.remui": ops.REMAINDER,
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
    return scope.emit(ops.BITCAST_CONVERT, (value,), shape=value.shape.with_element_type(element))


@rule("arith.ceildivsi", "arith.floordivsi", operands=2)
def rounded_division(scope: Scope, operation: ir.Operation) -> Instruction:
    """The quotient towards zero, and one more or less where there is a remainder on the other side."""
    lhs, rhs = scope.operands(operation)
    is_floor = operation.name == "arith.floordivsi"
    quotient, remainder = scope.emit(ops.DIVIDE, (lhs, rhs)), scope.emit(ops.REMAINDER, (lhs, rhs))
    zero = scope.full(0, lhs.shape)
    has_remainder = compare(scope, "NE", remainder, zero)
    is_negative = compare(scope, "NE", compare(scope, "LT", remainder, zero), compare(scope, "LT", rhs, zero))
    wanted = is_negative if is_floor else scope.emit(ops.NOT, (is_negative,))
    moved = scope.emit(ops.SUBTRACT if is_floor else ops.ADD, (quotient, scope.full(1, lhs.shape)))
    return scope.emit(ops.SELECT, (scope.emit(ops.AND, (has_remainder, wanted)), moved, quotient))


@rule("arith.maxnumf", "arith.minnumf", operands=2)
def without_nan(scope: Scope, operation: ir.Operation) -> Instruction:
    """The other operand where one is NaN."""
    lhs, rhs = scope.operands(operation)
    found = scope.emit(ops.MAXIMUM if operation.name == "arith.maxnumf" else ops.MINIMUM, (lhs, rhs))
    found = scope.emit(ops.SELECT, (compare(scope, "NE", rhs, rhs), lhs, found))
    return scope.emit(ops.SELECT, (compare(scope, "NE", lhs, lhs), rhs, found))


def compare(scope: Scope, direction: str, lhs: Instruction, rhs: Instruction) -> Instruction:
    """A comparison in the order of the type."""
    return scope.emit(ops.COMPARE, (lhs, rhs), CompareAttributes.make(direction=ComparisonDirection[direction]))


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
        return scope.emit(ops.NOT, (compare(scope, _NEGATED[number], lhs, rhs),))
    if number in (0, 15):
        return scope.full(number == 15, lhs.shape.with_element_type(PRED))
    is_nan = scope.emit(ops.OR, (compare(scope, "NE", lhs, lhs), compare(scope, "NE", rhs, rhs)))
    if number == 14:
        return is_nan
    if number == 8:
        return scope.emit(ops.OR, (is_nan, compare(scope, "EQ", lhs, rhs)))
    is_number = scope.emit(ops.NOT, (is_nan,))
    return is_number if number == 7 else scope.emit(ops.AND, (is_number, compare(scope, "NE", lhs, rhs)))


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
        return scope.emit(ops.NEGATE, (scope.emit(ops.CONVERT, (operand,), shape=shape),))
    if shape.element_type is PRED:
        return _lowest_bit(scope, operand)
    return scope.emit(ops.CONVERT, (operand,), shape=shape)


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
    return _as(scope, scope.emit(ops.CONVERT, (given,), shape=shape.with_element_type(wanted)), element)


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
    one = scope.emit(ops.AND, (operand, scope.full(1, operand.shape)))
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
