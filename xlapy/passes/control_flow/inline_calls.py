"""The pass that inlines calls.

Responsible for which calls are inlined; `hlo.inlining.inline_call` copies the instructions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.computation import Computation
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
    with several callers. max_copied_size: a larger callee is inlined, too, if its copies for all callers have at most
    this many instructions together. Calls with the frontend attribute `inlineable="false"` stay.
    """

    name: ClassVar[str] = "inline-calls"
    composites: bool = False
    max_caller_size: int = 100_000
    max_shared_size: int = 100_000
    max_copied_size: int = 0

    def __post_init__(self) -> None:
        for option in ("max_caller_size", "max_shared_size", "max_copied_size"):
            if getattr(self, option) < 0:
                raise InvalidArgumentError(
                    codes.PASS_OPTION_VALUE, f"option {option} of pass {self.name} is negative: {getattr(self, option)}"
                )

    def run(self, module: Module) -> bool:
        """Inlines calls in callees before those in callers, because a decision depends on the size of the callee.

        Calls in a callee that is inlined at its only call site are left until then. A nest of calls is thus copied once
        for each call, not once for each call around it.
        """
        changed = False
        computations = dict.fromkeys(editable_computations(module))
        later = {c for c in computations if self._has_one_inlined_call(c, computations)}
        for computation in computations:
            if computation.module is not None and computation not in later:
                changed |= self._inline_in(computation, later)
        return update_schedule(module, changed)

    def _has_one_inlined_call(self, computation: Computation, editable: Collection[Computation]) -> bool:
        if computation.is_entry or len(computation.callers) != 1:
            return False
        (call,) = computation.callers
        return call.op is opcodes.CALL and call.parent in editable and self._may_inline(call)

    def _inline_in(self, computation: Computation, later: set[Computation]) -> bool:
        """Inlines the calls in a computation. later: the computations whose own calls have not been inlined yet."""
        changed, pending = False, list(reversed(computation.instructions))
        while pending:
            call = pending.pop()
            if call.op is not opcodes.CALL:
                continue
            called = call.computations
            if self._may_inline(call):
                copies = inline_call_with_annotations(call)
                if called[0] in later:
                    pending += reversed(copies)
                remove_uncalled_computations(called)
                changed = True
            elif called[0] in later:  # the caller has become too large
                later.discard(called[0])
                pending += reversed(called[0].instructions)
        return changed

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
        sites = len(called.callers)
        if sites > 1 and len(called) > self.max_shared_size and sites * len(called) > self.max_copied_size:
            return False
        return len(caller) + len(called) <= self.max_caller_size


def keeps_annotations(call: Instruction) -> bool:
    """Returns whether the sharding of a call can be kept; it cannot if the callee returns one of its parameters."""
    root = call.computations[0].root_instruction
    return call.sharding is None or call.sharding == root.sharding or root.op is not opcodes.PARAMETER


def inline_call_with_annotations(call: Instruction) -> list[Instruction]:
    """Inlines a call; returns the copies. Its result gets the call's sharding, and all copies get its frontend
    attributes.

    The attributes that describe a composite are dropped.
    """
    computation, sharding = call.parent, call.sharding
    assert computation is not None
    frontend = {k: v for k, v in (call.frontend_attributes or {}).items() if not k.startswith("composite.")}
    before = len(computation) - 1
    result = inline_call(call)
    copies = computation.last_instructions(len(computation) - before)
    for copy in copies if frontend else ():
        copy.frontend_attributes = {**frontend, **(copy.frontend_attributes or {})}
    if sharding is not None and result in copies:
        result.sharding = sharding
    return copies
