"""Gather and scatter on dynamic dimensions.

Does not depend on how windows are read and written (see the ordinary rules).
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.base.value import DynamicArray, array_of_bounds, pad_to_bounds, sizes_of
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import DYNAMIC_RULES, Array, Context, Value
from xlapy.interpreter.dynamic.core import (
    apply_ordinary_rule,
    apply_with_shape,
    crop_paired_dimensions,
    crop_to_smallest_sizes,
    crop_value,
)
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes, window_dims_to_operand_dims


@DYNAMIC_RULES.rule(opcodes.GATHER)
def gather(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Clamps slices to the bounds. A dimension that slices cover completely has the operand's actual size."""
    operand, indices = instruction.operand_shapes
    attributes = instruction.attributes_as(GatherAttributes)
    dimensions, slices = list(operand.dimensions), list(attributes.slice_sizes)
    for dimension, size in enumerate(sizes_of(values[0])):
        if slices[dimension] == dimensions[dimension] > 1:
            dimensions[dimension] = slices[dimension] = size
    shapes = [operand.with_dimensions(dimensions), indices.with_dimensions(sizes_of(values[1]))]
    result = opcodes.GATHER.result_shape(shapes, attributes.replace(slice_sizes=tuple(slices)))
    return DynamicArray(
        apply_ordinary_rule(context, instruction, list(map(array_of_bounds, values))), result.dimensions
    )


@DYNAMIC_RULES.rule(opcodes.SCATTER)
def scatter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Applies the updates within the actual sizes; elements beyond the operand's sizes stay as they are.

    A dynamic window dimension of the updates that covers an operand dimension covers it at its actual size.
    """
    count = len(values) // 2
    attrs: ScatterAttributes = instruction.attributes_as(ScatterAttributes)
    indices, updates = _rows_paired(values[count], crop_to_smallest_sizes(values[count + 1 :]), attrs)
    taken = _covered(instruction, values[0], updates[0])
    operands = [crop_value(array_of_bounds(value), taken) for value in values[:count]]
    window = zip(attrs.update_window_dims, window_dims_to_operand_dims(len(taken), attrs), strict=True)
    limits = list(updates[0].shape)
    for source, dimension in window:
        limits[source] = min(limits[source], taken[dimension])
    arrays = [*operands, indices, *(crop_value(update, limits) for update in updates)]
    shapes = [Shape.array(o.shape.element_type, taken) for o in instruction.operands[:count]]
    shape = shapes[0] if count == 1 else Shape.tuple(shapes)
    result = apply_with_shape(context, instruction, arrays, shape, attrs)
    written = [result] if count == 1 else list(result)
    final = [_restored(new, old, taken) for new, old in zip(written, values, strict=False)]
    return final[0] if count == 1 else tuple(final)


def _rows_paired(indices: Value, updates: list[Array], attrs: ScatterAttributes) -> tuple[Array, list[Array]]:
    """Removes the padding of indices and updates and crops them to equal counts: one update per index."""
    rows = [d for d in range(updates[0].ndim) if d not in attrs.update_window_dims]
    sources = [d for d in range(len(sizes_of(indices))) if d != attrs.index_vector_dim]
    pairs = list(zip(sources, rows, strict=True))
    fitting = [crop_paired_dimensions(indices, update, pairs) for update in updates]
    return fitting[0][0], [update for _, update in fitting]


def _covered(instruction: Instruction, operand: Value, update: Array) -> list[int]:
    """Returns the sizes that windows may cover: the operand's bounds, or sizes where a dynamic window covers it all."""
    count = len(instruction.operands) // 2
    attrs, whole = instruction.attributes_as(ScatterAttributes), instruction.operands[0].shape
    updates = instruction.operands[count + 1].shape
    sizes = list(whole.dimensions)
    for source, dimension in zip(attrs.update_window_dims, window_dims_to_operand_dims(whole.rank, attrs), strict=True):
        if updates.dynamic_dimensions[source] and updates.dimensions[source] == sizes[dimension]:
            sizes[dimension] = min(sizes_of(operand)[dimension], update.shape[source])
    return sizes


def _restored(new: Value, old: Value, taken: Sequence[int]) -> Value:
    """Returns `old` with the part of sizes `taken` replaced by `new`."""
    whole = pad_to_bounds(
        crop_value(array_of_bounds(new), taken), array_of_bounds(old).shape, onto=array_of_bounds(old)
    )
    return DynamicArray(array_of_bounds(whole), sizes_of(old))
