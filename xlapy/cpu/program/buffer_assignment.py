"""Places of temporaries: those that are never needed at the same time share memory, that of results lent as well.

Owns: where each temporary lies. Must not know: what thunks compute.
"""

from __future__ import annotations

from bisect import insort

from xlapy.cpu.program.buffer_reuse import may_share, note_shared
from xlapy.cpu.program.liveness import Lives
from xlapy.cpu.program.thunks import (
    BufferSlice,
    CopyThunk,
    KernelThunk,
    NativeProgram,
    OutlinedThunk,
    StorageClass,
    Thunk,
    WhileThunk,
)

ALIGNMENT = 64


def assign_buffers(program: NativeProgram) -> None:
    """Gives every temporary its place, in the arena or a result's memory, and the program the size of its arena."""
    lives = Lives(program.thunks)
    arena, results = _Region(), _lent(program, lives)
    placed: dict[BufferSlice, _Region] = {}
    temporaries = [slice_ for slice_ in lives.first if slice_.kind is StorageClass.TEMPORARY]
    ending = sorted(temporaries, key=lambda slice_: lives.last[slice_])
    due = 0
    for slice_ in sorted(temporaries, key=lambda slice_: lives.first[slice_]):
        while due < len(ending) and lives.last[ending[due]] < lives.first[slice_]:
            placed[ending[due]].give_back(ending[due])
            due += 1
        results = [region for region in results if region.until > lives.first[slice_]]
        lent = (region for region in results if region.lasts(slice_, lives.last[slice_]) and region.place(slice_))
        placed[slice_] = region = next(lent, arena)
        if region is arena:
            arena.place_behind(slice_)
        elif region.until == lives.last[slice_]:
            region.note_overwriting(slice_)
    program.arena_size = arena.top
    program.temporaries = sorted(
        (slice_ for slice_ in temporaries if slice_.number < 0), key=lambda slice_: -slice_.size
    )


def _lent(program: NativeProgram, lives: Lives) -> list[_Region]:
    """The memory of results that holds nothing yet when the program begins, the smallest first.

    That of a result which a loop makes is not lent: it holds what the last iteration made.
    """
    free = [
        slice_
        for slice_ in program.results
        if slice_.number not in program.aliases and lives.begins_outside_loops(slice_)
    ]
    makers = {begin: thunk for thunk, (begin, _) in lives.extents.items() if isinstance(thunk, KernelThunk)}
    ordered = sorted(free, key=lambda slice_: slice_.size)
    return [_Region(slice_, lives.first[slice_], makers.get(lives.first[slice_])) for slice_ in ordered]


class _Region:
    """The free ranges, by offset, of the arena or of a result's memory; the smallest that fits is taken.

    result: the one whose memory it is. until: the thunk that needs the memory for it; maker: that thunk, if a kernel.
    """

    def __init__(self, result: BufferSlice | None = None, until: int = 0, maker: KernelThunk | None = None) -> None:
        self.result = result
        self.top = 0 if result is None else result.size
        self.until = until
        self.maker = maker
        self._free = [(0, self.top)] if self.top else []

    def lasts(self, slice_: BufferSlice, last: int) -> bool:
        """Whether the memory is free for a slice_ until its last use, or that is where the result overwrites it."""
        if last != self.until:
            return last < self.until
        result, maker = self.result, self.maker
        if result is None or maker is None or result.size != slice_.size or not may_share(maker, result, slice_):
            return False
        return self._free == [(0, self.top)]

    def note_overwriting(self, slice_: BufferSlice) -> None:
        """Notes that the result is made where the slice_ lies."""
        assert self.result is not None and self.maker is not None
        note_shared(self.maker, slice_, self.result)

    def place(self, slice_: BufferSlice) -> bool:
        """Gives a slice_ its place in a free range, if there is one that is large enough."""
        size = _rounded(slice_.size)
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

    def place_behind(self, slice_: BufferSlice) -> None:
        """Gives a slice_ a place, behind all others if need be, or from the last free range on if that ends there."""
        if self.place(slice_):
            return
        offset = self.top
        if self._free and sum(self._free[-1]) == self.top:
            offset, _ = self._free.pop()
        slice_.offset = offset
        self.top = offset + _rounded(slice_.size)

    def give_back(self, slice_: BufferSlice) -> None:
        """Joins the range with free neighbours."""
        offset, end = slice_.offset, slice_.offset + _rounded(slice_.size)
        joined = [(o, n) for o, n in self._free if o + n == offset or o == end]
        for o, n in joined:
            self._free.remove((o, n))
            offset, end = min(offset, o), max(end, o + n)
        insort(self._free, (offset, end - offset))


def _rounded(size: int) -> int:
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)


# -- the map of the arena


def print_buffers(program: NativeProgram) -> str:
    """The temporaries of a program whose buffers are assigned, a line each, the largest first.

    Steps are numbered as they stand in the program, a loop once more behind its body; a slice_ is in use from the first
    to the last thunk of its line.
    """
    lives = Lives(program.thunks)
    names = _names_of_positions(lives)
    temporaries = [slice_ for slice_ in lives.first if slice_.kind is StorageClass.TEMPORARY]
    slices = sorted(temporaries, key=lambda slice_: (-slice_.size, slice_.place, lives.first[slice_]))
    total = sum(slice_.size for slice_ in slices)
    lines = [f"arena of {program.arena_size} bytes for {len(slices)} temporaries of {total} bytes"]
    rows = [("bytes", "offset", "in use", "shape", "from", "to")]
    for slice_ in slices:
        first, last = lives.first[slice_], lives.last[slice_]
        cells = (
            str(slice_.size),
            slice_.place,
            f"{first}-{last}",
            slice_.shape.to_text(layout=False),
            names[first],
            names[last],
        )
        rows.append(cells)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def _names_of_positions(lives: Lives) -> dict[int, str]:
    names: dict[int, str] = {}
    for thunk, (begin, end) in lives.extents.items():
        names[begin] = _step_name(thunk)
        if isinstance(thunk, WhileThunk):
            names[end] = f"the end of {thunk.origin}"
    return names


def _step_name(thunk: Thunk) -> str:
    if isinstance(thunk, OutlinedThunk):
        return "a part"
    return "a copy" if isinstance(thunk, CopyThunk) else thunk.origin
