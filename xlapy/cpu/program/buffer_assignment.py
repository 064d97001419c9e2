"""Buffer assignment: gives temporaries that are never live at the same time the same memory.

Memory comes from the arena, or from the memory of a result until that result is computed.

Responsible for the offsets of temporaries. Does not depend on what thunks compute.
"""

from __future__ import annotations

from bisect import insort

from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.liveness import LiveRanges
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import Thunk

ALIGNMENT = 64
"""The alignment in bytes of temporaries, which is the size of a cache line and of the widest vector register."""


def assign_buffers(program: NativeProgram) -> None:
    """Gives every temporary an offset in the arena or in a result's memory, and sets the size of the arena."""
    ranges = LiveRanges(program.thunks)
    arena, results = _FreeList(), _reusable_results(program, ranges)
    assigned: dict[BufferSlice, _FreeList] = {}
    temporaries = [slice_ for slice_ in ranges.first if slice_.storage is StorageClass.TEMPORARY]
    by_end = sorted(temporaries, key=lambda slice_: ranges.last[slice_])
    released = 0
    for slice_ in sorted(temporaries, key=lambda slice_: ranges.first[slice_]):
        while released < len(by_end) and ranges.last[by_end[released]] < ranges.first[slice_]:
            assigned[by_end[released]].release(by_end[released])
            released += 1
        results = [memory for memory in results if memory.until > ranges.first[slice_]]
        fitting = (
            memory
            for memory in results
            if memory.is_free_until(slice_, ranges.last[slice_]) and memory.allocate(slice_)
        )
        assigned[slice_] = memory = next(fitting, arena)
        if memory is arena:
            arena.allocate_or_grow(slice_)
        elif memory.until == ranges.last[slice_]:
            memory.mark_overwritten_by_result(slice_)
    program.arena_size = arena.top
    in_arena = (slice_ for slice_ in temporaries if slice_.number < 0)
    program.temporaries = sorted(in_arena, key=lambda slice_: -slice_.size)


def _reusable_results(program: NativeProgram, ranges: LiveRanges) -> list[_FreeList]:
    """Returns the memory of results that is unused when the program starts, the smallest first.

    Memory of a result that is computed in a loop is not reusable: it holds the value of the last iteration.
    """
    reusable = [
        result
        for result in program.results
        if result.number not in program.aliases and ranges.begins_outside_loops(result)
    ]
    producers = {begin: thunk for thunk, (begin, _) in ranges.extents.items() if not thunk.nested}
    ordered = sorted(reusable, key=lambda result: result.size)
    return [_FreeList(result, ranges.first[result], producers.get(ranges.first[result])) for result in ordered]


class _FreeList:
    """The free ranges, by offset, of the arena or of a result's memory. Allocation is best-fit.

    result: the result that owns the memory, None for the arena. until: the position of the thunk that computes the
    result. producer: that thunk, unless others are nested in it.
    """

    def __init__(self, result: BufferSlice | None = None, until: int = 0, producer: Thunk | None = None) -> None:
        self.result = result
        self.top = 0 if result is None else result.size
        self.until = until
        self.producer = producer
        self._free = [(0, self.top)] if self.top else []

    def is_free_until(self, slice_: BufferSlice, last: int) -> bool:
        """Whether a slice may lie here until its last use. The thunk of that use may overwrite it with the result."""
        if last != self.until:
            return last < self.until
        result, producer = self.result, self.producer
        if result is None or producer is None or result.size != slice_.size:
            return False
        return producer.may_compute_in(result, slice_) and self._free == [(0, self.top)]

    def mark_overwritten_by_result(self, slice_: BufferSlice) -> None:
        """Records that the thunk that computes the result reads the slice from the same memory."""
        assert self.result is not None and self.producer is not None
        self.producer.mark_may_alias(slice_, self.result)

    def allocate(self, slice_: BufferSlice) -> bool:
        """Assigns the smallest free range that is large enough to a slice; returns whether there is one."""
        size = _aligned(slice_.size)
        fitting = [(length, offset) for offset, length in self._free if length >= size]
        if not fitting:
            return False
        length, offset = min(fitting)
        self._free.remove((offset, length))
        if length > size:
            insort(self._free, (offset + size, length - size))
        slice_.offset = offset
        if self.result is not None:
            slice_.number = self.result.number
        return True

    def allocate_or_grow(self, slice_: BufferSlice) -> None:
        """Assigns an offset to a slice, growing the arena if necessary; a free range at its end is extended."""
        if self.allocate(slice_):
            return
        offset = self.top
        if self._free and sum(self._free[-1]) == self.top:
            offset, _ = self._free.pop()
        slice_.offset = offset
        self.top = offset + _aligned(slice_.size)

    def release(self, slice_: BufferSlice) -> None:
        """Frees the range of a slice and merges it with adjacent free ranges."""
        offset, end = slice_.offset, slice_.offset + _aligned(slice_.size)
        adjacent = [(o, n) for o, n in self._free if o + n == offset or o == end]
        for o, n in adjacent:
            self._free.remove((o, n))
            offset, end = min(offset, o), max(end, o + n)
        insort(self._free, (offset, end - offset))


def _aligned(size: int) -> int:
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)


# -- the dump


def print_buffers(program: NativeProgram) -> str:
    """Returns a table of the temporaries of a program with assigned buffers, the largest first.

    Positions number the thunks in program order. A loop has two more: after its condition, where it reads
    its predicate, and after its body. A slice is in use from the first to the last position in its row.
    """
    ranges = LiveRanges(program.thunks)
    names = _position_names(ranges)
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
    return "\n".join(lines) + "\n"


def _position_names(ranges: LiveRanges) -> dict[int, str]:
    names = {begin: thunk.label for thunk, (begin, _) in ranges.extents.items()}
    for loop, decision in ranges.decisions.items():
        _, end = ranges.extents[loop]
        names[decision] = f"the decision of {loop.op_name}"
        names[end] = f"the end of {loop.op_name}"
    return names
