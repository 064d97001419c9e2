"""Follows instructions through the passes.

Responsible for finding the instructions that replace them after each pass. Does not depend on what passes do.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.passes import PassEvent
from xlapy.text.describe import line_of


@dataclass(slots=True)
class _Position:
    """The position of an instruction before a pass: its users, and whether it was the root."""

    parent: Computation | None
    was_root: bool
    reads: list[tuple[Instruction, int]]

    @classmethod
    def of(cls, instruction: Instruction) -> _Position:
        reads = [
            (user, number)
            for user in instruction.users
            for number, operand in enumerate(user.operands)
            if operand is instruction
        ]
        return cls(instruction.parent, instruction.is_root, reads)


@dataclass(slots=True)
class InstructionTracker:
    """Follows an instruction of a module, or several.

    The pipeline calls `record_pass` after each pass. Fusion calls `record_copy` for each copy that it makes.
    """

    module: Module
    current: list[Instruction]
    """The instructions that currently represent it: several if it was copied; none if it became dead."""
    history: list[str] = field(default_factory=list[str])
    """One line per pass that affected it, with the new form below."""
    origins: dict[Instruction, dict[str, None]] = field(default_factory=dict["Instruction", "dict[str, None]"])
    """For each of `current`, the names before the first pass of the followed instructions that it represents."""
    _positions: dict[Instruction, _Position] = field(default_factory=dict["Instruction", "_Position"])
    """The positions of all instructions before the pass."""
    _lines: dict[Instruction, str] = field(default_factory=dict["Instruction", str])
    _copies: dict[Instruction, list[Instruction]] = field(default_factory=dict["Instruction", "list[Instruction]"])

    def __post_init__(self) -> None:
        self.origins = {instruction: {instruction.name: None} for instruction in self.current}
        self._record_positions()

    def record_copy(self, instruction: Instruction, copy: Instruction) -> None:
        self._copies.setdefault(instruction, []).append(copy)

    def record_pass(self, event: PassEvent) -> None:
        if not event.changed:
            return
        alive = set(self.module.instructions())
        origins: dict[Instruction, dict[str, None]] = {}
        for instruction in self.current:
            what, successors = self._successors(instruction, alive)
            for successor in successors:
                origins.setdefault(successor, {}).update(self.origins[instruction])
            if what:
                self.history.append(f"{event.number:03} {event.pass_.name}: {what}")
                self.history += [f"      {line_of(successor)}" for successor in successors]
        self.current, self.origins = list(origins), origins
        self._copies.clear()
        self._record_positions()

    def _record_positions(self) -> None:
        self._positions = {instruction: _Position.of(instruction) for instruction in self.module.instructions()}
        self._lines = {instruction: line_of(instruction) for instruction in self.current}

    def _successors(self, instruction: Instruction, alive: set[Instruction]) -> tuple[str, list[Instruction]]:
        """Returns the instructions that represent an instruction after a pass, and how; the text is empty if nothing
        changed.
        """
        if instruction in alive:
            return ("is now" if line_of(instruction) != self._lines[instruction] else "", [instruction])
        copies = [copy for copy in self._copies.get(instruction, []) if copy in alive]
        if copies:
            inside = ", ".join(caller.name for copy in copies if copy.parent for caller in copy.parent.callers)
            return f"is computed in {inside}", copies
        found = self._replacements(instruction, alive)
        if found:
            return f"{instruction.name} is replaced by", found
        what, copies = self._copies_by_name(instruction, alive)
        return (what, copies) if copies else self._replacements_of_users(instruction, alive)

    def _replacements(self, instruction: Instruction, alive: set[Instruction]) -> list[Instruction]:
        """Returns the operands that the users read now in place of the instruction."""
        place = self._positions[instruction]
        found = [user.operands[n] for user, n in place.reads if user in alive and n < len(user.operands)]
        if place.was_root and place.parent is not None and place.parent.module is self.module:
            found.append(place.parent.root_instruction)
        return list(dict.fromkeys(found))

    def _replacements_of_users(
        self, instruction: Instruction, alive: set[Instruction]
    ) -> tuple[str, list[Instruction]]:
        """Returns the replacements of the nearest users, if the same pass removed them; otherwise the instruction was
        dead.
        """
        seen = {instruction}
        edge = [instruction]
        while edge:
            edge = list(
                dict.fromkeys(user for one in edge for user, _ in self._positions[one].reads if user not in seen)
            )
            seen.update(edge)
            found = [new for one in edge if one not in alive for new in self._replacements(one, alive)]
            if found:
                return f"{instruction.name} and its users are replaced by", list(dict.fromkeys(found))
        return f"{instruction.name} is removed: no remaining instruction uses it", []

    def _copies_by_name(self, instruction: Instruction, alive: set[Instruction]) -> tuple[str, list[Instruction]]:
        """Returns the copies made by a pass that clones computations: new, with the same op, and named after the
        instruction.
        """
        name = _root(instruction.name)
        new = [i for i in alive - self._positions.keys() if i.op is instruction.op and _root(i.name) == name]
        return f"{instruction.name} is copied", sorted(new, key=lambda i: i.name)


def _root(name: str) -> str:
    """Returns a name without its number: `e` for `e.1`."""
    root, _, number = name.rpartition(".")
    return root if root and number.isdigit() else name
