"""Sharding rules of gathers and scatters."""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.base.shape import Ints
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.along_dimension.parallel_indices import counted_dimension
from xlapy.spmd.partial_sums import produces_partial_sums, reducer_op
from xlapy.spmd.sharding_rules.factors import Factor, Rule, dimensions_except


def _gather(instruction: Instruction) -> Iterator[Factor]:
    """Yields slice and batch dimensions, and indexed dimensions that are collapsed.

    Along an indexed dimension, a device gathers the elements of its own tile and gives zeros for all others.
    """
    attributes = instruction.attributes_as(GatherAttributes)
    operand, indices = (each.shape for each in instruction.operands)
    inside = dimensions_except(operand, (*attributes.collapsed_slice_dims, *attributes.operand_batching_dims))
    for dimension, result in zip(inside, attributes.offset_dims, strict=True):
        if attributes.slice_sizes[dimension] == operand.dimensions[dimension]:
            yield Factor((dimension, None), (result,))
    parallel = _parallel_dimensions(instruction, attributes.start_index_map, attributes.collapsed_slice_dims)
    batching = dict(zip(attributes.start_indices_batching_dims, attributes.operand_batching_dims, strict=True))
    outside = dimensions_except(instruction.shape, attributes.offset_dims)
    for index, result in zip(dimensions_except(indices, [attributes.index_vector_dim]), outside, strict=True):
        yield Factor((parallel.get(index, batching.get(index)), index), (result,))
    if produces_partial_sums(instruction):
        for dimension in attributes.collapsed_slice_dims:
            is_indexed = dimension in attributes.start_index_map and attributes.slice_sizes[dimension] == 1
            if is_indexed and dimension not in parallel.values():
                yield Factor((dimension, None), (None,))


def _parallel_dimensions(instruction: Instruction, indexed: Ints, single: Ints) -> dict[int, int]:
    """Returns the indexed dimension of the first operand that corresponds to each dimension of the indices, if any.

    indexed: the dimension of each component of the index vectors. single: dimensions of which one element is taken.
    """
    attributes = instruction.attributes
    assert isinstance(attributes, GatherAttributes | ScatterAttributes)
    indices = instruction.operands[len(instruction.operands) // 2]
    found: dict[int, int] = {}
    for component, dimension in enumerate(indexed):
        index = None
        if dimension in single:
            index = counted_dimension(indices, attributes.index_vector_dim, component)
        sizes = instruction.operands[0].shape.dimensions
        if index is not None and indices.shape.dimensions[index] == sizes[dimension]:
            found.setdefault(index, dimension)
    return found


def _scatter(instruction: Instruction) -> Iterator[Factor]:
    attributes = instruction.attributes_as(ScatterAttributes)
    count = len(instruction.operands) // 2
    target, updates = instruction.operands[0].shape, instruction.operands[-1].shape
    indices = instruction.operands[count].shape
    inside = dimensions_except(target, (*attributes.inserted_window_dims, *attributes.input_batching_dims))
    for dimension, update in zip(inside, attributes.update_window_dims, strict=True):
        if updates.dimensions[update] == target.dimensions[dimension]:
            yield Factor((dimension,) * count + (None,) + (update,) * count, (dimension,) * count)
    outside = dimensions_except(updates, attributes.update_window_dims)
    update_dimensions = dict(zip(dimensions_except(indices, [attributes.index_vector_dim]), outside, strict=True))
    batching = zip(attributes.input_batching_dims, attributes.scatter_indices_batching_dims, strict=True)
    for dimension, index in batching:
        yield Factor((dimension,) * count + (index,) + (update_dimensions[index],) * count, (dimension,) * count)
    indexed = attributes.scatter_dims_to_operand_dims
    parallel = _parallel_dimensions(instruction, indexed, attributes.inserted_window_dims)
    for index, dimension in parallel.items():
        yield Factor((dimension,) * count + (index,) + (update_dimensions[index],) * count, (dimension,) * count)
    for dimension in attributes.inserted_window_dims:
        if dimension in indexed and dimension not in parallel.values():
            yield Factor((dimension,) * count + (None,) * (count + 1), (dimension,) * count)
    if produces_partial_sums(instruction) or (count == 1 and reducer_op(instruction) in IDEMPOTENT_OPS):
        for index, update in update_dimensions.items():
            if index not in attributes.scatter_indices_batching_dims and index not in parallel:
                yield Factor((None, index, update), (None,))


INDEXING_RULES: dict[OpDef, Rule] = {
    opcodes.GATHER: _gather,
    opcodes.SCATTER: _scatter,
}
