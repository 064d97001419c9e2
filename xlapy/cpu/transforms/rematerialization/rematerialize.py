"""The pass that computes values again, instead of keeping them, until a program fits a limit of memory.

The position with the most live bytes is looked for. Values that are live there, but read only later, are computed again
before that read, those first that cost the least time per byte. That is repeated until the program fits, or nothing
more can be gained. A chain of values is computed once for all that need it, if there is room to keep them. Copies have
the same kernels as the instructions that they copy, so the bits of results do not change. XLA's counterpart is
HloRematerialization.

Responsible for which values are computed again. `recomputation.py` finds how, and at what cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from xlapy.analysis.aliasing import CONTROL_FLOW_OPS, is_alias
from xlapy.analysis.cost.instructions import instruction_costs
from xlapy.analysis.cost.model import Rates
from xlapy.analysis.memory.computations import memory_graph, runs_in_program
from xlapy.analysis.memory.graph import MemoryGraph
from xlapy.analysis.memory.profile import live_bytes, peak_bytes
from xlapy.cpu.transforms.rematerialization.recomputation import (
    Memory,
    Recomputation,
    can_be_recomputed,
    find_recomputation,
)
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.passes.rewrite import is_dead

MAX_ROUNDS = 400
"""The largest number of positions at which values are given up, in each computation."""

MAX_ROUNDS_WITHOUT_GAIN = 12
"""The search ends after so many rounds that do not lower the peak: what one position gains, another one loses."""

MIN_GAIN = 1e-4
"""The smallest value that is computed again, as a fraction of the peak."""


@dataclass(frozen=True)
class Rematerialize:
    """Computes values again so that temporaries and results need at most `limit` bytes at once, if that is possible.

    The module is scheduled. The peak that is reached is an estimate: it does not contain fragments of free memory.
    """

    name: ClassVar[str] = "rematerialize"
    limit: int = 0
    donated: frozenset[int] = frozenset()
    """The numbers of the arguments in whose memory results may be computed."""

    def run(self, module: Module) -> bool:
        search = _Search(module, self.donated)
        search.fit(module.entry_computation, self.limit)
        return search.changed


def estimated_peak(module: Module, donated: frozenset[int] = frozenset()) -> int:
    """Returns the estimated bytes of temporaries and results of a scheduled module."""
    return _Search(module, donated).peaks[module.entry_computation]


class _Search:
    def __init__(self, module: Module, donated: frozenset[int]) -> None:
        self.changed = False
        self._donated = donated
        self.peaks: dict[Computation, int] = {}
        self._origins: dict[Instruction, Instruction] = {}
        """The instruction of the given module of which each new one is a copy."""
        self._rates = Rates()
        self._microseconds = {i: cost.microseconds(self._rates) for i, cost in instruction_costs(module).items()}
        for computation in computation_post_order(module):
            if runs_in_program(computation):
                graph = self._graph(computation)
                self.peaks[computation] = peak_bytes(graph, range(len(graph.instructions)))

    def _graph(self, computation: Computation) -> MemoryGraph:
        return memory_graph(computation, self.peaks, self._donated)

    def fit(self, computation: Computation, limit: int) -> None:
        """Computes values of a computation again until it needs at most `limit` bytes, if that is possible."""
        best, rounds_without_gain = self.peaks[computation], 0
        for _ in range(MAX_ROUNDS):
            if self.peaks[computation] <= limit or rounds_without_gain == MAX_ROUNDS_WITHOUT_GAIN:
                return
            if not self._lower_peak(computation, limit):
                return
            graph = self._graph(computation)
            self.peaks[computation] = peak_bytes(graph, range(len(graph.instructions)))
            rounds_without_gain += 1
            if self.peaks[computation] < best:
                best, rounds_without_gain = self.peaks[computation], 0

    def _lower_peak(self, computation: Computation, limit: int) -> bool:
        """Gives up values at the position with the most live bytes; returns whether anything changed."""
        graph = self._graph(computation)
        live = np.array(live_bytes(graph, range(len(graph.instructions))), np.int64)
        peak = int(np.argmax(live))
        if self._lower_peak_inside(graph.instructions[peak], limit - int(live[peak]) + graph.scratch[peak]):
            return True
        memory = Memory(graph, live, peak, limit, self._microseconds, self._origins)
        candidates = [found for node in memory.idle_nodes() if (found := find_recomputation(memory, node)) is not None]
        smallest = MIN_GAIN * int(live[peak])
        editor = _Editor(memory, self._origins)
        for candidate in sorted(candidates, key=lambda c: (c.microseconds / c.released, c.node)):
            if live[peak] <= limit:
                break
            found = find_recomputation(memory, candidate.node)  # earlier ones may have changed what is live
            if found is not None and found.released >= smallest:
                editor.apply(found)
        if not editor.finish():
            return False
        self.changed = True
        return True

    def _lower_peak_inside(self, instruction: Instruction, limit: int) -> bool:
        """Gives up values in the computations that an instruction runs; returns whether they need less afterwards."""
        if instruction.op not in CONTROL_FLOW_OPS:
            return False
        before = [self.peaks[called] for called in instruction.computations]
        for called in instruction.computations:
            self.fit(called, max(0, limit))
        return [self.peaks[called] for called in instruction.computations] != before


class _Editor:
    """Changes a computation as recomputations say; `finish` schedules the copies."""

    def __init__(self, memory: Memory, origins: dict[Instruction, Instruction]) -> None:
        self._memory = memory
        self._origins = origins
        self._graph = memory.graph
        self._before: dict[int, list[Instruction]] = {}
        """The new instructions before each node."""

    def apply(self, found: Recomputation) -> None:
        memory, instructions = self._memory, self._graph.instructions
        computation = instructions[0].parent
        assert computation is not None
        placed = self._before.setdefault(found.position, [])
        copies = {instructions[node]: copy for node, copy in found.used_copies.items()}
        for node in found.nodes:
            original = instructions[node]
            operands = [self._renamed(operand, copies, placed) for operand in original.operands]
            copies[original] = copy = edit.clone_instruction(original, computation, operands)
            memory.microseconds[copy] = memory.microseconds[original]
            self._origins[copy] = self._origins.get(original, original)
            placed.append(copy)
            if node in found.replaced:
                edit.replace_uses(found.replaced[node].instruction, copy)
        own = {instructions[found.node]: copies[instructions[found.node]]}
        for reader in memory.readers_from(found.node, found.position):
            user = instructions[reader]
            moved = self._before.setdefault(reader, [])
            edit.set_operands(user, [self._renamed(operand, own, moved) for operand in user.operands])
        memory.note(found, {node: copies[instructions[node]] for node in found.nodes})

    def _renamed(
        self, instruction: Instruction, copies: dict[Instruction, Instruction], placed: list[Instruction]
    ) -> Instruction:
        """Returns an operand in terms of copies; tuples and reshapes of copies are copied, too."""
        if instruction in copies:
            return copies[instruction]
        if not is_alias(instruction):
            return instruction
        operands = [self._renamed(operand, copies, placed) for operand in instruction.operands]
        if operands == list(instruction.operands):
            return instruction
        assert instruction.parent is not None
        copy = edit.clone_instruction(instruction, instruction.parent, operands)
        self._memory.microseconds[copy] = 0.0
        placed.append(copy)
        return copy

    def finish(self) -> bool:
        """Schedules the copies before the nodes that need them; returns whether there are any."""
        instructions = self._graph.instructions
        computation = instructions[0].parent
        assert computation is not None
        if not any(self._before.values()):
            return False
        order: list[Instruction] = []
        for node, instruction in enumerate(instructions):
            order += [*self._before.get(node, ()), instruction]
        edit.reorder(computation, order)
        for instruction in reversed(order):
            if is_dead(instruction) and (is_alias(instruction) or can_be_recomputed(instruction)):
                edit.remove(instruction)
        return True
