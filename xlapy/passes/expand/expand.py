"""The pass that writes operations by simpler ones.

Owns: which operations are expanded, the order of expansion. Must not know: any particular expansion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.errors import InvalidArgumentError, PassError, UnsupportedError, XlaError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import RULES as INTERPRETER
from xlapy.opcodes.registry import OpDef, lookup
from xlapy.passes.expand import EXPANSIONS
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule

PLATFORMS: dict[str, frozenset[OpDef]] = {"interpreter": frozenset(INTERPRETER)}
"""The operations that each platform runs, by its name."""

_DEEPEST = 50


@dataclass(frozen=True)
class Expand:
    """Writes operations by simpler ones: those named, or all that a platform lacks.

    ops: names of operations joined by +, or `all` for every one that has an expansion. platform: where the module is to
    run, if no operations are named; runs: the operations that run there, for platforms without a name here. Operations
    without an expansion, in general or in the form they have, stay as they are.
    """

    name: ClassVar[str] = "expand"
    ops: tuple[str, ...] = ()
    platform: str = "interpreter"
    runs: frozenset[OpDef] | None = None

    def __post_init__(self) -> None:
        if self.platform not in PLATFORMS:
            known = ", ".join(PLATFORMS)
            raise InvalidArgumentError(f"pass expand knows no platform {self.platform!r}; it knows {known}")
        for name in self.ops:
            if name != "all" and lookup(name) not in EXPANSIONS:
                raise InvalidArgumentError(f"{name} has no expansion: {_reason(lookup(name))}")

    def chosen(self) -> frozenset[OpDef]:
        """The operations that are expanded."""
        if "all" in self.ops:
            return frozenset(EXPANSIONS)
        if self.ops:
            return frozenset(lookup(name) for name in self.ops)
        runs = PLATFORMS[self.platform] if self.runs is None else self.runs
        return frozenset(op for op in EXPANSIONS if op not in runs)

    def run(self, module: Module) -> bool:
        """`PassError` if an expansion leads back to what it expands.

        An expansion may add computations, and may make others editable, which are then expanded too.
        """
        chosen = self.chosen()
        changed = False
        done: set[Computation] = set()
        while pending := [c for c in editable_computations(module) if c not in done]:
            for computation in pending:
                if computation.module is not None:  # else it went with its last caller
                    changed |= _expand_computation(computation, chosen)
            done.update(pending)
        return update_schedule(module, changed)


def _expand_computation(computation: Computation, chosen: frozenset[OpDef]) -> bool:
    pending = [(instruction, 0) for instruction in computation if instruction.op in chosen]
    changed = False
    while pending:
        instruction, depth = pending.pop()
        if instruction.parent is None:  # part of what was expanded with another one
            continue
        if depth > _DEEPEST:
            raise PassError(f"expansions of {instruction.op.name} lead back to it: {depth} inside each other")
        made = _expand(instruction)
        changed |= bool(made)
        pending += [(i, depth + 1) for i in made if i.op in chosen]
    return changed


def _expand(instruction: Instruction) -> list[Instruction]:
    """Replaces an instruction by its expansion; the instructions made, none if it has no expansion in this form."""
    write = Writer(instruction)
    try:
        replacement = EXPANSIONS.find(instruction.op)(write, instruction)
        if replacement not in write.created:  # what was there before must not take over anything
            replacement = write.add(opcodes.COPY, replacement)
        replace_with_new(instruction, replacement)
    except UnsupportedError:
        write.discard()
    except XlaError as error:
        raise PassError(f"expansion of {instruction.name} ({instruction.op.name}): {error}") from error
    return write.created


def _reason(op: OpDef) -> str:
    return EXPANSIONS.refusals.get(op, "it is not written by simpler operations")
