"""Which computations are equal but for names: the same operations on the same operands with the same attributes.

Owns: `Structure`, a snapshot of a module, and what makes two instructions equal. Must not know: passes.
"""

from __future__ import annotations

from collections.abc import Hashable

from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order, post_order


class Structure:
    """A number for every computation of a module; equal ones have the same.

    Layouts, control edges and annotations that may change what runs (shardings, frontend attributes, configurations)
    must be equal too; names and metadata need not.
    """

    def __init__(self, module: Module) -> None:
        self._numbers: dict[Computation, int] = {}
        self._known: dict[Hashable, int] = {}
        for computation in computation_post_order(module):
            self.number(computation)

    def number(self, computation: Computation) -> int:
        """The number of a computation; those that it calls have theirs already."""
        found = self._numbers.get(computation)
        if found is None:
            found = self._known.setdefault(self._key(computation), len(self._known))
            self._numbers[computation] = found
        return found

    def _key(self, computation: Computation) -> Hashable:
        order = post_order(computation)
        place = {instruction: index for index, instruction in enumerate(order)}
        lines: list[Hashable] = []
        for instruction in order:
            before = tuple(place[i] for i in instruction.control_predecessors)
            operands = tuple(place[i] for i in instruction.operands)
            lines.append((*self.description(instruction), operands, before))
        return (tuple(lines), place[computation.root_instruction], computation.execution_thread)

    def description(self, instruction: Instruction) -> tuple[Hashable, ...]:
        """What an instruction is apart from its operands."""
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
