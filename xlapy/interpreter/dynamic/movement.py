"""Ops that move elements, on dynamic dimensions.

Responsible for the sizes of results, and for reading and setting sizes. Where the position of an element does not
depend on the sizes, elements are moved within the padded arrays, so that elements beyond a size reappear when the size
grows. Does not depend on how elements move (see the ordinary rules).
Source: GetDimensionSize, SetDimensionSize, Reshape, DynamicReshape of the specification; XLA's dynamic padder.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from xlapy import opcodes
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.base.literal import Literal
from xlapy.base.value import DynamicArray, actual_array, array_of_bounds, pad_to_bounds, sizes_of
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.core import DYNAMIC_RULES, Array, Context, Value
from xlapy.interpreter.dynamic.core import (
    apply_at_actual_sizes,
    apply_ordinary_rule,
    apply_with_shape,
    check_size,
    crop_value,
    smallest_sizes,
)
from xlapy.opcodes.attributes.dimensions import strided
from xlapy.opcodes.movement import (
    DynamicSliceAttributes,
    PadAttributes,
    ShuffleAttributes,
    ShuffleMode,
    SliceAttributes,
    factor_groups,
)

DYNAMIC_RULES.rule(opcodes.COPY)(apply_ordinary_rule)
DYNAMIC_RULES.rule(opcodes.REVERSE)(apply_at_actual_sizes)


# -- sizes


@DYNAMIC_RULES.rule(opcodes.GET_DIMENSION_SIZE)
def get_dimension_size(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the size at run time, as an s32."""
    return np.array(sizes_of(values[0])[instruction.dimension], np.int32)


@DYNAMIC_RULES.rule(opcodes.SET_DIMENSION_SIZE)
def set_dimension_size(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Changes the size and keeps the padded array: elements beyond a size reappear when the size grows."""
    operand, size = values
    dimension = instruction.dimension
    sizes = list(sizes_of(operand))
    sizes[dimension] = check_size(instruction, int(size), dimension, instruction.operands[0].shape)
    return DynamicArray(array_of_bounds(operand), tuple(sizes))


# -- whole dimensions


@DYNAMIC_RULES.rule(opcodes.BROADCAST)
def broadcast(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    sizes = list(instruction.shape.dimensions)
    for size, dimension in zip(sizes_of(values[0]), instruction.dimensions, strict=True):
        sizes[dimension] = size
    return DynamicArray(apply_ordinary_rule(context, instruction, [array_of_bounds(values[0])]), tuple(sizes))


@DYNAMIC_RULES.rule(opcodes.TRANSPOSE)
def transpose(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    sizes = sizes_of(values[0])
    moved = apply_ordinary_rule(context, instruction, [array_of_bounds(values[0])])
    return DynamicArray(moved, tuple(sizes[d] for d in instruction.dimensions))


@DYNAMIC_RULES.rule(opcodes.SHUFFLE)
def shuffle(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Rotates the elements within the actual sizes; given coordinates are cropped to the actual sizes."""
    attributes = instruction.attributes_as(ShuffleAttributes)
    if attributes.mode is ShuffleMode.ROTATE:
        return apply_at_actual_sizes(context, instruction, values)
    assert attributes.indices is not None
    kept = crop_value(attributes.indices.array, sizes_of(values[0]))
    return apply_at_actual_sizes(context, instruction, values, indices=Literal.array_of(kept))


@DYNAMIC_RULES.rule(opcodes.CONCATENATE)
def concatenate(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Concatenates the elements within the actual sizes without gaps; other dimensions have the smallest sizes."""
    dimension, least = instruction.dimension, smallest_sizes(values)
    rows = [[*least[:dimension], sizes_of(value)[dimension], *least[dimension + 1 :]] for value in values]
    return apply_at_actual_sizes(
        context, instruction, [crop_value(v, sizes) for v, sizes in zip(values, rows, strict=True)]
    )


# -- slices and padding


@DYNAMIC_RULES.rule(opcodes.SLICE)
def slice_(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the elements of the range that are within the actual sizes."""
    ranges = instruction.attributes_as(SliceAttributes).ranges
    rows = zip(sizes_of(values[0]), ranges.starts, ranges.limits, ranges.strides, strict=True)
    sizes = [strided(max(0, min(size, limit) - start), 1, stride) for size, start, limit, stride in rows]
    return DynamicArray(apply_ordinary_rule(context, instruction, [array_of_bounds(values[0])]), tuple(sizes))


@DYNAMIC_RULES.rule(opcodes.PAD)
def pad(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Adds the padding after the last element within the actual size; a negative size becomes 0."""
    config = instruction.attributes_as(PadAttributes).padding.dimensions
    pairs = zip(config, sizes_of(values[0]), strict=True)
    shape = instruction.shape.with_dimensions([max(0, entry.output_size(size)) for entry, size in pairs])
    return apply_with_shape(context, instruction, [actual_array(values[0]), values[1]], shape, instruction.attributes)


@DYNAMIC_RULES.rule(opcodes.DYNAMIC_SLICE)
def dynamic_slice(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Clamps starts to the bounds. Only a dimension that is taken completely stays dynamic."""
    operand, *indices = values
    array = array_of_bounds(operand)
    rows = zip(
        sizes_of(operand),
        array.shape,
        instruction.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes,
        strict=True,
    )
    sizes = tuple(size if taken == bound else taken for size, bound, taken in rows)
    return DynamicArray(apply_ordinary_rule(context, instruction, [array, *map(array_of_bounds, indices)]), sizes)


@DYNAMIC_RULES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Clamps starts to the bounds; the padding of the update is not written.

    A dimension that a dynamic update replaces completely gets the update's size; others keep the operand's.
    """
    operand, update, *indices = values
    array, part = array_of_bounds(operand), array_of_bounds(update)
    kept = apply_ordinary_rule(context, _slice_of(instruction), [array, *indices])
    written = pad_to_bounds(actual_array(update), part.shape, onto=kept)
    flags = instruction.operands[1].shape.dynamic_dimensions
    rows = zip(sizes_of(operand), sizes_of(update), array.shape, part.shape, flags, strict=True)
    sizes = tuple(new if flag and bound == whole else old for old, new, whole, bound, flag in rows)
    return DynamicArray(apply_ordinary_rule(context, instruction, [array, array_of_bounds(written), *indices]), sizes)


def _slice_of(update: Instruction) -> Instruction:
    """Returns the dynamic-slice instruction that reads the part that a dynamic-update-slice replaces."""
    operand, part, *indices = update.operands
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=part.shape.dimensions)
    return Instruction(opcodes.DYNAMIC_SLICE, part.shape, [operand, *indices], attributes, (), update.name)


# -- reshapes


@DYNAMIC_RULES.rule(opcodes.RESHAPE)
def reshape(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Reshapes the elements within the actual sizes in row-major order; the size of the result rounds down."""
    sizes = _reshaped_sizes(instruction, values[0])
    if sizes is None:
        return _from_front(actual_array(values[0]).reshape(-1), instruction.shape.dimensions)
    elements = crop_value(array_of_bounds(values[0]), _effective_sizes(instruction, values[0])).reshape(-1)
    return pad_to_bounds(elements[: prod(sizes)].reshape(sizes), instruction.shape.dimensions)


def _from_front(elements: Array, dimensions: Sequence[int]) -> Array:
    """Returns an array that begins with the given elements, in row-major order, and is filled with zeros."""
    result = np.zeros(prod(dimensions), elements.dtype)
    result[: elements.size] = elements
    return result.reshape(dimensions)


def _effective_sizes(instruction: Instruction, operand: Value) -> list[int]:
    """Returns the operand's sizes, with bounds instead where its dimensions form only static result dimensions."""
    shape, whole = instruction.shape, instruction.operands[0].shape
    sizes = list(sizes_of(operand))
    for operand_dims, result_dims in factor_groups(whole.dimensions, shape.dimensions):
        if result_dims and not any(shape.dynamic_dimensions[d] for d in result_dims):
            sizes[operand_dims.start : operand_dims.stop] = whole.dimensions[operand_dims.start : operand_dims.stop]
    return sizes


def _reshaped_sizes(instruction: Instruction, operand: Value) -> list[int] | None:
    """Returns the sizes of a reshape's result, or None if it is static.

    A single dynamic dimension takes up all elements; of several, each takes up those of its own group of dimensions.
    """
    shape = instruction.shape
    dynamic = [d for d, flag in enumerate(shape.dynamic_dimensions) if flag]
    if not dynamic:
        return None
    taken, sizes = _effective_sizes(instruction, operand), list(shape.dimensions)
    if len(dynamic) == 1:
        sizes[dynamic[0]] = _size_of_dimension(prod(taken), sizes, range(shape.rank), dynamic[0])
        return sizes
    for operand_dims, result_dims in factor_groups(instruction.operands[0].shape.dimensions, shape.dimensions):
        dynamic_dims = [d for d in result_dims if d in dynamic]
        if len(dynamic_dims) > 1:
            raise UnsupportedError(
                codes.RESHAPED_SIZES,
                f"{describe_instruction(instruction)}: {instruction.operands[0].shape.to_text(layout=False)} "
                f"to {shape.to_text(layout=False)} does not determine "
                f"the sizes of the dimensions {dynamic_dims}; use dynamic-reshape",
            )
        if dynamic_dims:
            sizes[dynamic_dims[0]] = _size_of_dimension(
                prod(taken[operand_dims.start : operand_dims.stop]), sizes, result_dims, dynamic_dims[0]
            )
    return sizes


def _size_of_dimension(elements: int, sizes: Sequence[int], group: range, dimension: int) -> int:
    """Returns the size of one dimension of a group of dimensions that together have this number of elements."""
    others = prod(sizes[d] for d in group if d != dimension)
    return elements // others if others else 0


@DYNAMIC_RULES.rule(opcodes.DYNAMIC_RESHAPE)
def dynamic_reshape(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Reshapes the elements within the actual sizes to the given sizes.

    Raises `ExecutionError` unless both have equally many elements.
    """
    operand, *given = values
    shape = instruction.shape
    sizes = list(shape.dimensions)
    for dimension, size in enumerate(given):
        if shape.dynamic_dimensions[dimension]:
            sizes[dimension] = check_size(instruction, int(size), dimension, shape)
    elements = actual_array(operand).reshape(-1)
    if elements.size != prod(sizes):
        raise ExecutionError(
            codes.RESHAPED_COUNT,
            f"{describe_instruction(instruction)}: the operand has {elements.size} elements, the sizes {sizes} hold "
            f"{prod(sizes)}",
        )
    return pad_to_bounds(elements.reshape(sizes), shape.dimensions)


@DYNAMIC_RULES.rule(opcodes.BITCAST)
def bitcast(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Reinterprets the memory, padding included; the result has the same dimensions and sizes, or is static."""
    source, shape = instruction.operands[0].shape, instruction.shape
    if shape.is_dynamic and source.dimensions != shape.dimensions:
        raise UnsupportedError(
            codes.RESHAPED_SIZES,
            f"{describe_instruction(instruction)}: the sizes of {shape.to_text(layout=False)} "
            f"do not follow from {source.to_text(layout=False)}",
        )
    result = apply_ordinary_rule(context, instruction, [array_of_bounds(values[0])])
    return DynamicArray(result, sizes_of(values[0])) if shape.is_dynamic else result
