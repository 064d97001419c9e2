"""Reuse distances: how much memory a program touches between two accesses to the same data.

A cache that holds the most recent D bytes has the data of every access with a distance of at most D. The program runs
again and again, so that the first access of a run follows the last one of the run before.

    a = f32[1000] negate(x)     reads x: distance 4,000 + 8,000 bytes, as a and b have been touched since the last run
    b = f32[1000] negate(a)     reads a: distance 4,000 bytes, as a has just been written

Responsible for distances in a native program. Does not depend on caches or on times.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from xlapy.cpu.program.buffer_slices import BufferSlice, StorageClass
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import ConditionalThunk, OutlinedThunk, Thunk, ThunkVisitor, WhileThunk
from xlapy.loops import Value

_MAX_LOOP_DEPTH = 3
"""Loops that are nested deeper are followed once rather than twice, because the time doubles with each level. The
distances of what such a loop touches first are then those of the loop around it."""

_MAX_ARRAYS = 2000
"""The number of arrays that a distance counts at most. Beyond, it is underestimated."""


@dataclass(frozen=True, slots=True)
class Access:
    """An access of a thunk: the bytes that it touches, and its distance, which includes these bytes. is_update: whether
    the thunk reads and writes them. is_partial: whether they are a part of the array."""

    touched: float
    distance: float
    is_written: bool
    is_update: bool
    is_partial: bool


@dataclass(frozen=True, slots=True)
class Sharing:
    """What else a simulation counts: how many other devices use the same caches between two runs, and between two
    meetings of all devices."""

    between_runs: float = 0.0
    between_meetings: float = 0.0
    counts_parts: bool = False
    """Whether a part of an array has the distance of the whole array, and arrays of other devices have those of the
    own ones, as in a program that all devices run."""


TouchedBytes = Callable[[Thunk], Mapping[BufferSlice, float]]
"""Returns how many bytes of some slices of a thunk are accessed; of others, it is not known."""


def reuse_distances(
    program: NativeProgram,
    moved: Callable[[Thunk], float | None],
    sharing: Sharing | None = None,
    touched: TouchedBytes = lambda _: {},
) -> dict[Thunk, list[Access]]:
    """Returns the accesses of each thunk in a run that follows another one.

    sharing: the other devices on the same core, which touch as many bytes as this one; by default none.
    touched: the bytes of slices that a thunk accesses, where that is known exactly. moved: the bytes that an execution
    of a thunk reads and writes, which are less than the sizes of its slices if it accesses parts of them; None if that
    is unknown.
    """
    visitor = _Reuse(program, moved, sharing or Sharing(), touched)
    for _ in range(2):
        visitor.sequence(program.thunks)
        visitor.end_of_run()
    return visitor.accesses


@dataclass(frozen=True, slots=True)
class _Place:
    """A range of bytes in the arena, an argument, a result or a constant."""

    region: Hashable
    start: int
    end: int


class _RecentMemory:
    """The places that were accessed, in the order of their last accesses, with the bytes that were touched there."""

    def __init__(self) -> None:
        self._touched: dict[_Place, float] = {}
        self._others = 0
        self._by_region: dict[Hashable, list[_Place]] = {}
        """The places of each region by their starts. They do not overlap."""

    def note_others(self, touched: float) -> None:
        """Notes that other devices have touched so many bytes of memory of their own."""
        self._others += 1
        self._touched[_Place(("others", self._others), 0, 0)] = touched

    def access(self, place: _Place, touched: float) -> float:
        """Notes an access, and returns the bytes touched since the last one to any of these bytes."""
        region = self._by_region.setdefault(place.region, [])
        first = bisect_right(region, place.start, key=lambda other: other.end)
        last = first
        while last < len(region) and region[last].start < place.end:
            last += 1
        before = set(region[first:last])
        distance = touched
        for number, other in enumerate(reversed(self._touched)):
            if other in before or number >= _MAX_ARRAYS:
                break
            distance += self._touched[other]
        for other in before:
            del self._touched[other]
        region[first:last] = [place]
        self._touched[place] = touched
        return distance


class _Reuse(ThunkVisitor):
    def __init__(self, program: NativeProgram, moved: Callable[[Thunk], float | None], sharing: Sharing,
                 touched: TouchedBytes) -> None:  # fmt: skip
        self._touched = touched
        self._meetings = {one for one in program.host_calling_thunks if one.is_collective}
        self._published: dict[BufferSlice, BufferSlice] = {}
        self._parts: dict[_Place, tuple[float, float]] = {}
        self._sharing = sharing
        self._since_run = self._since_meeting = 0.0
        self.accesses: dict[Thunk, list[Access]] = {}
        self._program = program
        self._moved = moved
        self._memory = _RecentMemory()
        self._depth = 0

    def leaf(self, thunk: Thunk) -> None:
        writes, reads = (dict.fromkeys(map(self._place, slices)) for slices in (thunk.writes, thunk.reads))
        places = {place: place.end - place.start for place in (*reads, *writes) if place is not None}
        updates = self._updates(thunk) | (reads.keys() & writes.keys())
        limit = _limit([*places.values(), *(places[p] for p in updates if p in places)], self._moved(thunk))
        self._note_published(thunk)
        exact: dict[_Place | None, float] = {}
        for slice_, part in self._touched(thunk).items():
            where = self._place(slice_)
            exact[where] = exact.get(where, 0.0) + part
        found: list[Access] = []
        for place, size in places.items():
            touched = min(size, exact.get(place, limit))
            distance = self._memory.access(place, touched)
            if self._sharing.counts_parts:
                distance = self._distance_of_part(place, touched, distance)
            found.append(Access(touched, distance, place in writes, place in updates, touched < size))
            self._since_run += touched
            self._since_meeting += touched
        self.accesses[thunk] = found
        if thunk in self._meetings:
            self._since_meeting = self._others(self._since_meeting, self._sharing.between_meetings)

    def _note_published(self, thunk: Thunk) -> None:
        """Notes which own array each array of another device corresponds to: all devices run the same program, so that
        theirs was last accessed when the own one was."""
        if self._sharing.counts_parts:
            pairs = [(slice_, thunk.own_array(slice_)) for slice_ in thunk.writes]
            self._published |= {received: own for received, own in pairs if own is not None}

    def _distance_of_part(self, place: _Place, touched: float, distance: float) -> float:
        """Returns the distance of an access to a part of a place: accesses one after the other are to different parts,
        so that all of them have the distance of the first one, until they have the size of the place."""
        size = float(place.end - place.start)
        first, left = self._parts.pop(place, (distance, size))
        if left > touched:
            self._parts[place] = (first, left - touched)
        return first

    def end_of_run(self) -> None:
        """Notes what other devices touch before the next run of this one."""
        self._parts.clear()
        size = self._since_meeting if self._sharing.between_meetings else self._since_run
        self._since_meeting = self._since_run = self._others(size, self._sharing.between_runs)

    def _others(self, size: float, others: float) -> float:
        if size and others:
            self._memory.note_others(size * others)
        return 0.0

    def _updates(self, thunk: Thunk) -> set[_Place | None]:
        """Returns the places that a thunk's kernel reads although it writes them."""
        kernel = thunk.own_kernel
        if kernel is None:
            return set()
        loaded = {s.attribute[0].buffer for s in kernel.statements() if isinstance(s, Value) and s.op == "load"}
        written = [buffer for buffer in kernel.buffers if buffer.written]
        return {self._place(slice_) for buffer, slice_ in zip(written, thunk.writes, strict=True) if buffer in loaded}

    def loop(self, thunk: WhileThunk) -> None:
        """Follows a loop twice, so that its accesses follow those of another iteration."""
        self._depth += 1
        for _ in range(2 if self._depth <= _MAX_LOOP_DEPTH else 1):
            self.sequence(thunk.condition)
            self.sequence(thunk.body)
        self._depth -= 1

    def conditional(self, thunk: ConditionalThunk) -> None:
        for branch in thunk.branches:
            self.sequence(branch)

    def outlined(self, thunk: OutlinedThunk) -> None:
        self.sequence(thunk.thunks)

    def _place(self, slice_: BufferSlice) -> _Place | None:
        """Returns where a slice lies; None for slices on the stack and for memory of other devices."""
        slice_ = self._published.get(slice_, slice_)
        storage, number = slice_.storage, slice_.number
        if not slice_.size or storage in (StorageClass.STACK, StorageClass.SHARED):
            return None
        if storage is StorageClass.RESULT and number in self._program.aliases:
            storage, number = StorageClass.ARGUMENT, self._program.aliases[number]
        if storage is not StorageClass.TEMPORARY:
            return _Place((storage, number), 0, slice_.size)
        region = (StorageClass.TEMPORARY if number < 0 else StorageClass.RESULT, number)
        return _Place(region, slice_.offset, slice_.offset + slice_.size)


def _limit(sizes: list[int], moved: float | None) -> float:
    """Returns the bytes of each array up to which all together are at most `moved` bytes.

    The largest arrays are those of which a thunk accesses only parts, such as the table of a gather.
    """
    left = float(sum(sizes)) if moved is None else moved
    for number, size in enumerate(sorted(sizes)):
        share = left / (len(sizes) - number)
        if size > share:
            return max(share, 1.0)
        left -= size
    return max(sizes, default=0)
