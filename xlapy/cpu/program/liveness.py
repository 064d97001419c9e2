"""Liveness analysis: computes the live range of each buffer slice as an interval over the linear order of thunks.

Responsible for the first and last use of slices. Does not depend on what thunks compute or where memory lies.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.thunks import (
    ConcurrentThunk,
    ConditionalThunk,
    OutlinedThunk,
    Thunk,
    ThunkVisitor,
    WhileThunk,
    walk_thunks,
)


class LiveRanges(ThunkVisitor):
    """The live range of each slice and the range of positions that each thunk covers.

    Positions number the thunks in program order. A loop has two more positions: one after its condition, where it reads
    its predicate, and one after its body. A slice that is written before a loop and used in the loop is live until the
    loop ends. What a direct rendezvous publishes is live until the last use of what it receives, because a device may
    receive its own arrays. What concurrent tasks use is live until all of them have run.

    in_order: whether each concurrent task counts as running after the one before it, so that ranges say which tasks use
    a slice.
    """

    def __init__(self, thunks: list[Thunk], *, in_order: bool = False) -> None:
        self._in_order = in_order
        self.first: dict[BufferSlice, int] = {}
        self.last: dict[BufferSlice, int] = {}
        self.extents: dict[Thunk, tuple[int, int]] = {}
        self.decisions: dict[WhileThunk, int] = {}
        """The position at which each loop reads its predicate."""
        self._loops: dict[BufferSlice, tuple[WhileThunk, ...]] = {}
        """The loops around the first use of each slice."""
        self._live_through: dict[WhileThunk, list[BufferSlice]] = {}
        self._published: dict[BufferSlice, list[BufferSlice]] = {}
        """For each slice that a direct rendezvous receives, what it publishes."""
        self._position = 0
        self._around: tuple[WhileThunk, ...] = ()
        """The loops around the current position."""
        self.sequence(thunks)

    def is_within(self, slice_: BufferSlice, thunk: Thunk) -> bool:
        """Whether the slice is live only while a thunk runs."""
        begin, end = self.extents[thunk]
        return begin <= self.first[slice_] and self.last[slice_] <= end

    def begins_outside_loops(self, slice_: BufferSlice) -> bool:
        """Whether the slice is used, and its first use is in no loop."""
        return self._loops.get(slice_) == ()

    def sequence(self, thunks: Iterable[Thunk]) -> None:
        for thunk in thunks:
            self._position += 1
            begin = self._position
            thunk.accept(self)
            self.extents[thunk] = begin, self._position

    def leaf(self, thunk: Thunk) -> None:
        if thunk.publishes:
            self._published |= dict.fromkeys(thunk.writes, thunk.publishes)
        self._use_all(thunk.accesses)

    def conditional(self, thunk: ConditionalThunk) -> None:
        self._use_all(thunk.accesses)
        for branch in thunk.branches:
            self.sequence(branch)

    def outlined(self, thunk: OutlinedThunk) -> None:
        self.sequence(thunk.thunks)

    def concurrent(self, thunk: ConcurrentThunk) -> None:
        begin = self._position
        self.sequence(thunk.tasks)
        if self._in_order:
            return
        for slice_ in dict.fromkeys(s for inner in walk_thunks([thunk]) for s in inner.accesses):
            self.first[slice_] = min(begin, self.first[slice_])
            self.last[slice_] = max(self._position, self.last[slice_])

    def loop(self, thunk: WhileThunk) -> None:
        outer, self._around = self._around, (*self._around, thunk)
        self.sequence(thunk.condition)
        self._position += 1
        self.decisions[thunk] = self._position
        self._use_all(thunk.accesses)
        self.sequence(thunk.body)
        self._position += 1
        for slice_ in self._live_through.pop(thunk, []):
            self.last[slice_] = self._position
        self._around = outer

    def _use_all(self, slices: list[BufferSlice]) -> None:
        for slice_ in slices:
            for used in (slice_, *self._published.get(slice_, ())):
                self._use(used)

    def _use(self, slice_: BufferSlice) -> None:
        if slice_ not in self.first:
            self.first[slice_], self._loops[slice_] = self._position, self._around
        self.last[slice_] = self._position
        common = self._loops[slice_]
        for loop in self._around[len(common) :]:
            self._live_through.setdefault(loop, []).append(slice_)
