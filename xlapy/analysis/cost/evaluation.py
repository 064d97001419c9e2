"""The work of evaluating an instruction by the interpreter, in elements read, written and combined.

Passes bound by it what they evaluate at compile time. The interpreter pays for each element that it goes through,
padding included, so that this is more than the arithmetic that `instructions` counts.

Responsible for that bound. Does not depend on machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xlapy import opcodes
from xlapy.analysis.cost.elements import element_count
from xlapy.analysis.cost.instructions import instruction_cost
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import called_computations
from xlapy.opcodes.reduction import WindowAttributes

_SORT_WORK_PER_ELEMENT = 32
"""Comparisons that a sort or top-k counts for each element."""


def estimated_work(instruction: Instruction) -> int:
    """Returns the number of elements that an instruction reads, writes and combines.

    A called computation counts once for each element. Loops and conditionals count as one pass through all of their
    computations.
    """
    work_of_called: dict[Computation, int] = {}
    for computation in _callees_first(instruction):
        work_of_called[computation] = sum(_work(each, work_of_called) for each in computation)
    return _work(instruction, work_of_called)


def _work(instruction: Instruction, work_of_called: Mapping[Computation, int]) -> int:
    """Returns the work of an instruction, given that of the computations that it calls."""
    moved = element_count(instruction.shape) + sum(element_count(o.shape) for o in instruction.operands)
    called = sum(work_of_called[computation] for computation in instruction.computations)
    if instruction.op in (opcodes.CALL, opcodes.WHILE, opcodes.CONDITIONAL, opcodes.FUSION):
        return moved + called
    return moved + _combined(instruction) + (moved + _combined(instruction)) * called


def _callees_first(instruction: Instruction) -> list[Computation]:
    """Returns the computations that an instruction calls, directly or indirectly, callees before callers."""
    order: dict[Computation, None] = {}
    stack = list(instruction.computations)
    while stack:
        missing = [c for c in called_computations(stack[-1]) if c not in order]
        if missing and stack[-1] not in order:
            stack += missing
        else:
            order[stack.pop()] = None
    return list(order)


def _combined(instruction: Instruction) -> int:
    """Returns the number of multiplications, comparisons and the like beyond one for each element read or written."""
    op = instruction.op
    if op is opcodes.DOT:
        return instruction_cost(instruction).flops // 2
    if op is opcodes.CONVOLUTION:
        return instruction.shape.size * instruction.operands[1].shape.size
    if op in (opcodes.REDUCE_WINDOW, opcodes.SELECT_AND_SCATTER):
        return element_count(instruction.operands[0].shape) * prod(
            instruction.attributes_as(WindowAttributes).window.sizes
        )
    if op in (opcodes.SORT, opcodes.TOPK):
        return element_count(instruction.shape) * _SORT_WORK_PER_ELEMENT
    if op.family in ("linalg", "contraction"):
        sizes = instruction.operands[0].shape.dimensions
        return element_count(instruction.shape) * max(sizes, default=1)
    return 0
