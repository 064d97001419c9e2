"""Reduction passes that inline calls and fusions, and replace conditionals, loops and asynchronous calls by plain
calls.

Responsible for which instructions can be replaced by what they call. Does not depend on what the computations do.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.debugging.reducing.reduction_pass import ReductionPass
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.inlining import inline_call
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.control import ASYNC_DONE, ASYNC_START, CALL, CONDITIONAL, FUSION, WHILE
from xlapy.opcodes.registry import AsyncRole


def _instructions_with(module: Module, *ops: object) -> list[Instruction]:
    return [i for i in module.instructions() if i.op in ops]


def _inline(module: Module, numbers: Sequence[int]) -> None:
    calls = _instructions_with(module, CALL, FUSION)
    for call in [calls[number] for number in numbers]:
        inline_call(call)


def _branches(module: Module) -> list[tuple[Instruction, int]]:
    return [(i, branch) for i in _instructions_with(module, CONDITIONAL) for branch in range(len(i.computations))]


def _replace_by_branch(module: Module, numbers: Sequence[int]) -> None:
    branches = _branches(module)
    for conditional, branch in [branches[number] for number in numbers]:
        _replace_by_call(conditional, (conditional.operands[1 + branch],), conditional.computations[branch])


def _replace_loop_by_body(module: Module, numbers: Sequence[int]) -> None:
    loops = _instructions_with(module, WHILE)
    for loop in [loops[number] for number in numbers]:
        _replace_by_call(loop, loop.operands, loop.computations[1])


def _call_synchronously(module: Module, numbers: Sequence[int]) -> None:
    """Replaces an asynchronous start, its updates and its done by a synchronous call."""
    ends = _instructions_with(module, ASYNC_DONE)
    for end in [ends[number] for number in numbers]:
        start, operands = end.operands[0], list[Instruction]()
        while start.op.async_role is AsyncRole.UPDATE:
            operands[:0] = start.operands[1:]
            start = start.operands[0]
        if start.op is ASYNC_START:
            _replace_by_call(end, (*start.operands, *operands), start.computations[0])


def _replace_by_call(instruction: Instruction, operands: Sequence[Instruction], callee: Computation) -> None:
    computation = instruction.parent
    if computation is not None:
        called = edit.create(computation, CALL, operands, None, (callee,))
        edit.replace_uses(instruction, called)


PASSES = (
    ReductionPass("calls", lambda module: len(_instructions_with(module, CALL, FUSION)), _inline),
    ReductionPass("branches", lambda module: len(_branches(module)), _replace_by_branch),
    ReductionPass("loops", lambda module: len(_instructions_with(module, WHILE)), _replace_loop_by_body),
    ReductionPass(
        "asynchronous calls", lambda module: len(_instructions_with(module, ASYNC_DONE)), _call_synchronously
    ),
)
