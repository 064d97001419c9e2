"""Import rules of data movement: reshapes, broadcasts, slices, pads and the like whose sizes are attributes.

The operations whose sizes are operands are in `dynamic`.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.base.error_codes.formats import stablehlo_operations as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension, SliceRanges
from xlapy.opcodes.movement import (
    DimensionAttributes,
    DimensionsAttributes,
    DynamicSliceAttributes,
    PadAttributes,
    SliceAttributes,
)
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import Ints, integer, integers
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.types import known_shape


@rule("stablehlo.reshape", operands=1)
def reshape(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    (operand,) = builder.operands(operation)
    shape = builder.declared_shape(operation.results[0])
    if operand.shape == shape:
        return operand
    return builder.emit(opcodes.RESHAPE, (operand,), shape=shape)


@rule("stablehlo.broadcast_in_dim", operands=1)
def broadcast_in_dim(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    (operand,) = builder.operands(operation)
    shape = builder.declared_shape(operation.results[0])
    return builder.broadcast_in_dim(operand, shape, integers(operation, "broadcast_dimensions"))


@rule("stablehlo.broadcast", operands=1)
def broadcast(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Adds new leading dimensions."""
    (operand,) = builder.operands(operation)
    sizes = integers(operation, "broadcast_sizes")
    shape = operand.shape.with_dimensions((*sizes, *operand.shape.dimensions))
    return builder.broadcast(operand, shape, range(len(sizes), shape.rank))


@rule("stablehlo.transpose")
def transpose(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    attributes = DimensionsAttributes.make(dimensions=integers(operation, "permutation"))
    return builder.emit(opcodes.TRANSPOSE, builder.operands(operation), attributes)


@rule("stablehlo.reverse")
def reverse(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    attributes = DimensionsAttributes.make(dimensions=integers(operation, "dimensions"))
    return builder.emit(opcodes.REVERSE, builder.operands(operation), attributes)


@rule("stablehlo.concatenate")
def concatenate(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    attributes = DimensionAttributes.make(dimension=integer(operation, "dimension"))
    return builder.emit(opcodes.CONCATENATE, builder.operands(operation), attributes)


@rule("stablehlo.slice", operands=1)
def slice_(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    (operand,) = builder.operands(operation)
    starts, limits, strides = (integers(operation, name) for name in ("start_indices", "limit_indices", "strides"))
    return emit_slice(builder, operand, starts, limits, strides)


def emit_slice(
    builder: ComputationBuilder, operand: Instruction, starts: Ints, limits: Ints, strides: Ints
) -> Instruction:
    """Emits a slice with a start, a limit and a stride per dimension."""
    if not len(starts) == len(limits) == len(strides):
        raise ShapeError(
            codes.LIST_LENGTHS, f"start_indices {starts}, limit_indices {limits} and strides {strides} differ in length"
        )
    attributes = SliceAttributes.make(ranges=SliceRanges(starts, limits, strides))
    return builder.emit(opcodes.SLICE, (operand,), attributes)


@rule("stablehlo.pad", operands=2)
def pad(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    operand, value = builder.operands(operation)
    low, high, interior = (
        integers(operation, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    return emit_pad(builder, operand, value, low, high, interior)


def emit_pad(
    builder: ComputationBuilder, operand: Instruction, value: Instruction, low: Ints, high: Ints, interior: Ints
) -> Instruction:
    """Emits a pad with a low, a high and an interior padding per dimension."""
    if not len(low) == len(high) == len(interior):
        raise ShapeError(codes.LIST_LENGTHS, f"paddings {low}, {high} and {interior} differ in length")
    dimensions = tuple([PaddingDimension(*each) for each in zip(low, high, interior, strict=True)])
    return builder.emit(opcodes.PAD, (operand, value), PadAttributes.make(padding=PaddingConfig(dimensions)))


@rule("stablehlo.dynamic_slice")
def dynamic_slice(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=integers(operation, "slice_sizes"))
    return builder.emit(opcodes.DYNAMIC_SLICE, builder.operands(operation), attributes)


@rule("stablehlo.dynamic_update_slice")
def dynamic_update_slice(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return builder.emit(opcodes.DYNAMIC_UPDATE_SLICE, builder.operands(operation))


@rule("stablehlo.get_dimension_size", operands=1)
def get_dimension_size(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Returns the size as an s32; a constant if the dimension is static."""
    (operand,) = builder.operands(operation)
    dimension = integer(operation, "dimension")
    if not 0 <= dimension < operand.shape.rank:
        raise ShapeError(shared.DIMENSION_NUMBER, f"{operand.shape.to_text(layout=False)} has no dimension {dimension}")
    return dimension_size(builder, operand, dimension)


def dimension_size(builder: ComputationBuilder, operand: Instruction, dimension: int) -> Instruction:
    """Emits the size of a dimension at run time as an s32; a constant if the dimension is static."""
    if not operand.shape.dynamic_dimensions[dimension]:
        return builder.scalar(operand.shape.dimensions[dimension], S32)
    return builder.emit(opcodes.GET_DIMENSION_SIZE, (operand,), DimensionAttributes.make(dimension=dimension))


@rule("stablehlo.set_dimension_size", operands=2)
def set_dimension_size(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    """Returns the operand itself if the size is the constant full size and the result is declared static."""
    operand, size = builder.operands(operation)
    if not size.shape.is_scalar:
        raise ShapeError(codes.SIZE_VECTOR, f"the size must be a scalar, but got {size.shape.to_text(layout=False)}")
    dimension = integer(operation, "dimension")
    known = known_shape(operation.results[0].type)
    if known is not None and known.compatible(operand.shape) and _is_full_size(builder, operand, dimension, size):
        return operand
    return builder.emit(opcodes.SET_DIMENSION_SIZE, (operand, size), DimensionAttributes.make(dimension=dimension))


def _is_full_size(builder: ComputationBuilder, operand: Instruction, dimension: int, size: Instruction) -> bool:
    known = builder.context.constants.value_of(size)
    return known is not None and 0 <= dimension < operand.shape.rank and operand.shape.dimensions[dimension] == known
