"""Sharding rules of operations that move elements, such as broadcasts, reshapes, slices and concatenations."""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import PaddingDimension
from xlapy.opcodes.movement import PadAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.halo.concatenations import concatenation_of
from xlapy.spmd.partial_sums import produces_partial_sums
from xlapy.spmd.sharding_rules.factors import Factor, Rule, same_dimensions


def _broadcast(instruction: Instruction) -> Iterator[Factor]:
    operand_dimensions = {result: operand for operand, result in enumerate(instruction.dimensions)}
    for dimension in range(instruction.shape.rank):
        yield Factor((operand_dimensions.get(dimension),), (dimension,), is_uneven=True)


def _transpose(instruction: Instruction) -> Iterator[Factor]:
    for result, operand in enumerate(instruction.dimensions):
        yield Factor((operand,), (result,), is_uneven=True)


def _reshape(instruction: Instruction) -> Iterator[Factor]:
    """Yields the major dimension of each group of dimensions that the reshape splits or merges.

    Two dimensions correspond if the sizes of the dimensions before them have the same product.
    """
    operand_dimensions = {outer: dimension for dimension, outer in _outer_sizes(instruction.operands[0].shape)}
    for dimension, outer in _outer_sizes(instruction.shape):
        if outer in operand_dimensions:
            operand = operand_dimensions[outer]
            is_same = instruction.operands[0].shape.dimensions[operand] == instruction.shape.dimensions[dimension]
            yield Factor((operand,), (dimension,), is_uneven=is_same)


def _outer_sizes(shape: Shape) -> Iterator[tuple[int, int]]:
    """Yields each dimension of more than one element with the product of the sizes before it."""
    outer = 1
    for dimension, size in enumerate(shape.dimensions):
        if size != 1:
            yield dimension, outer
        outer *= size


def _reverse(instruction: Instruction) -> Iterator[Factor]:
    for dimension in range(instruction.shape.rank):
        exchanged = (0,) if dimension in instruction.dimensions else ()
        yield Factor((dimension,), (dimension,), exchanged, is_uneven=True)


def concatenate(instruction: Instruction) -> Iterator[Factor]:
    """Yields all dimensions; along the concatenated one, a tile has elements of tiles of several operands."""
    count, found = len(instruction.operands), concatenation_of(instruction)
    assert found is not None
    for dimension in range(instruction.shape.rank):
        exchanged = tuple(range(count)) if dimension == found[0] else ()
        yield Factor((dimension,) * count, (dimension,), exchanged, is_uneven=True)


def _pad(instruction: Instruction) -> Iterator[Factor]:
    for dimension, padding in enumerate(instruction.attributes_as(PadAttributes).padding.dimensions):
        exchanged = () if padding == PaddingDimension(0, 0) else (0,)
        yield Factor((dimension, None), (dimension,), exchanged, is_uneven=True)


def _slice(instruction: Instruction) -> Iterator[Factor]:
    sizes = zip(instruction.operands[0].shape.dimensions, instruction.shape.dimensions, strict=True)
    for dimension, (before, after) in enumerate(sizes):
        yield Factor((dimension,), (dimension,), () if before == after else (0,), is_uneven=True)


def _dynamic_slice(instruction: Instruction) -> Iterator[Factor]:
    """Yields all dimensions; those of a slice are reduced, because a device has zeros for elements of other tiles."""
    if instruction.operands[-1].shape.rank:
        return  # the start indices are one vector
    last = instruction.operands[1] if instruction.op is opcodes.DYNAMIC_UPDATE_SLICE else instruction
    sizes = list(zip(instruction.operands[0].shape.dimensions, last.shape.dimensions, strict=True))
    kept = [dimension for dimension, (before, after) in enumerate(sizes) if before == after]
    yield from same_dimensions(instruction, kept, is_uneven=True)
    rest = (None,) * (len(instruction.operands) - 1)
    for dimension in [dimension for dimension, (before, after) in enumerate(sizes) if 0 < after != before]:
        if instruction.op is opcodes.DYNAMIC_UPDATE_SLICE:
            yield Factor((dimension, *rest), (dimension,), is_uneven=True)
        elif produces_partial_sums(instruction):
            yield Factor((dimension, *rest), (None,), is_uneven=True)


MOVEMENT_RULES: dict[OpDef, Rule] = {
    opcodes.BROADCAST: _broadcast,
    opcodes.TRANSPOSE: _transpose,
    opcodes.RESHAPE: _reshape,
    opcodes.REVERSE: _reverse,
    opcodes.CONCATENATE: concatenate,
    opcodes.PAD: _pad,
    opcodes.SLICE: _slice,
    opcodes.DYNAMIC_SLICE: _dynamic_slice,
    opcodes.DYNAMIC_UPDATE_SLICE: _dynamic_slice,
}
