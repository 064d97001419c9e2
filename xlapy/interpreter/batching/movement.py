"""Batched ops that move elements.

Does not depend on how the ordinary rules move elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import (
    BATCHING_RULES,
    align_scalar,
    apply_ordinary_rule,
    batch_size,
    broadcast_operands_to_batch,
    broadcast_to_batch,
    evaluate_batched,
    is_batched,
    shift_dimensions,
)
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension, SliceRanges
from xlapy.opcodes.movement import DynamicSliceAttributes, PadAttributes, SliceAttributes

BATCHING_RULES.rule(opcodes.COPY, opcodes.GET_DIMENSION_SIZE)(apply_ordinary_rule)
BATCHING_RULES.refuse("dynamic dimensions", opcodes.DYNAMIC_RESHAPE, opcodes.SET_DIMENSION_SIZE)


@BATCHING_RULES.rule(opcodes.RESHAPE)
def reshape(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return evaluate_batched(context, instruction, values, len(values[0]))


@BATCHING_RULES.rule(opcodes.BROADCAST, opcodes.TRANSPOSE)
def map_dimensions(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Maps dimension 0 of the operand, the batch, to dimension 0 of the result."""
    dimensions = (0, *shift_dimensions(instruction.dimensions))
    return evaluate_batched(context, instruction, values, len(values[0]), dimensions=dimensions)


@BATCHING_RULES.rule(opcodes.REVERSE, opcodes.SHUFFLE)
def permute_elements(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Shifts the dimension numbers; the coordinates of a shuffle broadcast, as they are the same for all elements."""
    dimensions = shift_dimensions(instruction.dimensions)
    return evaluate_batched(context, instruction, values, len(values[0]), dimensions=dimensions)


@BATCHING_RULES.rule(opcodes.CONCATENATE)
def concatenate(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    count = batch_size(instruction, values)
    operands = broadcast_operands_to_batch(instruction, values, count)
    return evaluate_batched(context, instruction, operands, count, dimension=instruction.dimension + 1)


@BATCHING_RULES.rule(opcodes.SLICE)
def slice_(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    count, ranges = len(values[0]), instruction.attributes_as(SliceAttributes).ranges
    batched = SliceRanges((0, *ranges.starts), (count, *ranges.limits), (1, *ranges.strides))
    return evaluate_batched(context, instruction, values, count, ranges=batched)


@BATCHING_RULES.rule(opcodes.PAD)
def pad(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    count = batch_size(instruction, values)
    operand, padding = instruction.operands
    arguments = [
        broadcast_to_batch(values[0], operand.shape, count),
        align_scalar(values[1], padding.shape, operand.shape.rank),
    ]
    config = PaddingConfig((PaddingDimension(0, 0), *instruction.attributes_as(PadAttributes).padding.dimensions))
    return evaluate_batched(context, instruction, arguments, count, padding=config)


# -- dynamic slices


@BATCHING_RULES.rule(opcodes.DYNAMIC_SLICE)
def dynamic_slice(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Reads element `i` of a slice at `start + i` by NumPy's indexing if each batch element has its own start."""
    operand, *indices = values
    shape, starts = instruction.operands[0].shape, instruction.operands[1:]
    sizes = instruction.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes
    count = batch_size(instruction, values)
    if not _any(indices, starts):
        arguments = [operand, np.zeros((), np.int64), *indices]
        return evaluate_batched(context, instruction, arguments, count, dynamic_slice_sizes=(count, *sizes))
    places = _places(indices, starts, shape, sizes, count)
    return operand[places if is_batched(operand, shape) else places[1:]]


@BATCHING_RULES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    count = batch_size(instruction, values)
    (whole, part), starts, indices = instruction.operands[:2], instruction.operands[2:], values[2:]
    operand, update = (
        broadcast_to_batch(values[0], whole.shape, count),
        broadcast_to_batch(values[1], part.shape, count),
    )
    if not _any(indices, starts):
        return evaluate_batched(context, instruction, [operand, update, np.zeros((), np.int64), *indices], count)
    result = np.array(operand)
    result[_places(indices, starts, whole.shape, part.shape.dimensions, count)] = update
    return result


def _any(indices: Sequence[Value], operands: Sequence[Instruction]) -> bool:
    return any(is_batched(index, operand.shape) for index, operand in zip(indices, operands, strict=True))


def _places(
    indices: Sequence[Array], operands: Sequence[Instruction], shape: Shape, sizes: Sequence[int], count: int
) -> tuple[Array, ...]:
    """Returns the batch index and the position in each dimension of every slice element, as arrays that broadcast."""
    every = [
        broadcast_to_batch(index, o.shape, count).reshape(count, -1) for index, o in zip(indices, operands, strict=True)
    ]
    starts = [column for index in every for column in index.T]
    places = [np.arange(count)]
    for start, whole, size in zip(starts, shape.dimensions, sizes, strict=True):
        places.append(_clamped(start, whole - size))
    grid = [place.reshape(count, *[1] * len(sizes)) for place in places]
    for dimension, size in enumerate(sizes):
        column = [-1 if d == dimension else 1 for d in range(len(sizes))]
        grid[1 + dimension] = grid[1 + dimension] + np.arange(size).reshape(column)
    return tuple(grid)


def _clamped(start: Array, limit: int) -> Array:
    """Converts start indices of any integer type to s64 and clamps them to [0, limit]."""
    if start.dtype == np.uint64:
        start = np.minimum(start, np.uint64(limit))
    return np.clip(start.astype(np.int64), 0, limit)


# -- bitcast


@BATCHING_RULES.rule(opcodes.BITCAST)
def bitcast(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Reinterprets all batch elements, which are consecutive in memory; each is first padded to whole bytes.

    Example: for s4[3] to s8[2] with two elements per byte, each batch element is padded to s4[4].
    """
    array, source, result = values[0], instruction.operands[0].shape, instruction.shape
    count, stored, wanted = len(array), _stored_size(source), _stored_size(result)
    if source.element_type is result.element_type or (stored, wanted) == (source.size, result.size):
        return _bitcast(context, array, _outermost(source, count), _outermost(result, count))
    rows = _bitcast(context, array, _outermost(source, count), _vector(source, (count, source.size)))
    padded = np.zeros((count, stored), array.dtype)
    padded[:, : source.size] = rows
    elements = _bitcast(
        context, padded.reshape(-1), _vector(source, (count * stored,)), _vector(result, (count * wanted,))
    )
    rows = elements.reshape(count, wanted)[:, : result.size]
    return _bitcast(context, rows, _vector(result, (count, result.size)), _outermost(result, count))


def _bitcast(context: Context, array: Array, source: Shape, result: Shape) -> Array:
    operand = Instruction(opcodes.PARAMETER, source)
    return RULES.find(opcodes.BITCAST)(context, Instruction(opcodes.BITCAST, result, [operand]), [array])


def _outermost(shape: Shape, count: int) -> Shape:
    """Returns the shape of the batch, whose dimension is the outermost in memory too."""
    layout = shape.layout
    if layout is not None:
        order = (*shift_dimensions(layout.minor_to_major), 0)
        layout = Layout(order, element_size_in_bits=layout.element_size_in_bits)
    return Shape.array(shape.element_type, (count, *shape.dimensions), layout=layout)


def _vector(shape: Shape, dimensions: Sequence[int]) -> Shape:
    """Returns a row-major shape whose elements are stored like those of the given shape."""
    bits = 0 if shape.layout is None else shape.layout.element_size_in_bits
    layout = Layout(tuple(reversed(range(len(dimensions)))), element_size_in_bits=bits)
    return Shape.array(shape.element_type, dimensions, layout=layout)


def _stored_size(shape: Shape) -> int:
    """Returns the number of elements that fill the bytes of an array, at least its size."""
    bits = 0 if shape.layout is None else shape.layout.element_size_in_bits
    in_a_byte = 8 // bits if 0 < bits < 8 else 1
    return -(-shape.size // in_a_byte) * in_a_byte
