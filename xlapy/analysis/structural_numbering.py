"""Structural equality: numbers computations so that equal ones, except for names, get equal numbers.

Two computations are structurally equal if they apply the same operations with the same attributes to the same operands.

Responsible for `StructuralNumbering`, and for what makes two instructions equal. Does not depend on passes.
"""

from __future__ import annotations

from collections.abc import Hashable

from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import called_computations, post_order


class StructuralNumbering:
    """Numbers for computations; structurally equal ones have the same.

    Layouts, control edges and annotations that may change execution (shardings, frontend attributes, backend
    configurations) must be equal too; names and metadata need not. A computation keeps the number that it gets when it
    is first asked for, so changes after that must keep its meaning.
    """

    def __init__(self) -> None:
        self._numbers: dict[Computation, int] = {}
        self._known: dict[Hashable, int] = {}

    def number(self, computation: Computation) -> int:
        """Returns the number of a computation."""
        found = self._numbers.get(computation)
        return self._number_with_called(computation) if found is None else found

    def _number_with_called(self, root: Computation) -> int:
        pending = [root]
        while pending:
            computation = pending[-1]
            called = [other for other in called_computations(computation) if other not in self._numbers]
            if called:
                pending += called
                continue
            pending.pop()
            if computation not in self._numbers:
                self._numbers[computation] = self._known.setdefault(self._key(computation), len(self._known))
        return self._numbers[root]

    def _key(self, computation: Computation) -> Hashable:
        order = post_order(computation)
        position = {instruction: index for index, instruction in enumerate(order)}
        keys: list[Hashable] = []
        for instruction in order:
            before = tuple([position[i] for i in instruction.control_predecessors])
            operands = tuple([position[i] for i in instruction.operands])
            keys.append((self.instruction_key(instruction), operands, before))
        return (tuple(keys), position[computation.root_instruction], computation.execution_thread)

    def instruction_key(self, instruction: Instruction) -> tuple[Hashable, ...]:
        """Returns all that must be equal in two equal instructions, apart from their operands."""
        called, frontend = instruction.computations, instruction.frontend_attributes
        return (
            instruction.op,
            instruction.shape,
            instruction.attributes,
            tuple([self.number(computation) for computation in called]) if called else (),
            instruction.sharding,
            tuple(sorted(frontend.items())) if frontend else None,
            instruction.backend_config,
            instruction.result_accuracy,
        )
