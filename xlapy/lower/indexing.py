"""Lowers gather. Scatter updates memory in an order of its own: `codegen.emitters.scatter` emits it."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import LOWERINGS, Element, Index, Lowering
from xlapy.lower.movement import start_position
from xlapy.opcodes.indexing import GatherAttributes


@LOWERINGS.rule(opcodes.GATHER)
def gather(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """The operand's element at the offset in a slice, whose start index is clamped so that it is in bounds."""
    operand, indices = instruction.operands
    attrs = instruction.attributes_as(GatherAttributes)
    batch = [position for d, position in enumerate(index) if d not in attrs.offset_dims]
    offsets = [index[d] for d in attrs.offset_dims]
    dropped = {*attrs.collapsed_slice_dims, *attrs.operand_batching_dims}
    if any(attrs.slice_sizes[d] == 0 for d in dropped):  # empty slices in a dimension that the result does not have
        return zero_element(lowering.builder, instruction.shape.element_type)
    remaining_offsets = iter(offsets)
    operand_index = [Affine() if d in dropped else next(remaining_offsets) for d in range(operand.shape.rank)]
    for component, dimension in enumerate(attrs.start_index_map):
        limit = operand.shape.dimensions[dimension] - attrs.slice_sizes[dimension]
        where = vector_component(batch, attrs.index_vector_dim, component, indices.shape.rank)
        operand_index[dimension] = operand_index[dimension] + start_position(lowering, indices, limit, where)
    for dimension, source in zip(attrs.operand_batching_dims, attrs.start_indices_batching_dims, strict=True):
        axis = source if source < attrs.index_vector_dim else source - 1
        operand_index[dimension] = operand_index[dimension] + batch[axis]
    return lowering.element(operand, tuple(operand_index))


def vector_component(batch: Sequence[Affine], vector_dim: int, component: int, rank: int) -> Index:
    """The index, in the array of index vectors, of a component of one index vector."""
    if vector_dim == rank:
        return tuple(batch)
    return (*batch[:vector_dim], Affine((), component), *batch[vector_dim:])
