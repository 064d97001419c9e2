"""Operations that move elements, and that read and set sizes, on dynamic dimensions."""

from __future__ import annotations

from math import prod

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.base.value import (
    DynamicArray,
    actual_array,
    array_of_bounds,
    pad_to_bounds,
    sizes_of,
)
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.opcodes.attributes.dimensions import strided
from xlapy.opcodes.movement import (
    DynamicSliceAttributes,
    PadAttributes,
    ShuffleAttributes,
    ShuffleMode,
    SliceAttributes,
    factor_groups,
)
from xlapy.reference.core import Device, Value, apply_definition
from xlapy.reference.dynamic.core import (
    Operands,
    at_actual_sizes,
    cropped,
    defines_dynamic,
    smallest_sizes,
    with_shape,
)
from xlapy.reference.elements import array_of_shape, indices


def check_size(instruction: Instruction, size: int, dimension: int, bounds: Shape) -> int:
    """Returns a size; `ExecutionError` unless it is between 0 and the bound."""
    bound = bounds.dimensions[dimension]
    if not 0 <= size <= bound:
        raise ExecutionError(
            codes.DYNAMIC_SIZE,
            f"{describe_instruction(instruction)}: size {size} of dimension {dimension} is not between 0 and the bound "
            f"{bound} ({bounds.to_text(layout=False)})",
        )
    return size


@defines_dynamic(opcodes.GET_DIMENSION_SIZE)
def get_dimension_size(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """The size at run time."""
    return np.array(sizes_of(operands[0])[instruction.dimension], np.int32)


@defines_dynamic(opcodes.SET_DIMENSION_SIZE)
def set_dimension_size(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """The same array of the bounds, with another size of one dimension."""
    operand, size = operands
    sizes = list(sizes_of(operand))
    shape = instruction.operands[0].shape
    sizes[instruction.dimension] = check_size(instruction, int(size), instruction.dimension, shape)
    return DynamicArray(array_of_bounds(operand), tuple(sizes))


@defines_dynamic(opcodes.BROADCAST)
def broadcast(device: Device, instruction: Instruction, operands: Operands) -> Value:
    sizes = list(instruction.shape.dimensions)
    for size, dimension in zip(sizes_of(operands[0]), instruction.dimensions, strict=True):
        sizes[dimension] = size
    return DynamicArray(apply_definition(device, instruction, [array_of_bounds(operands[0])]), tuple(sizes))


@defines_dynamic(opcodes.TRANSPOSE)
def transpose(device: Device, instruction: Instruction, operands: Operands) -> Value:
    sizes = sizes_of(operands[0])
    result = apply_definition(device, instruction, [array_of_bounds(operands[0])])
    return DynamicArray(result, tuple(sizes[d] for d in instruction.dimensions))


@defines_dynamic(opcodes.SHUFFLE)
def shuffle(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Moves the elements within the actual sizes; the table of coordinates is cropped to them."""
    attributes = instruction.attributes_as(ShuffleAttributes)
    if attributes.mode is ShuffleMode.ROTATE:
        return at_actual_sizes(device, instruction, operands)
    assert attributes.indices is not None
    table = Literal.array_of(cropped(attributes.indices.array, sizes_of(operands[0])))
    return at_actual_sizes(device, instruction, operands, indices=table)


@defines_dynamic(opcodes.CONCATENATE)
def concatenate(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Joins the elements within the actual sizes without gaps; other dimensions are cropped to the smallest size."""
    least = list(smallest_sizes(operands))
    arrays: list[Array] = []
    for operand in operands:
        least[instruction.dimension] = sizes_of(operand)[instruction.dimension]
        arrays.append(cropped(operand, least))
    return at_actual_sizes(device, instruction, arrays)


@defines_dynamic(opcodes.SLICE)
def slice_(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """The elements of the range that are within the actual sizes."""
    ranges = instruction.attributes_as(SliceAttributes).ranges
    rows = zip(sizes_of(operands[0]), ranges.starts, ranges.limits, ranges.strides, strict=True)
    sizes = tuple(strided(max(0, min(size, limit) - start), 1, stride) for size, start, limit, stride in rows)
    return DynamicArray(apply_definition(device, instruction, [array_of_bounds(operands[0])]), sizes)


@defines_dynamic(opcodes.PAD)
def pad(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Pads the elements within the actual sizes; a negative size becomes 0."""
    padding = instruction.attributes_as(PadAttributes).padding.dimensions
    sizes = [max(0, p.output_size(size)) for p, size in zip(padding, sizes_of(operands[0]), strict=True)]
    shape = instruction.shape.with_dimensions(sizes)
    return with_shape(device, instruction, [actual_array(operands[0]), operands[1]], shape, instruction.attributes)


@defines_dynamic(opcodes.DYNAMIC_SLICE)
def dynamic_slice(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Starts are clamped to the bounds; only a dimension that is taken whole keeps its size."""
    arrays = [array_of_bounds(operand) for operand in operands]
    taken = instruction.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes
    rows = zip(sizes_of(operands[0]), arrays[0].shape, taken, strict=True)
    sizes = tuple(size if slice_size == bound else slice_size for size, bound, slice_size in rows)
    return DynamicArray(apply_definition(device, instruction, arrays), sizes)


@defines_dynamic(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Starts are clamped to the bounds; the padding of the update is not written.

    A dimension that a dynamic update replaces completely gets the update's size; others keep the operand's.
    """
    operand, update, *starts = operands
    array, part = array_of_bounds(operand), instruction.operands[1].shape
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=part.dimensions)
    sources = [instruction.operands[0], *instruction.operands[2:]]
    static = Shape.array(part.element_type, part.dimensions)
    kept = apply_definition(device, Instruction(opcodes.DYNAMIC_SLICE, static, sources, attributes), [array, *starts])
    written = array_of_bounds(pad_to_bounds(actual_array(update), part.dimensions, onto=kept))
    rows = zip(sizes_of(operand), sizes_of(update), array.shape, part.dimensions, part.dynamic_dimensions, strict=True)
    sizes = tuple(new if flag and bound == whole else old for old, new, whole, bound, flag in rows)
    return DynamicArray(apply_definition(device, instruction, [array, written, *starts]), sizes)


@defines_dynamic(opcodes.RESHAPE)
def reshape(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """The elements within the actual sizes in row-major order, without gaps; a size that is not whole rounds down.

    The one dynamic dimension of the result takes all of them; of several, each those of its own group of dimensions.
    """
    shape, operand = instruction.shape, operands[0]
    dynamic = [d for d, flag in enumerate(shape.dynamic_dimensions) if flag]
    if not dynamic:
        result = np.zeros(prod(shape.dimensions), shape.dtype)
        for position, index in enumerate(indices(sizes_of(operand))):
            result[position] = actual_array(operand)[index]
        return result.reshape(shape.dimensions)
    taken, sizes = _taken_sizes(instruction, operand), list(shape.dimensions)
    groups = list(factor_groups(instruction.operands[0].shape.dimensions, shape.dimensions))
    if len(dynamic) == 1:
        groups = [(range(len(taken)), range(shape.rank))]
    for own, result_dims in groups:
        inside = [d for d in result_dims if d in dynamic]
        if len(inside) > 1:
            raise UnsupportedError(
                codes.RESHAPED_SIZES,
                f"{describe_instruction(instruction)} to {shape.to_text(layout=False)} does not determine the sizes of "
                f"the dimensions {inside}; use dynamic-reshape",
            )
        if inside:
            others = prod(sizes[d] for d in result_dims if d != inside[0])
            sizes[inside[0]] = prod(taken[own.start : own.stop]) // others if others else 0
    elements = iter([array_of_bounds(operand)[index] for index in indices(taken)])
    static = Shape.array(shape.element_type, sizes)
    return pad_to_bounds(array_of_shape(static, lambda _: next(elements)), shape.dimensions)


def _taken_sizes(instruction: Instruction, operand: Value) -> list[int]:
    """Returns the operand's sizes, with the bounds where its dimensions become static dimensions of the result."""
    shape, whole, sizes = instruction.shape, instruction.operands[0].shape.dimensions, list(sizes_of(operand))
    for own, result_dims in factor_groups(whole, shape.dimensions):
        if result_dims and not any(shape.dynamic_dimensions[d] for d in result_dims):
            sizes[own.start : own.stop] = whole[own.start : own.stop]
    return sizes


@defines_dynamic(opcodes.DYNAMIC_RESHAPE)
def dynamic_reshape(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Reshapes the elements within the actual sizes to the given sizes, which must hold exactly these."""
    operand, *given = operands
    shape, sizes = instruction.shape, list(instruction.shape.dimensions)
    for dimension, size in enumerate(given):
        if shape.dynamic_dimensions[dimension]:
            sizes[dimension] = check_size(instruction, int(size), dimension, shape)
    if prod(sizes_of(operand)) != prod(sizes):
        raise ExecutionError(
            codes.RESHAPED_COUNT,
            f"{describe_instruction(instruction)}: the operand has {prod(sizes_of(operand))} elements, the sizes "
            f"{sizes} hold {prod(sizes)}",
        )
    static = Shape.array(shape.element_type, sizes)
    return with_shape(device, instruction, [actual_array(operand), *given], static, instruction.attributes)


@defines_dynamic(opcodes.BITCAST)
def bitcast(device: Device, instruction: Instruction, operands: Operands) -> Value:
    """Reads the memory of the bounds; the result has the same dimensions and sizes, or is static."""
    source, shape = instruction.operands[0].shape, instruction.shape
    if shape.is_dynamic and source.dimensions != shape.dimensions:
        raise UnsupportedError(
            codes.RESHAPED_SIZES,
            f"{describe_instruction(instruction)}: the sizes of {shape.to_text(layout=False)} do not follow from "
            f"{source.to_text(layout=False)}",
        )
    result = apply_definition(device, instruction, [array_of_bounds(operands[0])])
    return DynamicArray(result, sizes_of(operands[0])) if shape.is_dynamic else result
