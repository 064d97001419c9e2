"""Structural equality: numbers the computations of a module so that equal ones, except for names, get equal numbers.

Two computations are structurally equal if they apply the same operations with the same attributes to the same operands.

Responsible for `StructuralNumbering`, and for what makes two instructions equal. Does not depend on passes.
"""

from __future__ import annotations

from collections.abc import Hashable

from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order, post_order


class StructuralNumbering:
    """Numbers for the computations of a module at the time of construction; structurally equal ones have the same.

    Layouts, control edges and annotations that may change execution (shardings, frontend attributes, backend
    configurations) must be equal too; names and metadata need not.
    """

    def __init__(self, module: Module) -> None:
        self._numbers: dict[Computation, int] = {}
        self._known: dict[Hashable, int] = {}
        for computation in computation_post_order(module):
            self.number(computation)

    def number(self, computation: Computation) -> int:
        """Returns the number of a computation. The computations that it calls must have been numbered before."""
        found = self._numbers.get(computation)
        if found is None:
            found = self._known.setdefault(self._key(computation), len(self._known))
            self._numbers[computation] = found
        return found

    def _key(self, computation: Computation) -> Hashable:
        order = post_order(computation)
        position = {instruction: index for index, instruction in enumerate(order)}
        keys: list[Hashable] = []
        for instruction in order:
            before = tuple(position[i] for i in instruction.control_predecessors)
            operands = tuple(position[i] for i in instruction.operands)
            keys.append((*self.instruction_key(instruction), operands, before))
        return (tuple(keys), position[computation.root_instruction], computation.execution_thread)

    def instruction_key(self, instruction: Instruction) -> tuple[Hashable, ...]:
        """Returns all that must be equal in two equal instructions, apart from their operands."""
        frontend = instruction.frontend_attributes
        return (
            instruction.op,
            instruction.shape,
            instruction.attributes,
            tuple([self.number(called) for called in instruction.computations]),
            instruction.sharding,
            tuple(sorted(frontend.items())) if frontend else None,
            instruction.backend_config,
            instruction.result_accuracy,
        )
