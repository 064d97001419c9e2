"""Sorts one row that is split over devices, without gathering it.

1. Each device sorts its own tile.
2. The devices search the elements that separate the tiles of the sorted row: for each boundary k, the number of
   elements of each device among the first k of the row. Devices propose elements in the middle of what is left to
   search, some for each boundary, count how many of their own elements precede each proposal, and add up the counts.
   With p proposals, an iteration divides what is left by p + 1.
3. Each device sends the elements between two boundaries to the device of that tile, in blocks of a fixed size. One
   block for each pair of devices is enough for rows in random order; the loop continues until all elements are sent.
   Elements that stay on their device are not sent.
4. Each device sorts what it received, which is in the order of senders. All sorts are stable, so equal elements stay in
   the order of the whole row.

The last tiles need not be full: a device proposes, counts and sends only the elements of the row that it has, and sorts
what fills up its tile to the end.

A device sends each element at most once, plus a padding of some percent, instead of receiving the whole row, and sorts
twice its share. XLA's partitioner gathers the row on every device.

Responsible for these steps. Does not depend on when a sort is partitioned that way (`sorting.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import ancestors
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.movement import DimensionsAttributes, DynamicSliceAttributes
from xlapy.passes.expand.blocks import (
    compare,
    concatenate,
    counted_loop,
    index_type,
    iota,
    reduce_dimensions,
    slice_dimension,
)
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.ordered_rows import DistributedSort, TiledRows, sort_filled_tile
from xlapy.spmd.along_dimension.tile_group import pad_end, while_loop

_LT, _GE, _LE = ComparisonDirection.LT, ComparisonDirection.GE, ComparisonDirection.LE


def sort_by_boundaries(probes: int) -> DistributedSort:
    """Returns the algorithm for one row. probes: how many elements a device proposes per boundary and iteration."""

    def sort(
        rows: TiledRows, write: Writer, tiles: Sequence[Instruction], tile_index: Instruction
    ) -> list[Instruction]:
        flat = [write.reshape(tile, tile.shape.with_dimensions(tile.shape.dimensions[1:])) for tile in tiles]
        found = _SplitRowSort(rows, write, flat, probes).write_sort(flat, tile_index)
        return [write.reshape(each, tile.shape) for each, tile in zip(found, tiles, strict=True)]

    return sort


@dataclass(frozen=True)
class _Search:
    """What the search of boundaries compares: the keys' operands, sorted, and the device's tile."""

    keys: Sequence[Instruction]
    tile_index: Instruction


class _SplitRowSort:
    """Writes the steps of one sort."""

    def __init__(self, rows: TiledRows, write: Writer, tiles: Sequence[Instruction], probes: int) -> None:
        self.group = rows.group
        self.write = write
        self.comparator = rows.comparator
        self.length = rows.length
        self.probes = probes
        self.size = tiles[0].shape.dimensions[0]
        self.is_even = self.size * self.group.size == self.length
        self.integer = index_type(self.size * max(self.group.size, probes + 1))
        read = ancestors([self.comparator.root_instruction])
        self.key_operands = sorted({p.parameter_number // 2 for p in self.comparator.parameters if p in read})

    def write_sort(self, tiles: Sequence[Instruction], tile_number: Instruction) -> list[Instruction]:
        write = self.write
        tile_index = write.convert(tile_number, self.integer)
        count = self._count(write, tile_index)
        is_filling = None if self.is_even else self._is_filling(count)
        own = sort_filled_tile(write, self.comparator, tiles, is_filling)
        inner = self._boundaries(own, tile_index)
        ends = [write.splat(0, self._integers(1)), write.reshape(count, self._integers(1))]
        boundaries = concatenate(write, [ends[0], inner, ends[1]], 0)
        table = self.group.stack(write, boundaries)
        received = self._exchange(own, boundaries, table, tile_index)
        return sort_filled_tile(write, self.comparator, received, is_filling)

    def _count(self, write: Writer, tile_index: Instruction) -> Instruction:
        """Returns how many elements of the row the device's tile has, the others fill it up."""
        if self.is_even:
            return write.scalar(self.size, self.integer)
        start = write.add(opcodes.MULTIPLY, tile_index, write.scalar(self.size, self.integer))
        left = write.add(opcodes.SUBTRACT, write.scalar(self.length, self.integer), start)
        return write.add(opcodes.CLAMP, write.scalar(0, self.integer), left, write.scalar(self.size, self.integer))

    def _is_filling(self, count: Instruction) -> Instruction:
        """Returns which elements of a sorted tile, or of an unsorted one that was not exchanged, fill it up."""
        positions = iota(self.write, self._integers(self.size), 0)
        return compare(self.write, positions, self.write.broadcast(count, positions.shape), _GE)

    def _integers(self, *dimensions: int) -> Shape:
        return Shape.array(self.integer, dimensions)

    # -- the search of boundaries

    def _boundaries(self, own: Sequence[Instruction], tile_index: Instruction) -> Instruction:
        """Returns how many of the device's elements are in the tiles before each boundary: [members - 1].

        The state of the loop is, for each boundary, the least and the greatest number that is still possible.
        """
        write, boundaries = self.write, self._integers(self.group.size - 1)
        trips, left = 0, self.size
        while left:
            trips, left = trips + 1, left // (self.probes + 1)
        keys = [own[number] for number in self.key_operands]
        high = write.broadcast(self._count(write, tile_index), boundaries)
        state = [write.splat(0, boundaries), high, tile_index, *keys]

        def iteration(into: Writer, _: Instruction, given: list[Instruction]) -> Sequence[Instruction]:
            low, high, tile, *elements = given
            return [*self._narrowed(into, low, high, _Search(elements, tile)), tile, *elements]

        return counted_loop(write, trips, state, iteration, "boundaries")[0]

    def _narrowed(self, write: Writer, low: Instruction, high: Instruction, search: _Search) -> list[Instruction]:
        """Returns the least and greatest numbers after one iteration."""
        probes = self._integers(self.group.size - 1, self.probes)
        position = self._probe_positions(write, low, high, probes)
        ranks = self._ranks(write, position, search)
        number = write.add(opcodes.ADD, iota(write, probes, 0), write.splat(1, probes))
        wanted = write.add(opcodes.MULTIPLY, number, write.splat(self.size, probes))
        precedes = compare(write, ranks, wanted, _LT)
        following = write.add(opcodes.ADD, position, write.splat(1, probes))
        lows = write.add(opcodes.SELECT, precedes, following, write.splat(0, probes))
        highs = write.add(opcodes.SELECT, precedes, write.splat(self.size, probes), position)
        new_low = write.add(opcodes.MAXIMUM, low, reduce_dimensions(write, opcodes.MAXIMUM, lows, [1], 0))
        new_high = write.add(opcodes.MINIMUM, high, reduce_dimensions(write, opcodes.MINIMUM, highs, [1], self.size))
        is_open = compare(write, low, high, _LT)
        pairs = ((new_low, low), (new_high, high))
        return [write.add(opcodes.SELECT, is_open, new, old) for new, old in pairs]

    def _probe_positions(self, write: Writer, low: Instruction, high: Instruction, probes: Shape) -> Instruction:
        """Returns positions that divide what is left between `low` and `high` into equal parts."""
        start = write.broadcast(low, probes, (0,))
        left = write.broadcast(write.add(opcodes.SUBTRACT, high, low), probes, (0,))
        number = write.add(opcodes.ADD, iota(write, probes, 1), write.splat(1, probes))
        product = write.add(opcodes.MULTIPLY, left, number)
        return write.add(opcodes.ADD, start, write.add(opcodes.DIVIDE, product, write.splat(self.probes + 1, probes)))

    def _ranks(self, write: Writer, position: Instruction, search: _Search) -> Instruction:
        """Returns the number of elements of the row that precede the device's elements at these positions."""
        count, each = self.group.size, position.shape.size
        flat = write.reshape(position, self._integers(each))
        proposed = [self.group.stack(write, self._at(write, key, flat)) for key in search.keys]
        queries = self._integers(count, each)
        owner, tile = iota(write, queries, 0), write.broadcast(search.tile_index, queries)
        counted = self._preceding(write, proposed, search, compare(write, tile, owner, _LT))
        own = write.broadcast(flat, queries, (1,))
        counts = write.add(opcodes.SELECT, compare(write, tile, owner, ComparisonDirection.EQ), own, counted)
        total = reduce_dimensions(write, opcodes.ADD, self.group.swap_blocks(write, counts), [0])
        return write.reshape(total, position.shape)

    def _preceding(
        self, write: Writer, proposed: Sequence[Instruction], search: _Search, is_before: Instruction
    ) -> Instruction:
        """Returns how many of the device's elements precede each proposed element, by bisection.

        is_before: whether the device's tile is before that of the proposed element, and so its equal elements, too.
        """
        queries, keys = self._integers(*is_before.shape.dimensions), len(search.keys)
        high = write.broadcast(self._count(write, search.tile_index), queries)
        state = [write.splat(0, queries), high, is_before, *search.keys, *proposed]

        def iteration(into: Writer, _: Instruction, given: list[Instruction]) -> Sequence[Instruction]:
            low, high, before, *rest = given
            total = into.add(opcodes.ADD, low, high)
            middle = into.add(opcodes.DIVIDE, total, into.splat(2, queries))
            elements = [self._at(into, key, middle) for key in rest[:keys]]
            less = self._is_less(into, elements, rest[keys:])
            greater = self._is_less(into, rest[keys:], elements)
            precedes = into.add(opcodes.SELECT, before, into.add(opcodes.NOT, greater), less)
            is_open = compare(into, low, high, _LT)
            forward = into.add(opcodes.AND, is_open, precedes)
            backward = into.add(opcodes.AND, is_open, into.add(opcodes.NOT, precedes))
            following = into.add(opcodes.ADD, middle, into.splat(1, queries))
            new_low = into.add(opcodes.SELECT, forward, following, low)
            return [new_low, into.add(opcodes.SELECT, backward, middle, high), before, *rest]

        return counted_loop(write, self.size.bit_length(), state, iteration, "preceding")[0]

    def _is_less(self, write: Writer, left: Sequence[Instruction], right: Sequence[Instruction]) -> Instruction:
        """Returns whether the comparator puts each left element before the right one, given the keys' operands."""
        shape = left[0].shape
        by_operand = dict(zip(self.key_operands, zip(left, right, strict=True), strict=True))
        arguments: list[Instruction] = []
        for parameter in self.comparator.parameters:
            sides = by_operand.get(parameter.parameter_number // 2)
            t = parameter.shape.element_type
            arguments.append(
                sides[parameter.parameter_number % 2] if sides else write.splat(0, shape.with_element_type(t))
            )
        attributes = DimensionsAttributes.make(dimensions=tuple(range(shape.rank)))
        return write.add(
            opcodes.MAP, *arguments, attributes=attributes, computations=[self.comparator],
            shape=shape.with_element_type(PRED),
        )  # fmt: skip

    def _at(self, write: Writer, row: Instruction, positions: Instruction) -> Instruction:
        """Returns the elements of a row at some positions; positions behind its end are those of the last element."""
        attributes = GatherAttributes.make(
            offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,),
            index_vector_dim=positions.shape.rank, slice_sizes=(1,),
        )  # fmt: skip
        return write.add(opcodes.GATHER, row, positions, attributes=attributes)

    # -- the exchange

    def _exchange(
        self, own: Sequence[Instruction], boundaries: Instruction, table: Instruction, tile_index: Instruction
    ) -> list[Instruction]:
        """Sends elements to the devices of their tiles. Returns those that a device receives, in the order of senders.

        table: the boundaries of all members, `[members, members + 1]`.
        """
        write, count, size = self.write, self.group.size, self.size
        block = min(size, size // count + 6 * math.isqrt(size // count) + 8)
        sent = [slice_dimension(write, table, 1, first, first + count) for first in (0, 1)]
        lengths = write.add(opcodes.SUBTRACT, sent[1], sent[0])  # [sender, receiver]
        longest = self._longest_moved(lengths)
        source, within, first = self._sources(lengths, tile_index)
        shift = write.add(
            opcodes.SUBTRACT,
            write.add(opcodes.ADD, write.scalar(size, self.integer), self._element(boundaries, tile_index)),
            first,
        )
        results = [self._window(value, shift) for value in own]
        padded = [pad_end(write, value, 0, block) for value in own]
        starts = slice_dimension(write, boundaries, 0, 0, count)
        source = write.add(
            opcodes.SELECT, compare(write, source, write.broadcast(tile_index, source.shape), ComparisonDirection.EQ),
            write.splat(-1, source.shape), source,
        )  # fmt: skip
        state = [write.scalar(0, self.integer), longest, starts, source, within, *results, *padded]

        def continues(into: Writer, given: list[Instruction]) -> Instruction:
            return compare(into, given[0], given[1], _LT)

        def iteration(into: Writer, given: list[Instruction]) -> Sequence[Instruction]:
            return self._exchange_blocks(into, given, block)

        return while_loop(write, state, continues, iteration, "exchange")[5 : 5 + len(own)]

    def _longest_moved(self, lengths: Instruction) -> Instruction:
        """Returns the largest number of elements that a device sends to another one. lengths: `[sender, receiver]`."""
        write = self.write
        stays = compare(write, iota(write, lengths.shape, 0), iota(write, lengths.shape, 1), ComparisonDirection.EQ)
        moved = write.add(opcodes.SELECT, stays, write.splat(0, lengths.shape), lengths)
        return reduce_dimensions(write, opcodes.MAXIMUM, moved, [0, 1], 0)

    def _exchange_blocks(self, write: Writer, state: list[Instruction], block: int) -> list[Instruction]:
        """Exchanges the next block of each pair of devices; returns the state of the loop after that.

        state: the number of elements of each pair that are exchanged and that are to be; the first element for each
        receiver; the sender of each element that is received, -1 if it stays, and its number there; the results so far
        and the elements of the device, of each operand.
        """
        done, limit, starts, senders, numbers, *rest = state
        results, own = rest[: len(rest) // 2], rest[len(rest) // 2 :]
        offset = write.add(opcodes.SUBTRACT, numbers, write.broadcast(done, numbers.shape))
        size, zero = write.splat(block, offset.shape), write.splat(0, offset.shape)
        is_sent = write.add(opcodes.AND, compare(write, offset, zero, _GE), compare(write, offset, size, _LT))
        is_sent = write.add(opcodes.AND, is_sent, compare(write, senders, zero, _GE))
        places = write.add(opcodes.ADD, write.add(opcodes.MULTIPLY, senders, size), offset)
        begins = write.add(opcodes.ADD, starts, write.broadcast(done, starts.shape))
        received = [self._at(write, self._received(write, value, begins, block), places) for value in own]
        results = [write.add(opcodes.SELECT, is_sent, *each) for each in zip(received, results, strict=True)]
        following = write.add(opcodes.ADD, done, write.scalar(block, self.integer))
        return [following, limit, starts, senders, numbers, *results, *own]

    def _received(self, write: Writer, padded: Instruction, begins: Instruction, block: int) -> Instruction:
        """Sends the block that begins at `begins[i]` to member i; returns the received blocks as one row."""
        count = self.group.size
        attributes = GatherAttributes.make(
            offset_dims=(1,), collapsed_slice_dims=(), start_index_map=(0,), index_vector_dim=1, slice_sizes=(block,)
        )
        blocks = write.add(opcodes.GATHER, padded, begins, attributes=attributes)
        received = self.group.swap_blocks(write, blocks)
        return write.reshape(received, received.shape.with_dimensions([count * block]))

    def _sources(self, lengths: Instruction, tile_index: Instruction) -> tuple[Instruction, Instruction, Instruction]:
        """Returns the sender of each element that the device receives, its number among the sender's, and the first
        element that stays on the device."""
        write, count = self.write, self.group.size
        zero = write.scalar(0, self.integer)
        column = write.add(
            opcodes.DYNAMIC_SLICE, lengths, zero, tile_index,
            attributes=DynamicSliceAttributes.make(dynamic_slice_sizes=(count, 1)),
        )  # fmt: skip
        received = write.reshape(column, self._integers(count))
        square = self._integers(count, count)
        earlier = compare(write, iota(write, square, 0), iota(write, square, 1), _LT)
        taken = write.add(opcodes.SELECT, earlier, write.broadcast(received, square, (0,)), write.splat(0, square))
        firsts = reduce_dimensions(write, opcodes.ADD, taken, [0])
        table = self._integers(self.size, count)
        begin = write.broadcast(firsts, table, (1,))
        has_begun = compare(write, begin, iota(write, table, 0), _LE)
        ones = write.add(opcodes.SELECT, has_begun, write.splat(1, table), write.splat(0, table))
        last = write.add(opcodes.SELECT, has_begun, begin, write.splat(0, table))
        number = reduce_dimensions(write, opcodes.ADD, ones, [1])
        source = write.add(opcodes.SUBTRACT, number, write.splat(1, number.shape))
        begun = reduce_dimensions(write, opcodes.MAXIMUM, last, [1], 0)
        within = write.add(opcodes.SUBTRACT, iota(write, begun.shape, 0), begun)
        return source, within, self._element(firsts, tile_index)

    def _element(self, row: Instruction, index: Instruction) -> Instruction:
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=(1,))
        return self.write.reshape(
            self.write.add(opcodes.DYNAMIC_SLICE, row, index, attributes=attributes), Shape.scalar(self.integer)
        )

    def _window(self, own: Instruction, start: Instruction) -> Instruction:
        """Returns the tile moved so that what stays is where it is in the result. start: counts from `-size`."""
        write = self.write
        zeros = write.splat(0, own.shape)
        extended = concatenate(write, [zeros, own, zeros], 0)
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=(self.size,))
        return write.add(opcodes.DYNAMIC_SLICE, extended, start, attributes=attributes)
