"""The short asynchronous forms in HLO text: `add-start(x, y)`, `add-update(s)`, `add-done(u)` of any op.

Such a form stands for an `async-start`, `async-update` or `async-done` whose called computation holds only the op.
Responsible for recognizing the short forms and for what a chain from start to done shares; `parse_async` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.control import ASYNC_DONE, ASYNC_START, ASYNC_UPDATE
from xlapy.opcodes.registry import REGISTRY, AsyncRole, OpDef
from xlapy.text.annotations import set_annotations

_SUFFIXES = {"-start": ASYNC_START, "-update": ASYNC_UPDATE, "-done": ASYNC_DONE}
_OPS_WITH_OWN_START = frozenset(["all-gather", "all-reduce", "collective-permute", "copy", "recv", "send"])
"""Ops whose `-start` and `-done` are opcodes of their own."""
ASYNC_OPS = frozenset(_SUFFIXES.values())
"""async-start, async-update and async-done."""
_SHARED_ANNOTATIONS = ("metadata", "original_value", "backend_config", "frontend_attributes", "statistics")
"""Annotations of an async instruction that XLA also gives to the wrapped instruction."""


def split_async_opcode(opcode: str) -> tuple[OpDef, OpDef] | None:
    """Splits `add-start` into (add, async-start); None if the opcode is not the short asynchronous form of an op."""
    for suffix, op in _SUFFIXES.items():
        wrapped = opcode.removesuffix(suffix)
        if wrapped != opcode and wrapped in REGISTRY and wrapped not in _OPS_WITH_OWN_START:
            return REGISTRY[wrapped], op
    return None


def has_short_form(computation: Computation | None) -> bool:
    """Whether `add-start` can stand for an async-start of the computation: one instruction on its parameters in order.

    XLA also prints the short form of ops that it cannot read in that form again, and of instructions that take the
    parameters in another order or not all of them. The short form loses that, so these print in the long form here.
    """
    root = computation.root if computation is not None else None
    if computation is None or root is None or root.op.name in _OPS_WITH_OWN_START:
        return False
    if root.op.parenthesized_attribute is not None or root.op in ASYNC_OPS:
        return False
    if not all(instruction is root or is_parameter(instruction) for instruction in computation):
        return False
    return root.operands == tuple(computation.parameters)


def wrapped_computation(instruction: Instruction) -> Computation | None:
    """The computation that the async-start of an async instruction's chain calls; None if the chain is broken."""
    while instruction.op.async_role in (AsyncRole.UPDATE, AsyncRole.DONE) and instruction.operands:
        instruction = instruction.operands[0]
    starts = instruction.op is ASYNC_START and len(instruction.computations) == 1
    return instruction.computations[0] if starts else None


def share_annotations(instruction: Instruction, annotations: Mapping[str, object]) -> None:
    """Copies most annotations of an async instruction to the root of its chain's wrapped computation, as XLA does."""
    computation = wrapped_computation(instruction)
    if computation is not None and computation.root is not None:
        shared = {slot: value for slot, value in annotations.items() if slot in _SHARED_ANNOTATIONS}
        set_annotations(computation.root, shared)


def set_execution_thread(computation: Computation, thread: str) -> None:
    """Sets the execution thread of a computation and of all that it calls, as XLA does for an async-start."""
    stack = [computation]
    seen: set[Computation] = set()
    while stack:
        current = stack.pop()
        if current not in seen:
            seen.add(current)
            current.execution_thread = thread
            stack.extend(called for instruction in current for called in instruction.computations)
