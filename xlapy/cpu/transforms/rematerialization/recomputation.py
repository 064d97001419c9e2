"""How a value can be computed again before it is read, what that costs, and how many bytes it releases meanwhile.

The operands of the instruction must be live where it is computed again. Those that are not are kept until then, or are
computed again themselves.

Responsible for the search for instructions to copy. Does not change the computation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from xlapy import opcodes
from xlapy.analysis.aliasing import IN_PLACE_OPS
from xlapy.analysis.effects import SPECULATABLE_FAMILIES
from xlapy.analysis.memory.graph import MemoryGraph
from xlapy.hlo.instruction import Instruction

MAX_CHAIN = 24
"""The largest number of instructions that are computed again for one value."""


@dataclass(slots=True)
class Recomputation:
    """Computes the values of `node` again before the node at `position`, which reads one of them next."""

    node: int
    position: int
    nodes: list[int] = field(default_factory=list[int])
    """The nodes to copy, each after those that it reads."""
    kept: dict[int, int] = field(default_factory=dict[int, int])
    """The values that have to be kept longer, and the position of their last read so far."""
    used_copies: dict[int, Instruction] = field(default_factory=dict[int, Instruction])
    """Copies of nodes, made earlier, that are read instead of the nodes."""
    replaced: dict[int, Copy] = field(default_factory=dict[int, "Copy"])
    """Copies of nodes that run later, and whose readers can read the new copies instead."""
    microseconds: float = 0.0
    released: int = 0
    """The bytes that are released at the peak."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of a node, and where it is computed."""

    instruction: Instruction
    position: int


class Memory:
    """What is live in a computation, while values are given up at one position.

    live: the live bytes at each node, which `note` keeps up to date. peak: the position. microseconds: the time that
    each instruction takes. origins: what each copy of earlier rounds is a copy of.
    """

    def __init__(
        self,
        graph: MemoryGraph,
        live: npt.NDArray[np.int64],
        peak: int,
        limit: int,
        microseconds: dict[Instruction, float],
        origins: Mapping[Instruction, Instruction],
    ) -> None:
        self.graph = graph
        self.live = live
        self.peak = peak
        self.limit = limit
        self.microseconds = microseconds
        self._most = int(live[peak])
        """The bytes that are live at the peak at the start. No position may get as many."""
        self._last = [max(readers, default=graph.definer[v]) for v, readers in enumerate(graph.readers)]
        self._copies: dict[int, Copy] = {}
        """The nodes whose values were given up: their later readers read the copy."""
        self._required = set[int]()
        """The nodes whose values copies read."""
        self._twins: dict[Instruction, list[int]] = {}
        """The nodes that compute the same values as each instruction of the original computation, which has copies."""
        self._origins = [origins.get(instruction, instruction) for instruction in graph.instructions]
        originals = set(origins.values())
        for node, origin in enumerate(self._origins):
            if origin in originals:
                self._twins.setdefault(origin, []).append(node)

    def idle_nodes(self) -> Iterator[int]:
        """Yields the nodes that can be computed again, and with values that are live at the peak but not used there."""
        used = {*self.graph.reads[self.peak], *self.graph.defines[self.peak]}
        for node in range(self.peak):
            if can_be_recomputed(self.graph.instructions[node]) and any(
                value not in used and self._last[value] > self.peak for value in self.graph.defines[node]
            ):
                yield node

    def gap(self, node: int) -> tuple[int, int, int] | None:
        """Returns the position of the next read of a node's values after the peak, the last one before, and their
        bytes; None if the values cannot be given up meanwhile."""
        if node in self._copies or node in self._required:
            return None
        graph = self.graph
        next_read, previous, size = len(graph.instructions), node, 0
        for value in graph.defines[node]:
            readers = graph.readers[value]
            place = bisect_left(readers, self.peak)
            if place and readers[place - 1] > previous:
                previous = readers[place - 1]
            if graph.is_result[value] or place == len(readers):
                continue
            if readers[place] == self.peak:
                return None
            next_read = min(next_read, readers[place])
            size += graph.sizes[value]
        return (next_read, previous, size) if size else None

    def readers_from(self, node: int, position: int) -> list[int]:
        """Returns the nodes from a position on that read values of a node."""
        graph = self.graph
        found = {r for v in graph.defines[node] for r in graph.readers[v] if r >= position}
        return sorted(found)

    def last_read(self, value: int) -> int:
        return self._last[value]

    def copy_of(self, node: int) -> Copy | None:
        return self._copies.get(node)

    def twins(self, node: int) -> list[int]:
        """Returns the other nodes that compute the same values."""
        return [other for other in self._twins.get(self._origins[node], ()) if other != node]

    def later_copy(self, node: int, position: int) -> Copy | None:
        """Returns a copy of a node that runs after a position, if it could run there, and be kept, instead."""
        copies = [Copy(self.graph.instructions[twin], twin) for twin in self.twins(node) if twin > position]
        if node in self._copies and self._copies[node].position > position:
            copies.append(self._copies[node])
        size = sum(self.graph.sizes[value] for value in self.graph.defines[node])
        fitting = [c for c in copies if c.instruction.has_users and self.has_room(position, c.position, size)]
        return min(fitting, key=lambda copy: copy.position, default=None)

    def has_room(self, first: int, last: int, size: int) -> bool:
        """Whether `size` further bytes may be live from one position to before another one."""
        return first >= last or int(self.live[first:last].max()) + size < max(self.limit + 1, self._most)

    def note(self, found: Recomputation, copies: Mapping[int, Instruction]) -> None:
        """Brings the live bytes up to date after a recomputation was applied."""
        graph, gap = self.graph, self.gap(found.node)
        assert gap is not None
        next_read, previous, size = gap
        self.live[previous + 1 : next_read] -= size
        for value, last in found.kept.items():
            self.live[last + 1 : found.position] += graph.sizes[value]
            self._last[value] = max(self._last[value], found.position)
        self.live[found.position] += sum(graph.sizes[v] for node in found.nodes[:-1] for v in graph.defines[node])
        for node, replaced in found.replaced.items():
            size = sum(graph.sizes[value] for value in graph.defines[node])
            self.live[found.position + 1 : replaced.position] += size
            self._copies[node] = Copy(copies[node], found.position)
        self._copies[found.node] = Copy(copies[found.node], found.position)
        for node in found.nodes:
            self._required |= {graph.definer[value] for value in graph.reads[node]}.difference(found.nodes)


def find_recomputation(memory: Memory, node: int) -> Recomputation | None:
    """Returns the cheapest way to compute the values of a node again after the peak; None if nothing is released."""
    gap = memory.gap(node)
    if gap is None:
        return None
    position, _, size = gap
    found = [
        plan
        for recomputes in (False, True)
        if (plan := _Planner(memory, Recomputation(node, position), recomputes).plan()) is not None
    ]
    for plan in found:
        across = [value for value, last in plan.kept.items() if last < memory.peak]
        plan.released = size - sum(memory.graph.sizes[value] for value in across)
    useful = [plan for plan in found if plan.released > 0]
    return min(useful, key=lambda plan: plan.microseconds / plan.released, default=None)


class _Planner:
    """Finds the nodes to copy for one recomputation. recomputes: whether operands that are not live where they are read
    are computed again, if that is possible; they are kept otherwise."""

    def __init__(self, memory: Memory, made: Recomputation, recomputes: bool) -> None:
        self._memory, self._made, self._recomputes = memory, made, recomputes

    def plan(self) -> Recomputation | None:
        return self._made if self._require(self._made.node) else None

    def _require(self, node: int) -> bool:
        """Adds a node, after the nodes that it needs; returns whether that is possible."""
        memory, made, graph = self._memory, self._made, self._memory.graph
        if node in made.nodes:
            return True
        if len(made.nodes) >= MAX_CHAIN:
            return False
        if not all(self._provide(value) for value in graph.reads[node]):
            return False
        made.nodes.append(node)
        made.microseconds += memory.microseconds[graph.instructions[node]]
        later = memory.later_copy(node, made.position)
        if later is not None:
            made.replaced[node] = later
            made.microseconds -= memory.microseconds[graph.instructions[node]]
        size = sum(graph.sizes[value] for copied in made.nodes[:-1] for value in graph.defines[copied])
        return memory.has_room(made.position, made.position + 1, size)

    def _provide(self, value: int) -> bool:
        """Makes a value available where the copies run; returns whether that is possible."""
        memory, made, graph = self._memory, self._made, self._memory.graph
        definer, last = graph.definer[value], memory.last_read(value)
        copy = memory.copy_of(definer)
        if copy is not None:
            if copy.position > made.position:
                return self._require(definer)
            made.used_copies[definer] = copy.instruction
            return True
        if definer in made.nodes or last >= made.position or graph.is_result[value]:
            return True
        if not graph.sizes[value]:
            return not self._is_overwritten(value, last)
        if self._use_twin(value):
            return True
        is_late = last >= memory.peak and memory.has_room(last + 1, made.position, graph.sizes[value])
        if self._recomputes and not is_late and can_be_recomputed(graph.instructions[definer]):
            return self._require(definer)
        if self._is_overwritten(value, last) or not memory.has_room(last + 1, made.position, graph.sizes[value]):
            return False
        made.kept[value] = last
        return True

    def _use_twin(self, value: int) -> bool:
        """Reads a value from an earlier copy of the node that defines it, which is kept if necessary; returns whether
        that is possible."""
        memory, made, graph = self._memory, self._made, self._memory.graph
        definer = graph.definer[value]
        number = graph.defines[definer].index(value)
        for twin in memory.twins(definer):
            same = graph.defines[twin][number]
            last = memory.last_read(same)
            if twin >= made.position or not graph.readers[same] or memory.copy_of(twin) is not None:
                continue
            is_late = last >= memory.peak and memory.has_room(last + 1, made.position, graph.sizes[same])
            if last >= made.position or (is_late and not self._is_overwritten(same, last)):
                made.used_copies[definer] = graph.instructions[twin]
                if last < made.position:
                    made.kept[same] = last
                return True
        return False

    def _is_overwritten(self, value: int, last: int) -> bool:
        """Whether the last node that reads a value updates it in place: it would have to be copied."""
        return value in self._memory.graph.overwrites[last]


def can_be_recomputed(instruction: Instruction) -> bool:
    """Whether an instruction gives the same bits each time, has no effects and updates nothing in place."""
    if instruction.has_control_edges or instruction.op in IN_PLACE_OPS:
        return False
    if instruction.op is opcodes.FUSION:
        (computation,) = instruction.computations
        return all(inner.op is opcodes.TUPLE or _is_pure(inner) for inner in computation)
    return _is_pure(instruction)


def _is_pure(instruction: Instruction) -> bool:
    is_source = instruction.op in (opcodes.PARAMETER, opcodes.CONSTANT, opcodes.IOTA)
    return is_source or instruction.op.family in SPECULATABLE_FAMILIES or instruction.op is opcodes.GET_TUPLE_ELEMENT
