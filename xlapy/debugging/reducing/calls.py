"""Passes that take called computations apart: calls and fusions are inlined, a conditional becomes one of its branches.

Owns: which calls can be replaced by what they call. Must not know: what the computations do.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.debugging.reducing.proposals import Proposals
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.control import ASYNC_DONE, ASYNC_START, CALL, CONDITIONAL, FUSION, WHILE
from xlapy.opcodes.registry import AsyncRole


def _of(module: Module, *ops: object) -> list[Instruction]:
    return [i for i in module.instructions() if i.op in ops]


def _inline(module: Module, numbers: Sequence[int]) -> None:
    calls = _of(module, CALL, FUSION)
    for call in [calls[number] for number in numbers]:
        edit.inline_call(call)


def _branches(module: Module) -> list[tuple[Instruction, int]]:
    return [(i, branch) for i in _of(module, CONDITIONAL) for branch in range(len(i.computations))]


def _take_branch(module: Module, numbers: Sequence[int]) -> None:
    branches = _branches(module)
    for conditional, branch in [branches[number] for number in numbers]:
        _call_instead(conditional, (conditional.operands[1 + branch],), conditional.computations[branch])


def _run_once(module: Module, numbers: Sequence[int]) -> None:
    loops = _of(module, WHILE)
    for loop in [loops[number] for number in numbers]:
        _call_instead(loop, loop.operands, loop.computations[1])


def _wait_at_once(module: Module, numbers: Sequence[int]) -> None:
    """What was started, updated and waited for is called."""
    ends = _of(module, ASYNC_DONE)
    for end in [ends[number] for number in numbers]:
        start, operands = end.operands[0], list[Instruction]()
        while start.op.async_role is AsyncRole.UPDATE:
            operands[:0] = start.operands[1:]
            start = start.operands[0]
        if start.op is ASYNC_START:
            _call_instead(end, (*start.operands, *operands), start.computations[0])


def _call_instead(instruction: Instruction, operands: Sequence[Instruction], callee: Computation) -> None:
    computation = instruction.parent
    if computation is not None:
        called = edit.create(computation, CALL, operands, None, (callee,))
        edit.replace_uses(instruction, called)


PASSES = (
    Proposals("calls", lambda module: len(_of(module, CALL, FUSION)), _inline),
    Proposals("branches", lambda module: len(_branches(module)), _take_branch),
    Proposals("loops", lambda module: len(_of(module, WHILE)), _run_once),
    Proposals("asynchronous calls", lambda module: len(_of(module, ASYNC_DONE)), _wait_at_once),
)
