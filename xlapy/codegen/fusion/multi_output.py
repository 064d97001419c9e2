"""Groups that become one kernel with several results: a group and one that needs its result, or two that read the same.

What one reads is read once then. Two groups may become one unless one needs the other's results by way of a third; for
that, everything that runs by itself is kept in an order in which it may run.

Owns: which groups meet, the order. Must not know: what may be computed together (`groups`), how fusions are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop
from itertools import islice

from xlapy import opcodes
from xlapy.analysis.aliasing import IN_PLACE_OPS
from xlapy.codegen.fusion.decisions import Decision, DecisionKind, Explain
from xlapy.codegen.fusion.groups import FREE, Group
from xlapy.codegen.iteration_domain import Kind, joined, operand_kind
from xlapy.hlo.instruction import Instruction

MOST_BETWEEN = 1000
"""Groups farther apart in the order are not looked at."""

MOST_STEPS = 200_000
"""Of looking for ways from one group to another, all together: it takes time."""

MOST_TRIED = 8
"""Partners that are tried for each group."""

LEAST_SHARED = 4096
"""Bytes that two groups have to read both, to become one for it."""


@dataclass(eq=False, slots=True)
class _Node:
    """What runs by itself: a group, or an instruction that is in none. place: in the order."""

    content: Group | Instruction
    place: int

    @property
    def results(self) -> Sequence[Instruction]:
        return self.content.results if isinstance(self.content, Group) else [self.content]


def merge_groups(
    order: Sequence[Instruction],
    groups: dict[Instruction, list[Group]],
    root: Instruction,
    most: int,
    explain: Explain,
) -> None:
    """Merges the groups of a computation where that serves; `groups` are those of each instruction.

    order: users behind what they use. most: instructions of a group.
    """
    _Merger(order, groups, root, most, explain).run()


class _Merger:
    def __init__(
        self,
        order: Sequence[Instruction],
        groups: dict[Instruction, list[Group]],
        root: Instruction,
        most: int,
        explain: Explain,
    ) -> None:
        self.groups = groups
        self.root = root
        self.most = most
        self.explain = explain
        self.number = {instruction: n for n, instruction in enumerate(order)}
        self.nodes: dict[Instruction, _Node] = {}
        """By what they write."""
        self.at: list[_Node | None] = [None] * len(order)
        self.node_of: dict[Group, _Node] = {}
        for instruction in reversed(order):
            own = next((g for g in groups.get(instruction, []) if g.root is instruction), None)
            if own is not None:
                self.node_of[own] = self.add(instruction, own)
            elif not groups.get(instruction) or self.runs_alone(instruction):
                self.add(instruction, instruction)
        self.successors: dict[Instruction, set[_Node]] = {}
        """What reads an instruction from memory, or waits for it."""
        for node in self.nodes.values():
            for operand in self.predecessors(node):
                self.successors.setdefault(operand, set()).add(node)
        self.updated: dict[Instruction, bool] = {}
        """Whether an operand is updated in place, for those asked about."""
        self.steps = 0
        self.tried: set[tuple[Group, Group]] = set()

    def add(self, instruction: Instruction, content: Group | Instruction) -> _Node:
        place = self.number[instruction]
        node = self.at[place] = self.nodes[instruction] = _Node(content, place)
        return node

    def runs_alone(self, instruction: Instruction) -> bool:
        """Whether what is free in kernels is needed outside of them as well."""
        if instruction.op not in FREE:
            return False
        users = [self.nodes[user] for user in instruction.users if user in self.nodes]
        return instruction is self.root or any(not isinstance(node.content, Group) for node in users)

    def run(self) -> None:
        for partners in (self.readers, self.siblings):
            for node in reversed(self.at[:]):
                group = node.content if node is not None and self.at[node.place] is node else None
                while isinstance(group, Group) and not group.is_heavy:  # which nothing merges with
                    group = self.merge_with_one_of(group, partners(group))

    def merge_with_one_of(self, group: Group, partners: Iterator[Group]) -> Group | None:
        """The group made of it and the first of the partners that suits; None if there is none."""
        for partner in islice(partners, MOST_TRIED):
            made = None if (group, partner) in self.tried else self.merge(group, partner)
            if made is not None:
                return made
        return None

    # -- partners

    def readers(self, group: Group) -> Iterator[Group]:
        """The groups that need a result of this one, the first to run first."""
        found = {reader for result in group.results for reader in self.successors.get(result, ())}
        found.discard(self.node_of[group])
        for node in sorted(found, key=lambda node: node.place):
            if isinstance(node.content, Group):
                yield node.content

    def siblings(self, group: Group) -> Iterator[Group]:
        """The groups that read what this one reads, if that is much."""
        for operand in self.operands(group):
            if operand.shape.is_array and operand.shape.size * operand.shape.element_type.byte_size >= LEAST_SHARED:
                for node in self.near(self.node_of[group], self.successors[operand]):
                    if isinstance(node.content, Group) and self._read_alike(group, node.content, operand):
                        yield node.content

    def near(self, node: _Node, nodes: Iterable[_Node]) -> Iterator[_Node]:
        """Those that are not too far from a node, the first to run first; mostly only a few are asked for."""
        found = [(n.place, n) for n in nodes if n is not node and abs(n.place - node.place) <= MOST_BETWEEN]
        heapify(found)
        while found:
            yield heappop(found)[1]

    def predecessors(self, node: _Node) -> Iterable[Instruction]:
        """What a node reads from memory, or waits for."""
        if isinstance(node.content, Group):
            return self.operands(node.content)
        return (*node.content.operands, *node.content.control_predecessors)

    def operands(self, group: Group) -> dict[Instruction, None]:
        """What a group reads from memory."""
        return {o: None for member in group.members for o in member.operands if o not in group.members}

    def _read_alike(self, left: Group, right: Group, operand: Instruction) -> bool:
        """Whether both groups are at the same element of an operand at the same time."""
        if left.has_reductions and right.has_reductions and left.space == right.space and left.space.length == 1:
            return _reductions(left) == _reductions(right)
        return all(_kind_in(group, operand) in (Kind.FULL, Kind.ROW) for group in (left, right))

    # -- merging

    def merge(self, left: Group, right: Group) -> Group | None:
        """One group made of two, if that may be."""
        self.tried |= {(left, right), (right, left)}
        first, last = sorted((self.node_of[left], self.node_of[right]), key=lambda node: node.place)
        if self.are_too_many(left, right) or left.is_heavy or right.is_heavy:
            return None
        results = self.results_of_both(first, last)
        reason = left.reason_against_merging(right, results)
        behind = None if reason else self.behind(first, last)
        if not reason and behind is None:
            reason = "others run between them"
        made = reason or left.merged(right, results, self.members_of_both(left, right))
        if not isinstance(made, str) and any(map(self.is_updated, self.operands(made))):
            made = "what they read is updated in place"
        if isinstance(made, str):
            self.decide(left, right, DecisionKind.APART, f"stay two kernels: {made}")
            return None
        assert behind is not None
        self.decide(left, right, DecisionKind.MERGED, f"become one kernel, of {_counted(len(results))}")
        self.replace(first, last, made, behind)
        return made

    def is_updated(self, operand: Instruction) -> bool:
        """Whether a kernel that runs late might read what an update in place would have to leave alone for it."""
        if operand not in self.updated:
            self.updated[operand] = any(user.op in IN_PLACE_OPS for user in operand.users)
        return self.updated[operand]

    def decide(self, left: Group, right: Group, kind: DecisionKind, text: str) -> None:
        names = left.root.name, right.root.name
        self.explain(Decision(names, kind, f"{' and '.join(names)} {text}"))

    def are_too_many(self, left: Group, right: Group) -> bool:
        """Whether both groups together have more instructions than there may be."""
        if len(left.members) + len(right.members) <= self.most:
            return False
        return len(left.members.keys() | right.members.keys()) > self.most

    def members_of_both(self, left: Group, right: Group) -> list[Instruction]:
        """Users before what they use."""
        return sorted({**left.members, **right.members}, key=lambda i: -self.number[i])

    def results_of_both(self, first: _Node, last: _Node) -> list[Instruction]:
        """What others than these two need in memory, the last in the order first."""
        pair = {first, last}
        results = dict.fromkeys((*first.results, *last.results))
        needed = [r for r in results if r is self.root or not r.has_users or not self.successors.get(r, set()) <= pair]
        return sorted(needed, key=lambda i: -self.number[i])

    def behind(self, first: _Node, last: _Node) -> set[_Node] | None:
        """What has to run after `first` and stands before `last`; None if `last` needs any of it."""
        if last.place - first.place > MOST_BETWEEN:
            return None
        found: set[_Node] = set()
        stack = [n for result in first.results for n in self.successors.get(result, ()) if n not in (first, last)]
        while stack:
            node = stack.pop()
            if node.place > last.place or node in found:
                continue
            self.steps += 1
            if node is last or self.steps > MOST_STEPS:
                return None
            found.add(node)
            stack += [n for result in node.results for n in self.successors.get(result, ())]
        return found

    def replace(self, first: _Node, last: _Node, made: Group, behind: set[_Node]) -> None:
        """One node in place of two: before what needs either, behind what either needs."""
        old = [first.content, last.content]
        window = [node for node in self.at[first.place : last.place + 1] if node is not None]
        others = [node for node in window if node is not first and node is not last]
        node = _Node(made, 0)
        ordered = [*(n for n in others if n not in behind), node, *(n for n in others if n in behind)]
        start, end = first.place, last.place
        gone = end + 1 - start - len(ordered)
        self.at[start : end + 1] = [*([None] * gone), *ordered]
        for place in range(start, end + 1):
            at = self.at[place]
            if at is not None:
                at.place = place
        self.node_of[made] = node
        for operand in (*self.predecessors(first), *self.predecessors(last)):
            self.successors[operand] -= {first, last}
        for operand in self.operands(made):
            self.successors[operand].add(node)
        for result in (*first.results, *last.results):
            self.nodes.pop(result, None)
        for result in made.results:
            self.nodes[result] = node
        for member in made.members:
            self.groups[member] = [g for g in self.groups[member] if g not in old] + [made]


def _counted(results: int) -> str:
    return "one result" if results == 1 else f"{results} results"


def _reductions(group: Group) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The sizes of what a group reduces, and the dimensions along which."""
    return {(m.operands[0].shape.dimensions, tuple(m.dimensions)) for m in group.members if m.op is opcodes.REDUCE}


def _kind_in(group: Group, operand: Instruction) -> Kind:
    members: Mapping[Instruction, Kind] = group.members
    if operand.user_count > len(members):
        users = [member for member in members if operand in member.operands]
    else:
        users = [user for user in operand.users if user in members]
    return joined(operand_kind(group.space, user, members[user], operand) for user in users)
