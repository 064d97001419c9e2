"""Gather and scatter on dynamic dimensions."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.base.value import (
    DynamicArray,
    array_of_bounds,
    crop,
    pad_to_bounds,
    sizes_of,
)
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes, window_dims_to_operand_dims
from xlapy.reference.core import Device, Value, apply_definition
from xlapy.reference.dynamic.core import (
    Operands,
    cropped_pair,
    cropped_to_smallest,
    defines_dynamic,
)


@defines_dynamic(opcodes.GATHER)
def gather(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Slices are clamped to the bounds; a dimension that they cover completely keeps its size."""
    operand, vectors = instruction.operand_shapes
    a = instruction.attributes_as(GatherAttributes)
    dimensions, slices = list(operand.dimensions), list(a.slice_sizes)
    for dimension, size in enumerate(sizes_of(operands[0])):
        if slices[dimension] == dimensions[dimension] > 1:
            dimensions[dimension] = slices[dimension] = size
    shapes = [operand.with_dimensions(dimensions), vectors.with_dimensions(sizes_of(operands[1]))]
    sizes = opcodes.GATHER.result_shape(shapes, a.replace(slice_sizes=tuple(slices))).dimensions
    return DynamicArray(apply_definition(device, instruction, [array_of_bounds(v) for v in operands]), sizes)


@defines_dynamic(opcodes.SCATTER)
def scatter(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Applies the updates within the actual sizes; elements beyond the operand's sizes stay as they are.

    A dynamic window dimension of the updates that covers an operand dimension covers it at its actual size.
    """
    count, a = len(operands) // 2, instruction.attributes_as(ScatterAttributes)
    updates = cropped_to_smallest(operands[count + 1 :])
    batch_dims = [d for d in range(updates[0].ndim) if d not in a.update_window_dims]
    vector_dims = [d for d in range(len(sizes_of(operands[count]))) if d != a.index_vector_dim]
    pairs = list(zip(vector_dims, batch_dims, strict=True))
    vectors, _ = cropped_pair(operands[count], updates[0], pairs)
    fitting = [cropped_pair(operands[count], update, pairs)[1] for update in updates]
    whole, declared = list(instruction.operands[0].shape.dimensions), instruction.operands[count + 1].shape
    limits = list(fitting[0].shape)
    for source, target in zip(a.update_window_dims, window_dims_to_operand_dims(len(whole), a), strict=True):
        if declared.dynamic_dimensions[source] and declared.dimensions[source] == whole[target]:
            whole[target] = min(sizes_of(operands[0])[target], fitting[0].shape[source])
        limits[source] = min(limits[source], whole[target])
    arrays = [crop(array_of_bounds(operand), whole) for operand in operands[:count]]
    shapes = [Shape.array(operand.shape.element_type, whole) for operand in instruction.operands[:count]]
    shape = shapes[0] if count == 1 else Shape.tuple(shapes)
    sized = Instruction(instruction.op, shape, instruction.operands, a, instruction.computations, instruction.name)
    written = apply_definition(device, sized, [*arrays, vectors, *(crop(update, limits) for update in fitting)])
    results: list[Value] = []
    for new, old in zip(written if count > 1 else [written], operands, strict=False):
        array = array_of_bounds(old)
        results.append(DynamicArray(array_of_bounds(pad_to_bounds(new, array.shape, onto=array)), sizes_of(old)))
    return results[0] if count == 1 else tuple(results)
