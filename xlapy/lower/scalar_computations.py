"""Decides whether the computations that an instruction applies to elements can be part of a kernel.

A reducer, comparator or map body becomes part of a kernel as one expression of scalars. A loop, a branch, a random draw
or a call to the host inside of it has no such expression: a back end then needs another way to run the instruction.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.lower.core import LOWERINGS

CONTROL_FLOW = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.WHILE})
"""Opcodes whose computations run on whole arrays, as parts of the program: they are not applied to elements."""


def applies_unlowerable_computation(instruction: Instruction) -> bool:
    """Whether an instruction applies to elements a computation that is not an expression of scalars."""
    if instruction.op in CONTROL_FLOW:
        return False
    pending, visited = list(instruction.computations), set[Computation]()
    while pending:
        computation = pending.pop()
        if computation in visited:
            continue
        visited.add(computation)
        for inner in computation:
            if inner.op not in LOWERINGS and inner.op is not opcodes.PARAMETER:
                return True
            pending += inner.computations
    return False
