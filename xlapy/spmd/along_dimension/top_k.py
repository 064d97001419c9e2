"""Top-k along a split dimension.

Each device selects the k largest elements of its tile, or takes all of them if the tile has fewer. Then devices either

- gather these and select among them, or
- merge them with those of a partner, log2(n) times on n devices: with that of the next tile, of the next two tiles ...

Other plans are to exchange whole rows, of which each device selects some, to sort one row together and take its first
k elements, which remain split, and to gather the rows. The plan that takes the least estimated time is chosen.

Equal elements are taken in the order of the row: tiles are joined in their order, and each selection is stable. The
last tiles are filled up with the element that comes last in the order.

Responsible for these plans but the last. Does not depend on how one device selects.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S32, PrimitiveType
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import identity_value
from xlapy.interpreter.kernels.sort_keys import integer_key
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.sorting import TopKAttributes
from xlapy.passes.expand.blocks import compare, concatenate, iota, new_computation, slice_dimension
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.ordered_rows import TiledRows, sort_ordered_rows
from xlapy.spmd.along_dimension.sort_plan import Gather, SplitRows, choose_sort_plan, plan_seconds
from xlapy.spmd.along_dimension.sorting import distributed_sort_of
from xlapy.spmd.along_dimension.tile_group import Rows, TileGroup
from xlapy.spmd.array_sharding import ArraySharding, are_independent
from xlapy.spmd.halo.exchange import HaloExchange
from xlapy.spmd.halo.segments import spans_of_tiles
from xlapy.spmd.resharding import PartitionedArray
from xlapy.spmd.time_model import collectives_seconds

SELECTION_SECONDS = 1e-9
"""The time to look at an element, and of a comparison of the k largest: 16 of each of 16 rows of 512 numbers take
13 us, 400 of each of 16 rows of 3200 numbers take 160 us."""


class TopKPlan(enum.Enum):
    """How devices select the k largest elements of rows of which each has a tile."""

    GATHER = "each device selects from all rows"
    SELECT = "each device selects from what all devices selected"
    MERGE = "devices merge what they selected, in pairs"
    EXCHANGE = "each device selects from some whole rows"
    SORT = "devices sort a row together"


@dataclass(frozen=True)
class TopKRows:
    """Rows of `length` elements, each in as many tiles as there are members, of which k are selected.

    element_bytes: the bytes of an element. is_split: whether the result is wanted in tiles.
    """

    rows: int
    length: int
    members: int
    k: int
    element_bytes: int
    is_split: bool = False

    @property
    def tile_size(self) -> int:
        """The number of elements of a tile."""
        return -(-self.length // self.members)

    @property
    def sort(self) -> SplitRows:
        """The sort of the elements and their positions."""
        return SplitRows(self.rows, self.length, self.members, 2, self.element_bytes + 4, self.element_bytes)

    def merged_sizes(self) -> list[int]:
        """Returns how many elements a device has before each merge."""
        return [min(self.k, self.tile_size << step) for step in range(self.members.bit_length() - 1)]

    def plan(self) -> TopKPlan:
        """Returns the plan that takes the least time; of equals, the first."""
        plans = [TopKPlan.GATHER, TopKPlan.SELECT]
        if self.members & (self.members - 1) == 0 and self.members > 2:
            plans.append(TopKPlan.MERGE)
        if self.rows > 1:
            plans.append(TopKPlan.EXCHANGE)
        elif choose_sort_plan(self.sort, True) != Gather():
            plans.append(TopKPlan.SORT)
        return min(plans, key=self.seconds)

    def seconds(self, plan: TopKPlan) -> float:
        """Returns the estimated time of a plan."""
        others, pair, each = self.members - 1, self.element_bytes + 4, -(-self.rows // self.members)
        taken = min(self.k, self.tile_size)
        if plan is TopKPlan.GATHER:
            sent = self.rows * self.tile_size * others * self.element_bytes
            return collectives_seconds(1, sent) + self._selection_seconds(self.rows, self.length)
        if plan is TopKPlan.EXCHANGE:
            sent = each * others * (self.tile_size * self.element_bytes + self.k * pair)
            return collectives_seconds(2, sent) + self._selection_seconds(each, self.length)
        if plan is TopKPlan.SORT:
            result = -(-self.k // self.members) * pair
            found = plan_seconds(choose_sort_plan(self.sort, True), self.sort) + collectives_seconds(2, 2 * result)
            return found + (0.0 if self.is_split else collectives_seconds(1, result * others))
        own = self._selection_seconds(self.rows, self.tile_size)
        if plan is TopKPlan.SELECT:
            candidates = self._selection_seconds(self.rows, taken * self.members)
            return own + collectives_seconds(1, self.rows * taken * others * pair) + candidates
        sizes = self.merged_sizes()
        merges = sum(self._selection_seconds(self.rows, 2 * size) for size in sizes)
        return own + collectives_seconds(len(sizes), self.rows * sum(sizes) * pair) + merges

    def _selection_seconds(self, rows: int, length: int) -> float:
        """Returns the time in which a device selects from rows: it looks at all elements and sorts the k largest."""
        chosen = min(self.k, length)
        return rows * (length + chosen * math.log2(max(2, chosen))) * SELECTION_SECONDS


def top_k_along_split_dimension(split: SplitOperation) -> list[PartitionedArray] | None:
    """Writes a top-k of split rows."""
    instruction = split.instruction
    (operand,) = split.operands
    dimension, shape = instruction.operands[0].shape.rank - 1, instruction.operands[0].shape
    sharding = operand.sharding.with_partial_sums(None)
    if sharding.tilings[dimension] is None or not are_independent([*sharding.all_tilings, *split.manual_axes]):
        return None
    rows = Rows(split.local_sizes(sharding), dimension)
    k = instruction.attributes_as(TopKAttributes).k
    if not (k and rows.count):
        return None
    members = split.group(sharding, dimension).size
    is_split = bool(split.requested) and split.requested[0].tilings[dimension] == sharding.tilings[dimension]
    sizes = TopKRows(rows.count, shape.dimensions[dimension], members, k, shape.element_type.byte_size, is_split)
    plan = sizes.plan()
    if plan is TopKPlan.GATHER:
        return None
    return _SplitTopK(split, sharding, dimension, rows, sizes).write_results(plan)


class _SplitTopK:
    """Writes one top-k."""

    def __init__(
        self, split: SplitOperation, sharding: ArraySharding, dimension: int, rows: Rows, sizes: TopKRows
    ) -> None:
        self.split = split
        self.write: Writer = split.resharder.write
        self.sharding = sharding
        self.dimension = dimension
        self.group: TileGroup = split.group(sharding, dimension)
        self.rows = rows
        self.sizes = sizes
        self.attributes = split.instruction.attributes_as(TopKAttributes)

    def write_results(self, plan: TopKPlan) -> list[PartitionedArray]:
        tile = self.split.local(0, self.sharding)
        sharding = self.sharding.with_tiling(self.dimension, None)
        if plan is TopKPlan.EXCHANGE:
            found = self._from_exchanged_rows(self.rows.of(self.write, tile))
        else:
            last = self.write.constant(Literal.array_of(last_element(tile.shape.element_type, self.attributes.largest)))
            tiles = self.rows.of(self.write, self.split.fill(tile, self.sharding, self.dimension, last))
            if plan is TopKPlan.SORT:
                found, sharding = self._from_sorted_row(tiles), self.sharding
            else:
                own = self._selected_in_tile(tiles)
                found = self._from_all(own) if plan is TopKPlan.SELECT else self._merged(own)
        return self.split.results([self.rows.restore(self.write, each) for each in found], sharding)

    def _select(self, values: Instruction, k: int) -> list[Instruction]:
        """Writes a stable top-k of other rows; returns the values and their indices."""
        attributes = self.attributes.replace(k=k, is_stable=True)
        result = self.write.add(opcodes.TOPK, values, attributes=attributes)
        return [self.write.get_tuple_element(result, number) for number in range(2)]

    def _select_pairs(self, pairs: list[Instruction], k: int) -> list[Instruction]:
        """Writes a stable top-k of values with their positions; returns both."""
        best, order = self._select(pairs[0], k)
        return [best, _taken_along(self.write, pairs[1], order)]

    def _positions(self, local: Instruction) -> Instruction:
        """Returns the positions in the row, given those in the tile."""
        size = self.write.scalar(self.sizes.tile_size, S32)
        offset = self.write.add(opcodes.MULTIPLY, self.group.tile_index(), size)
        return self.write.add(opcodes.ADD, local, self.write.broadcast(offset, local.shape))

    def _selected_in_tile(self, tiles: Instruction) -> list[Instruction]:
        values, places = self._select(tiles, min(self.sizes.k, self.sizes.tile_size))
        return [values, self._positions(places)]

    def _from_all(self, own: list[Instruction]) -> list[Instruction]:
        return self._select_pairs([self.group.joined(self.write, each) for each in own], self.sizes.k)

    def _merged(self, own: list[Instruction]) -> list[Instruction]:
        """Merges what devices selected with what their partners did, the elements of the first tiles first."""
        write, step = self.write, 1
        while step < self.group.size:
            moves = tuple([(tile, tile ^ step) for tile in range(self.group.size)])
            bit = write.add(opcodes.AND, self.group.tile_index(), write.scalar(step, S32))
            is_first = compare(write, bit, write.scalar(0, S32), ComparisonDirection.EQ)
            joined: list[Instruction] = []
            for value in own:
                other = self.group.permute(write, value, moves)
                mask = write.broadcast(is_first, value.shape.with_element_type(is_first.shape.element_type))
                both = [write.add(opcodes.SELECT, mask, *pair) for pair in ((value, other), (other, value))]
                joined.append(concatenate(write, both, 1))
            own = self._select_pairs(joined, min(self.sizes.k, joined[0].shape.dimensions[1]))
            step *= 2
        return own

    def _from_exchanged_rows(self, tiles: Instruction) -> list[Instruction]:
        """Selects from whole rows; every device receives the results of all rows."""
        write, group = self.write, self.group
        found = self._select(group.exchange_for_whole_rows(write, tiles, self.sizes.length), self.sizes.k)
        gathered: list[Instruction] = []
        for each in found:
            stacked = group.stack(write, each)
            flat = each.shape.with_dimensions([group.size * each.shape.dimensions[0], self.sizes.k])
            gathered.append(slice_dimension(write, write.reshape(stacked, flat), 0, 0, self.rows.count))
        return gathered

    def _from_sorted_row(self, tiles: Instruction) -> list[Instruction]:
        """Sorts a row with all devices; returns tiles of its first k elements."""
        write, size = self.write, self.sizes.tile_size
        direction = ComparisonDirection.GT if self.attributes.largest else ComparisonDirection.LT
        scalars = [Shape.scalar(t) for t in (tiles.shape.element_type, S32) for _ in range(2)]
        comparator = new_computation(
            write, "precedes", scalars, lambda into, given: compare(into, given[0], given[1], direction, True)
        )
        places = iota(write, tiles.shape.with_element_type(S32), 1)
        algorithm = distributed_sort_of(choose_sort_plan(self.sizes.sort, True))
        rows = TiledRows(self.group, comparator, [], self.sizes.length)
        found = sort_ordered_rows(rows, [tiles, self._positions(places)], algorithm)
        tiling, taken = self.sharding.tilings[self.dimension], -(-self.sizes.k // self.group.size)
        assert tiling is not None
        others = [*self.sharding.with_tiling(self.dimension, None).all_tilings, *self.split.manual_axes]
        halo = HaloExchange(self.group.resharder, 1, tiling, others)
        spans = spans_of_tiles(self.group.size, taken)
        return [each if taken == size else halo.span(each, self.sizes.length, spans, None) for each in found]


def last_element(element_type: PrimitiveType, largest: bool) -> np.ndarray[Any, Any]:
    """Returns the element that a top-k takes last, as an array without dimensions.

    largest: whether the largest elements are taken. Floats are in total order: the least one is a negative NaN.
    """
    dtype = Shape.scalar(element_type).dtype
    if not element_type.is_floating:
        return np.asarray(identity_value(opcodes.MAXIMUM if largest else opcodes.MINIMUM, element_type), dtype)
    bits = dtype.itemsize * 8
    patterns = np.arange(1 << bits) if bits <= 16 else np.array([-1, (1 << (bits - 1)) - 1])
    values = patterns.astype(f"i{dtype.itemsize}").view(dtype)
    keys = integer_key(values)
    return np.asarray(values[keys.argmin() if largest else keys.argmax()])


def _taken_along(write: Writer, rows: Instruction, order: Instruction) -> Instruction:
    """Returns `rows[i, order[i, j]]`."""
    attributes = GatherAttributes.make(
        offset_dims=(), collapsed_slice_dims=(1,), start_index_map=(1,), operand_batching_dims=(0,),
        start_indices_batching_dims=(0,), index_vector_dim=2, slice_sizes=(1, 1),
    )  # fmt: skip
    return write.add(opcodes.GATHER, rows, order, attributes=attributes)
