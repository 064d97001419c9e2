"""Collects the information that the export drops because StableHLO cannot express it, and logs one warning at the end.

Responsible for which fields of instructions and modules are dropped. Does not depend on how anything is exported.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.layout import Layout
from xlapy.base.logging import logger
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module, ModuleConfig

_MAX_LOGGED_NAMES = 3
"""How many instructions the warning names for each kind of information."""

_LAYOUT_EXPORTED = (opcodes.CUSTOM_CALL, opcodes.INFEED, opcodes.PARAMETER)
"""Opcodes whose layouts are exported, as attributes of the operation or in the signature."""


class DroppedInformation:
    """The dropped information of one module: maps each kind to the names of the instructions that had it."""

    def __init__(self) -> None:
        self.names_by_kind: dict[str, list[str]] = {}

    def add(self, kind: str, name: str) -> None:
        """Records that a kind of information was dropped from the instruction or module with this name."""
        self.names_by_kind.setdefault(kind, []).append(name)

    def check_instruction(self, instruction: Instruction) -> None:
        """Records the information in an instruction that no operation holds."""
        name = instruction.name
        if instruction.control_predecessors:
            self.add("control dependencies", name)
        if instruction.backend_config and instruction.op is not opcodes.CUSTOM_CALL:
            self.add("backend_config", name)
        if instruction.original_value:
            self.add("origin", name)
        if instruction.statistics:
            self.add("statistics", name)
        if instruction.op not in _LAYOUT_EXPORTED and not instruction.is_root and _has_custom_layout(instruction):
            self.add("layouts", name)

    def check_module(self, module: Module) -> None:
        """Records the information in a module's configuration that no attribute holds."""
        config, default = module.config, ModuleConfig()
        if config.is_scheduled:
            self.add("the order of the schedule", module.name)
        for field in (
            "alias_passthrough_params",
            "allow_spmd_sharding_propagation_to_parameters",
            "allow_spmd_sharding_propagation_to_output",
        ):
            if getattr(config, field) != getattr(default, field):
                self.add(field, module.name)
        for field in config.other:
            self.add(field, module.name)

    def log_warning(self, module: Module) -> None:
        """Logs one warning that lists all dropped information, if there is any."""
        if self.names_by_kind:
            kinds = [f"{kind} of {_listed(names)}" for kind, names in self.names_by_kind.items()]
            logger.warning("the StableHLO of %s lacks %s: StableHLO cannot express them", module.name, "; ".join(kinds))


def _has_custom_layout(instruction: Instruction) -> bool:
    """Returns whether a leaf of the shape has another layout than row-major in the default memory space."""
    for _, leaf in instruction.shape.leaves():
        layout = leaf.layout if leaf.is_array else None
        if layout is not None and layout != Layout.default(leaf.rank):
            return True
    return False


def _listed(names: list[str]) -> str:
    rest = len(names) - _MAX_LOGGED_NAMES
    return ", ".join(names[:_MAX_LOGGED_NAMES]) + (f" and {rest} more" if rest > 0 else "")
