"""Sorts rows that are split over devices by exchanging whole tiles: Batcher's odd-even merge sort, of tiles.

Each device sorts its tile. Then, in each stage of the network, pairs of devices exchange tiles; the first device of a
pair keeps the lesser elements of both, the second one the greater ones. With a and b sorted, these are the lesser of
a[i] and b[n - 1 - i] for each i, which the device sorts again. For n devices there are q * (q + 1) / 2 stages, with
q = log2(n) rounded up: 6 for 8 devices, 36 for 256. Any number of devices will do: the network for the next power of
two, without the pairs whose second device does not exist.

A device receives as many tiles as there are stages, where a gather sends a tile for each other device. Compared with
`distributed_sort.py`, it sends more, but has no search that grows with the square of the number of devices, and sorts
several rows at once.

Each element travels with its position in the row, which decides between equal elements, as in a stable sort, and which
tells the elements that fill up the last tiles: their positions are behind the end of the row.

Responsible for the network and its stages. Does not depend on when a sort is partitioned that way (`sort_plan.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED, S32, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.movement import DimensionsAttributes, DynamicSliceAttributes
from xlapy.passes.expand.blocks import array_constant, compare, index_type, iota, new_computation
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.ordered_rows import TiledRows, inlined, sort_tiles
from xlapy.spmd.along_dimension.tile_group import TileGroup

_LT, _EQ, _GE = ComparisonDirection.LT, ComparisonDirection.EQ, ComparisonDirection.GE

_IDLE, _FIRST, _SECOND = 0, 1, 2
"""The role of a device in a stage: it keeps its tile, the lesser elements of both, or the greater ones."""

Stage = tuple[tuple[int, int], ...]
"""The pairs of tiles that are exchanged at the same time."""


def merge_stages(members: int) -> list[Stage]:
    """Returns the stages of Batcher's odd-even merge sort of some elements."""
    stages: list[Stage] = []
    half = 1
    while half < members:
        distance = half
        while distance:
            firsts = [
                start + offset
                for start in range(distance % half, members - distance, 2 * distance)
                for offset in range(min(distance, members - start - distance))
            ]
            both = [(first, first + distance) for first in firsts]
            stages.append(tuple([pair for pair in both if pair[0] // (2 * half) == pair[1] // (2 * half)]))
            distance //= 2
        half *= 2
    return [stage for stage in stages if stage]


def sort_by_merging(
    rows: TiledRows, write: Writer, tiles: Sequence[Instruction], tile_index: Instruction
) -> list[Instruction]:
    """Writes the sort of tiles `[rows, tile size]`; returns the sorted tiles."""
    return _MergeSort(rows, write, tiles, tile_index).write_sort(tiles)


class _MergeSort:
    """Writes the stages of one sort."""

    def __init__(self, rows: TiledRows, write: Writer, tiles: Sequence[Instruction], tile_index: Instruction) -> None:
        self.group: TileGroup = rows.group
        self.write = write
        self.tile_index = tile_index
        self.shape = tiles[0].shape
        size = self.shape.dimensions[1]
        self.integer = index_type(size * self.group.size)
        is_even = size * self.group.size == rows.length
        types = [tile.shape.element_type for tile in tiles]
        self.comparator = _with_positions(write, rows.comparator, types, self.integer, None if is_even else rows.length)

    def write_sort(self, tiles: Sequence[Instruction]) -> list[Instruction]:
        stages = merge_stages(self.group.size)
        roles = self._roles(stages)
        own = sort_tiles(self.write, self.comparator, [*tiles, self._positions()], 1)
        for number, stage in enumerate(stages):
            role = self.write.reshape(self.write.slice(roles, (number, 0), (number + 1, 1)), Shape.scalar(S32))
            own = sort_tiles(self.write, self.comparator, self._kept(own, self._received(own, stage), role), 1)
        return own[:-1]

    def _positions(self) -> Instruction:
        """Returns the position in its row of each element of the tile."""
        write, shape = self.write, self.shape.with_element_type(self.integer)
        size = write.scalar(shape.dimensions[1], self.integer)
        first = write.add(opcodes.MULTIPLY, write.convert(self.tile_index, self.integer), size)
        return write.add(opcodes.ADD, iota(write, shape, 1), write.broadcast(first, shape))

    def _roles(self, stages: Sequence[Stage]) -> Instruction:
        """Returns the role of the device in each stage, s32[stages, 1]."""
        table = np.full((len(stages), self.group.size), _IDLE, np.int32)
        for number, stage in enumerate(stages):
            for first, second in stage:
                table[number, first], table[number, second] = _FIRST, _SECOND
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=(len(stages), 1))
        zero = self.write.scalar(0, self.tile_index.shape.element_type)
        constant = array_constant(self.write, table)
        return self.write.add(opcodes.DYNAMIC_SLICE, constant, zero, self.tile_index, attributes=attributes)

    def _received(self, own: Sequence[Instruction], stage: Stage) -> list[Instruction]:
        """Exchanges tiles between the devices of each pair; returns them in reverse order, zeros on idle devices."""
        moves = tuple([move for first, second in stage for move in ((first, second), (second, first))])
        received = [self.group.permute(self.write, value, moves) for value in own]
        attributes = DimensionsAttributes.make(dimensions=(1,))
        return [self.write.add(opcodes.REVERSE, tile, attributes=attributes) for tile in received]

    def _kept(self, own: Sequence[Instruction], others: Sequence[Instruction], role: Instruction) -> list[Instruction]:
        """Returns the element that the device keeps of each pair."""
        write, shape = self.write, self.shape.with_element_type(PRED)
        is_first, is_idle = [
            write.broadcast(compare(write, role, write.scalar(which, S32), _EQ), shape) for which in (_FIRST, _IDLE)
        ]
        arguments: list[Instruction] = []
        for mine, other in zip(own, others, strict=True):
            arguments += [write.add(opcodes.SELECT, is_first, *pair) for pair in ((mine, other), (other, mine))]
        attributes = DimensionsAttributes.make(dimensions=(0, 1))
        keeps = write.add(
            opcodes.MAP, *arguments, attributes=attributes, computations=[self.comparator], shape=shape
        )  # the first device keeps its element if it is less, the second one if the other is
        keeps = write.add(opcodes.OR, keeps, is_idle)
        return [write.add(opcodes.SELECT, keeps, mine, other) for mine, other in zip(own, others, strict=True)]


def _with_positions(
    write: Writer, comparator: Computation, types: Sequence[PrimitiveType], integer: PrimitiveType, length: int | None
) -> Computation:
    """Returns a comparator of the operands and their positions that orders equal elements by position.

    length: that of the row; elements at positions behind it come last. None if there are none.
    """
    scalars = [Shape.scalar(each) for each in (*types, integer) for _ in range(2)]

    def body(into: Writer, given: list[Instruction]) -> Instruction:
        *elements, left, right = given
        swapped = [elements[number ^ 1] for number in range(len(elements))]
        is_less = inlined(into, comparator, elements)
        is_greater = inlined(into, comparator, swapped)
        is_before = compare(into, left, right, _LT)
        ties = into.add(opcodes.AND, into.add(opcodes.NOT, is_greater), is_before)
        found = into.add(opcodes.OR, is_less, ties)
        if length is None:
            return found
        one, other = [compare(into, each, into.scalar(length, integer), _GE) for each in (left, right)]
        same = into.add(opcodes.AND, compare(into, one, other, _EQ), found)
        return into.add(opcodes.OR, compare(into, one, other, _LT), same)

    return new_computation(write, "by_position", scalars, body)
