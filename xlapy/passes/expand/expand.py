"""The pass that expands operations into simpler ones.

Responsible for which operations are expanded, and in which order. Does not depend on any particular expansion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError, PassError, UnsupportedError, XlaError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.interpreter import RULES as INTERPRETER
from xlapy.opcodes.registry import OpDef, lookup
from xlapy.passes.expand import EXPANSIONS
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule

PLATFORMS: dict[str, frozenset[OpDef]] = {"interpreter": frozenset(INTERPRETER)}
"""Maps the name of each platform to the operations that it implements."""

_MAX_EXPANSION_DEPTH = 50
"""If expansions of expansions nest deeper, an expansion is assumed to lead back to its own operation."""


@dataclass(frozen=True)
class Expand:
    """Expands the named operations, or all that a platform lacks, into simpler ones.

    ops: names of operations joined by +, or `all` for all with an expansion. platform: the platform that is to run the
    module, if no operations are named; runs: the operations that it implements, for a platform without a name here.
    Operations without an expansion, or in a form without one, stay as they are. keeps: whether an instruction stays,
    too.
    """

    name: ClassVar[str] = "expand"
    ops: tuple[str, ...] = ()
    platform: str = "interpreter"
    runs: frozenset[OpDef] | None = None
    keeps: Callable[[Instruction], bool] | None = None

    def __post_init__(self) -> None:
        if self.platform not in PLATFORMS:
            known = ", ".join(PLATFORMS)
            raise InvalidArgumentError(
                codes.PASS_OPTION_VALUE, f"pass expand knows no platform {self.platform!r}; it knows {known}"
            )
        for name in self.ops:
            if name != "all" and lookup(name) not in EXPANSIONS:
                raise InvalidArgumentError(
                    codes.EXPANDED_OPERATION, f"{name} has no expansion: {_reason(lookup(name))}"
                )

    def chosen(self) -> frozenset[OpDef]:
        """Returns the operations that are expanded."""
        if "all" in self.ops:
            return frozenset(EXPANSIONS)
        if self.ops:
            return frozenset(lookup(name) for name in self.ops)
        runs = PLATFORMS[self.platform] if self.runs is None else self.runs
        return frozenset(op for op in EXPANSIONS if op not in runs)

    def run(self, module: Module) -> bool:
        """Expands the module. Raises `PassError` if an expansion leads back to the operation that it expands.

        An expansion may add computations and make others editable; these are expanded too.
        """
        chosen = self.chosen()
        changed = False
        done: set[Computation] = set()
        while pending := [c for c in editable_computations(module) if c not in done]:
            for computation in pending:
                if computation.module is not None:  # else it was removed with its last caller
                    changed |= self._expand_computation(computation, chosen)
            done.update(pending)
        return update_schedule(module, changed)

    def _expand_computation(self, computation: Computation, chosen: frozenset[OpDef]) -> bool:
        """Expands the chosen operations of a computation, and of their expansions; returns whether there are any."""
        pending = [(instruction, 0) for instruction in computation if instruction.op in chosen]
        changed = False
        while pending:
            instruction, depth = pending.pop()
            if instruction.parent is None:  # was expanded together with another one
                continue
            if self.keeps is not None and self.keeps(instruction):
                continue
            if depth > _MAX_EXPANSION_DEPTH:
                raise PassError(
                    codes.PASSES_END, f"expansions of {instruction.op.name} lead back to it: {depth} inside each other"
                )
            made = _expand(instruction)
            changed |= bool(made)
            pending += [(i, depth + 1) for i in made if i.op in chosen]
        return changed


def _expand(instruction: Instruction) -> list[Instruction]:
    """Replaces an instruction by its expansion; returns the new instructions, none if this form has no expansion."""
    write = Writer(instruction)
    try:
        replacement = EXPANSIONS.find(instruction.op)(write, instruction)
        if replacement not in write.created:  # an existing instruction must not inherit annotations
            replacement = write.add(opcodes.COPY, replacement)
        replace_with_new(instruction, replacement)
    except UnsupportedError:
        write.discard()
    except XlaError as error:
        raise PassError(error.code, f"expansion of {describe_instruction(instruction)}: {error.message}") from error
    return write.created


def _reason(op: OpDef) -> str:
    return EXPANSIONS.refusals.get(op, "it cannot be expressed by simpler operations")
