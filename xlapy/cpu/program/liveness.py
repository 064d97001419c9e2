"""How long the memory of a program is in use: positions of steps, in the order in which they stand.

Owns: first and last uses. Must not know: what steps compute, where memory lies.
"""

from __future__ import annotations

from xlapy.cpu.program.thunks import Slot, Step, WhileStep, inner_steps, slots_of


class Lives:
    """The first and the last position at which each slot is in use, and the first and last of each step.

    What is made before a loop and used in it lives until the loop ends.
    """

    def __init__(self, steps: list[Step]) -> None:
        self.first: dict[Slot, int] = {}
        self.last: dict[Slot, int] = {}
        self.extents: dict[Step, tuple[int, int]] = {}
        self._loops: dict[Slot, tuple[WhileStep, ...]] = {}
        self._outlives: dict[WhileStep, list[Slot]] = {}
        self._position = 0
        self._visit(steps, ())

    def within(self, slot: Slot, step: Step) -> bool:
        """Whether the slot is in use only while a step runs."""
        begin, end = self.extents[step]
        return begin <= self.first[slot] and self.last[slot] <= end

    def begins_outside_loops(self, slot: Slot) -> bool:
        """Whether the slot is in use, and no loop is the first to use it."""
        return self._loops.get(slot) == ()

    def _visit(self, steps: list[Step], loops: tuple[WhileStep, ...]) -> None:
        for step in steps:
            self._position += 1
            begin = self._position
            inner_loops = (*loops, step) if isinstance(step, WhileStep) else loops
            for slot in slots_of(step):
                self._use(slot, inner_loops)
            for inner in inner_steps(step):
                self._visit(inner, inner_loops)
            if isinstance(step, WhileStep):
                self._position += 1
                for slot in self._outlives.pop(step, []):
                    self.last[slot] = self._position
            self.extents[step] = begin, self._position

    def _use(self, slot: Slot, loops: tuple[WhileStep, ...]) -> None:
        if slot not in self.first:
            self.first[slot], self._loops[slot] = self._position, loops
        self.last[slot] = self._position
        shared = self._loops[slot]
        for loop in loops[len(shared) :]:
            self._outlives.setdefault(loop, []).append(slot)
