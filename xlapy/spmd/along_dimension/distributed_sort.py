"""Sorts one row that is split over devices, without gathering it.

1. Each device sorts its own tile.
2. The devices search the elements that separate the tiles of the sorted row: for each boundary k, the number of
   elements of each device among the first k of the row. Devices propose elements in the middle of what is left to
   search (`_PROBES` for each boundary), count how many of their own elements precede each proposal, and add up the
   counts. An iteration divides what is left by `_PROBES + 1`.
3. Each device sends the elements between two boundaries to the device of that tile, in blocks of a fixed size. One
   block for each pair of devices is enough for rows in random order; the loop continues until all elements are sent.
   Elements that stay on their device are not sent.
4. Each device sorts what it received, which is in the order of senders. All sorts are stable, so equal elements stay in
   the order of the whole row.

A device sends each element at most once, plus a padding of some percent, instead of receiving the whole row, and sorts
twice its share. XLA's partitioner gathers the row on every device.

The comparator must be a strict weak order, because the search relies on it. If it compares floats by IEEE's partial
order, devices look for NaN first: with NaN, which is unordered, the row is gathered and each device sorts the whole.

Responsible for these steps. Does not depend on when a sort is partitioned that way (`sorting.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import ancestors, post_order
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.movement import DimensionsAttributes, DynamicSliceAttributes
from xlapy.opcodes.sorting import SortAttributes
from xlapy.passes.expand.blocks import (
    compare,
    concatenate,
    counted_loop,
    index_type,
    iota,
    new_computation,
    reduce_dimensions,
    reducer_computation,
    slice_dimension,
)
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.tile_group import TileGroup, pad_end, while_loop

_PROBES = 7
"""The elements that a device proposes for each boundary in one iteration of the search."""

_LT, _GE, _LE = ComparisonDirection.LT, ComparisonDirection.GE, ComparisonDirection.LE


def sort_tiles(
    write: Writer, comparator: Computation, operands: Sequence[Instruction], dimension: int, is_stable: bool = True
) -> list[Instruction]:
    """Writes a sort along a dimension; returns the sorted operands."""
    attributes = SortAttributes.make(dimension=dimension, is_stable=is_stable)
    result = write.add(opcodes.SORT, *operands, attributes=attributes, computations=[comparator])
    if len(operands) == 1:
        return [result]
    return [write.get_tuple_element(result, number) for number in range(len(operands))]


def sort_split_row(
    group: TileGroup, comparator: Computation, partial_keys: Sequence[Instruction], tiles: Sequence[Instruction]
) -> list[Instruction]:
    """Writes the sort of a row of which each member holds a tile, given as arrays of one dimension.

    partial_keys: the keys of the comparator's left element that are compared by IEEE's partial order. Returns each
    member's tile of the sorted row.
    """
    write, tile_index = group.resharder.write, group.tile_index()
    if not partial_keys:
        return _SplitRowSort(group, write, comparator, tiles).write_sort(tiles, tile_index)
    argument = write.add(opcodes.TUPLE, tile_index, *tiles)

    def gathered(into: Writer, given: list[Instruction]) -> Instruction:
        index, *parts = [into.get_tuple_element(given[0], number) for number in range(len(tiles) + 1)]
        return into.add(opcodes.TUPLE, *_sort_gathered_row(group, into, comparator, parts, index))

    def distributed(into: Writer, given: list[Instruction]) -> Instruction:
        index, *parts = [into.get_tuple_element(given[0], number) for number in range(len(tiles) + 1)]
        return into.add(opcodes.TUPLE, *_SplitRowSort(group, into, comparator, parts).write_sort(parts, index))

    branches = [
        new_computation(write, "unordered_row", [argument.shape], gathered),
        new_computation(write, "ordered_row", [argument.shape], distributed),
    ]
    has_nan = _has_nan(group, comparator, partial_keys, tiles)
    result = write.add(opcodes.CONDITIONAL, has_nan, argument, argument, computations=branches)
    return [write.get_tuple_element(result, number) for number in range(len(tiles))]


def _has_nan(
    group: TileGroup, comparator: Computation, keys: Sequence[Instruction], tiles: Sequence[Instruction]
) -> Instruction:
    """Returns whether any key of any member's elements is NaN."""
    write = group.resharder.write
    scalars = [Shape.scalar(tile.shape.element_type) for tile in tiles]

    def is_nan(into: Writer, given: list[Instruction]) -> Instruction:
        needed, copies = ancestors(keys), dict[Instruction, Instruction]()
        for each in [one for one in post_order(comparator) if one in needed]:
            if each.op is opcodes.PARAMETER:
                copies[each] = given[each.parameter_number // 2]
            else:
                copies[each] = edit.clone_instruction(each, into.computation, [copies[o] for o in each.operands])
        tests = [compare(into, copies[key], copies[key], ComparisonDirection.NE) for key in keys]
        return functools.reduce(lambda one, other: into.add(opcodes.OR, one, other), tests)

    shape = tiles[0].shape.with_element_type(PRED)
    attributes = DimensionsAttributes.make(dimensions=(0,))
    called = [new_computation(write, "is_nan", scalars, is_nan)]
    tests = write.add(opcodes.MAP, *tiles, attributes=attributes, computations=called, shape=shape)
    own = reduce_dimensions(write, opcodes.OR, tests, [0])
    return group.resharder.all_reduce(own, reducer_computation(write, opcodes.OR, PRED), group.groups)


def _sort_gathered_row(
    group: TileGroup, write: Writer, comparator: Computation, tiles: Sequence[Instruction], tile_index: Instruction
) -> list[Instruction]:
    """Gathers a row and sorts it on each device; returns the tile of each member."""
    size = tiles[0].shape.dimensions[0]
    whole = [tile.shape.with_dimensions([group.size * size]) for tile in tiles]
    rows = [write.reshape(group.stack(write, tile), shape) for tile, shape in zip(tiles, whole, strict=True)]
    number = write.convert(tile_index, index_type(group.size * size))
    start = write.add(opcodes.MULTIPLY, number, write.scalar(size, number.shape.element_type))
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=(size,))
    found = sort_tiles(write, comparator, rows, 0)
    return [write.add(opcodes.DYNAMIC_SLICE, row, start, attributes=attributes) for row in found]


@dataclass(frozen=True)
class _Search:
    """What the search of boundaries compares: the keys' operands, sorted, and the device's tile."""

    keys: Sequence[Instruction]
    tile_index: Instruction


class _SplitRowSort:
    """Writes the steps of one sort."""

    def __init__(self, group: TileGroup, write: Writer, comparator: Computation, tiles: Sequence[Instruction]) -> None:
        self.group = group
        self.write = write
        self.comparator = comparator
        self.size = tiles[0].shape.dimensions[0]
        self.integer = index_type(self.size * max(group.size, _PROBES + 1))
        read = ancestors([comparator.root_instruction])
        self.key_operands = sorted({p.parameter_number // 2 for p in comparator.parameters if p in read})

    def write_sort(self, tiles: Sequence[Instruction], tile_number: Instruction) -> list[Instruction]:
        write = self.write
        own = sort_tiles(write, self.comparator, tiles, 0)
        tile_index = write.convert(tile_number, self.integer)
        inner = self._boundaries(own, tile_index)
        ends = [write.splat(value, self._integers(1)) for value in (0, self.size)]
        boundaries = concatenate(write, [ends[0], inner, ends[1]], 0)
        table = self.group.stack(write, boundaries)
        received = self._exchange(own, boundaries, table, tile_index)
        return sort_tiles(write, self.comparator, received, 0)

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
            trips, left = trips + 1, left // (_PROBES + 1)
        keys = [own[number] for number in self.key_operands]
        state = [write.splat(0, boundaries), write.splat(self.size, boundaries), tile_index, *keys]

        def iteration(into: Writer, _: Instruction, given: list[Instruction]) -> Sequence[Instruction]:
            low, high, tile, *elements = given
            return [*self._narrowed(into, low, high, _Search(elements, tile)), tile, *elements]

        return counted_loop(write, trips, state, iteration, "boundaries")[0]

    def _narrowed(self, write: Writer, low: Instruction, high: Instruction, search: _Search) -> list[Instruction]:
        """Returns the least and greatest numbers after one iteration."""
        probes = self._integers(self.group.size - 1, _PROBES)
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
        return write.add(opcodes.ADD, start, write.add(opcodes.DIVIDE, product, write.splat(_PROBES + 1, probes)))

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
        state = [write.splat(0, queries), write.splat(self.size, queries), is_before, *search.keys, *proposed]

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
        square = self._integers(count, count)
        stays = compare(write, iota(write, square, 0), iota(write, square, 1), ComparisonDirection.EQ)
        moved = write.add(opcodes.SELECT, stays, write.splat(0, square), lengths)
        longest = reduce_dimensions(write, opcodes.MAXIMUM, moved, [0, 1], 0)
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
        operands = len(own)
        state = [write.scalar(0, self.integer), longest, starts, source, within, *results, *padded]

        def continues(into: Writer, given: list[Instruction]) -> Instruction:
            return compare(into, given[0], given[1], _LT)

        def iteration(into: Writer, given: list[Instruction]) -> Sequence[Instruction]:
            done, limit, first_rows, senders, offsets, *rest = given
            offset = into.add(opcodes.SUBTRACT, offsets, into.broadcast(done, offsets.shape))
            spread = into.splat(block, offset.shape)
            is_sent = into.add(
                opcodes.AND, compare(into, offset, into.splat(0, offset.shape), _GE), compare(into, offset, spread, _LT)
            )
            is_sent = into.add(opcodes.AND, is_sent, compare(into, senders, into.splat(0, senders.shape), _GE))
            places = into.add(opcodes.ADD, into.add(opcodes.MULTIPLY, senders, spread), offset)
            begins = into.add(opcodes.ADD, first_rows, into.broadcast(done, first_rows.shape))
            updated = [
                into.add(
                    opcodes.SELECT, is_sent, self._at(into, self._received(into, value, begins, block), places), old
                )
                for old, value in zip(rest[:operands], rest[operands:], strict=True)
            ]
            following = into.add(opcodes.ADD, done, into.scalar(block, self.integer))
            return [following, limit, first_rows, senders, offsets, *updated, *rest[operands:]]

        return while_loop(write, state, continues, iteration, "exchange")[5 : 5 + operands]

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
