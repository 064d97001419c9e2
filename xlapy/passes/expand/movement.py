"""Expansions of data movement: shuffle, bitcast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.movement import ShuffleAttributes, ShuffleMode
from xlapy.passes.expand.blocks import array_constant, concatenate, index_type, slice_dimension
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.rewrite import Writer

# -- shuffle


@EXPANSIONS.rule(opcodes.SHUFFLE)
def shuffle(write: Writer, instruction: Instruction) -> Instruction:
    """A rotation is a concatenate of two slices of each dimension; a permutation is a gather from the flat array."""
    (operand,), attributes = instruction.operands, instruction.attributes_as(ShuffleAttributes)
    if instruction.shape.is_dynamic:
        raise UnsupportedError(
            codes.EXPANSION,
            f"a shuffle of the elements that are there needs their number: {operand.shape.to_text(layout=False)}",
        )
    if not operand.shape.size or not attributes.dimensions:
        return operand
    if attributes.mode is ShuffleMode.PERMUTE:
        return _gathered(write, operand, attributes)
    for dimension, shift in zip(attributes.dimensions, attributes.shifts, strict=True):
        size = operand.shape.dimensions[dimension]
        start = shift % size
        parts = [
            slice_dimension(write, operand, dimension, start, size),
            slice_dimension(write, operand, dimension, 0, start),
        ]
        operand = concatenate(write, parts, dimension)
    return operand


def _gathered(write: Writer, operand: Instruction, attributes: ShuffleAttributes) -> Instruction:
    """Gathers the elements at clamped coordinates, converted to indices into the flat array."""
    sizes = operand.shape.dimensions
    assert attributes.indices is not None
    indices = attributes.indices.array.astype(np.int64)
    if len(attributes.dimensions) == 1:
        indices = indices[..., np.newaxis]
    places = list(np.ogrid[tuple(slice(size) for size in sizes)])
    for number, dimension in enumerate(attributes.dimensions):
        places[dimension] = np.clip(indices[..., number], 0, sizes[dimension] - 1)
    flat = np.broadcast_to(np.ravel_multi_index(np.broadcast_arrays(*places), sizes), sizes)
    row = write.reshape(operand, operand.shape.with_dimensions((operand.shape.size,)))
    gather = GatherAttributes.make(
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=len(sizes),
        slice_sizes=(1,),
    )
    starts = array_constant(write, flat.astype(index_type(operand.shape.size).dtype))
    return write.add(opcodes.GATHER, row, starts, attributes=gather, shape=operand.shape)


# -- bitcast


@EXPANSIONS.rule(opcodes.BITCAST)
def bitcast(write: Writer, instruction: Instruction) -> Instruction:
    """Transposes to the operand's memory order, reinterprets the elements, and transposes from the result's order."""
    (operand,), shape = instruction.operands, instruction.shape
    source = operand.shape
    if source.is_dynamic or shape.is_dynamic:
        raise UnsupportedError(
            codes.EXPANSION,
            "the bytes of dynamic dimensions hold padding: "
            f"{source.to_text(layout=False)} to {shape.to_text(layout=False)}",
        )
    order = _major_to_minor(source)
    stored = operand if order == sorted(order) else write.transpose(operand, order)
    row = write.reshape(stored, source.with_dimensions((source.size,)))
    if source.element_type is not shape.element_type:
        _check_whole_elements(source, shape)
    elements = _reinterpreted(write, row, shape)
    order = _major_to_minor(shape)
    placed = shape.with_dimensions([shape.dimensions[d] for d in order])
    if order == sorted(order):
        return write.reshape(elements, shape)
    back = sorted(range(len(order)), key=order.__getitem__)
    return write.transpose(write.reshape(elements, placed), back, shape=shape)


def _major_to_minor(shape: Shape) -> Sequence[int]:
    return list(range(shape.rank)) if shape.layout is None else list(reversed(shape.layout.minor_to_major))


def _check_whole_elements(source: Shape, shape: Shape) -> None:
    """`UnsupportedError` where no bitcast-convert reads the bytes so."""
    for side in (source, shape):
        t, bits = side.element_type, side.layout.element_size_in_bits if side.layout is not None else 0
        if t.is_complex or t.bits not in (2, 4, 8, 16, 32, 64) or (t.bits < 8 and bits != t.bits):
            raise UnsupportedError(codes.EXPANSION, f"the bytes of {side} are not those of whole elements in a row")


def _reinterpreted(write: Writer, row: Instruction, shape: Shape) -> Instruction:
    """The bytes of a vector as elements of another type, in a vector."""
    source, target = row.shape.element_type, shape.element_type
    if source is target:
        return row
    if source.bits < target.bits:
        count = target.bits // source.bits
        grouped = row.shape.with_dimensions((row.shape.size // count, count))
        row = write.reshape(row, grouped)
        return write.add(opcodes.BITCAST_CONVERT, row, shape=Shape.array(target, (row.shape.dimensions[0],)))
    made = (row.shape.size, source.bits // target.bits)
    split = Shape.array(target, made if source.bits != target.bits else made[:1])
    return write.reshape(write.add(opcodes.BITCAST_CONVERT, row, shape=split), split.with_dimensions((split.size,)))
