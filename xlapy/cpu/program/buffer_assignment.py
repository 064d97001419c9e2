"""Places of temporaries: those that are never needed at the same time share memory, that of results lent as well.

Owns: where each temporary lies. Must not know: what steps compute.
"""

from __future__ import annotations

from bisect import insort

from xlapy.cpu.program.buffer_reuse import may_share, note_shared
from xlapy.cpu.program.liveness import Lives
from xlapy.cpu.program.thunks import CopyStep, KernelStep, NativeProgram, PartStep, Slot, SlotKind, Step, WhileStep

ALIGNMENT = 64


def assign_buffers(program: NativeProgram) -> None:
    """Gives every temporary its place, in the arena or a result's memory, and the program the size of its arena."""
    lives = Lives(program.steps)
    arena, results = _Region(), _lent(program, lives)
    placed: dict[Slot, _Region] = {}
    temporaries = [slot for slot in lives.first if slot.kind is SlotKind.TEMPORARY]
    ending = sorted(temporaries, key=lambda slot: lives.last[slot])
    due = 0
    for slot in sorted(temporaries, key=lambda slot: lives.first[slot]):
        while due < len(ending) and lives.last[ending[due]] < lives.first[slot]:
            placed[ending[due]].give_back(ending[due])
            due += 1
        results = [region for region in results if region.until > lives.first[slot]]
        lent = (region for region in results if region.lasts(slot, lives.last[slot]) and region.place(slot))
        placed[slot] = region = next(lent, arena)
        if region is arena:
            arena.place_behind(slot)
        elif region.until == lives.last[slot]:
            region.note_overwriting(slot)
    program.arena_size = arena.top
    program.temporaries = sorted((slot for slot in temporaries if slot.number < 0), key=lambda slot: -slot.size)


def _lent(program: NativeProgram, lives: Lives) -> list[_Region]:
    """The memory of results that holds nothing yet when the program begins, the smallest first.

    That of a result which a loop makes is not lent: it holds what the last iteration made.
    """
    free = [slot for slot in program.results if slot.number not in program.aliases and lives.begins_outside_loops(slot)]
    makers = {begin: step for step, (begin, _) in lives.extents.items() if isinstance(step, KernelStep)}
    ordered = sorted(free, key=lambda slot: slot.size)
    return [_Region(slot, lives.first[slot], makers.get(lives.first[slot])) for slot in ordered]


class _Region:
    """The free ranges, by offset, of the arena or of a result's memory; the smallest that fits is taken.

    result: the one whose memory it is. until: the step that needs the memory for it; maker: that step, if a kernel.
    """

    def __init__(self, result: Slot | None = None, until: int = 0, maker: KernelStep | None = None) -> None:
        self.result = result
        self.top = 0 if result is None else result.size
        self.until = until
        self.maker = maker
        self._free = [(0, self.top)] if self.top else []

    def lasts(self, slot: Slot, last: int) -> bool:
        """Whether the memory is free for a slot until its last use, or that is where the result overwrites it."""
        if last != self.until:
            return last < self.until
        result, maker = self.result, self.maker
        if result is None or maker is None or result.size != slot.size or not may_share(maker, result, slot):
            return False
        return self._free == [(0, self.top)]

    def note_overwriting(self, slot: Slot) -> None:
        """Notes that the result is made where the slot lies."""
        assert self.result is not None and self.maker is not None
        note_shared(self.maker, slot, self.result)

    def place(self, slot: Slot) -> bool:
        """Gives a slot its place in a free range, if there is one that is large enough."""
        size = _rounded(slot.size)
        fitting = [(length, offset) for offset, length in self._free if length >= size]
        if not fitting:
            return False
        length, offset = min(fitting)
        self._free.remove((offset, length))
        if length > size:
            insort(self._free, (offset + size, length - size))
        slot.offset = offset
        if self.result is not None:
            slot.number = self.result.number
        return True

    def place_behind(self, slot: Slot) -> None:
        """Gives a slot a place, behind all others if need be, or from the last free range on if that ends there."""
        if self.place(slot):
            return
        offset = self.top
        if self._free and sum(self._free[-1]) == self.top:
            offset, _ = self._free.pop()
        slot.offset = offset
        self.top = offset + _rounded(slot.size)

    def give_back(self, slot: Slot) -> None:
        """Joins the range with free neighbours."""
        offset, end = slot.offset, slot.offset + _rounded(slot.size)
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

    Steps are numbered as they stand in the program, a loop once more behind its body; a slot is in use from the first
    to the last step of its line.
    """
    lives = Lives(program.steps)
    names = _names_of_positions(lives)
    temporaries = [slot for slot in lives.first if slot.kind is SlotKind.TEMPORARY]
    slots = sorted(temporaries, key=lambda slot: (-slot.size, slot.place, lives.first[slot]))
    total = sum(slot.size for slot in slots)
    lines = [f"arena of {program.arena_size} bytes for {len(slots)} temporaries of {total} bytes"]
    rows = [("bytes", "offset", "in use", "shape", "from", "to")]
    for slot in slots:
        first, last = lives.first[slot], lives.last[slot]
        cells = (str(slot.size), slot.place, f"{first}-{last}", slot.shape.brief, names[first], names[last])
        rows.append(cells)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines) + "\n"


def _names_of_positions(lives: Lives) -> dict[int, str]:
    names: dict[int, str] = {}
    for step, (begin, end) in lives.extents.items():
        names[begin] = _step_name(step)
        if isinstance(step, WhileStep):
            names[end] = f"the end of {step.origin}"
    return names


def _step_name(step: Step) -> str:
    if isinstance(step, PartStep):
        return "a part"
    return "a copy" if isinstance(step, CopyStep) else step.origin
