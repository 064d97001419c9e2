"""Export rules of data movement: reshapes, transposes, slices, pads, dynamic dimension sizes and copies.

A copy is exported as its operand, because StableHLO has no layouts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S64
from xlapy.base.layout import Layout
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.movement import (
    DynamicSliceAttributes,
    PadAttributes,
    ShuffleAttributes,
    ShuffleMode,
    SliceAttributes,
)
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import integer, integers
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.value_tree import ValueTree
from xlapy.stablehlo.export.sources import emit_constant


@RULES.rule(opcodes.BROADCAST)
def broadcast(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    attributes = {"broadcast_dimensions": integers(instruction.dimensions)}
    return builder.emit_for("stablehlo.broadcast_in_dim", instruction, attributes)


@RULES.rule(opcodes.RESHAPE)
def reshape(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for("stablehlo.reshape", instruction)


@RULES.rule(opcodes.DYNAMIC_RESHAPE)
def dynamic_reshape(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports the size operands, which are scalars in HLO, as one vector."""
    operand, *sizes = builder.operands(instruction)
    shape = Shape.array(instruction.operands[1].shape.element_type, (1,)) if sizes else Shape.array(S64, (0,))
    elements = [builder.emit_single("stablehlo.reshape", [size], shape) for size in sizes]
    if elements:
        vector = builder.emit_single(
            "stablehlo.concatenate", elements, shape.with_dimensions((len(elements),)), {"dimension": integer(0)}
        )
    else:
        vector = emit_constant(builder, Literal.of(np.empty(0, np.int64)))
    return builder.emit_for("stablehlo.dynamic_reshape", instruction, operands=[operand, vector])


@RULES.rule(opcodes.TRANSPOSE)
def transpose(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for("stablehlo.transpose", instruction, {"permutation": integers(instruction.dimensions)})


@RULES.rule(opcodes.REVERSE)
def reverse(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for("stablehlo.reverse", instruction, {"dimensions": integers(instruction.dimensions)})


@RULES.rule(opcodes.CONCATENATE)
def concatenate(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for("stablehlo.concatenate", instruction, {"dimension": integer(instruction.dimension)})


@RULES.rule(opcodes.SLICE)
def slice_(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    ranges = instruction.attributes_as(SliceAttributes).ranges
    attributes = {
        "start_indices": integers(ranges.starts),
        "limit_indices": integers(ranges.limits),
        "strides": integers(ranges.strides),
    }
    return builder.emit_for("stablehlo.slice", instruction, attributes)


@RULES.rule(opcodes.PAD)
def pad(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    dimensions = instruction.attributes_as(PadAttributes).padding.dimensions
    attributes = {
        "edge_padding_low": integers(dimension.low for dimension in dimensions),
        "edge_padding_high": integers(dimension.high for dimension in dimensions),
        "interior_padding": integers(dimension.interior for dimension in dimensions),
    }
    return builder.emit_for("stablehlo.pad", instruction, attributes)


@RULES.rule(opcodes.DYNAMIC_SLICE)
def dynamic_slice(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    array, *starts = instruction.operands
    operands = [builder.value(array), *_start_indices(builder, starts)]
    attributes = {"slice_sizes": integers(instruction.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes)}
    return builder.emit_for("stablehlo.dynamic_slice", instruction, attributes, operands=operands)


@RULES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    array, update, *starts = instruction.operands
    operands = [builder.value(array), builder.value(update), *_start_indices(builder, starts)]
    return builder.emit_for("stablehlo.dynamic_update_slice", instruction, operands=operands)


def _start_indices(builder: BlockBuilder, starts: Sequence[Instruction]) -> list[ir.Value]:
    """Returns the start indices as one scalar per dimension. HLO also allows them as one vector."""
    if len(starts) != 1 or starts[0].shape.rank != 1:
        return [builder.value(start) for start in starts]
    vector = builder.value(starts[0])
    scalars: list[ir.Value] = []
    for index in range(starts[0].shape.dimensions[0]):
        attributes = {
            "start_indices": integers([index]),
            "limit_indices": integers([index + 1]),
            "strides": integers([1]),
        }
        element = builder.emit_single("stablehlo.slice", [vector], starts[0].shape.with_dimensions((1,)), attributes)
        scalars.append(builder.emit_single("stablehlo.reshape", [element], starts[0].shape.with_dimensions(())))
    return scalars


@RULES.rule(opcodes.GET_DIMENSION_SIZE)
def get_dimension_size(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for("stablehlo.get_dimension_size", instruction, {"dimension": integer(instruction.dimension)})


@RULES.rule(opcodes.SET_DIMENSION_SIZE)
def set_dimension_size(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for("stablehlo.set_dimension_size", instruction, {"dimension": integer(instruction.dimension)})


@RULES.rule(opcodes.SHUFFLE)
def shuffle(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports a rotation as the concatenation of two slices per dimension, and a permutation as a gather."""
    (operand,) = instruction.operands
    value, shape = builder.value(operand), operand.shape
    attributes = instruction.attributes_as(ShuffleAttributes)
    if not math.prod(shape.dimensions) or not attributes.dimensions:
        return value
    if attributes.mode is ShuffleMode.PERMUTE:
        return _emit_permutation(builder, instruction, value)
    for dimension, shift in zip(attributes.dimensions, attributes.shifts, strict=True):
        size = shape.dimensions[dimension]
        if size and shift % size:
            value = _emit_rotation(builder, value, shape, dimension, shift % size)
    return value


def _emit_permutation(builder: BlockBuilder, instruction: Instruction, value: ir.Value) -> ir.Value:
    """Emits a gather of single elements. Its indices are a constant with the full coordinates of each element."""
    shape = instruction.shape
    given = instruction.attributes_as(ShuffleAttributes)
    assert given.indices is not None
    permuted = given.indices.array.astype(np.int64)
    if len(given.dimensions) == 1:
        permuted = permuted[..., np.newaxis]
    coordinates = np.moveaxis(np.indices(shape.dimensions, np.int64), 0, -1)
    coordinates[..., list(given.dimensions)] = permuted
    all_dimensions = tuple(range(shape.rank))
    fields = {
        "collapsed_slice_dims": all_dimensions,
        "start_index_map": all_dimensions,
        "index_vector_dim": shape.rank,
    }
    attributes = {
        "dimension_numbers": ir.StructAttribute("stablehlo.gather", fields),
        "slice_sizes": integers([1] * shape.rank),
    }
    return builder.emit_single(
        "stablehlo.gather", [value, emit_constant(builder, Literal.of(coordinates))], shape, attributes
    )


def _emit_rotation(builder: BlockBuilder, value: ir.Value, shape: Shape, dimension: int, shift: int) -> ir.Value:
    """Rotates elements toward lower indices along a dimension by `shift`."""
    size = shape.dimensions[dimension]
    slices = [_emit_slice(builder, value, shape, dimension, *ends) for ends in ((shift, size), (0, shift))]
    return builder.emit_single("stablehlo.concatenate", slices, shape, {"dimension": integer(dimension)})


def _emit_slice(
    builder: BlockBuilder, value: ir.Value, shape: Shape, dimension: int, start: int, limit: int
) -> ir.Value:
    starts, limits = [0] * shape.rank, list(shape.dimensions)
    starts[dimension], limits[dimension] = start, limit
    sizes = list(shape.dimensions)
    sizes[dimension] = limit - start
    attributes = {
        "start_indices": integers(starts),
        "limit_indices": integers(limits),
        "strides": integers([1] * shape.rank),
    }
    return builder.emit_single("stablehlo.slice", [value], shape.with_dimensions(tuple(sizes)), attributes)


@RULES.rule(opcodes.COPY, opcodes.COPY_START, opcodes.COPY_DONE)
def copy(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.values[instruction.operands[0]]


@RULES.rule(opcodes.BITCAST)
def bitcast(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports HLO's bitcast, which reinterprets the operand's memory, by explicit operations.

    A transpose brings the operand's elements into the order of its layout, a reshape and a bitcast_convert reinterpret
    them, and another transpose undoes the order of the result's layout.
    """
    (operand,) = instruction.operands
    value, source, target = builder.value(operand), operand.shape, instruction.shape
    value = _emit_transpose(builder, value, source, _major_to_minor(source))
    if source.element_type is not target.element_type:
        value = _emit_bitcast_convert(builder, value, source, target)
    order = _major_to_minor(target)
    in_memory_order = target.without_layout().with_dimensions(tuple(target.dimensions[d] for d in order))
    value = builder.emit_single("stablehlo.reshape", [value], in_memory_order)
    return _emit_transpose(builder, value, in_memory_order, [order.index(d) for d in range(len(order))])


def _emit_bitcast_convert(builder: BlockBuilder, value: ir.Value, source: Shape, target: Shape) -> ir.Value:
    """Reinterprets elements as another element type; several narrow elements form a wide one."""
    count, source_type, target_type = math.prod(source.dimensions), source.element_type, target.element_type
    ratio = max(source_type.bits, target_type.bits) // min(source_type.bits, target_type.bits)
    widens = target_type.bits > source_type.bits
    flat = Shape.array(source_type, (count // ratio, ratio) if widens else (count,))
    value = builder.emit_single("stablehlo.reshape", [value], flat)
    sizes = (count, ratio) if target_type.bits < source_type.bits else flat.dimensions[:1]
    return builder.emit_single("stablehlo.bitcast_convert", [value], Shape.array(target_type, sizes))


def _major_to_minor(shape: Shape) -> list[int]:
    layout = shape.layout or Layout.default(shape.rank)
    return list(reversed(layout.minor_to_major))


def _emit_transpose(builder: BlockBuilder, value: ir.Value, shape: Shape, permutation: Sequence[int]) -> ir.Value:
    """Emits a transpose; returns the value itself for the identity."""
    if list(permutation) == list(range(len(permutation))):
        return value
    transposed = shape.without_layout().with_dimensions(tuple(shape.dimensions[d] for d in permutation))
    return builder.emit_single("stablehlo.transpose", [value], transposed, {"permutation": integers(permutation)})
