"""The pass that inlines calls.

Responsible for which calls are inlined; `hlo.inlining.inline_call` copies the instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.inlining import inline_call
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.control import CallAttributes
from xlapy.passes.rewrite import editable_computations, remove_uncalled_computations, update_schedule


@dataclass(frozen=True)
class InlineCalls:
    """Replaces calls by copies of the computations that they call.

    composites: also inline composites (calls with `is_composite=true`). max_caller_size: the maximum number of
    instructions in the caller after inlining. max_shared_size: the maximum number of instructions in a callee
    with several callers. Calls with the frontend attribute `inlineable="false"` stay.
    """

    name: ClassVar[str] = "inline-calls"
    composites: bool = False
    max_caller_size: int = 100_000
    max_shared_size: int = 100_000

    def __post_init__(self) -> None:
        for option in ("max_caller_size", "max_shared_size"):
            if getattr(self, option) < 0:
                raise InvalidArgumentError(f"option {option} of pass {self.name} is negative: {getattr(self, option)}")

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in computation.instructions:
                if instruction.op is opcodes.CALL and self._may_inline(instruction):
                    called = instruction.computations
                    inline_call_with_annotations(instruction)
                    remove_uncalled_computations(called)
                    changed = True
        return update_schedule(module, changed)

    def _may_inline(self, call: Instruction) -> bool:
        (called,) = call.computations
        caller = call.parent
        assert caller is not None
        if call.attributes_as(CallAttributes).is_composite and not self.composites:
            return False
        if (call.frontend_attributes or {}).get("inlineable") == "false" or not keeps_annotations(call):
            return False
        if called.execution_thread != caller.execution_thread:
            return False
        if len(called) <= 2:
            return True
        if len(called.callers) > 1 and len(called) > self.max_shared_size:
            return False
        return len(caller) + len(called) <= self.max_caller_size


def keeps_annotations(call: Instruction) -> bool:
    """Returns whether the sharding of a call can be kept; it cannot if the callee returns one of its parameters."""
    root = call.computations[0].root_instruction
    return call.sharding is None or call.sharding == root.sharding or root.op is not opcodes.PARAMETER


def inline_call_with_annotations(call: Instruction) -> None:
    """Inlines a call. Its result gets the call's sharding, and all copies get its frontend attributes.

    The attributes that describe a composite are dropped.
    """
    computation, sharding = call.parent, call.sharding
    assert computation is not None
    frontend = {k: v for k, v in (call.frontend_attributes or {}).items() if not k.startswith("composite.")}
    before = len(computation) - 1
    result = inline_call(call)
    copies = computation.instructions[before:]
    for copy in copies if frontend else ():
        copy.frontend_attributes = {**frontend, **(copy.frontend_attributes or {})}
    if sharding is not None and result in copies:
        result.sharding = sharding
