"""How long the memory of a program is in use: positions of thunks, in the order in which they stand.

Owns: first and last uses. Must not know: what thunks compute, where memory lies.
"""

from __future__ import annotations

from xlapy.cpu.program.thunks import BufferSlice, Thunk, WhileThunk, nested_thunks, used_slices


class Lives:
    """The first and the last position at which each slice_ is in use, and the first and last of each thunk.

    What is made before a loop and used in it lives until the loop ends.
    """

    def __init__(self, thunks: list[Thunk]) -> None:
        self.first: dict[BufferSlice, int] = {}
        self.last: dict[BufferSlice, int] = {}
        self.extents: dict[Thunk, tuple[int, int]] = {}
        self._loops: dict[BufferSlice, tuple[WhileThunk, ...]] = {}
        self._outlives: dict[WhileThunk, list[BufferSlice]] = {}
        self._position = 0
        self._visit(thunks, ())

    def within(self, slice_: BufferSlice, thunk: Thunk) -> bool:
        """Whether the slice_ is in use only while a thunk runs."""
        begin, end = self.extents[thunk]
        return begin <= self.first[slice_] and self.last[slice_] <= end

    def begins_outside_loops(self, slice_: BufferSlice) -> bool:
        """Whether the slice_ is in use, and no loop is the first to use it."""
        return self._loops.get(slice_) == ()

    def _visit(self, thunks: list[Thunk], loops: tuple[WhileThunk, ...]) -> None:
        for thunk in thunks:
            self._position += 1
            begin = self._position
            inner_loops = (*loops, thunk) if isinstance(thunk, WhileThunk) else loops
            for slice_ in used_slices(thunk):
                self._use(slice_, inner_loops)
            for inner in nested_thunks(thunk):
                self._visit(inner, inner_loops)
            if isinstance(thunk, WhileThunk):
                self._position += 1
                for slice_ in self._outlives.pop(thunk, []):
                    self.last[slice_] = self._position
            self.extents[thunk] = begin, self._position

    def _use(self, slice_: BufferSlice, loops: tuple[WhileThunk, ...]) -> None:
        if slice_ not in self.first:
            self.first[slice_], self._loops[slice_] = self._position, loops
        self.last[slice_] = self._position
        shared = self._loops[slice_]
        for loop in loops[len(shared) :]:
            self._outlives.setdefault(loop, []).append(slice_)
