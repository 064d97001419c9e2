"""Definitions of the operations that move elements: which element of an operand each element of the result is."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
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
from xlapy.reference.core import defines
from xlapy.reference.elements import Index, array_of_shape, indices, number, tabulate, type_of, with_values


@defines(opcodes.BROADCAST)
def broadcast(instruction: Instruction, operand: Array) -> Array:
    """result[i] = operand[i[dimensions[0]], i[dimensions[1]], ...]"""
    dimensions = instruction.dimensions
    return array_of_shape(instruction.shape, lambda index: operand[tuple(index[d] for d in dimensions)])


@defines(opcodes.RESHAPE)
def reshape(instruction: Instruction, operand: Array) -> Array:
    """The same elements in the same row-major order."""
    elements = iter([operand[index] for index in indices(operand.shape)])
    return array_of_shape(instruction.shape, lambda _: next(elements))


@defines(opcodes.DYNAMIC_RESHAPE)
def dynamic_reshape(instruction: Instruction, operand: Array, *sizes: Array) -> Array:
    """A reshape; the sizes are those of the result, unless it is dynamic."""
    return reshape(instruction, operand)


@defines(opcodes.TRANSPOSE)
def transpose(instruction: Instruction, operand: Array) -> Array:
    """result[i] = operand[j] with j[dimensions[d]] = i[d]"""
    dimensions = instruction.dimensions
    return array_of_shape(instruction.shape, lambda index: operand[with_values(index, dimensions, index)])


@defines(opcodes.REVERSE)
def reverse(instruction: Instruction, operand: Array) -> Array:
    """result[i] = operand[j] with j[d] = size[d] - 1 - i[d] in the listed dimensions, and j[d] = i[d] in others."""
    listed, sizes = instruction.dimensions, operand.shape
    return array_of_shape(
        instruction.shape, lambda index: operand[with_values(index, listed, (sizes[d] - 1 - index[d] for d in listed))]
    )


@defines(opcodes.CONCATENATE)
def concatenate(instruction: Instruction, *operands: Array) -> Array:
    """The operands one after the other along `dimension`."""
    return concatenated(operands, instruction.dimension)


def concatenate_sizes(operands: Sequence[Array], dimension: int) -> Index:
    """Returns the sizes of operands that are joined along a dimension."""
    return with_values(operands[0].shape, [dimension], [sum(operand.shape[dimension] for operand in operands)])


def concatenated(operands: Sequence[Array], dimension: int) -> Array:
    """Joins arrays: a position along the dimension names an operand and a position in it."""
    places = [(operand, position) for operand in operands for position in range(operand.shape[dimension])]

    def element_at(index: Index) -> Any:
        operand, position = places[index[dimension]]
        return operand[with_values(index, [dimension], [position])]

    return tabulate(type_of(operands[0]), concatenate_sizes(operands, dimension), element_at)


@defines(opcodes.SLICE)
def slice_(instruction: Instruction, operand: Array) -> Array:
    """result[i] = operand[j] with j[d] = starts[d] + i[d] * strides[d]"""
    ranges = instruction.attributes_as(SliceAttributes).ranges

    def element_at(index: Index) -> Any:
        rows = zip(ranges.starts, index, ranges.strides, strict=True)
        return operand[tuple(start + i * stride for start, i, stride in rows)]

    return array_of_shape(instruction.shape, element_at)


@defines(opcodes.PAD)
def pad(instruction: Instruction, operand: Array, padding_value: Array) -> Array:
    """Element i of a dimension goes to low + i * (interior + 1); negative padding removes what falls outside."""
    padding = instruction.attributes_as(PadAttributes).padding.dimensions
    result = array_of_shape(instruction.shape, lambda _: padding_value[()])
    for source in indices(operand.shape):
        target = tuple(p.low + i * (p.interior + 1) for p, i in zip(padding, source, strict=True))
        if all(0 <= i < size for i, size in zip(target, result.shape, strict=True)):
            result[target] = operand[source]
    return result


def clamped_starts(operand: Array, start_indices: Sequence[Array], sizes: Sequence[int]) -> Index:
    """Returns start indices (scalars, or one vector) that are clamped so that a slice of these sizes is inside."""
    given = [number(vector[i]) for vector in start_indices for i in indices(vector.shape)]
    limits = (whole - size for whole, size in zip(operand.shape, sizes, strict=True))
    return tuple(min(max(start, 0), limit) for start, limit in zip(given, limits, strict=True))


def plus(left: Sequence[int], right: Sequence[int]) -> Index:
    """Adds two indices component by component."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


@defines(opcodes.DYNAMIC_SLICE)
def dynamic_slice(instruction: Instruction, operand: Array, *start_indices: Array) -> Array:
    """result[i] = operand[starts + i], with every start clamped so that the slice is inside the operand."""
    sizes = instruction.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes
    starts = clamped_starts(operand, start_indices, sizes)
    return tabulate(type_of(operand), sizes, lambda index: operand[plus(starts, index)])


@defines(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(instruction: Instruction, operand: Array, update: Array, *start_indices: Array) -> Array:
    """The operand with result[starts + i] = update[i]; starts are clamped as in dynamic-slice."""
    starts = clamped_starts(operand, start_indices, update.shape)
    result = np.array(operand)
    for index in indices(update.shape):
        result[plus(starts, index)] = update[index]
    return result


@defines(opcodes.COPY)
def copy(instruction: Instruction, operand: Array) -> Array:
    """The operand: the value of an array does not depend on its layout."""
    return operand


@defines(opcodes.BITCAST)
def bitcast(instruction: Instruction, operand: Array) -> Array:
    """Writes the elements to memory in the operand's layout, and reads that memory in the layout of the result."""
    source, result = instruction.operands[0].shape, instruction.shape
    stored = [operand[index] for index in memory_order(source, operand.shape)]
    elements = np.array(stored, operand.dtype)
    if source.element_type is not result.element_type:
        memory = Literal.array_of(elements).to_bytes(packed=_is_packed(source))
        elements = Literal.from_bytes(
            Shape.array(result.element_type, (prod(result.dimensions),)), memory, packed=_is_packed(result)
        ).array
    value = np.empty(result.dimensions, result.dtype)
    for position, index in enumerate(memory_order(result, result.dimensions)):
        value[index] = elements[position]
    return value


def memory_order(shape: Shape, sizes: Sequence[int]) -> list[Index]:
    """Returns the indices of all elements in the order in which they are in memory."""
    major_to_minor = range(len(sizes)) if shape.layout is None else tuple(reversed(shape.layout.minor_to_major))
    ordered = indices([sizes[d] for d in major_to_minor])
    return [with_values((0,) * len(sizes), major_to_minor, position) for position in ordered]


def _is_packed(shape: Shape) -> bool:
    """Returns whether several elements share a byte."""
    return shape.layout is not None and 0 < shape.layout.element_size_in_bits < 8


@defines(opcodes.SHUFFLE)
def shuffle(instruction: Instruction, operand: Array) -> Array:
    """Rotates the listed dimensions to the left, or reads element i at the clamped coordinates indices[i]."""
    attributes = instruction.attributes_as(ShuffleAttributes)
    dimensions, sizes = attributes.dimensions, operand.shape

    def rotated(index: Index) -> Any:
        shifted = ((index[d] + shift) % sizes[d] for d, shift in zip(dimensions, attributes.shifts, strict=True))
        return operand[with_values(index, dimensions, shifted)]

    def permuted(index: Index) -> Any:
        assert attributes.indices is not None
        table = attributes.indices.array
        place = tuple(i if size > 1 else 0 for i, size in zip(index, table.shape, strict=False))
        coordinates = [table[place]] if len(dimensions) == 1 else list(table[place])
        pairs = zip(dimensions, coordinates, strict=True)
        return operand[with_values(index, dimensions, (min(max(number(c), 0), sizes[d] - 1) for d, c in pairs))]

    if not dimensions:
        return operand
    return array_of_shape(instruction.shape, rotated if attributes.mode is ShuffleMode.ROTATE else permuted)


@defines(opcodes.GET_DIMENSION_SIZE)
def get_dimension_size(instruction: Instruction, operand: Array) -> Array:
    """The size of a dimension."""
    return np.array(operand.shape[instruction.dimension], np.int32)


@defines(opcodes.SET_DIMENSION_SIZE)
def set_dimension_size(instruction: Instruction, operand: Array, size: Array) -> Array:
    """The operand: only a result with dynamic dimensions changes its size, see `reference/dynamic`."""
    return operand
