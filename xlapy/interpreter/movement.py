"""Operations that move elements without computing any.

A result may be a view of an operand: rules never write into their operands, so views are safe. Indices end in `...`, so
that NumPy returns an array for rank 0 too. Does not depend on strides or padding of buffers; layouts matter only to
bitcast, which keeps the order of bytes in memory.
Source: BroadcastInDim, Reshape, Transpose, Rev, Concatenate, Slice, Pad, DynamicSlice, DynamicUpdateSlice,
GetDimensionSize, SetDimensionSize, DynamicReshape of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.opcodes import movement as ops
from xlapy.opcodes.attributes.dimensions import PaddingDimension
from xlapy.opcodes.movement import DynamicSliceAttributes, PadAttributes, ShuffleAttributes, SliceAttributes


@RULES.rule(opcodes.BROADCAST)
def broadcast(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Makes operand dimension `i` result dimension `dimensions[i]`, and repeats the operand along all others."""
    operand: Array = values[0]
    dimensions = instruction.dimensions
    in_order = operand.transpose(np.argsort(dimensions)) if dimensions else operand
    kept = [size if d in dimensions else 1 for d, size in enumerate(instruction.shape.dimensions)]
    return np.broadcast_to(in_order.reshape(kept), instruction.shape.dimensions)


@RULES.rule(opcodes.RESHAPE, opcodes.DYNAMIC_RESHAPE)
def reshape(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the same elements in the same row-major order; the size operands of dynamic-reshape are not needed."""
    return values[0].reshape(instruction.shape.dimensions)


@RULES.rule(opcodes.TRANSPOSE)
def transpose(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Makes operand dimension `dimensions[i]` result dimension `i`."""
    return values[0].transpose(instruction.dimensions)


@RULES.rule(opcodes.REVERSE)
def reverse(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Moves element `i` of each listed dimension to `size - 1 - i`."""
    dimensions = instruction.dimensions
    backwards = (slice(None, None, -1 if d in dimensions else 1) for d in range(values[0].ndim))
    return values[0][(*backwards, ...)]


@RULES.rule(opcodes.SHUFFLE)
def shuffle(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Rotates dimensions to the left, or reads each result element at given coordinates, which are clamped."""
    operand: Array = values[0]
    attributes = instruction.attributes_as(ShuffleAttributes)
    dimensions = attributes.dimensions
    if not operand.size or not dimensions:
        return operand
    if attributes.mode is ops.ShuffleMode.ROTATE:
        return np.roll(operand, [-shift for shift in attributes.shifts], dimensions)
    assert attributes.indices is not None
    indices = attributes.indices.array.astype(np.int64)
    if len(dimensions) == 1:
        indices = indices[..., np.newaxis]
    indices = np.broadcast_to(indices, (*operand.shape, len(dimensions)))
    coordinates: list[Array] = list(np.ogrid[tuple(slice(size) for size in operand.shape)])
    for number, dimension in enumerate(dimensions):
        coordinates[dimension] = np.clip(indices[..., number], 0, operand.shape[dimension] - 1)
    return operand[tuple(coordinates)]


@RULES.rule(opcodes.CONCATENATE)
def concatenate(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Joins the operands along a dimension, in order."""
    return np.concatenate(values, instruction.dimension)


@RULES.rule(opcodes.SLICE)
def slice_(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the elements at `start`, `start + stride`, ... before `limit` in each dimension."""
    ranges = instruction.attributes_as(SliceAttributes).ranges
    return values[0][(*map(slice, ranges.starts, ranges.limits, ranges.strides), ...)]


@RULES.rule(opcodes.PAD)
def pad(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Inserts `interior` padding values between neighboring elements, then adds or, if negative, removes the edges."""
    operand, value = values
    result = np.empty(instruction.shape.dimensions, operand.dtype)
    result[...] = value
    config = instruction.attributes_as(PadAttributes).padding.dimensions
    pairs = [_kept(*each) for each in zip(config, operand.shape, result.shape, strict=True)]
    result[tuple(target for _, target in pairs)] = operand[tuple(source for source, _ in pairs)]
    return result


def _kept(entry: PaddingDimension, size: int, padded: int) -> tuple[slice, slice]:
    """Returns the operand elements that stay inside a padded dimension, and their positions in it.

    Element `i` goes to `low + i * step`. Example: with low -1, interior 1, size 3 and high 0, the elements would go to
    -1, 1 and 3, of which the last two are in 0..3: elements 1 and 2 go to 1 and 3.
    """
    step = entry.interior + 1
    first = max(0, -(entry.low // step))
    last = min(size, -((entry.low - padded) // step))
    if first >= last:
        return slice(0), slice(0)
    start = entry.low + first * step
    return slice(first, last), slice(start, start + (last - first - 1) * step + 1, step)


@RULES.rule(opcodes.DYNAMIC_SLICE)
def dynamic_slice(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the slice at the start indices, each clamped so that the slice is inside the operand."""
    operand, *indices = values
    return operand[
        (*_window(operand.shape, indices, instruction.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes), ...)
    ]


@RULES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the operand with the slice at the start indices, clamped as in dynamic-slice, replaced by the update."""
    operand, update, *indices = values
    result = np.array(operand)  # an array also where it has no dimensions
    result[_window(operand.shape, indices, update.shape)] = update
    return result


def _window(whole: Sequence[int], indices: Sequence[Array], sizes: Sequence[int]) -> tuple[slice, ...]:
    """Returns the clamped slice of the given sizes in each dimension.

    The indices are scalars, or one vector of them.
    """
    starts = [int(index) for vector in indices for index in vector.ravel()]
    clamped = [min(max(start, 0), total - size) for start, total, size in zip(starts, whole, sizes, strict=True)]
    return tuple(slice(start, start + size) for start, size in zip(clamped, sizes, strict=True))


@RULES.rule(opcodes.COPY)
def copy(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the operand: values have no layout, so nothing changes."""
    return values[0]


@RULES.rule(opcodes.BITCAST)
def bitcast(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Writes the elements in the order of the operand's layout and reads those bytes in the order of the result's.

    Example: f32[2,3]{1,0} to f32[2,3]{0,1} changes [[a,b,c],[d,e,f]], in memory a b c d e f, to [[a,c,e],[b,d,f]].
    """
    source, result = instruction.operands[0].shape, instruction.shape
    stored = values[0].transpose(_major_to_minor(source)).ravel()
    order = _major_to_minor(result)
    elements = _reinterpret(stored, source, result).reshape([result.dimensions[d] for d in order])
    return elements.transpose(np.argsort(order)) if order else elements


def _major_to_minor(shape: Shape) -> list[int]:
    return list(range(shape.rank)) if shape.layout is None else list(reversed(shape.layout.minor_to_major))


def _reinterpret(stored: Array, source: Shape, result: Shape) -> Array:
    """Reads the bytes of a vector as elements of the result's type."""
    if source.element_type is result.element_type:
        return stored
    data = Literal.array_of(stored).to_bytes(packed=_is_packed(source))
    elements = Shape.array(result.element_type, (result.size,))
    return Literal.from_bytes(elements, data, packed=_is_packed(result)).array


def _is_packed(shape: Shape) -> bool:
    """Returns whether several elements share a byte."""
    return shape.layout is not None and 0 < shape.layout.element_size_in_bits < 8


@RULES.rule(opcodes.GET_DIMENSION_SIZE)
def get_dimension_size(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the size of a static dimension, as an s32."""
    return np.array(instruction.operands[0].shape.dimensions[instruction.dimension], np.int32)


@RULES.rule(opcodes.SET_DIMENSION_SIZE)
def set_dimension_size(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the operand: a result with static dimensions keeps all elements."""
    return values[0]
