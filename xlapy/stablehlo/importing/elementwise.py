"""Import rules of the elementwise operations of StableHLO, and of those of CHLO that HLO has too.

CHLO's broadcasting operations are in `dialects.chlo`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_operations as operation_codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType, ReducePrecisionAttributes
from xlapy.opcodes.reduction import ReduceAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.stablehlo import ir
from xlapy.stablehlo.elementwise_operations import OPERATIONS
from xlapy.stablehlo.importing.core.attributes import integer, text
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scalar_computations import scalar_binary_computation
from xlapy.stablehlo.importing.core.types import element_type, type_text
from xlapy.stablehlo.importing.sources import emit_iota

_OTHER_FORM = (
    opcodes.BITCAST_CONVERT, opcodes.CBRT, opcodes.CLAMP, opcodes.CONVERT, opcodes.MAXIMUM, opcodes.MINIMUM,
    opcodes.SELECT,
)  # fmt: skip
"""The opcodes whose operations take more than HLO does: other types, or scalars among arrays."""

DIRECT_OPCODES: dict[str, OpDef] = {
    **{name: op for op, name in OPERATIONS.items() if op not in _OTHER_FORM},
    "chlo.tan": opcodes.TAN,
}
"""The opcodes of operations without attributes that HLO has in the same form."""


@rule(*DIRECT_OPCODES)
def elementwise(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return builder.emit(DIRECT_OPCODES[operation.name], builder.operands(operation))


@rule("stablehlo.maximum", "stablehlo.minimum", operands=2)
def extremum(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return emit_extremum(builder, operation.name.rpartition(".")[2], builder.operands(operation))


def emit_extremum(builder: ComputationBuilder, name: str, operands: Sequence[Instruction]) -> Instruction:
    """Emits `maximum` or `minimum`. Complex numbers, which HLO does not order, compare by real, then imaginary part."""
    lhs, rhs = operands
    if not lhs.shape.element_type.is_complex:
        return builder.emit(opcodes.MAXIMUM if name == "maximum" else opcodes.MINIMUM, operands)
    direction = ComparisonDirection.GT if name == "maximum" else ComparisonDirection.LT
    real, imaginary = ([builder.emit(part, (each,)) for each in operands] for part in (opcodes.REAL, opcodes.IMAG))
    real_differs = _emit_comparison(builder, direction, real)
    real_equal = _emit_comparison(builder, ComparisonDirection.EQ, real)
    imaginary_differs = builder.emit(opcodes.AND, (real_equal, _emit_comparison(builder, direction, imaginary)))
    return builder.emit(opcodes.SELECT, (builder.emit(opcodes.OR, (real_differs, imaginary_differs)), lhs, rhs))


def _emit_comparison(
    builder: ComputationBuilder, direction: ComparisonDirection, operands: Sequence[Instruction]
) -> Instruction:
    return builder.emit(opcodes.COMPARE, operands, CompareAttributes.make(direction=direction, type=None))


@rule("stablehlo.cbrt", operands=1)
def cbrt(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Imports a cube root; for complex numbers, which HLO's cbrt does not take, as the power 1/3."""
    (operand,) = builder.operands(operation)
    if not operand.shape.element_type.is_complex:
        return builder.emit(opcodes.CBRT, (operand,))
    return builder.emit(opcodes.POWER, (operand, builder.full(1 / 3, operand.shape)))


@rule("stablehlo.compare", operands=2)
def compare(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return emit_compare(builder, operation, builder.operands(operation))


def emit_compare(builder: ComputationBuilder, operation: ir.Operation, operands: list[Instruction]) -> Instruction:
    """Emits a comparison with the direction and the comparison type in the operation's attributes."""
    direction = text(operation, "comparison_direction")
    if direction not in ComparisonDirection.__members__:
        raise ShapeError(codes.ATTRIBUTE_CASE, f"there is no comparison direction {direction!r}")
    kind = text(operation, "compare_type", "NOTYPE")
    if kind == "NOTYPE":
        comparison_type = None
    elif kind in ComparisonType.__members__:
        comparison_type = ComparisonType[kind]
    else:
        raise ShapeError(codes.ATTRIBUTE_CASE, f"there is no comparison type {kind!r}")
    attributes = CompareAttributes.make(direction=ComparisonDirection[direction], type=comparison_type)
    return builder.emit(opcodes.COMPARE, operands, attributes)


@rule("stablehlo.select", operands=3)
def select(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Broadcasts a scalar predicate, which HLO's select does not take for arrays."""
    predicate, on_true, on_false = builder.operands(operation)
    if predicate.shape.is_scalar:
        predicate = builder.broadcast(predicate, on_true.shape.with_element_type(predicate.shape.element_type))
    return builder.emit(opcodes.SELECT, (predicate, on_true, on_false))


@rule("stablehlo.clamp", operands=3)
def clamp(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Broadcasts scalar bounds."""
    low, operand, high = builder.operands(operation)
    low, high = (builder.broadcast(bound, operand.shape) if bound.shape.is_scalar else bound for bound in (low, high))
    return builder.emit(opcodes.CLAMP, (low, operand, high))


@rule("stablehlo.convert", operands=1)
def convert(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Converts to the result's element type. A complex number becomes real by its real part."""
    (operand,) = builder.operands(operation)
    declared = operation.results[0].type
    if not isinstance(declared, ir.TensorType | ir.UnrankedTensorType):
        raise ShapeError(codes.TENSOR_VALUE, f"its result must be a tensor, but is declared {type_text(declared)}")
    target = element_type(declared.element)
    if operand.shape.element_type.is_complex and not target.is_complex:
        operand = builder.emit(opcodes.REAL, (operand,))
    return builder.convert(operand, target)


@rule("stablehlo.bitcast_convert", operands=1, on_storage_type=True)
def bitcast_convert(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    (operand,) = builder.operands(operation)
    shape = builder.declared_shape(
        operation.results[0], lambda: _bitcast_shape(operand.shape, operation.results[0].type)
    )
    source, target = operand.shape.element_type, shape.element_type
    if source is PRED and target is not PRED:
        return _pack_bits(builder, operand, target)
    if target is PRED and source is not PRED:
        return _unpack_bits(builder, operand)
    return builder.emit(opcodes.BITCAST_CONVERT, (operand,), shape=shape)


def _pack_bits(builder: ComputationBuilder, operand: Instruction, target: PrimitiveType) -> Instruction:
    """Packs the booleans of the last dimension into numbers, lowest bit first.

    HLO's bitcast-convert cannot do this, because its booleans are bytes.
    """
    if not operand.shape.rank or operand.shape.dimensions[-1] != target.bits:
        raise ShapeError(
            operation_codes.BITCAST_SIZES,
            f"the last dimension of {operand.shape.to_text(layout=False)} "
            f"does not hold the {target.bits} bits of a number",
        )
    unsigned = PrimitiveType.from_name(f"U{target.bits}")
    last = operand.shape.rank - 1
    bits = builder.convert(operand, unsigned)
    shifted = builder.emit(opcodes.SHIFT_LEFT, (bits, emit_iota(builder, bits.shape, last)))
    attributes = ReduceAttributes.make(dimensions=(last,))
    body = scalar_binary_computation(builder, opcodes.OR, unsigned)
    number = builder.emit(opcodes.REDUCE, (shifted, builder.scalar(0, unsigned)), attributes, (body,))
    return builder.emit(opcodes.BITCAST_CONVERT, (number,), shape=number.shape.with_element_type(target))


def _unpack_bits(builder: ComputationBuilder, operand: Instruction) -> Instruction:
    """Unpacks numbers into booleans along a new last dimension, lowest bit first."""
    bits = operand.shape.element_type.bits
    unsigned = operand.shape.with_element_type(PrimitiveType.from_name(f"U{bits}"))
    number = builder.emit(opcodes.BITCAST_CONVERT, (operand,), shape=unsigned)
    shape = Shape.array(unsigned.element_type, (*unsigned.dimensions, bits))
    repeated = builder.broadcast(number, shape, range(unsigned.rank))
    shifted = builder.emit(opcodes.SHIFT_RIGHT_LOGICAL, (repeated, emit_iota(builder, shape, unsigned.rank)))
    lowest = builder.emit(opcodes.AND, (shifted, builder.full(1, shape)))
    attributes = CompareAttributes.make(direction=ComparisonDirection.NE)
    return builder.emit(opcodes.COMPARE, (lowest, builder.full(0, shape)), attributes)


def _bitcast_shape(operand: Shape, declared: ir.Type) -> Shape:
    """Returns the shape of a bitcast to the declared element type.

    Narrower elements add a last dimension; wider elements remove it.
    """
    if not isinstance(declared, ir.TensorType):
        raise ShapeError(codes.TENSOR_VALUE, f"its result must be a tensor, but is declared {type_text(declared)}")
    target = element_type(declared.element)
    if target.bits < operand.element_type.bits:
        return Shape.array(target, (*operand.dimensions, operand.element_type.bits // target.bits))
    sizes = operand.dimensions[:-1] if target.bits > operand.element_type.bits else operand.dimensions
    return Shape.array(target, sizes)


@rule("stablehlo.reduce_precision")
def reduce_precision(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    attributes = ReducePrecisionAttributes.make(
        exponent_bits=integer(operation, "exponent_bits"), mantissa_bits=integer(operation, "mantissa_bits")
    )
    return builder.emit(opcodes.REDUCE_PRECISION, builder.operands(operation), attributes)
