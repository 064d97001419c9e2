"""Import rules: operations on each element.

Owns: the elementwise operations of StableHLO and those of CHLO that HLO has too. Must not know: broadcasting (CHLO's
broadcasting operations are in `broadcasting.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType, ReducePrecisionAttributes
from xlapy.opcodes.reduction import ReduceAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import integer, text
from xlapy.stablehlo.importing.core.bodies import scalar_body
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.core.types import element_type, type_text
from xlapy.stablehlo.importing.sources import emit_iota

PLAIN: dict[str, OpDef] = {
    "stablehlo.abs": opcodes.ABS,
    "stablehlo.add": opcodes.ADD,
    "stablehlo.and": opcodes.AND,
    "stablehlo.atan2": opcodes.ATAN2,
    "stablehlo.ceil": opcodes.CEIL,
    "stablehlo.complex": opcodes.COMPLEX,
    "stablehlo.cosine": opcodes.COSINE,
    "stablehlo.count_leading_zeros": opcodes.COUNT_LEADING_ZEROS,
    "stablehlo.divide": opcodes.DIVIDE,
    "stablehlo.exponential": opcodes.EXPONENTIAL,
    "stablehlo.exponential_minus_one": opcodes.EXPONENTIAL_MINUS_ONE,
    "stablehlo.floor": opcodes.FLOOR,
    "stablehlo.imag": opcodes.IMAG,
    "stablehlo.is_finite": opcodes.IS_FINITE,
    "stablehlo.log": opcodes.LOG,
    "stablehlo.log_plus_one": opcodes.LOG_PLUS_ONE,
    "stablehlo.logistic": opcodes.LOGISTIC,
    "stablehlo.multiply": opcodes.MULTIPLY,
    "stablehlo.negate": opcodes.NEGATE,
    "stablehlo.not": opcodes.NOT,
    "stablehlo.or": opcodes.OR,
    "stablehlo.popcnt": opcodes.POPCNT,
    "stablehlo.power": opcodes.POWER,
    "stablehlo.real": opcodes.REAL,
    "stablehlo.remainder": opcodes.REMAINDER,
    "stablehlo.round_nearest_afz": opcodes.ROUND_NEAREST_AFZ,
    "stablehlo.round_nearest_even": opcodes.ROUND_NEAREST_EVEN,
    "stablehlo.rsqrt": opcodes.RSQRT,
    "stablehlo.shift_left": opcodes.SHIFT_LEFT,
    "stablehlo.shift_right_arithmetic": opcodes.SHIFT_RIGHT_ARITHMETIC,
    "stablehlo.shift_right_logical": opcodes.SHIFT_RIGHT_LOGICAL,
    "stablehlo.sign": opcodes.SIGN,
    "stablehlo.sine": opcodes.SINE,
    "stablehlo.sqrt": opcodes.SQRT,
    "stablehlo.subtract": opcodes.SUBTRACT,
    "stablehlo.tan": opcodes.TAN,
    "stablehlo.tanh": opcodes.TANH,
    "stablehlo.xor": opcodes.XOR,
    "chlo.acos": opcodes.ACOS,
    "chlo.acosh": opcodes.ACOSH,
    "chlo.asin": opcodes.ASIN,
    "chlo.asinh": opcodes.ASINH,
    "chlo.atan": opcodes.ATAN,
    "chlo.atanh": opcodes.ATANH,
    "chlo.cosh": opcodes.COSH,
    "chlo.erf": opcodes.ERF,
    "chlo.mulhi": opcodes.MULHI,
    "chlo.sinh": opcodes.SINH,
    "chlo.tan": opcodes.TAN,
}
"""Operations that HLO has in the same form."""


@rule(*PLAIN)
def plain(scope: Scope, operation: ir.Operation) -> Instruction:
    return scope.emit(PLAIN[operation.name], scope.operands(operation))


@rule("stablehlo.maximum", "stablehlo.minimum", operands=2)
def extremum(scope: Scope, operation: ir.Operation) -> Instruction:
    return emit_extremum(scope, operation.name.rpartition(".")[2], scope.operands(operation))


def emit_extremum(scope: Scope, name: str, operands: Sequence[Instruction]) -> Instruction:
    """The greater or lesser; of complex numbers, which HLO does not order, by real part first."""
    lhs, rhs = operands
    if not lhs.shape.element_type.is_complex:
        return scope.emit(opcodes.MAXIMUM if name == "maximum" else opcodes.MINIMUM, operands)
    direction = ComparisonDirection.GT if name == "maximum" else ComparisonDirection.LT
    real, imaginary = ([scope.emit(part, (each,)) for each in operands] for part in (opcodes.REAL, opcodes.IMAG))
    before = _compared(scope, direction, real)
    equal = _compared(scope, ComparisonDirection.EQ, real)
    behind = scope.emit(opcodes.AND, (equal, _compared(scope, direction, imaginary)))
    return scope.emit(opcodes.SELECT, (scope.emit(opcodes.OR, (before, behind)), lhs, rhs))


def _compared(scope: Scope, direction: ComparisonDirection, operands: Sequence[Instruction]) -> Instruction:
    return scope.emit(opcodes.COMPARE, operands, CompareAttributes.make(direction=direction, type=None))


@rule("stablehlo.cbrt", operands=1)
def cbrt(scope: Scope, operation: ir.Operation) -> Instruction:
    """The cube root; of complex numbers, which HLO has none of, the power 1/3."""
    (operand,) = scope.operands(operation)
    if not operand.shape.element_type.is_complex:
        return scope.emit(opcodes.CBRT, (operand,))
    return scope.emit(opcodes.POWER, (operand, scope.full(1 / 3, operand.shape)))


@rule("stablehlo.compare", operands=2)
def compare(scope: Scope, operation: ir.Operation) -> Instruction:
    return emit_compare(scope, operation, scope.operands(operation))


def emit_compare(scope: Scope, operation: ir.Operation, operands: list[Instruction]) -> Instruction:
    """A comparison with the direction and the type of an operation's attributes."""
    direction = text(operation, "comparison_direction")
    if direction not in ComparisonDirection.__members__:
        raise ShapeError(f"there is no comparison direction {direction!r}")
    kind = text(operation, "compare_type", "NOTYPE")
    if kind == "NOTYPE":
        chosen = None
    elif kind in ComparisonType.__members__:
        chosen = ComparisonType[kind]
    else:
        raise ShapeError(f"there is no comparison type {kind!r}")
    attributes = CompareAttributes.make(direction=ComparisonDirection[direction], type=chosen)
    return scope.emit(opcodes.COMPARE, operands, attributes)


@rule("stablehlo.select", operands=3)
def select(scope: Scope, operation: ir.Operation) -> Instruction:
    """The predicate may be a scalar."""
    predicate, on_true, on_false = scope.operands(operation)
    if predicate.shape.is_scalar:
        predicate = scope.broadcast(predicate, on_true.shape.with_element_type(predicate.shape.element_type))
    return scope.emit(opcodes.SELECT, (predicate, on_true, on_false))


@rule("stablehlo.clamp", operands=3)
def clamp(scope: Scope, operation: ir.Operation) -> Instruction:
    """The bounds may be scalars."""
    low, operand, high = scope.operands(operation)
    low, high = (scope.broadcast(bound, operand.shape) if bound.shape.is_scalar else bound for bound in (low, high))
    return scope.emit(opcodes.CLAMP, (low, operand, high))


@rule("stablehlo.convert", operands=1)
def convert(scope: Scope, operation: ir.Operation) -> Instruction:
    """The elements in the result's type; of complex numbers only the real part goes into a type that is not."""
    (operand,) = scope.operands(operation)
    declared = operation.results[0].type
    if not isinstance(declared, ir.TensorType | ir.UnrankedTensorType):
        raise ShapeError(f"it gives a tensor, declared is {type_text(declared)}")
    wanted = element_type(declared.element)
    if operand.shape.element_type.is_complex and not wanted.is_complex:
        operand = scope.emit(opcodes.REAL, (operand,))
    return scope.convert(operand, wanted)


@rule("stablehlo.bitcast_convert", operands=1, stored=True)
def bitcast_convert(scope: Scope, operation: ir.Operation) -> Instruction:
    (operand,) = scope.operands(operation)
    shape = scope.declared(operation.results[0], lambda: _recast(operand.shape, operation.results[0].type))
    given, wanted = operand.shape.element_type, shape.element_type
    if given is PRED and wanted is not PRED:
        return _packed_bits(scope, operand, wanted)
    if wanted is PRED and given is not PRED:
        return _unpacked_bits(scope, operand)
    return scope.emit(opcodes.BITCAST_CONVERT, (operand,), shape=shape)


def _packed_bits(scope: Scope, operand: Instruction, wanted: PrimitiveType) -> Instruction:
    """The last dimension as the bits of numbers, the lowest first: HLO's booleans are bytes."""
    if not operand.shape.rank or operand.shape.dimensions[-1] != wanted.bits:
        raise ShapeError(
            f"a number of {wanted.bits} bits is not the last dimension of {operand.shape.to_text(layout=False)}"
        )
    unsigned = PrimitiveType.from_name(f"U{wanted.bits}")
    last = operand.shape.rank - 1
    bits = scope.convert(operand, unsigned)
    placed = scope.emit(opcodes.SHIFT_LEFT, (bits, emit_iota(scope, bits.shape, last)))
    attributes = ReduceAttributes.make(dimensions=(last,))
    body = scalar_body(scope, opcodes.OR, unsigned)
    number = scope.emit(opcodes.REDUCE, (placed, scope.scalar(0, unsigned)), attributes, (body,))
    return scope.emit(opcodes.BITCAST_CONVERT, (number,), shape=number.shape.with_element_type(wanted))


def _unpacked_bits(scope: Scope, operand: Instruction) -> Instruction:
    """Numbers as a further dimension of their bits, the lowest first."""
    bits = operand.shape.element_type.bits
    unsigned = operand.shape.with_element_type(PrimitiveType.from_name(f"U{bits}"))
    number = scope.emit(opcodes.BITCAST_CONVERT, (operand,), shape=unsigned)
    shape = Shape.array(unsigned.element_type, (*unsigned.dimensions, bits))
    repeated = scope.broadcast(number, shape, range(unsigned.rank))
    shifted = scope.emit(opcodes.SHIFT_RIGHT_LOGICAL, (repeated, emit_iota(scope, shape, unsigned.rank)))
    lowest = scope.emit(opcodes.AND, (shifted, scope.full(1, shape)))
    attributes = CompareAttributes.make(direction=ComparisonDirection.NE)
    return scope.emit(opcodes.COMPARE, (lowest, scope.full(0, shape)), attributes)


def _recast(given: Shape, declared: ir.Type) -> Shape:
    """The shape of the same bits: a last dimension appears or goes where the width of elements changes."""
    if not isinstance(declared, ir.TensorType):
        raise ShapeError(f"it gives a tensor, declared is {type_text(declared)}")
    wanted = element_type(declared.element)
    if wanted.bits < given.element_type.bits:
        return Shape.array(wanted, (*given.dimensions, given.element_type.bits // wanted.bits))
    sizes = given.dimensions[:-1] if wanted.bits > given.element_type.bits else given.dimensions
    return Shape.array(wanted, sizes)


@rule("stablehlo.reduce_precision")
def reduce_precision(scope: Scope, operation: ir.Operation) -> Instruction:
    attributes = ReducePrecisionAttributes.make(
        exponent_bits=integer(operation, "exponent_bits"), mantissa_bits=integer(operation, "mantissa_bits")
    )
    return scope.emit(opcodes.REDUCE_PRECISION, scope.operands(operation), attributes)
