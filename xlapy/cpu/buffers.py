"""Places in the arena: temporaries that are never needed at the same time share memory.

Owns: where each temporary lies. Must not know: what steps compute.
"""

from __future__ import annotations

from bisect import insort

from xlapy.cpu.lives import Lives
from xlapy.cpu.steps import CopyStep, NativeProgram, PartStep, Slot, SlotKind, Step, WhileStep

ALIGNMENT = 64


def assign_buffers(program: NativeProgram) -> None:
    """Gives every temporary its offset, and the program the size of its arena and what lies in it."""
    lives = Lives(program.steps)
    arena = _Arena()
    temporaries = [slot for slot in lives.first if slot.kind is SlotKind.TEMPORARY]
    ending = sorted(temporaries, key=lambda slot: lives.last[slot])
    due = 0
    for slot in sorted(temporaries, key=lambda slot: lives.first[slot]):
        while due < len(ending) and lives.last[ending[due]] < lives.first[slot]:
            arena.give_back(ending[due])
            due += 1
        arena.place(slot)
    program.arena_size = arena.top
    program.temporaries = sorted(temporaries, key=lambda slot: -slot.size)


class _Arena:
    """Free ranges of the arena, by offset; the smallest that fits is taken."""

    def __init__(self) -> None:
        self.top = 0
        self._free: list[tuple[int, int]] = []  # (offset, size)

    def place(self, slot: Slot) -> None:
        size = _rounded(slot.size)
        fitting = [(length, offset) for offset, length in self._free if length >= size]
        if not fitting:
            slot.offset = self._extended(size)
            return
        length, offset = min(fitting)
        self._free.remove((offset, length))
        if length > size:
            insort(self._free, (offset + size, length - size))
        slot.offset = offset

    def _extended(self, size: int) -> int:
        """Behind all others, or from the last free range on if that is where the arena ends."""
        offset = self.top
        if self._free and sum(self._free[-1]) == self.top:
            offset, _ = self._free.pop()
        self.top = offset + size
        return offset

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
    slots = sorted(temporaries, key=lambda slot: (-slot.size, slot.offset, lives.first[slot]))
    total = sum(slot.size for slot in slots)
    lines = [f"arena of {program.arena_size} bytes for {len(slots)} temporaries of {total} bytes"]
    rows = [("bytes", "offset", "in use", "shape", "from", "to")]
    for slot in slots:
        first, last = lives.first[slot], lives.last[slot]
        cells = (str(slot.size), f"+{slot.offset}", f"{first}-{last}", slot.shape.brief, names[first], names[last])
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
