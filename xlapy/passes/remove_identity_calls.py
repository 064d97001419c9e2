"""Removal of custom calls that return their operand, such as `Sharding` and `MoveToHost` on one device.

The partitioner, layout assignment and memory spaces have read these annotations before; in a compiled program, each
would be a call of the host. Does not depend on what the annotations mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.custom_calls.registry import find_target
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.interpreter.custom import IDENTITY_TARGETS
from xlapy.passes.rewrite import editable_computations, remove_replaced, update_schedule


@dataclass(frozen=True)
class RemoveIdentityCalls:
    """Removes custom calls of built-in targets that return their operand.

    A target that a program has registered under the same name is called.
    """

    name: ClassVar[str] = "remove-identity-calls"
    platform: str = "cpu"
    """The platform whose registered targets are kept."""

    def run(self, module: Module) -> bool:
        found = [
            instruction
            for computation in editable_computations(module)
            for instruction in computation
            if self._is_identity(instruction)
        ]
        for instruction in found:
            _bridge_control_edges(instruction)
            edit.replace_uses(instruction, instruction.operands[0])
            remove_replaced(instruction)
        return update_schedule(module, bool(found))

    def _is_identity(self, instruction: Instruction) -> bool:
        if instruction.op is not opcodes.CUSTOM_CALL or instruction.custom_call_target not in IDENTITY_TARGETS:
            return False
        if len(instruction.operands) != 1 or find_target(instruction.custom_call_target, self.platform) is not None:
            return False
        return instruction.operands[0].shape.compatible(instruction.shape)


def _bridge_control_edges(instruction: Instruction) -> None:
    """Replaces the control edges of an instruction by edges from its predecessors to its successors."""
    before, after = instruction.control_predecessors, instruction.control_successors
    edit.remove_control_edges(instruction)
    for predecessor in before:
        for successor in after:
            edit.add_control_edge(predecessor, successor)
