"""Which instructions act: the order in which they run matters beyond the values that they read.

Responsible for that property. Does not depend on how an order is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import Effect

_ACTING_FAMILIES = frozenset({"collectives", "custom", "transfer"})
"""The families whose operations act: devices must meet in one order, and targets may have undeclared effects."""

_PURE = frozenset({opcodes.COPY_DONE, opcodes.COPY_START, opcodes.PARTITION_ID, opcodes.REPLICA_ID})
"""The operations of these families that do not act."""


def is_acting_operation(instruction: Instruction) -> bool:
    """Returns whether an instruction acts by itself: it communicates, draws random numbers or calls a target."""
    return instruction.op.effect_of(instruction.attributes) is Effect.SIDE_EFFECT or (
        instruction.op.family in _ACTING_FAMILIES and instruction.op not in _PURE
    )


def acts(instruction: Instruction) -> bool:
    """Returns whether an instruction, or one in a computation that it calls, acts by itself."""
    return any(map(is_acting_operation, with_called_instructions(instruction)))


def with_called_instructions(instruction: Instruction) -> Iterator[Instruction]:
    """Yields an instruction and those of the computations that it calls, directly or indirectly."""
    pending, visited = [instruction], set[Computation]()
    while pending:
        current = pending.pop()
        yield current
        for called in current.computations:
            if called not in visited:
                visited.add(called)
                pending += called
