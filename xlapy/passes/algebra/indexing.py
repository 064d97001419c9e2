"""Rewrites of gathers with constant indices, and of gathers and scatters without elements.

Does not depend on the computation of a scatter.
"""

from __future__ import annotations

from math import prod
from operator import gt

from xlapy import opcodes
from xlapy.analysis.integer_ranges import integer_range, is_within
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes, window_dims_to_operand_dims
from xlapy.opcodes.movement import DynamicSliceAttributes
from xlapy.passes.algebra.core import REWRITES, known_array
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.GATHER)
def gather_at_one_constant_index(write: Writer, instruction: Instruction) -> Instruction | None:
    """A gather with one constant index vector -> a reshaped slice at its clamped indices."""
    operand, indices = instruction.operands
    attributes = instruction.attributes_as(GatherAttributes)
    if attributes.operand_batching_dims or not instruction.shape.size:
        return None
    vector = known_array(indices)
    if vector is None or vector.size != len(attributes.start_index_map):
        return None
    starts = [0] * operand.shape.rank
    for component, dimension in zip(vector.reshape(-1), attributes.start_index_map, strict=True):
        last_start = operand.shape.dimensions[dimension] - attributes.slice_sizes[dimension]
        starts[dimension] = min(max(int(component), 0), last_start)
    limits = [start + size for start, size in zip(starts, attributes.slice_sizes, strict=True)]
    return write.reshape(write.slice(operand, starts, limits), instruction.shape)


@REWRITES.rule(opcodes.GATHER)
def gather_of_broadcast_scalar(write: Writer, instruction: Instruction) -> Instruction | None:
    """A gather from a broadcast scalar -> a broadcast of the scalar, whatever the indices."""
    source = instruction.operands[0]
    if source.op is not opcodes.BROADCAST or source.operands[0].shape.rank or not source.shape.size:
        return None
    return write.broadcast(source.operands[0], instruction.shape)


@REWRITES.rule(opcodes.SCATTER)
def scatter_of_one_window_in_bounds(write: Writer, instruction: Instruction) -> Instruction | None:
    """A scatter of one window at an index that is known to be in bounds -> a dynamic-update-slice."""
    attributes = instruction.attributes_as(ScatterAttributes)
    if len(instruction.operands) != 3 or attributes.input_batching_dims or instruction.shape.is_dynamic:
        return None
    array, indices, updates = instruction.operands
    dimensions = attributes.scatter_dims_to_operand_dims
    if indices.shape.size != len(dimensions) or not updates.shape.size or len(set(dimensions)) < len(dimensions):
        return None
    sizes = [1] * array.shape.rank
    windows = window_dims_to_operand_dims(array.shape.rank, attributes)
    for size, dimension in zip(
        (updates.shape.dimensions[d] for d in attributes.update_window_dims), windows, strict=True
    ):
        sizes[dimension] = size
    if prod(sizes) != updates.shape.size or any(map(gt, sizes, array.shape.dimensions)):
        return None  # several windows whose index vectors have no components, or a window that is too large
    combine = instruction.to_apply.root_instruction
    before, after = instruction.to_apply.parameters
    is_elementwise = combine.op.elementwise and combine.operands in ((before, after), (after, before))
    if combine is not after and not is_elementwise:
        return None
    components = _components(indices, len(dimensions))
    for component, dimension in zip(components, dimensions, strict=True):
        if not is_within(integer_range(component), 0, array.shape.dimensions[dimension] - sizes[dimension]):
            return None
    t = indices.shape.element_type
    starts = [write.scalar(0, t) for _ in sizes]
    for position, dimension in enumerate(dimensions):
        one = components[position]
        if one is indices and len(dimensions) > 1:
            vector = write.reshape(indices, indices.shape.with_dimensions((len(dimensions),)))
            one = write.slice(vector, (position,), (position + 1,))
        starts[dimension] = write.reshape(one, Shape.scalar(t))
    window = write.reshape(updates, array.shape.with_dimensions(sizes))
    if is_elementwise:
        slicing = DynamicSliceAttributes.make(dynamic_slice_sizes=tuple(sizes))
        taken = write.add(opcodes.DYNAMIC_SLICE, array, *starts, attributes=slicing)
        pair = (taken, window) if combine.operands[0] is before else (window, taken)
        window = write.add(combine.op, *pair, attributes=combine.attributes)
    return write.add(opcodes.DYNAMIC_UPDATE_SLICE, array, window, *starts, shape=instruction.shape)


def _components(indices: Instruction, count: int) -> list[Instruction]:
    """Returns arrays that contain the components of the only index vector, one by one or all of them."""
    if indices.op is opcodes.CONCATENATE and [operand.shape.size for operand in indices.operands] == [1] * count:
        return list(indices.operands)
    return [indices] * count


@REWRITES.rule(opcodes.SCATTER)
def scatter_without_updates(write: Writer, instruction: Instruction) -> Instruction | None:
    """A scatter without updates -> its operands."""
    count = len(instruction.operands) // 2
    if prod(instruction.operands[count + 1].shape.dimensions):
        return None
    operands = instruction.operands[:count]
    return write.add(opcodes.TUPLE, *operands, shape=instruction.shape) if instruction.shape.is_tuple else operands[0]


@REWRITES.rule(opcodes.SELECT_AND_SCATTER)
def select_and_scatter_without_source(write: Writer, instruction: Instruction) -> Instruction | None:
    """A select-and-scatter without source elements -> the initial value everywhere."""
    _, source, init = instruction.operands
    return None if source.shape.size else write.broadcast(init, instruction.shape)
