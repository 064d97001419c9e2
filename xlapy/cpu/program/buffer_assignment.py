"""Buffer assignment: gives temporaries that are never live at the same time the same memory.

Memory comes from the arena, or from the memory of a result until that result is computed.

Responsible for the offsets of temporaries. Does not depend on what thunks compute.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop
from itertools import accumulate

import numpy as np

from xlapy.analysis.memory.graph import aligned
from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.liveness import LiveRanges
from xlapy.cpu.program.memory_report import position_names, print_timeline
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import Thunk

MIN_PACKED_BYTES = 1 << 16
"""An arena of fewer bytes is not packed anew: it fits into the cache of a core together with what kernels read."""

MAX_TRIED_RESULTS = 64
"""The largest number of results in whose memory a temporary may be placed: the smallest ones that are large enough. It
bounds compile time for programs with thousands of results."""

MAX_PACKED_TEMPORARIES = 8192
"""Programs with more temporaries are not packed anew: that takes time in proportion to the square of their number."""


def assign_buffers(program: NativeProgram) -> None:
    """Gives every temporary an offset in the arena or in a result's memory, and sets the size of the arena.

    Temporaries are placed in the order of their first use, so that memory is used again while it is in the cache. If
    fragments of free memory make the arena larger than what is live at once, they are placed anew, the largest first,
    and the smaller arena counts.
    """
    ranges = LiveRanges(program.thunks)
    temporaries = [slice_ for slice_ in ranges.first if slice_.storage is StorageClass.TEMPORARY]
    temporaries.sort(key=lambda slice_: ranges.first[slice_])
    results = _reusable_results(program, ranges)
    assignment = _in_order_of_use(temporaries, ranges, results)
    if (
        assignment.arena_size > max(MIN_PACKED_BYTES, _live_arena_bytes(program, temporaries, ranges))
        and len(temporaries) <= MAX_PACKED_TEMPORARIES
    ):
        packed = _largest_first(temporaries, ranges, results)
        assignment = packed if packed.arena_size < assignment.arena_size else assignment
    assignment.apply()
    program.arena_size = assignment.arena_size
    in_arena = (slice_ for slice_ in temporaries if slice_.number < 0)
    program.temporaries = sorted(in_arena, key=lambda slice_: -slice_.size)


@dataclass(frozen=True, slots=True)
class _ReusableResult:
    """A result whose memory is unused until it is computed.

    until: the position of the thunk that computes the result. producer: that thunk, unless others are nested in it.
    """

    slice: BufferSlice
    until: int
    producer: Thunk | None

    def may_be_computed_in(self, slice_: BufferSlice) -> bool:
        """Whether the thunk that computes the result may read a slice from the same memory."""
        return (
            self.producer is not None
            and self.slice.size == slice_.size
            and self.producer.may_compute_in(self.slice, slice_)
        )


@dataclass(slots=True)
class _Assignment:
    """The offset of each temporary in the arena, or in the memory of a result."""

    arena_size: int = 0
    offsets: dict[BufferSlice, tuple[_ReusableResult | None, int]] = field(
        default_factory=dict[BufferSlice, tuple[_ReusableResult | None, int]]
    )
    overwritten: list[tuple[BufferSlice, _ReusableResult]] = field(
        default_factory=list[tuple[BufferSlice, _ReusableResult]]
    )
    """The temporaries that a thunk overwrites with the result that it computes from them."""

    def apply(self) -> None:
        for slice_, (result, offset) in self.offsets.items():
            slice_.offset = offset
            if result is not None:
                slice_.number = result.slice.number
        for slice_, result in self.overwritten:
            assert result.producer is not None
            result.producer.mark_may_alias(slice_, result.slice)


def _reusable_results(program: NativeProgram, ranges: LiveRanges) -> list[_ReusableResult]:
    """Returns the results whose memory is unused when the program starts, the smallest first.

    Memory of a result that is computed in a loop is not reusable: it holds the value of the last iteration.
    """
    reusable = [
        result
        for result in program.results
        if result.number not in program.aliases and ranges.begins_outside_loops(result)
    ]
    producers = {begin: thunk for thunk, (begin, _) in ranges.extents.items() if not thunk.nested}
    ordered = sorted(reusable, key=lambda result: result.size)
    return [_ReusableResult(result, ranges.first[result], producers.get(ranges.first[result])) for result in ordered]


def _live_arena_bytes(program: NativeProgram, temporaries: Sequence[BufferSlice], ranges: LiveRanges) -> int:
    """Returns the size of an arena without fragments: the bytes that are live at once and do not fit in results."""
    changes: Counter[int] = Counter()
    for slice_ in temporaries:
        changes[ranges.first[slice_]] += aligned(slice_.size)
        changes[ranges.last[slice_] + 1] -= aligned(slice_.size)
    owned = [result for result in program.results if result.number not in program.aliases]
    for result in owned:
        changes[ranges.first.get(result, 0)] += result.size
    live = max(accumulate(changes[position] for position in sorted(changes)), default=0)
    return live - sum(result.size for result in owned)


# -- in the order of use


def _in_order_of_use(
    temporaries: Sequence[BufferSlice], ranges: LiveRanges, results: Sequence[_ReusableResult]
) -> _Assignment:
    """Places temporaries in the order of their first use, each in the smallest free range that is large enough."""
    found = _Assignment()
    arena, memories = _FreeList(), _Memories([_FreeList(result) for result in results])
    owners: dict[BufferSlice, _FreeList] = {}
    by_end = sorted(temporaries, key=lambda slice_: ranges.last[slice_])
    released = 0
    for slice_ in temporaries:
        first, last = ranges.first[slice_], ranges.last[slice_]
        while released < len(by_end) and ranges.last[by_end[released]] < first:
            done = by_end[released]
            owners[done].release(done, found.offsets[done][1])
            released += 1
        memory, offset = arena, None
        for memory in memories.candidates(slice_, first):
            offset = memory.allocate(slice_) if memory.is_free_until(slice_, last) else None
            if offset is not None:
                break
        else:
            memory, offset = arena, arena.allocate_or_grow(slice_)
        owners[slice_] = memory
        found.offsets[slice_] = memory.result, offset
        if memory.result is not None and memory.result.until == last:
            found.overwritten.append((slice_, memory.result))
    found.arena_size = arena.top
    return found


class _Memories:
    """The memories of results that are not computed yet, the smallest first."""

    def __init__(self, memories: Sequence[_FreeList]) -> None:
        self._memories = list(memories)
        self._keys = [(memory.top, number) for number, memory in enumerate(memories)]
        self._ends = [(_until(memory), key) for memory, key in zip(memories, self._keys, strict=True)]
        heapify(self._ends)

    def candidates(self, slice_: BufferSlice, first: int) -> list[_FreeList]:
        """Returns the memories that are large enough for a slice at a position, at most `MAX_TRIED_RESULTS`. Positions
        of successive calls do not decrease."""
        while self._ends and self._ends[0][0] <= first:
            place = bisect_left(self._keys, heappop(self._ends)[1])
            del self._keys[place], self._memories[place]
        begin = bisect_left(self._keys, (slice_.size, -1))
        return self._memories[begin : begin + MAX_TRIED_RESULTS]


def _until(memory: _FreeList) -> int:
    return 0 if memory.result is None else memory.result.until


class _FreeList:
    """The free ranges of the arena or of a result's memory. Allocation is best-fit.

    result: the result that owns the memory, None for the arena.
    """

    def __init__(self, result: _ReusableResult | None = None) -> None:
        self.result = result
        self.top = 0 if result is None else result.slice.size
        self._by_offset = [(0, self.top)] if self.top else []
        self._by_length = [(self.top, 0)] if self.top else []
        """The free ranges as pairs of offset and length, and of length and offset, both in order."""

    def is_free_until(self, slice_: BufferSlice, last: int) -> bool:
        """Whether a slice may lie here until its last use. The thunk of that use may overwrite it with the result."""
        result = self.result
        if result is None or last != result.until:
            return result is not None and last < result.until
        return self._by_offset == [(0, self.top)] and result.may_be_computed_in(slice_)

    def allocate(self, slice_: BufferSlice) -> int | None:
        """Returns the offset of the smallest free range that is large enough for a slice, if there is one."""
        fitting = bisect_left(self._by_length, (slice_.size, 0))
        if fitting == len(self._by_length):
            return None
        length, offset = self._by_length[fitting]
        size = aligned(slice_.size)  # the end of a result's memory need not be aligned
        self._remove(offset, length)
        if length > size:
            self._add(offset + size, length - size)
        return offset

    def allocate_or_grow(self, slice_: BufferSlice) -> int:
        """Returns the offset of a slice in the arena, which grows if necessary; a free range at its end is extended."""
        offset = self.allocate(slice_)
        if offset is not None:
            return offset
        offset = self.top
        if self._by_offset and sum(self._by_offset[-1]) == self.top:
            offset, length = self._by_offset[-1]
            self._remove(offset, length)
        self.top = offset + aligned(slice_.size)
        return offset

    def release(self, slice_: BufferSlice, offset: int) -> None:
        """Frees the range of a slice and merges it with adjacent free ranges."""
        end = min(offset + aligned(slice_.size), self.top)
        place = bisect_left(self._by_offset, (offset, 0))
        for o, n in self._by_offset[max(0, place - 1) : place + 1]:
            if o + n == offset or o == end:
                self._remove(o, n)
                offset, end = min(offset, o), max(end, o + n)
        self._add(offset, end - offset)

    def _add(self, offset: int, length: int) -> None:
        insort(self._by_offset, (offset, length))
        insort(self._by_length, (length, offset))

    def _remove(self, offset: int, length: int) -> None:
        del self._by_offset[bisect_left(self._by_offset, (offset, length))]
        del self._by_length[bisect_left(self._by_length, (length, offset))]


# -- the largest first


def _largest_first(
    temporaries: Sequence[BufferSlice], ranges: LiveRanges, results: Sequence[_ReusableResult]
) -> _Assignment:
    """Places temporaries in the order of their sizes, each in the smallest gap between those that are live with it."""
    found = _Assignment()
    arena, sizes = _PackedMemory(), [result.slice.size for result in results]
    memories = [(result, _PackedMemory(result.slice.size)) for result in results]
    for slice_ in sorted(temporaries, key=lambda slice_: (-slice_.size, ranges.first[slice_])):
        first, last, size = ranges.first[slice_], ranges.last[slice_], slice_.size
        begin = bisect_left(sizes, size)
        for result, memory in memories[begin : begin + MAX_TRIED_RESULTS]:
            if last > result.until:
                continue
            if last == result.until and not result.may_be_computed_in(slice_):
                continue
            offset = memory.place(size, first, last)
            if offset is not None:
                found.offsets[slice_] = result, offset
                if last == result.until:
                    found.overwritten.append((slice_, result))
                break
        else:
            offset = arena.place(size, first, last)
            assert offset is not None
            found.offsets[slice_] = None, offset
            found.arena_size = max(found.arena_size, offset + aligned(size))
    return found


class _PackedMemory:
    """Ranges of memory that are taken for some time. capacity: in bytes."""

    def __init__(self, capacity: int = 1 << 62) -> None:
        self.capacity = capacity
        self._taken = np.empty((4, 0), np.int64)
        """The first and the last position, the offset and the end of each range."""
        self._count = 0

    def place(self, size: int, first: int, last: int) -> int | None:
        """Takes the smallest gap of `size` bytes from one position to another; returns its offset, if there is one.

        The space after all ranges is taken if no other gap is large enough.
        """
        taken = self._taken[:, : self._count]
        _, _, offsets, ends = taken[:, (taken[0] <= last) & (taken[1] >= first)]
        order = np.argsort(offsets, kind="stable")
        begins = np.concatenate([[0], np.maximum.accumulate(ends[order])])
        lengths = np.concatenate([offsets[order], [self.capacity]]) - begins
        fitting = np.flatnonzero(lengths >= size)
        if not fitting.size:
            return None
        offset = int(begins[fitting[np.argmin(lengths[fitting])]])
        if self._count == self._taken.shape[1]:
            self._taken = np.concatenate([self._taken, np.empty((4, 8 + self._count), np.int64)], axis=1)
        self._taken[:, self._count] = first, last, offset, offset + aligned(size)
        self._count += 1
        return offset


# -- the dump


def print_buffers(program: NativeProgram) -> str:
    """Returns a table of the temporaries of a program with assigned buffers, the largest first, and their timeline.

    Positions number the thunks in program order. A loop has two more: after its condition, where it reads
    its predicate, and after its body. A slice is in use from the first to the last position in its row.
    """
    ranges = LiveRanges(program.thunks)
    names = position_names(ranges)
    temporaries = [slice_ for slice_ in ranges.first if slice_.storage is StorageClass.TEMPORARY]
    slices = sorted(temporaries, key=lambda slice_: (-slice_.size, slice_.location, ranges.first[slice_]))
    total = sum(slice_.size for slice_ in slices)
    lines = [f"arena of {program.arena_size} bytes for {len(slices)} temporaries of {total} bytes"]
    rows = [("bytes", "offset", "in use", "shape", "from", "to")]
    for slice_ in slices:
        first, last = ranges.first[slice_], ranges.last[slice_]
        cells = (
            str(slice_.size),
            slice_.location,
            f"{first}-{last}",
            slice_.shape.to_text(layout=False),
            names[first],
            names[last],
        )
        rows.append(cells)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n\n" + print_timeline(program)
