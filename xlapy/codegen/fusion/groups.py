"""What may be computed in one kernel: the members of a future fusion, and why an instruction may not join them.

Owns: that judgement. Must not know: the order in which instructions are offered, how kernels are made.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from xlapy import opcodes
from xlapy.codegen.element_cost import CHEAP, cost
from xlapy.codegen.iteration_domain import (
    Kind,
    Space,
    classify,
    evaluations,
    first_array_shape,
    joined,
    operand_kind,
    space_of_reduction,
    space_of_result,
    times_computed,
)
from xlapy.hlo.instruction import Instruction
from xlapy.lower import LOWERINGS
from xlapy.lower.cumulative import cumulative

FREE = frozenset({opcodes.BROADCAST, opcodes.IOTA, opcodes.CONSTANT})
"""What every user computes for itself."""

HEAVY = frozenset({opcodes.DOT, opcodes.CONVOLUTION, opcodes.REDUCE_WINDOW, opcodes.CONCATENATE})
"""What is computed alone, from operands that are little more than memory."""

MOST_RESULTS = 8
"""Of a kernel: each is written as a stream of its own."""

FEW_ROWS = 64
"""Fewer rows leave threads without work."""

LITTLE = 1 << 17
"""Elements that one thread goes through as well as several."""

LITTLE_WORK = 1 << 10
"""Operations that may be done again: a kernel of its own takes longer."""

LITTLE_AGAIN = 6
"""Operations that an element may cost more: to write something to memory and read it takes as long."""

LONGEST_CHAIN = 64
"""Instructions that are looked at to find what an element costs."""

MOST_WRITTEN_OUT = 512
"""Elements of a short row and of all instructions together: each has code of its own."""


@dataclass(eq=False)
class Group:
    """Instructions that one kernel computes; users stand before what they use."""

    results: list[Instruction]
    """What the kernel writes; the last instruction in the order of the computation first."""
    space: Space
    members: dict[Instruction, Kind] = field(default_factory=dict[Instruction, Kind])
    times: dict[Instruction, float] = field(default_factory=dict[Instruction, float])
    """How often an element of a member is computed."""

    @staticmethod
    def of(instruction: Instruction) -> Group:
        """The group of an instruction alone."""
        group = Group([instruction], space_of_result(instruction.shape))
        if instruction.op is opcodes.REDUCE:
            group.space = space_of_reduction(instruction)
        group._place([instruction])
        return group

    @property
    def root(self) -> Instruction:
        """What the kernel is named after."""
        return self.results[0]

    @property
    def has_reductions(self) -> bool:
        return any(member.op is opcodes.REDUCE for member in self.members)

    def add(self, instruction: Instruction) -> None:
        """Takes in what `reason_apart` has nothing against, or what is free."""
        if instruction.op is opcodes.REDUCE and not self.has_reductions:
            self.space = space_of_reduction(instruction)
            self._place([*self.members, instruction])
            return
        self.members[instruction] = kind = self._kind(instruction)
        self.times[instruction] = times_computed(self.space, instruction, kind, self.times)

    def _place(self, members: list[Instruction]) -> None:
        kinds = classify(self.space, self.results, members)
        assert not isinstance(kinds, str), kinds
        self.members = kinds
        self.times = evaluations(self.space, members, kinds)

    def _kind(self, instruction: Instruction) -> Kind:
        users = (user for user in instruction.users if user in self.members)
        return joined(operand_kind(self.space, user, self.members[user], instruction) for user in users)

    def reason_apart(self, instruction: Instruction) -> str:
        """Why an instruction that members need may not be computed with them; "" if it may."""
        if picks_indices(instruction):
            return ""
        if instruction.op in HEAVY or not instruction.shape.is_array:
            return f"{instruction.op.name} would be computed again for every element of {self.root.name}"
        heavy = next((m for m in self.members if _is_heavy(m) and cumulative(m) is None), None)
        if heavy is not None and not _is_read_in_place(heavy, instruction):
            return f"{heavy.name} ({heavy.op.name}) reads its elements more than once"
        if instruction.op is opcodes.REDUCE:
            return self._reason_against_reduction(instruction)
        if _is_too_long(self.space, self.members):
            return f"{self.space} of {len(self.members)} instructions are much code already"
        times = times_computed(self.space, instruction, self._kind(instruction), self.times)
        return _reason_against_repeating(instruction, times, self.root)

    def _reason_against_reduction(self, reduction: Instruction) -> str:
        space = space_of_reduction(reduction)
        if len(reduction.operands) != 2:
            return f"{reduction.name} has several results"
        if self.has_reductions and space != self.space:
            return f"{self.root.name} goes along {self.space}, {reduction.name} along {space}"
        members = [*self.members, reduction]
        if _is_too_long(space, members):
            return f"{space} of {len(members)} instructions are too much code"
        kinds = classify(space, self.results, members)
        if isinstance(kinds, str):
            return kinds
        return _too_few_rows(space, self.results, kinds) or _repeated(self.root, evaluations(space, members, kinds))

    @property
    def is_heavy(self) -> bool:
        return any(map(_is_heavy, self.members))

    def reason_against_merging(self, other: Group, results: list[Instruction]) -> str:
        """Why two groups are not one with these results, if that can be told at a glance."""
        if len(results) > MOST_RESULTS:
            return f"a kernel has at most {MOST_RESULTS} results"
        if self.has_reductions and other.has_reductions and self.space != other.space:
            return f"{self.root.name} goes along {self.space}, {other.root.name} along {other.space}"
        if not self._rows_of_both(other) and len({_sizes(result) for result in results}) > 1:
            return "their results have other dimensions"
        return ""

    def merged(self, other: Group, results: list[Instruction], members: list[Instruction]) -> Group | str:
        """Both groups as one with these results, users before what they use; or why they stay two.

        `reason_against_merging` has nothing against it.
        """
        if not all(m.shape.is_array for m in members):
            return "a reduction has several results"
        space = other.space if other.has_reductions else self.space
        if self._rows_of_both(other) and _is_too_long(space, members):
            return f"{space} of {len(members)} instructions are too much code"
        kinds = classify(space, results, members)
        if isinstance(kinds, str):
            return kinds
        reason = _too_few_rows(space, results, kinds) if self._rows_of_both(other) else ""
        times = evaluations(space, members, kinds)
        reason = reason or _repeated(results[0], times)
        return reason or Group(results, space, kinds, times)

    def _rows_of_both(self, other: Group) -> bool:
        """Whether they go through rows together."""
        space = other.space if other.has_reductions else self.space
        return space.length > 1 and (self.has_reductions or other.has_reductions)


def picks_indices(instruction: Instruction) -> bool:
    """Whether it puts the indices of gathers together, which take each from where it comes: nothing is selected."""
    if instruction.op is not opcodes.CONCATENATE or not instruction.has_users:
        return False
    dimension = instruction.attributes.dimension
    return all(
        user.op is opcodes.GATHER
        and user.operands[0] is not instruction
        and user.attributes.index_vector_dim == dimension
        for user in instruction.users
    )


def _is_heavy(instruction: Instruction) -> bool:
    return instruction.op in HEAVY and not picks_indices(instruction)


def _is_read_in_place(heavy: Instruction, operand: Instruction) -> bool:
    """Whether what reads its elements more than once may as well read them where they come from."""
    if heavy.op is opcodes.DOT and operand.op in (opcodes.SLICE, opcodes.DYNAMIC_SLICE):
        return True
    return operand.op in (opcodes.RESHAPE, opcodes.TRANSPOSE) or (
        operand.op is opcodes.CONVERT and not _narrows(operand)
    )


def _narrows(convert: Instruction) -> bool:
    """Whether its results are smaller than its operands: to round again and again takes longer than to read less."""
    given, made = convert.operands[0].shape.element_type, convert.shape.element_type
    return made.byte_size < given.byte_size


def _is_too_long(space: Space, members: Collection[Instruction]) -> bool:
    """Whether the code of rows would be, each place of which is written out."""
    if not space.is_short or space.length * len(members) <= MOST_WRITTEN_OUT:
        return False
    return space.is_written_out(sum(map(cost, members)))


def _too_few_rows(space: Space, results: list[Instruction], kinds: dict[Instruction, Kind]) -> str:
    """Why results that wait for reductions of rows should not be one kernel with them; "" if they should."""
    is_large = space.rows * space.length > LITTLE and any(kinds[result] is Kind.FULL for result in results)
    return f"{space} are too few to be shared by threads" if space.rows < FEW_ROWS and is_large else ""


def _repeated(root: Instruction, times: dict[Instruction, float]) -> str:
    """Why members would be computed again and again, by how often that is; "" if they would not."""
    extra = {m: (t - _size(m)) * cost(m) for m, t in times.items() if t > 1.5 * _size(m)}
    if _is_little(sum(extra.values()), max(map(_size, times))):
        return ""
    worst = max(extra, key=lambda m: extra[m])
    return _again(root, worst, times[worst])


def _reason_against_repeating(instruction: Instruction, times: float, root: Instruction) -> str:
    size = _size(instruction)
    if times <= 1.5 * size:
        return ""
    each = _chain_cost(instruction)
    if each <= CHEAP or _is_little((times - size) * each, max(size, _size(root))):
        return ""
    return _again(root, instruction, times)


def _again(root: Instruction, instruction: Instruction, times: float) -> str:
    return f"{root.name} would compute each element of {instruction.name} {times / _size(instruction):.0f} times"


def _is_little(extra: float, places: int) -> bool:
    """Whether so many operations more than necessary may be done for so many elements."""
    return extra <= max(LITTLE_WORK, LITTLE_AGAIN * places)


def _size(instruction: Instruction) -> int:
    return max(1, first_array_shape(instruction.shape).size)


def _chain_cost(instruction: Instruction) -> int:
    """Of an element, with those of all that is computed for nothing else and would join the same kernel."""
    chain, stack, total = {instruction}, [instruction], 0
    while stack and len(chain) <= LONGEST_CHAIN:
        member = stack.pop()
        total += cost(member)
        for operand in member.operands:
            if operand not in chain and not _lies_in_memory(operand) and all(user in chain for user in operand.users):
                chain.add(operand)
                stack.append(operand)
    return total


def _sizes(instruction: Instruction) -> tuple[int, ...]:
    return tuple(size for size in instruction.shape.dimensions if size != 1)


# -- computing again


def worth_computing_again(instruction: Instruction, readers: int) -> bool:
    """Whether several kernels compute the instruction for less than it costs to write it to memory and read it.

    It is if what it is computed from lies in memory anyway, and is not much more than itself.
    """
    leaves = _leaves_in_memory(instruction)
    if leaves is None:
        return False
    own = instruction.shape.size * instruction.shape.element_type.byte_size
    if own <= 64:
        return True
    read = sum(leaf.shape.size * leaf.shape.element_type.byte_size for leaf in leaves)
    return (readers - 1) * read <= (readers + 1) * own


def _leaves_in_memory(instruction: Instruction) -> set[Instruction] | None:
    """The arrays in memory that an instruction is computed from; None if that takes long or others do not need them."""
    leaves: set[Instruction] = set()
    total, stack = 0, [instruction]
    while stack:
        member = stack.pop()
        total += cost(member)
        if total > CHEAP or not (member.op.elementwise or member.op in FREE or member.op is opcodes.RESHAPE):
            return None
        for operand in member.operands:
            if not operand.shape.is_array:
                return None
            if _lies_in_memory(operand):
                leaves.add(operand)
            else:
                stack.append(operand)
    return leaves


def _lies_in_memory(instruction: Instruction) -> bool:
    return (
        instruction.op not in LOWERINGS
        or instruction.op in HEAVY
        or instruction.op in (opcodes.REDUCE, opcodes.PARAMETER)
    )
