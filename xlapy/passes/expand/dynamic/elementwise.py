"""Elementwise ops on dynamic dimensions: they run on the padded arrays, since padding is combined only with padding.

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
    """A dynamic dimension of size 1 is repeated to the size of the other operand."""
    arrays, sizes = _matched_operands(write, instruction, values)
    return Sized(write.like(instruction, arrays), sizes)


DYNAMIC_EXPANSIONS.rule(*(op for op in REGISTRY.values() if op.elementwise))(elementwise)


@DYNAMIC_EXPANSIONS.rule(opcodes.COPY)
def copy(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """A tuple is returned unchanged, because its values are immutable."""
    return values[0] if instruction.shape.is_tuple else elementwise(write, instruction, values)


@DYNAMIC_EXPANSIONS.rule(opcodes.MAP)
def map_(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """If the computation has a loop, elements beyond the sizes are replaced by the first element.

    The loop might not end on the values in the padding.
    """
    arrays, sizes = _matched_operands(write, instruction, values)
    if any(
        i.op is opcodes.WHILE for c in (instruction.to_apply, *called_computations(instruction.to_apply)) for i in c
    ):
        arrays = [_fill_with_first(write, array, sizes) if array.shape.rank else array for array in arrays]
    return Sized(write.like(instruction, arrays), sizes)


def _fill_with_first(write: SizeWriter, array: Instruction, sizes: Sequence[Size]) -> Instruction:
    dimensions = array.shape.dimensions
    if 0 in dimensions:
        return array
    first = write.slice(array, [0] * len(dimensions), [1] * len(dimensions))
    return write.masked(array, sizes, write.reshape(first, Shape.scalar(array.shape.element_type)))


def _matched_operands(
    write: SizeWriter, instruction: Instruction, values: Sequence[Value]
) -> tuple[list[Instruction], tuple[Size, ...]]:
    """Returns the operands, repeated in dimensions of size 1 where necessary, and the sizes of the result.

    Of two dynamic sizes the smaller counts; if it is 1, the larger counts. If only some operands are dynamic in a
    dimension, only their sizes count. A scalar operand fits any size.
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
            sizes[dimension] = _broadcast_size(write, sizes[dimension], size)
        for number, size in dynamic if len(dynamic) > 1 else []:
            arrays[number] = _repeated(write, arrays[number], dimension, size, sizes[dimension])
    return arrays, tuple(sizes)


def _broadcast_size(write: SizeWriter, left: Size, right: Size) -> Size:
    if left is right:
        return left
    low, high = write.smaller(left, right), write.larger(left, right)
    return write.select_size(write.compare_sizes(low, ComparisonDirection.EQ, 1), high, low)


def _repeated(write: SizeWriter, array: Instruction, dimension: int, size: Size, wanted: Size) -> Instruction:
    """Repeats the first slice along a dimension, if the actual size is 1 and the wanted size is larger."""
    shape = array.shape
    if size is wanted or not shape.dimensions[dimension]:
        return array
    row = slice_dimension(write, array, dimension, 0, 1)
    others = [d for d in range(shape.rank) if d != dimension]
    flat = write.reshape(row, shape.with_dimensions(shape.dimensions[d] for d in others))
    one = write.compare_sizes(size, ComparisonDirection.EQ, 1)
    stretched = write.add(opcodes.AND, one, write.compare_sizes(wanted, ComparisonDirection.GT, 1))
    return write.where(write.broadcast(stretched, _mask_shape(shape)), write.broadcast(flat, shape, others), array)


def _mask_shape(shape: Shape) -> Shape:
    return shape.with_element_type(PRED)


@DYNAMIC_EXPANSIONS.rule(opcodes.BITCAST_CONVERT)
def bitcast_convert(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """A last dimension that the op adds or removes counts parts of an element and is always static."""
    dimensions = instruction.shape.dimensions
    sizes = sizes_of(values[0])[: len(dimensions)]
    return Sized(write.like(instruction, [array_of(values[0])]), (*sizes, *dimensions[len(sizes) :]))
