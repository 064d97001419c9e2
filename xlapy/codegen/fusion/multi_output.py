"""Multi-output fusion: merges two fusion groups into one kernel that writes the results of both.

Candidates are a group and a reader of its result, or two groups that read the same large operand, which is then loaded
once. Two groups can be merged unless one depends on the other by way of a third. To tell, all groups, and all
instructions outside of groups, are kept in an order in which they can be executed.

Does not depend on the rules of what one kernel can compute (`groups`), or on how fusions are built.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from heapq import heapify, heappop
from itertools import islice

from xlapy import opcodes
from xlapy.analysis.aliasing import IN_PLACE_OPS
from xlapy.codegen.fusion.decisions import Decision, DecisionKind, Explain
from xlapy.codegen.fusion.exchanges import PendingExchanges
from xlapy.codegen.fusion.groups import ALWAYS_DUPLICATED, FusionGroup
from xlapy.codegen.iteration_domain import AccessPattern, join_patterns, operand_pattern
from xlapy.codegen.plan import has_plan
from xlapy.hlo.instruction import Instruction

MAX_DISTANCE = 1000
"""The largest distance of two merged groups in the execution order, which bounds compile time."""

MAX_DEPENDENCE_STEPS = 10_000
"""The largest number of steps of a search for dependences between two groups, which bounds compile time: ten reads for
each of the groups between them."""

MAX_DEPENDENCE_STEPS_PER_INSTRUCTION = 200
"""The largest number of steps of all searches in a computation, divided by the number of its instructions."""

MAX_CANDIDATES = 8
"""The largest number of groups that are tried as partners of one group."""

MIN_SHARED_BYTES = 4096
"""The smallest size in bytes of an operand that makes two groups candidates for merging because both read it."""


_ALIGNED = (AccessPattern.IDENTITY, AccessPattern.PER_ROW)
"""The patterns in which groups read the same element of an operand in the same iteration."""


@dataclass(eq=False, slots=True)
class _Node:
    """One unit of execution: a group, or an instruction outside of all groups."""

    content: FusionGroup | Instruction
    position: int
    """The node's position in the execution order."""

    @property
    def results(self) -> Sequence[Instruction]:
        return self.content.results if isinstance(self.content, FusionGroup) else [self.content]


def fuse_multi_output(
    order: Sequence[Instruction],
    groups: dict[Instruction, dict[FusionGroup, None]],
    root: Instruction,
    max_instructions: int,
    explain: Explain,
    exchanges: PendingExchanges,
) -> None:
    """Merges the groups of a computation where that is profitable; updates `groups`, the groups of each instruction.

    order: the instructions, operands before users. max_instructions: of one group. exchanges: those during which groups
    may run.
    """
    _MultiOutputFuser(order, groups, root, max_instructions, explain, exchanges).run()


class _MultiOutputFuser:
    def __init__(
        self,
        order: Sequence[Instruction],
        groups: dict[Instruction, dict[FusionGroup, None]],
        root: Instruction,
        max_instructions: int,
        explain: Explain,
        exchanges: PendingExchanges,
    ) -> None:
        self.exchanges = exchanges
        self.groups = groups
        self.root = root
        self.max_instructions = max_instructions
        self.explain = explain
        self.number = {instruction: n for n, instruction in enumerate(order)}
        self.nodes: dict[Instruction, _Node] = {}
        """The node that writes each result."""
        self.execution_order: list[_Node | None] = [None] * len(order)
        self.node_of: dict[FusionGroup, _Node] = {}
        for instruction in reversed(order):
            own = next((g for g in groups.get(instruction, []) if g.root is instruction), None)
            if own is not None:
                self.node_of[own] = self.add_node(instruction, own)
            elif not groups.get(instruction) or self.is_executed_by_itself(instruction):
                self.add_node(instruction, instruction)
        self.successors: dict[Instruction, set[_Node]] = {}
        """The nodes that read an instruction from memory, or must run after it."""
        for node in self.nodes.values():
            for operand in self.predecessors(node):
                self.successors.setdefault(operand, set()).add(node)
        self.updated: dict[Instruction, bool] = {}
        """Cached results of `is_updated_in_place`."""
        self.steps_left = max(1_000_000, MAX_DEPENDENCE_STEPS_PER_INSTRUCTION * len(order))
        self.tried: set[tuple[FusionGroup, FusionGroup]] = set()

    def add_node(self, instruction: Instruction, content: FusionGroup | Instruction) -> _Node:
        position = self.number[instruction]
        node = self.execution_order[position] = self.nodes[instruction] = _Node(content, position)
        return node

    def is_executed_by_itself(self, instruction: Instruction) -> bool:
        """Whether an instruction that groups duplicate is also needed outside of groups."""
        if instruction.op not in ALWAYS_DUPLICATED:
            return False
        users = [self.nodes[user] for user in instruction.users if user in self.nodes]
        return instruction is self.root or any(not isinstance(node.content, FusionGroup) for node in users)

    def run(self) -> None:
        for candidates in (self.readers, self.siblings):
            for node in reversed(self.execution_order[:]):
                is_current = node is not None and self.execution_order[node.position] is node
                group = node.content if node is not None and is_current else None
                while isinstance(group, FusionGroup) and group.can_be_merged:
                    group = self.merge_with_one_of(group, candidates(group))

    def merge_with_one_of(self, group: FusionGroup, candidates: Iterator[FusionGroup]) -> FusionGroup | None:
        """Merges a group with the first suitable candidate; returns the merged group, or None."""
        for candidate in islice(candidates, MAX_CANDIDATES):
            merged = None if (group, candidate) in self.tried else self.merge(group, candidate)
            if merged is not None:
                return merged
        return None

    # -- candidates

    def readers(self, group: FusionGroup) -> Iterator[FusionGroup]:
        """The groups that read a result of this one, in execution order."""
        found = {reader for result in group.results for reader in self.successors.get(result, ())}
        found.discard(self.node_of[group])
        for node in sorted(found, key=lambda node: node.position):
            if isinstance(node.content, FusionGroup):
                yield node.content

    def siblings(self, group: FusionGroup) -> Iterator[FusionGroup]:
        """The groups that read the same large operand in the same order."""
        for operand in self.operands(group):
            is_array = operand.shape.is_array
            if is_array and operand.shape.size * operand.shape.element_type.byte_size >= MIN_SHARED_BYTES:
                if not group.has_reductions and _pattern_in(group, operand) not in _ALIGNED:
                    continue  # weights, for example, which a product for each time step reads
                for node in self.near(self.node_of[group], self.successors[operand]):
                    if isinstance(node.content, FusionGroup) and self._read_alike(group, node.content, operand):
                        yield node.content

    def near(self, node: _Node, nodes: Set[_Node]) -> Iterator[_Node]:
        """The nodes within `MAX_DISTANCE` of one node, in execution order. Lazy, because callers mostly need few."""
        if len(nodes) > 2 * MAX_DISTANCE:
            begin = max(0, node.position - MAX_DISTANCE)
            window = self.execution_order[begin : node.position + MAX_DISTANCE + 1]
            yield from (n for n in window if n is not None and n is not node and n in nodes)
            return
        found = [(n.position, n) for n in nodes if n is not node and abs(n.position - node.position) <= MAX_DISTANCE]
        heapify(found)
        while found:
            yield heappop(found)[1]

    def predecessors(self, node: _Node) -> Iterable[Instruction]:
        """The instructions that a node reads from memory, or must run after."""
        if isinstance(node.content, FusionGroup):
            return self.operands(node.content)
        return (*node.content.operands, *node.content.control_predecessors)

    def operands(self, group: FusionGroup) -> dict[Instruction, None]:
        """The instructions that a group reads from memory."""
        return {o: None for member in group.members for o in member.operands if o not in group.members}

    def _read_alike(self, left: FusionGroup, right: FusionGroup, operand: Instruction) -> bool:
        """Whether both groups read the same element of an operand in the same iteration."""
        have_reductions = left.has_reductions and right.has_reductions
        if have_reductions and left.domain == right.domain and left.domain.length == 1:
            return _reductions(left) == _reductions(right)
        return all(_pattern_in(group, operand) in _ALIGNED for group in (left, right))

    # -- merging

    def merge(self, left: FusionGroup, right: FusionGroup) -> FusionGroup | None:
        """Merges two groups if that is possible and profitable."""
        self.tried |= {(left, right), (right, left)}
        first, last = sorted((self.node_of[left], self.node_of[right]), key=lambda node: node.position)
        if any(map(has_plan, (*left.results, *right.results))):
            return None
        if self.have_too_many_instructions(left, right) or not (left.can_be_merged and right.can_be_merged):
            return None
        results = self.results_of_both(first, last)
        reason = left.quick_reason_not_to_merge(right, results)
        if not reason and not self.exchanges.overlap_alike(left.results, right.results):
            reason = "only one of them can run during an exchange between devices"
        after_first = None if reason else self.nodes_after(first, last)
        if not reason and after_first is None:
            reason = "a kernel between them depends on one and is needed by the other"
        merged = reason or left.merge(right, results, self.members_of_both(left, right))
        if not isinstance(merged, str) and any(map(self.is_updated_in_place, self.operands(merged))):
            merged = "an operand is updated in place"
        if isinstance(merged, str):
            self.decide(left, right, DecisionKind.SEPARATE, f"stay separate kernels: {merged}")
            return None
        assert after_first is not None
        self.decide(left, right, DecisionKind.MULTI_OUTPUT, f"become one kernel with {_counted(len(results))}")
        self.replace(first, last, merged, after_first)
        return merged

    def is_updated_in_place(self, operand: Instruction) -> bool:
        """Whether a user updates an operand in place: a kernel that reads it late would force a copy."""
        if operand not in self.updated:
            self.updated[operand] = any(user.op in IN_PLACE_OPS for user in operand.users)
        return self.updated[operand]

    def decide(self, left: FusionGroup, right: FusionGroup, kind: DecisionKind, text: str) -> None:
        names = left.root.name, right.root.name
        self.explain(Decision(names, kind, f"{' and '.join(names)} {text}"))

    def have_too_many_instructions(self, left: FusionGroup, right: FusionGroup) -> bool:
        """Whether both groups together have more than `max_instructions` members."""
        if len(left.members) + len(right.members) <= self.max_instructions:
            return False
        return len(left.members.keys() | right.members.keys()) > self.max_instructions

    def members_of_both(self, left: FusionGroup, right: FusionGroup) -> list[Instruction]:
        """The members of both groups, users before their operands."""
        return sorted({**left.members, **right.members}, key=lambda i: -self.number[i])

    def results_of_both(self, first: _Node, last: _Node) -> list[Instruction]:
        """The results of two nodes that other nodes read from memory, the last one in the order first."""
        pair = {first, last}
        results = dict.fromkeys((*first.results, *last.results))
        needed = [r for r in results if r is self.root or not r.has_users or not self.successors.get(r, set()) <= pair]
        return sorted(needed, key=lambda i: -self.number[i])

    def nodes_after(self, first: _Node, last: _Node) -> set[_Node] | None:
        """The nodes before `last` that depend on `first`; None if `last` depends on one of them."""
        if last.position - first.position > MAX_DISTANCE:
            return None
        found: set[_Node] = set()
        steps = 0
        stack = [n for result in first.results for n in self.successors.get(result, ()) if n not in (first, last)]
        while stack:
            node = stack.pop()
            steps += 1
            self.steps_left -= 1
            if steps > MAX_DEPENDENCE_STEPS or self.steps_left < 0:
                return None
            if node.position > last.position or node in found:
                continue
            if node is last:
                return None
            found.add(node)
            stack += [n for result in node.results for n in self.successors.get(result, ())]
        return found

    def replace(self, first: _Node, last: _Node, merged: FusionGroup, after_first: set[_Node]) -> None:
        """Replaces two nodes by one, which runs before the nodes that depend on either and after their operands."""
        old = [node.content for node in (first, last) if isinstance(node.content, FusionGroup)]
        window = [node for node in self.execution_order[first.position : last.position + 1] if node is not None]
        others = [node for node in window if node is not first and node is not last]
        node = _Node(merged, 0)
        before = [n for n in others if n not in after_first]
        after = [n for n in others if n in after_first]
        self._set_window(first.position, last.position, [*before, node, *after])
        self.node_of[merged] = node
        for operand in (*self.predecessors(first), *self.predecessors(last)):
            self.successors[operand] -= {first, last}
        for operand in self.operands(merged):
            self.successors[operand].add(node)
        for result in (*first.results, *last.results):
            self.nodes.pop(result, None)
        for result in merged.results:
            self.nodes[result] = node
        for member in merged.members:
            groups = self.groups[member]
            for group in old:
                groups.pop(group, None)
            groups[merged] = None

    def _set_window(self, start: int, end: int, nodes: list[_Node]) -> None:
        """Puts nodes at the end of the positions from `start` to `end`, and leaves the others empty."""
        empty = end + 1 - start - len(nodes)
        self.execution_order[start : end + 1] = [*([None] * empty), *nodes]
        for position, node in enumerate(nodes, start + empty):
            node.position = position


def _counted(results: int) -> str:
    return "one result" if results == 1 else f"{results} results"


def _reductions(group: FusionGroup) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The operand dimensions and the reduced dimensions of a group's reductions."""
    return {(m.operands[0].shape.dimensions, tuple(m.dimensions)) for m in group.members if m.op is opcodes.REDUCE}


def _pattern_in(group: FusionGroup, operand: Instruction) -> AccessPattern:
    """The pattern in which a group accesses one of its operands."""
    members: Mapping[Instruction, AccessPattern] = group.members
    users = operand.users_in(members)
    return join_patterns(operand_pattern(group.domain, user, members[user], operand) for user in users)
