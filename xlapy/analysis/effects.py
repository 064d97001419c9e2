"""Side effects: what instructions do besides computing their results, including the computations that they call.

Responsible for `Effects`, which describes a whole module, and for queries about one instruction. Does not depend on
passes.
"""

from __future__ import annotations

from collections.abc import Iterable

from xlapy import opcodes
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.ordering import with_called_instructions
from xlapy.hlo.traverse import computation_post_order
from xlapy.opcodes.registry import Effect

_SPECULATABLE = "elementwise movement contraction convolution reduction indexing sorting linalg normalization"
SPECULATABLE_FAMILIES = frozenset(_SPECULATABLE.split())
"""Families whose operations may run even where the program would not run them: they terminate and never fail."""

RANDOM_DRAWS = frozenset({opcodes.RNG, opcodes.RNG_GET_AND_UPDATE_STATE})
"""The operations that advance the random counter of a run: equal operands give other results each time."""


class Effects:
    """The effects of all computations of a module at the time of construction; later ones are analyzed on first use.

    A call of a computation that contains an `opt-barrier` is ORDERED, one of a computation with a `send` is a
    SIDE_EFFECT.
    """

    def __init__(self, module: Module) -> None:
        self._known: dict[Computation, Effect] = {}
        for computation in computation_post_order(module):
            self._known[computation] = _strongest(self.of(instruction) for instruction in computation)

    def of(self, instruction: Instruction) -> Effect:
        """Returns the strongest effect of an instruction and of the computations that it calls."""
        own = instruction.op.effect_of(instruction.attributes)
        if not instruction.computations:
            return own
        return _strongest([own, *(self.of_computation(called) for called in instruction.computations)])

    def of_computation(self, computation: Computation) -> Effect:
        """Returns the strongest effect of the instructions in a computation."""
        if computation not in self._known:
            self._known[computation] = _strongest(self.of(instruction) for instruction in computation)
        return self._known[computation]

    def has_side_effect(self, instruction: Instruction) -> bool:
        return self.of(instruction) is Effect.SIDE_EFFECT

    def is_pure(self, instruction: Instruction) -> bool:
        return self.of(instruction) is Effect.PURE


def has_side_effect(instruction: Instruction) -> bool:
    """Returns whether an instruction or a computation that it calls has a side effect, as the module is now."""
    return any(i.op.effect_of(i.attributes) is Effect.SIDE_EFFECT for i in with_called_instructions(instruction))


def draws_random_numbers(instruction: Instruction) -> bool:
    """Returns whether an instruction, or one in a computation that it calls, advances the random counter of the run."""
    return any(i.op in RANDOM_DRAWS for i in with_called_instructions(instruction))


def calls_collectives(instruction: Instruction) -> bool:
    """Returns whether an instruction, or one in a computation that it calls, is a collective or the id of a device."""
    return any(i.op.family == "collectives" for i in with_called_instructions(instruction))


def _strongest(effects: Iterable[Effect]) -> Effect:
    found = Effect.PURE
    for effect in effects:
        if effect is Effect.SIDE_EFFECT:
            return effect
        if effect is Effect.ORDERED:
            found = effect
    return found
