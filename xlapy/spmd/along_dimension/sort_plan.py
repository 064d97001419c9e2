"""Chooses how devices sort rows that are split over them, by the time that each algorithm is estimated to take.

- Gather the rows; each device sorts all of them.
- Exchange tiles for whole rows, sort these and send the tiles back: for about as many rows as devices.
- Search the boundaries of the sorted tiles (`distributed_sort.py`): one long row. With more proposals in an iteration,
  the search has fewer iterations, each of which compares more.
- Merge tiles in a network (`merge_network.py`): few rows on many devices.

Times are those of the machine of `time_model.py`. Responsible for that choice. Does not depend on how an algorithm is
written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from xlapy.spmd.along_dimension.merge_network import merge_stages
from xlapy.spmd.time_model import RATES, collectives_seconds

SORT_SECONDS = 1e-8
"""The time to sort by digits, for each element and operand: 65536 numbers of f32 take 0.5 ms, 2^20 take 40 ms."""

COMPARISON_SECONDS = 5e-9
"""The time of one comparison of a merge sort, for each element and operand, or of a step of a bisection: 4096 pairs of
f32 and s32, compared by both, take 0.2 ms."""

PROBES = (1, 3, 7)
"""How many elements a device may propose for each boundary in one iteration of the search."""


@dataclass(frozen=True)
class SplitRows:
    """Rows to be sorted. rows, length: their number and length. members: the number of tiles of each row. operands:
    the number of arrays that are sorted together. element_bytes, key_bytes: the bytes of an element of all of them, and
    of those that the comparator reads."""

    rows: int
    length: int
    members: int
    operands: int
    element_bytes: int
    key_bytes: int

    @property
    def tile_size(self) -> int:
        """The number of elements of a tile."""
        return -(-self.length // self.members)

    def sort_seconds(self, elements: float) -> float:
        """Returns the time in which a device sorts some elements."""
        return elements * self.operands * SORT_SECONDS


@dataclass(frozen=True)
class Gather:
    """Each device sorts all rows."""


@dataclass(frozen=True)
class ExchangeRows:
    """Each device sorts some of the rows, as a whole."""


@dataclass(frozen=True)
class SearchBoundaries:
    """Devices search the boundaries of tiles. probes: how many elements each proposes per boundary and iteration."""

    probes: int


@dataclass(frozen=True)
class MergeTiles:
    """Pairs of devices merge tiles."""


SortPlan = Gather | ExchangeRows | SearchBoundaries | MergeTiles


def choose_sort_plan(split: SplitRows, is_ordered: bool, needs_whole: bool = False) -> SortPlan:
    """Returns the plan that takes the least time; of equals, the first that is listed above.

    is_ordered: whether the comparator is known to be a strict weak order, on which distributed algorithms rely.
    needs_whole: whether all devices need the whole sorted rows.
    """
    return min(_plans(split, is_ordered), key=lambda plan: plan_seconds(plan, split, needs_whole))


def _plans(split: SplitRows, is_ordered: bool) -> Iterator[SortPlan]:
    if split.rows > 1:
        yield ExchangeRows()
    if split.rows == 1 or _exchanged_bytes(split) >= _gathered_bytes(split):
        yield Gather()
    if is_ordered and split.rows == 1:
        yield from [SearchBoundaries(probes) for probes in PROBES]
    if is_ordered:
        yield MergeTiles()


def plan_seconds(plan: SortPlan, split: SplitRows, needs_whole: bool = False) -> float:
    """Returns the time of a plan, in seconds."""
    whole = split.rows * split.length
    gather = collectives_seconds(1, _gathered_bytes(split))
    if isinstance(plan, Gather):
        return gather + split.sort_seconds(whole)
    if isinstance(plan, ExchangeRows):
        each = -(-split.rows // split.members)
        found = collectives_seconds(2, _exchanged_bytes(split))
        found += split.sort_seconds(each * split.length)
    elif isinstance(plan, SearchBoundaries):
        found = _search_seconds(plan.probes, split)
    else:
        found = _merge_seconds(split)
    return found + (gather if needs_whole else 0.0)


def _gathered_bytes(split: SplitRows) -> int:
    return split.rows * split.tile_size * (split.members - 1) * split.element_bytes


def _exchanged_bytes(split: SplitRows) -> int:
    each = -(-split.rows // split.members)
    return 2 * each * split.tile_size * (split.members - 1) * split.element_bytes


def _search_seconds(probes: int, split: SplitRows) -> float:
    """Returns the time of the search of boundaries, of the exchange and of both sorts."""
    queries = split.members * (split.members - 1) * probes
    iterations = math.ceil(math.log(split.tile_size + 1, probes + 1))
    compared = queries * split.tile_size.bit_length() * COMPARISON_SECONDS
    search = iterations * (collectives_seconds(2, queries * (split.key_bytes + 4)) + compared)
    pair = split.tile_size // split.members
    exchanged = split.members * min(split.tile_size, pair + 6 * math.isqrt(pair) + 8)
    sources = split.tile_size * split.members / RATES.flops * 4e-6
    moved = collectives_seconds(1, exchanged * split.element_bytes)
    return search + moved + sources + 2 * split.sort_seconds(split.tile_size)


def _merge_seconds(split: SplitRows) -> float:
    """Returns the time of all stages of the network, and of the first sort."""
    stages, elements = len(merge_stages(split.members)), split.rows * split.tile_size
    depth = max(1, split.tile_size.bit_length())
    sort = elements * depth * (split.operands + 1) * COMPARISON_SECONDS / 2
    exchange = collectives_seconds(split.operands + 1, elements * (split.element_bytes + 4))
    return sort + stages * (exchange + sort)
