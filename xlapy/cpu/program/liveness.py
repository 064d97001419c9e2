"""Liveness analysis: computes the live range of each buffer slice as an interval over the linear order of thunks.

Responsible for the first and last use of slices. Does not depend on what thunks compute or where memory lies.
"""

from __future__ import annotations

from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.thunks import CollectiveThunk, Thunk, WhileThunk, nested_thunks, used_slices


class LiveRanges:
    """The live range of each slice and the range of positions that each thunk covers.

    Positions number the thunks in program order. A loop has two more positions: one after its condition, where it reads
    its predicate, and one after its body. A slice that is written before a loop and used in the loop is live until the
    loop ends. What a direct rendezvous publishes is live until the last use of what it receives, because a device may
    receive its own arrays.
    """

    def __init__(self, thunks: list[Thunk]) -> None:
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
        self._visit(thunks, ())

    def is_within(self, slice_: BufferSlice, thunk: Thunk) -> bool:
        """Whether the slice is live only while a thunk runs."""
        begin, end = self.extents[thunk]
        return begin <= self.first[slice_] and self.last[slice_] <= end

    def begins_outside_loops(self, slice_: BufferSlice) -> bool:
        """Whether the slice is used, and its first use is in no loop."""
        return self._loops.get(slice_) == ()

    def _visit(self, thunks: list[Thunk], loops: tuple[WhileThunk, ...]) -> None:
        for thunk in thunks:
            self._position += 1
            begin = self._position
            if isinstance(thunk, CollectiveThunk) and thunk.direct:
                self._published |= dict.fromkeys(thunk.received, thunk.operands)
            if isinstance(thunk, WhileThunk):
                self._visit_loop(thunk, loops)
            else:
                self._use_all(used_slices(thunk), loops)
                for nested in nested_thunks(thunk):
                    self._visit(nested, loops)
            self.extents[thunk] = begin, self._position

    def _visit_loop(self, loop: WhileThunk, loops: tuple[WhileThunk, ...]) -> None:
        inner_loops = (*loops, loop)
        self._visit(loop.condition, inner_loops)
        self._position += 1
        self.decisions[loop] = self._position
        self._use_all(used_slices(loop), inner_loops)
        self._visit(loop.body, inner_loops)
        self._position += 1
        for slice_ in self._live_through.pop(loop, []):
            self.last[slice_] = self._position

    def _use_all(self, slices: list[BufferSlice], loops: tuple[WhileThunk, ...]) -> None:
        for slice_ in slices:
            for used in (slice_, *self._published.get(slice_, ())):
                self._use(used, loops)

    def _use(self, slice_: BufferSlice, loops: tuple[WhileThunk, ...]) -> None:
        if slice_ not in self.first:
            self.first[slice_], self._loops[slice_] = self._position, loops
        self.last[slice_] = self._position
        common = self._loops[slice_]
        for loop in loops[len(common) :]:
            self._live_through.setdefault(loop, []).append(slice_)
