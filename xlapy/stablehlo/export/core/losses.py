"""What a module says that StableHLO has no form for: collected while it is written, and told in the log at the end.

Owns: which of an instruction's and a module's notes those are. Must not know: how anything is written.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.layout import Layout
from xlapy.base.logging import logger
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module, ModuleConfig

_MOST_NAMES = 3
_WITH_LAYOUTS = (opcodes.CUSTOM_CALL, opcodes.INFEED, opcodes.PARAMETER)
"""Ops whose layouts are written: as attributes of their own, or in the signature."""


class Losses:
    """What has been left out of one program: kinds of notes, each with the names of the instructions that have them."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}

    def note(self, what: str, name: str) -> None:
        self.found.setdefault(what, []).append(name)

    def look_at(self, instruction: Instruction) -> None:
        """Notes what no operation says of an instruction."""
        name = instruction.name
        if instruction.control_predecessors:
            self.note("control dependencies", name)
        if instruction.backend_config and instruction.op is not opcodes.CUSTOM_CALL:
            self.note("backend_config", name)
        if instruction.original_value:
            self.note("origin", name)
        if instruction.statistics:
            self.note("statistics", name)
        if instruction.op not in _WITH_LAYOUTS and not instruction.is_root and _has_layout(instruction):
            self.note("layouts", name)

    def look_at_module(self, module: Module) -> None:
        """Notes what no attribute says of a module."""
        config, defaults = module.config, ModuleConfig()
        if config.is_scheduled:
            self.note("the order of the schedule", module.name)
        for field in (
            "alias_passthrough_params",
            "allow_spmd_sharding_propagation_to_parameters",
            "allow_spmd_sharding_propagation_to_output",
        ):
            if getattr(config, field) != getattr(defaults, field):
                self.note(field, module.name)
        for field in config.other:
            self.note(field, module.name)

    def tell(self, module: Module) -> None:
        """One warning for all of a program."""
        if self.found:
            parts = [f"{what} of {_listed(names)}" for what, names in self.found.items()]
            logger.warning(
                "StableHLO of %s is written without %s: it has no form for them", module.name, "; ".join(parts)
            )


def _has_layout(instruction: Instruction) -> bool:
    """Whether some part of a value lies otherwise than row by row in the default memory."""
    for _, leaf in instruction.shape.leaves():
        layout = leaf.layout if leaf.is_array else None
        if layout is not None and layout != Layout.default(leaf.rank):
            return True
    return False


def _listed(names: list[str]) -> str:
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
