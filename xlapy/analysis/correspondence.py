"""Finds which instructions of two modules correspond, whatever their names, and how the pairs differ.

Instructions that compute the same from the same parameters correspond. Starting there and at the roots, pairs are
extended along operands and users: two instructions with the same op in the same position correspond too, and differ in
attributes, shape or operands.

Responsible for the pairs and for describing their differences. Does not depend on how these are displayed, or on
passes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from xlapy import opcodes
from xlapy.analysis.structural_numbering import StructuralNumbering
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order, post_order

_MAX_VALUE_CHARACTERS = 60
"""The number of characters to which a value is shortened in the description of a difference."""


@dataclass(slots=True)
class Correspondence:
    """The pairs of computations and instructions of a left and a right module, and the instructions without a pair."""

    computations: dict[Computation, Computation] = field(default_factory=dict[Computation, Computation])
    instructions: dict[Instruction, Instruction] = field(default_factory=dict[Instruction, Instruction])
    only_left: list[Instruction] = field(default_factory=list[Instruction])
    only_right: list[Instruction] = field(default_factory=list[Instruction])

    def differences(self, left: Instruction) -> list[str]:
        """Describes how the counterpart of an instruction differs. Operands and callees that correspond are equal."""
        right = self.instructions[left]
        found = [f"shape {left.shape} -> {right.shape}"] if left.shape != right.shape else []
        found += _attribute_differences(left, right)
        for kind in ("sharding", "frontend_attributes", "backend_config", "result_accuracy"):
            before, after = getattr(left, kind), getattr(right, kind)
            if before != after:
                found.append(f"{kind} {_short(str(before))} -> {_short(str(after))}")
        found += self._operand_differences(left, right)
        for key, before, after in zip(left.computation_keys, left.computations, right.computations, strict=False):
            if self.computations.get(before) is not after:
                found.append(f"{key} {before.name} -> {after.name}")
        if left.is_root != right.is_root:
            found.append("no longer the root" if left.is_root else "now the root")
        return found

    def _operand_differences(self, left: Instruction, right: Instruction) -> Iterator[str]:
        if len(left.operands) != len(right.operands):
            yield f"{len(left.operands)} operands -> {len(right.operands)}"
        for number, (before, after) in enumerate(zip(left.operands, right.operands, strict=False)):
            if self.instructions.get(before) is not after:
                yield f"operand {number}: {before.name} ({before.op.name}) -> {after.name} ({after.op.name})"
        before_this = {self.instructions.get(i) for i in left.control_predecessors}
        if before_this != set(right.control_predecessors):
            names = [", ".join(i.name for i in side.control_predecessors) for side in (left, right)]
            yield f"runs after {{{names[0]}}} -> {{{names[1]}}}"


def correspond(left: Module, right: Module) -> Correspondence:
    """Pairs the instructions of two modules, starting at the entries; callees are paired by their callers."""
    found = Correspondence()
    numbers = _Numbers(left, right)
    pending = [(left.entry_computation, right.entry_computation)]
    paired_right: set[Computation] = set()
    while pending:
        one, other = pending.pop()
        if one in found.computations or other in paired_right:
            continue
        found.computations[one] = other
        paired_right.add(other)
        _Matcher(one, other, numbers, found.instructions).run()
        for instruction in one:
            counterpart = found.instructions.get(instruction)
            if counterpart is not None:
                pending += zip(instruction.computations, counterpart.computations, strict=False)
    paired = set(found.instructions.values())
    found.only_left = [i for c in left.computations for i in post_order(c) if i not in found.instructions]
    found.only_right = [i for c in right.computations for i in post_order(c) if i not in paired]
    return found


class _Numbers:
    """Numbers for the instructions of both modules: equal ones compute the same from the same parameters."""

    def __init__(self, left: Module, right: Module) -> None:
        numbering = StructuralNumbering()
        known: dict[Hashable, int] = {}
        self.of: dict[Instruction, int] = {}
        for module in (left, right):
            for computation in computation_post_order(module):
                for instruction in post_order(computation):
                    operands = tuple([self.of[operand] for operand in instruction.operands])
                    key = (*numbering.instruction_key(instruction), operands)
                    self.of[instruction] = known.setdefault(key, len(known))


class _Matcher:
    """Pairs the instructions of two computations."""

    def __init__(
        self, left: Computation, right: Computation, numbers: _Numbers, pairs: dict[Instruction, Instruction]
    ) -> None:
        self.left, self.right = left, right
        self.numbers = numbers.of
        self.pairs = pairs
        self.paired_right: set[Instruction] = set()
        """The instructions of the right computation that have a counterpart."""
        self.left_numbers = {self.numbers[i] for i in left}
        self.right_numbers = {self.numbers[i] for i in right}

    def run(self) -> None:
        for one, other in zip(self.left.parameters, self.right.parameters, strict=False):
            self.pair(one, other)
        self.descend(self.left.root_instruction, self.right.root_instruction)
        self.pair_equal()
        self.pair_by_operands()

    def pair_equal(self) -> None:
        """Pairs instructions that compute the same; users first, because their operands are paired along with them."""
        unpaired: dict[int, list[Instruction]] = {}
        for other in post_order(self.right):
            if other not in self.paired_right:
                unpaired.setdefault(self.numbers[other], []).append(other)
        for one in reversed(post_order(self.left)):
            others = unpaired.get(self.numbers[one], [])
            while others and one not in self.pairs:
                self.descend(one, others.pop())

    def pair_by_operands(self) -> None:
        """Pairs instructions with the same op that use the two instructions of a pair as the same operand."""
        users: dict[Hashable, list[Instruction]] = {}
        for other in reversed(post_order(self.right)):
            for number, operand in enumerate(other.operands):
                users.setdefault((operand, number, other.op), []).append(other)
        for one in post_order(self.left):
            for number, operand in enumerate(one.operands):
                others = users.get((self.pairs.get(operand), number, one.op), [])
                while others and one not in self.pairs:
                    self.descend(one, others.pop())

    def descend(self, left: Instruction, right: Instruction) -> None:
        """Pairs two instructions if `may_pair` allows it, and their operands position by position."""
        stack = [(left, right)]
        while stack:
            one, other = stack.pop()
            if self.may_pair(one, other):
                self.pair(one, other)
                stack += zip(one.operands, other.operands, strict=False)

    def may_pair(self, left: Instruction, right: Instruction) -> bool:
        """Returns whether two unpaired instructions have the same op and neither has an equal counterpart elsewhere."""
        if left.op is not right.op or left.op is opcodes.PARAMETER or left in self.pairs or right in self.paired_right:
            return False
        one, other = self.numbers[left], self.numbers[right]
        return one == other or (one not in self.right_numbers and other not in self.left_numbers)

    def pair(self, left: Instruction, right: Instruction) -> None:
        self.pairs[left] = right
        self.paired_right.add(right)


def _attribute_differences(left: Instruction, right: Instruction) -> Iterator[str]:
    for each in left.op.attributes.fields:
        before, after = getattr(left.attributes, each.name), getattr(right.attributes, each.name)
        if before != after:
            yield f"{each.key} {_short(each.codec.write(before))} -> {_short(each.codec.write(after))}"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[: _MAX_VALUE_CHARACTERS - 3]}..."
