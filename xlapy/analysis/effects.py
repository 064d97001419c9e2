"""What instructions do besides computing their results, the computations that they call included.

Owns: `Effects`, a snapshot of a module, and the question after one instruction. Must not know: passes.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.opcodes.registry import Effect

_COMPUTING = "elementwise movement contraction convolution reduction indexing sorting linalg normalization"
COMPUTING_FAMILIES = frozenset(_COMPUTING.split())
"""Families whose operations only compute: they end, and fail for no values."""


class Effects:
    """The effect of every computation of a module as it stands; computations added later are looked into when asked.

    A call of a computation with an `opt-barrier` inside is ORDERED, one with a `send` inside is a SIDE_EFFECT.
    """

    def __init__(self, module: Module) -> None:
        self._known: dict[Computation, Effect] = {}
        for computation in computation_post_order(module):
            self._known[computation] = _strongest(self.of(instruction) for instruction in computation)

    def of(self, instruction: Instruction) -> Effect:
        """The effect of an instruction: its op's, or a stronger one of a computation that it calls."""
        own = instruction.op.effect_of(instruction.attributes)
        if not instruction.computations:
            return own
        return _strongest([own, *(self.of_computation(called) for called in instruction.computations)])

    def of_computation(self, computation: Computation) -> Effect:
        """The strongest effect of an instruction in a computation."""
        if computation not in self._known:
            self._known[computation] = _strongest(self.of(instruction) for instruction in computation)
        return self._known[computation]

    def has_side_effect(self, instruction: Instruction) -> bool:
        return self.of(instruction) is Effect.SIDE_EFFECT

    def is_pure(self, instruction: Instruction) -> bool:
        return self.of(instruction) is Effect.PURE


def has_side_effect(instruction: Instruction) -> bool:
    """Whether an instruction, or one in a computation that it calls, has a side effect; looks into all of them."""
    pending, met = [instruction], set[Computation]()
    while pending:
        current = pending.pop()
        if current.op.effect_of(current.attributes) is Effect.SIDE_EFFECT:
            return True
        for called in current.computations:
            if called not in met:
                met.add(called)
                pending += called
    return False


def _strongest(effects: Iterable[Effect]) -> Effect:
    found = Effect.PURE
    for effect in effects:
        if effect is Effect.SIDE_EFFECT:
            return effect
        if effect is Effect.ORDERED:
            found = effect
    return found
