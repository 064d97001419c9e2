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
from xlapy.interpreter.custom import IDENTITY_TARGETS, returned_operands
from xlapy.passes.rewrite import Writer, bridge_control_edges, editable_computations, remove_replaced, update_schedule


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
            bridge_control_edges(instruction)
            returned = returned_operands(instruction)
            made = (
                returned
                if isinstance(returned, Instruction)
                else Writer(instruction).add(opcodes.TUPLE, *(returned or ()))
            )
            edit.replace_uses(instruction, made)
            remove_replaced(instruction)
        return update_schedule(module, bool(found))

    def _is_identity(self, instruction: Instruction) -> bool:
        if instruction.op is not opcodes.CUSTOM_CALL or instruction.custom_call_target not in IDENTITY_TARGETS:
            return False
        if find_target(instruction.custom_call_target, self.platform) is not None:
            return False
        returned = returned_operands(instruction)
        if isinstance(returned, Instruction):
            return returned.shape.compatible(instruction.shape)
        if returned is None:
            return False
        shapes = instruction.shape.tuple_shapes
        return all(one.shape.compatible(shape) for one, shape in zip(returned, shapes, strict=True))
