"""Operations whose parts depend on where they lie: what is counted, looked up, written at places that are computed.

Owns: what a device computes for its part of them. Must not know: why they are cut.

A device looks up its own rows, and gives zeros for those that others have. What is written at places of other devices
is left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.movement import DynamicSliceAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import IotaAttributes
from xlapy.passes.expand.blocks import compare, index_type, reduced
from xlapy.spmd.moving import Mover
from xlapy.spmd.splits import Placement, Split


def counted_from(mover: Mover, instruction: Instruction, part: Shape, placement: Placement) -> Instruction:
    """A part of an iota: counted from where it begins, in integers, as sums of rounded numbers differ."""
    write, dimension = mover.write, instruction.attributes.iota_dimension
    split = placement.splits[dimension]
    attributes = IotaAttributes.make(iota_dimension=dimension)
    if split is None:
        return write.add(opcodes.IOTA, attributes=attributes, shape=part)
    counts = part.with_element_type(index_type(instruction.shape.dimensions[dimension]))
    starts = np.asarray(split, counts.dtype) * part.dimensions[dimension]
    local = write.add(opcodes.IOTA, attributes=attributes, shape=counts)
    sums = write.add(opcodes.ADD, local, write.broadcast(mover.own(starts), counts))
    return write.convert(sums, part.element_type)


@dataclass(frozen=True)
class Along:
    """Places along a dimension of an array that is cut, or not: the size of the part, the greatest place."""

    split: Split | None
    size: int
    most: int


@dataclass(frozen=True)
class Part:
    """The part of an operation that a device computes. operands: of it. shape: of its result. lies: where the first
    operand lies, if there is one."""

    mover: Mover
    instruction: Instruction
    operands: Sequence[Instruction]
    attributes: Attributes
    shape: Shape
    lies: Sequence[Placement]

    def made(self, operands: Sequence[Instruction] | None = None) -> Instruction:
        """The operation, on other operands if they are given."""
        chosen = self.operands if operands is None else operands
        made = edit.clone_instruction(self.instruction, self.mover.write.computation, chosen)
        made.attributes = self.attributes
        made.sharding = None
        edit.set_shape(made, self.shape)
        return made

    def places(self, given: Instruction, axis: int | None, along: Sequence[Along], least: int) -> Instruction:
        """Places in the whole first operand as places in the part, after they are brought between bounds.

        given: numbers of any type of integers; along an axis of it stand places along several dimensions.
        """
        write = self.mover.write
        limits = np.iinfo(given.shape.dtype)
        low, high = [max(least, limits.min)] * len(along), [min(each.most, limits.max) for each in along]
        bounds = [self._along(given, axis, bound) for bound in (low, high)]
        bounded = write.add(opcodes.CLAMP, bounds[0], given, bounds[1])
        numbers = write.convert(bounded, index_type(*self.instruction.operands[0].shape.dimensions))
        tiles = np.asarray([each.split or (0,) * self.mover.devices for each in along])
        starts = (tiles.T * [each.size for each in along]).astype(numbers.shape.dtype)
        own = self.mover.own(starts if axis is not None else starts[:, 0])
        return write.add(opcodes.SUBTRACT, numbers, write.broadcast(own, numbers.shape, [] if axis is None else [axis]))

    def inside(self, places: Instruction, axis: int | None, along: Sequence[Along]) -> Instruction:
        """Whether places are in the part, along all of the dimensions."""
        write = self.mover.write
        low = compare(write, places, write.filled(0, places.shape), ComparisonDirection.GE)
        sizes = self._along(places, axis, [each.size for each in along])
        found = write.add(opcodes.AND, low, compare(write, places, sizes, ComparisonDirection.LT))
        return found if axis is None else reduced(write, opcodes.AND, found, [axis], 1)

    def along(self, dimension: int, is_cut: bool, most: int) -> Along:
        """is_cut: whether places in the whole are other places in the part."""
        size = self.operands[0].shape.dimensions[dimension] if is_cut else most + 1
        return Along(self.lies[0].splits[dimension] if is_cut else None, size, most)

    def _along(self, like: Instruction, axis: int | None, values: Sequence[int]) -> Instruction:
        """Numbers along an axis of an array, or one everywhere."""
        write, row = self.mover.write, np.asarray(values, like.shape.dtype)
        literal = write.literal(Literal.array_of(row if axis is not None else np.asarray(row[0])))
        return write.broadcast(literal, like.shape, [] if axis is None else [axis])


def _gathered(part: Part) -> Instruction:
    """Rows that others have are zeros."""
    attributes, whole = part.instruction.attributes, part.instruction.operands[0].shape.dimensions
    cut = _cut(part, attributes.start_index_map, attributes.collapsed_slice_dims)
    if not cut:
        return part.made()
    along = [part.along(d, d in cut, whole[d] - attributes.slice_sizes[d]) for d in attributes.start_index_map]
    indices, axis = _with_axis(part, part.operands[1])
    places = part.places(indices, axis, along, 0)
    rows = part.made([part.operands[0], places])
    outside = [dimension for dimension in range(rows.shape.rank) if dimension not in attributes.offset_dims]
    return _or_zeros(part, part.inside(places, axis, along), rows, outside)


def _cut(part: Part, looked_up: Sequence[int], single: Sequence[int]) -> list[int]:
    """The dimensions that are cut, of those that places are looked up along, one element each."""
    return [dimension for dimension in looked_up if dimension in single and part.lies[0].splits[dimension]]


def _with_axis(part: Part, indices: Instruction) -> tuple[Instruction, int]:
    """The array of indices with the dimension that its vectors stand along."""
    axis: int = part.instruction.attributes.index_vector_dim
    if axis < indices.shape.rank:
        return indices, axis
    return part.mover.write.reshape(indices, indices.shape.with_dimensions([*indices.shape.dimensions, 1])), axis


def _or_zeros(part: Part, condition: Instruction, value: Instruction, dimensions: Sequence[int] = ()) -> Instruction:
    write = part.mover.write
    mask = write.broadcast(condition, value.shape.with_element_type(condition.shape.element_type), dimensions)
    return write.add(opcodes.SELECT, mask, value, write.filled(0, value.shape))


def _scattered(part: Part) -> Instruction:
    """Places of others are beside the part, and so nothing is written there."""
    attributes, count = part.instruction.attributes, len(part.operands) // 2
    whole, dimensions = part.instruction.operands[0].shape.dimensions, attributes.scatter_dims_to_operand_dims
    cut = _cut(part, dimensions, attributes.inserted_window_dims)
    if not cut:
        return part.made()
    along = [part.along(d, d in cut, whole[d]) for d in dimensions]
    indices, axis = _with_axis(part, part.operands[count])
    places = part.places(indices, axis, along, -1)
    return part.made([*part.operands[:count], places, *part.operands[count + 1 :]])


def _sliced(part: Part) -> Instruction:
    """An element that another device has is zero."""
    return _at_one(part, 1, lambda places, inside: _or_zeros(part, inside, part.made([part.operands[0], *places])))


def _updated(part: Part) -> Instruction:
    """An element that another device has is not written: what is there is written again."""

    def written(places: Sequence[Instruction], inside: Instruction) -> Instruction:
        write, (array, update) = part.mover.write, part.operands[:2]
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=update.shape.dimensions)
        old = write.add(opcodes.DYNAMIC_SLICE, array, *places, attributes=attributes)
        mask = write.broadcast(inside, update.shape.with_element_type(inside.shape.element_type))
        return part.made([array, write.add(opcodes.SELECT, mask, update, old), *places])

    return _at_one(part, 2, written)


def _at_one(part: Part, first: int, write: Callable[[Sequence[Instruction], Instruction], Instruction]) -> Instruction:
    """What is done at one element along dimensions that are cut, where the operands from the `first` on say."""
    whole = part.instruction.operands[0].shape.dimensions
    taken = part.instruction.operands[1].shape if first == 2 else part.instruction.shape
    sizes = list(zip(whole, taken.dimensions, strict=True))
    cut = [d for d, (all_of, size) in enumerate(sizes) if size == 1 != all_of and part.lies[0].splits[d]]
    if not cut:
        return part.made()
    along = [part.along(d, d in cut, all_of - size) for d, (all_of, size) in enumerate(sizes)]
    places = [part.places(part.operands[first + d], None, [each], 0) for d, each in enumerate(along)]
    tests = [part.inside(places[d], None, [along[d]]) for d in cut]
    return write(places, functools.reduce(functools.partial(part.mover.write.add, opcodes.AND), tests))


PICKED: dict[OpDef, Callable[[Part], Instruction]] = {
    opcodes.GATHER: _gathered,
    opcodes.SCATTER: _scattered,
    opcodes.DYNAMIC_SLICE: _sliced,
    opcodes.DYNAMIC_UPDATE_SLICE: _updated,
}
