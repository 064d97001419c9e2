"""Elementwise ops on dynamic dimensions: padding meets padding, so they run on the arrays of the bounds.

Does not depend on what the operations compute.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import called_computations
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.registry import REGISTRY
from xlapy.passes.expand.blocks import slice_dimension
from xlapy.passes.expand.dynamic.core import DYNAMIC_EXPANSIONS, Size, Sized, SizeWriter, Value, array_of, sizes_of


def elementwise(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """A dynamic dimension of size 1 is repeated to the size of another operand's."""
    arrays, sizes = _met(write, instruction, values)
    return Sized(write.like(instruction, arrays), sizes)


DYNAMIC_EXPANSIONS.rule(*(op for op in REGISTRY.values() if op.elementwise))(elementwise)


@DYNAMIC_EXPANSIONS.rule(opcodes.COPY)
def copy(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """A copy of a tuple is made of what the tuple is."""
    return values[0] if instruction.shape.is_tuple else elementwise(write, instruction, values)


@DYNAMIC_EXPANSIONS.rule(opcodes.MAP)
def map_(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Elements beyond the sizes are those of the first place where the computation might not end on others."""
    arrays, sizes = _met(write, instruction, values)
    if any(
        i.op is opcodes.WHILE for c in (instruction.to_apply, *called_computations(instruction.to_apply)) for i in c
    ):
        arrays = [_first_beyond(write, array, sizes) if array.shape.rank else array for array in arrays]
    return Sized(write.like(instruction, arrays), sizes)


def _first_beyond(write: SizeWriter, array: Instruction, sizes: Sequence[Size]) -> Instruction:
    dimensions = array.shape.dimensions
    if 0 in dimensions:
        return array
    first = write.slice(array, [0] * len(dimensions), [1] * len(dimensions))
    return write.masked(array, sizes, write.reshape(first, Shape.scalar(array.shape.element_type)))


def _met(
    write: SizeWriter, instruction: Instruction, values: Sequence[Value]
) -> tuple[list[Instruction], tuple[Size, ...]]:
    """The operands, repeated where they must be, and the sizes of the result.

    Of two dynamic sizes the smaller counts, or, where that is a 1, the larger. A static dimension beside a dynamic one
    has no say. Scalars beside arrays fit any size.
    """
    rank = instruction.shape.rank
    arrays = [array_of(value) for value in values]
    rows = list(enumerate(zip(values, instruction.operand_shapes, strict=True)))
    sizes: list[Size] = list(next(shape.dimensions for _, (_, shape) in rows if shape.rank == rank))
    for dimension in range(rank):
        dynamic = [
            (n, sizes_of(v)[dimension]) for n, (v, s) in rows if s.rank == rank and s.dynamic_dimensions[dimension]
        ]
        if dynamic:
            sizes[dimension] = dynamic[0][1]
        for _, size in dynamic[1:]:
            sizes[dimension] = _larger_beside_one(write, sizes[dimension], size)
        for number, size in dynamic if len(dynamic) > 1 else []:
            arrays[number] = _repeated(write, arrays[number], dimension, size, sizes[dimension])
    return arrays, tuple(sizes)


def _larger_beside_one(write: SizeWriter, left: Size, right: Size) -> Size:
    if left is right:
        return left
    low, high = write.smaller(left, right), write.larger(left, right)
    return write.chosen(write.compared(low, ComparisonDirection.EQ, 1), high, low)


def _repeated(write: SizeWriter, array: Instruction, dimension: int, size: Size, wanted: Size) -> Instruction:
    """The array with its first slice everywhere in a dimension, where its size is 1 and another one is wanted."""
    shape = array.shape
    if size is wanted or not shape.dimensions[dimension]:
        return array
    row = slice_dimension(write, array, dimension, 0, 1)
    others = [d for d in range(shape.rank) if d != dimension]
    flat = write.reshape(row, shape.with_dimensions(shape.dimensions[d] for d in others))
    one = write.compared(size, ComparisonDirection.EQ, 1)
    stretched = write.add(opcodes.AND, one, write.compared(wanted, ComparisonDirection.GT, 1))
    return write.where(write.broadcast(stretched, _flags(shape)), write.broadcast(flat, shape, others), array)


def _flags(shape: Shape) -> Shape:
    return shape.with_element_type(PRED)


@DYNAMIC_EXPANSIONS.rule(opcodes.BITCAST_CONVERT)
def bitcast_convert(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """A last dimension may come or go, which counts parts of an element and is there in full."""
    dimensions = instruction.shape.dimensions
    sizes = sizes_of(values[0])[: len(dimensions)]
    return Sized(write.like(instruction, [array_of(values[0])]), (*sizes, *dimensions[len(sizes) :]))
