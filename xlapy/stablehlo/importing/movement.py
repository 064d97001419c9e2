"""Import rules: operations that move elements.

Owns: reshapes, broadcasts, slices, pads and their like with attributes; those whose sizes are operands are in
`dynamic.py`. Must not know: other families.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.element_types import S32
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
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scope import Scope
from xlapy.stablehlo.importing.core.types import known_shape


@rule("stablehlo.reshape", operands=1)
def reshape(scope: Scope, operation: ir.Operation) -> Instruction:
    (operand,) = scope.operands(operation)
    shape = scope.declared(operation.results[0])
    if operand.shape == shape:
        return operand
    return scope.emit(opcodes.RESHAPE, (operand,), shape=shape)


@rule("stablehlo.broadcast_in_dim", operands=1)
def broadcast_in_dim(scope: Scope, operation: ir.Operation) -> Instruction:
    (operand,) = scope.operands(operation)
    shape = scope.declared(operation.results[0])
    return scope.broadcast_in_dim(operand, shape, integers(operation, "broadcast_dimensions"))


@rule("stablehlo.broadcast", operands=1)
def broadcast(scope: Scope, operation: ir.Operation) -> Instruction:
    """New dimensions in front."""
    (operand,) = scope.operands(operation)
    sizes = integers(operation, "broadcast_sizes")
    shape = operand.shape.with_dimensions((*sizes, *operand.shape.dimensions))
    return scope.broadcast(operand, shape, range(len(sizes), shape.rank))


@rule("stablehlo.transpose")
def transpose(scope: Scope, operation: ir.Operation) -> Instruction:
    attributes = DimensionsAttributes.make(dimensions=integers(operation, "permutation"))
    return scope.emit(opcodes.TRANSPOSE, scope.operands(operation), attributes)


@rule("stablehlo.reverse")
def reverse(scope: Scope, operation: ir.Operation) -> Instruction:
    attributes = DimensionsAttributes.make(dimensions=integers(operation, "dimensions"))
    return scope.emit(opcodes.REVERSE, scope.operands(operation), attributes)


@rule("stablehlo.concatenate")
def concatenate(scope: Scope, operation: ir.Operation) -> Instruction:
    attributes = DimensionAttributes.make(dimension=integer(operation, "dimension"))
    return scope.emit(opcodes.CONCATENATE, scope.operands(operation), attributes)


@rule("stablehlo.slice", operands=1)
def slice_(scope: Scope, operation: ir.Operation) -> Instruction:
    (operand,) = scope.operands(operation)
    starts, limits, strides = (integers(operation, name) for name in ("start_indices", "limit_indices", "strides"))
    return emit_slice(scope, operand, starts, limits, strides)


def emit_slice(scope: Scope, operand: Instruction, starts: Ints, limits: Ints, strides: Ints) -> Instruction:
    """Every so manieth element from a start to a limit, a dimension each."""
    if not len(starts) == len(limits) == len(strides):
        raise ShapeError(f"start_indices {starts}, limit_indices {limits} and strides {strides} differ in length")
    attributes = SliceAttributes.make(ranges=SliceRanges(starts, limits, strides))
    return scope.emit(opcodes.SLICE, (operand,), attributes)


@rule("stablehlo.pad", operands=2)
def pad(scope: Scope, operation: ir.Operation) -> Instruction:
    operand, value = scope.operands(operation)
    low, high, interior = (
        integers(operation, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    return emit_pad(scope, operand, value, low, high, interior)


def emit_pad(
    scope: Scope, operand: Instruction, value: Instruction, low: Ints, high: Ints, interior: Ints
) -> Instruction:
    """A value around and between the elements, so much in each dimension."""
    if not len(low) == len(high) == len(interior):
        raise ShapeError(f"paddings {low}, {high} and {interior} differ in length")
    dimensions = tuple([PaddingDimension(*each) for each in zip(low, high, interior, strict=True)])
    return scope.emit(opcodes.PAD, (operand, value), PadAttributes.make(padding=PaddingConfig(dimensions)))


@rule("stablehlo.dynamic_slice")
def dynamic_slice(scope: Scope, operation: ir.Operation) -> Instruction:
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=integers(operation, "slice_sizes"))
    return scope.emit(opcodes.DYNAMIC_SLICE, scope.operands(operation), attributes)


@rule("stablehlo.dynamic_update_slice")
def dynamic_update_slice(scope: Scope, operation: ir.Operation) -> Instruction:
    return scope.emit(opcodes.DYNAMIC_UPDATE_SLICE, scope.operands(operation))


@rule("stablehlo.get_dimension_size", operands=1)
def get_dimension_size(scope: Scope, operation: ir.Operation) -> Instruction:
    """The size as an s32: a constant where it is known."""
    (operand,) = scope.operands(operation)
    dimension = integer(operation, "dimension")
    if not 0 <= dimension < operand.shape.rank:
        raise ShapeError(f"{operand.shape.to_text(layout=False)} has no dimension {dimension}")
    return dimension_size(scope, operand, dimension)


def dimension_size(scope: Scope, operand: Instruction, dimension: int) -> Instruction:
    """The size of a dimension at run time, an s32."""
    if not operand.shape.dynamic_dimensions[dimension]:
        return scope.scalar(operand.shape.dimensions[dimension], S32)
    return scope.emit(opcodes.GET_DIMENSION_SIZE, (operand,), DimensionAttributes.make(dimension=dimension))


@rule("stablehlo.set_dimension_size", operands=2)
def set_dimension_size(scope: Scope, operation: ir.Operation) -> Instruction:
    """A size that is known to be the whole dimension changes nothing where the result is declared so."""
    operand, size = scope.operands(operation)
    if not size.shape.is_scalar:
        raise ShapeError(f"a size is a scalar, given is {size.shape.to_text(layout=False)}")
    dimension = integer(operation, "dimension")
    known = known_shape(operation.results[0].type)
    if known is not None and known.compatible(operand.shape) and _is_whole(scope, operand, dimension, size):
        return operand
    return scope.emit(opcodes.SET_DIMENSION_SIZE, (operand, size), DimensionAttributes.make(dimension=dimension))


def _is_whole(scope: Scope, operand: Instruction, dimension: int, size: Instruction) -> bool:
    known = scope.program.constants.value_of(size)
    return known is not None and 0 <= dimension < operand.shape.rank and operand.shape.dimensions[dimension] == known
