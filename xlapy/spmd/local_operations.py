"""Local operations that depend on which tile a device holds: iota, gather, scatter.

Indices into the whole array become indices into the local array. A device reads the elements of its own tile and
zeros for all others, so that the sum over the devices is the result; updates outside of its own tile are dropped.
XLA's counterparts are PartitionGather, PartitionScatter and the like of SpmdPartitioner.

Responsible for what each device computes. Does not depend on why an operation is split that way (`strategy.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import IotaAttributes
from xlapy.passes.expand.blocks import compare, concatenate, index_type, reduce_dimensions
from xlapy.spmd.array_sharding import ArraySharding
from xlapy.spmd.partial_sums import reducer_op
from xlapy.spmd.resharding import Resharder
from xlapy.spmd.tiling import Tiling


def local_iota(resharder: Resharder, instruction: Instruction, shape: Shape, sharding: ArraySharding) -> Instruction:
    """Writes a device's tile of an iota: a local iota plus the tile's offset, added as integers.

    Both are integers because a sum of rounded floating-point numbers would differ from the rounded sum.
    """
    write, dimension = resharder.write, instruction.attributes_as(IotaAttributes).iota_dimension
    tiling = sharding.tilings[dimension]
    attributes = IotaAttributes.make(iota_dimension=dimension)
    if tiling is None:
        return write.add(opcodes.IOTA, attributes=attributes, shape=shape)
    integers = shape.with_element_type(index_type(instruction.shape.dimensions[dimension]))
    offset = resharder.tile_offset(tiling, shape.dimensions[dimension], integers.element_type)
    local = write.add(opcodes.IOTA, attributes=attributes, shape=integers)
    sums = write.add(opcodes.ADD, local, write.broadcast(offset, integers))
    return write.convert(sums, shape.element_type)


@dataclass(frozen=True)
class IndexedDimension:
    """A dimension of the first operand that the operation indexes.

    tiling: None if the dimension is not split. size: its size in the local array. max_index: the greatest index into
    the whole array that is not clamped.
    """

    tiling: Tiling | None
    size: int
    max_index: int


@dataclass(frozen=True)
class LocalOperation:
    """The operation that each device executes for one operation on whole arrays.

    instruction: the operation on whole arrays. operands, attributes, shape: those of the local operation.
    operand_shardings, result_shardings: the shardings of the operands and of the results. manual_axes: those of the
    region that the operation is in.
    """

    resharder: Resharder
    instruction: Instruction
    operands: Sequence[Instruction]
    attributes: Attributes
    shape: Shape
    operand_shardings: Sequence[ArraySharding]
    result_shardings: Sequence[ArraySharding] = ()
    manual_axes: Sequence[Tiling] = ()

    def write(self, operands: Sequence[Instruction] | None = None, attributes: Attributes | None = None) -> Instruction:
        """Writes the local operation, on other operands and with other attributes if they are given."""
        chosen = self.operands if operands is None else operands
        clone = edit.clone_instruction(self.instruction, self.resharder.write.computation, chosen)
        clone.attributes = self.attributes if attributes is None else attributes
        clone.sharding = None
        edit.set_shape(clone, self.shape)
        return clone

    def indexed_dimension(self, dimension: int, is_split: bool, max_index: int) -> IndexedDimension:
        """Describes a dimension of the first operand. is_split: whether indices differ from those of the whole."""
        size = self.operands[0].shape.dimensions[dimension] if is_split else max_index + 1
        return IndexedDimension(self.operand_shardings[0].tilings[dimension] if is_split else None, size, max_index)

    def local_indices(
        self, indices: Instruction, axis: int | None, dimensions: Sequence[IndexedDimension], min_index: int
    ) -> Instruction:
        """Clamps indices into the whole first operand and subtracts the offsets of the device's tile.

        indices: of any integer type. axis: the axis of `indices` along which there is one index for each of the
        dimensions; None if there is one dimension only. Indices are clamped to `min_index` and each `max_index`.
        """
        write = self.resharder.write
        limits = np.iinfo(indices.shape.dtype)
        low = [max(min_index, limits.min)] * len(dimensions)
        high = [min(each.max_index, limits.max) for each in dimensions]
        bounds = [self._broadcast_along(indices, axis, bound) for bound in (low, high)]
        clamped = write.add(opcodes.CLAMP, bounds[0], indices, bounds[1])
        numbers = write.convert(clamped, index_type(*self.instruction.operands[0].shape.dimensions))
        offsets = [
            self.resharder.tile_offset(each.tiling, each.size, numbers.shape.element_type) for each in dimensions
        ]
        row = offsets[0].shape.with_dimensions([1])
        own = offsets[0] if axis is None else concatenate(write, [write.reshape(one, row) for one in offsets], 0)
        return write.add(opcodes.SUBTRACT, numbers, write.broadcast(own, numbers.shape, [] if axis is None else [axis]))

    def are_local(self, indices: Instruction, axis: int | None, dimensions: Sequence[IndexedDimension]) -> Instruction:
        """Returns whether local indices are inside the device's tile, in all of the dimensions."""
        write = self.resharder.write
        low = compare(write, indices, write.splat(0, indices.shape), ComparisonDirection.GE)
        sizes = self._broadcast_along(indices, axis, [each.size for each in dimensions])
        found = write.add(opcodes.AND, low, compare(write, indices, sizes, ComparisonDirection.LT))
        return found if axis is None else reduce_dimensions(write, opcodes.AND, found, [axis], 1)

    def _broadcast_along(self, like: Instruction, axis: int | None, values: Sequence[int]) -> Instruction:
        """Broadcasts values along an axis, or the first value everywhere, to the shape of another array."""
        write, row = self.resharder.write, np.asarray(values, like.shape.dtype)
        literal = write.constant(Literal.array_of(row if axis is not None else np.asarray(row[0])))
        return write.broadcast(literal, like.shape, [] if axis is None else [axis])


def _local_gather(local: LocalOperation) -> Instruction:
    """Gathers from the device's own tile; slices that start on other devices are zeros."""
    attributes, sizes = (
        local.instruction.attributes_as(GatherAttributes),
        local.instruction.operands[0].shape.dimensions,
    )
    split = _split_index_dimensions(local, attributes.start_index_map, attributes.collapsed_slice_dims)
    if not split:
        return local.write()
    dimensions = [
        local.indexed_dimension(d, d in split, sizes[d] - attributes.slice_sizes[d]) for d in attributes.start_index_map
    ]
    start_indices, axis = _with_index_vector_axis(local, local.operands[1])
    indices = local.local_indices(start_indices, axis, dimensions, 0)
    gathered = local.write([local.operands[0], indices])
    batch = [dimension for dimension in range(gathered.shape.rank) if dimension not in attributes.offset_dims]
    return _or_zeros(local, local.are_local(indices, axis, dimensions), gathered, batch)


def _split_index_dimensions(local: LocalOperation, indexed: Sequence[int], single: Sequence[int]) -> list[int]:
    """Returns the indexed dimensions that are split; only those with slices of one element (`single`) can be."""
    return [d for d in indexed if d in single and local.operand_shardings[0].tilings[d]]


def _with_index_vector_axis(local: LocalOperation, indices: Instruction) -> tuple[Instruction, int]:
    """Returns the indices with an explicit dimension for the index vectors, and that dimension."""
    attributes = local.instruction.attributes
    assert isinstance(attributes, GatherAttributes | ScatterAttributes)
    axis = attributes.index_vector_dim
    if axis < indices.shape.rank:
        return indices, axis
    shape = indices.shape.with_dimensions([*indices.shape.dimensions, 1])
    return local.resharder.write.reshape(indices, shape), axis


def _or_zeros(
    local: LocalOperation, condition: Instruction, value: Instruction, dimensions: Sequence[int] = ()
) -> Instruction:
    write = local.resharder.write
    mask = write.broadcast(condition, value.shape.with_element_type(condition.shape.element_type), dimensions)
    return write.add(opcodes.SELECT, mask, value, write.splat(0, value.shape))


def _local_scatter(local: LocalOperation) -> Instruction:
    """Scatters into the device's own tile; indices of other tiles are out of bounds, where scatter writes nothing."""
    attributes, count = local.instruction.attributes_as(ScatterAttributes), len(local.operands) // 2
    sizes, indexed = local.instruction.operands[0].shape.dimensions, attributes.scatter_dims_to_operand_dims
    split = _split_index_dimensions(local, indexed, attributes.inserted_window_dims)
    if not split:
        return local.write()
    dimensions = [local.indexed_dimension(d, d in split, sizes[d]) for d in indexed]
    scatter_indices, axis = _with_index_vector_axis(local, local.operands[count])
    indices = local.local_indices(scatter_indices, axis, dimensions, -1)
    return local.write([*local.operands[:count], indices, *local.operands[count + 1 :]])


def _local_reduce(local: LocalOperation) -> Instruction:
    """Writes a reduce of a tile. A reduce of one element returns it without the initial value, which the reduce of the
    whole array combines; only idempotent operations have one that is not the identity."""
    new, (operand, *_) = local.write(), local.operands
    counts = [
        math.prod([shape.dimensions[d] for d in local.instruction.dimensions])
        for shape in (local.instruction.operands[0].shape, operand.shape)
    ]
    op = reducer_op(local.instruction)
    if counts[1] != 1 or counts[0] == 1 or op is None or op not in IDEMPOTENT_OPS:
        return new
    write = local.resharder.write
    return write.add(op, new, write.broadcast(local.operands[1], new.shape))


LOCAL_OPERATION_RULES: dict[OpDef, Callable[[LocalOperation], Instruction]] = {
    opcodes.GATHER: _local_gather,
    opcodes.REDUCE: _local_reduce,
    opcodes.SCATTER: _local_scatter,
}
"""Writes the operations whose local operation depends on the device's tile; others are the same on local operands."""
