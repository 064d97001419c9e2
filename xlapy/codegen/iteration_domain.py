"""Iteration domains of kernels that run row by row, and how each array of a region is accessed in one.

A kernel iterates over `rows * length` elements. For each array of the region, its access pattern says which element an
iteration needs: the element of the iteration, that of its row, that of its column, or another. Example, a softmax of
f32[64,1000] has a domain of 64 rows of 1000: the exponentials have the pattern IDENTITY, their sums PER_ROW, a mask of
f32[1000] that is added to every row PER_COLUMN. A reduction in the region must be PER_ROW, so that its value is
computed once, before the elements of its row.

Does not depend on loops. Does not decide which instructions belong in one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from xlapy import opcodes
from xlapy.analysis.aliasing import is_alias
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction

MIN_VECTOR_ROW_LENGTH = 16
"""The smallest length of a row that fills vectors along the row. With many shorter rows, vectors run across rows."""

MAX_CHEAP_UNROLLED_COST = 256
"""The largest cost of one short row (`element_cost` of all its elements) whose unrolled code always compiles fast."""

MIN_ELEMENTS_FOR_LONG_UNROLLING = 1 << 14
"""The smallest number of elements of a domain for which longer unrolled code gains more run time than its compilation
takes."""


class AccessPattern(Enum):
    """Which element of an array one iteration of a kernel needs."""

    IDENTITY = "element i of iteration i, in row-major order"
    PER_ROW = "element r of row r"
    ROW_DEPENDENT = "an element that depends on the row alone; several rows may need the same one"
    PER_COLUMN = "an element that depends on the position within the row alone"
    SCALAR = "always the same element"
    IRREGULAR = "any element"


@dataclass(frozen=True, slots=True)
class IterationDomain:
    """`rows` rows of `length` elements. If `length` is 1, the domain is `rows` elements without rows."""

    rows: int
    length: int

    def __str__(self) -> str:
        return f"{self.rows} rows of {self.length}" if self.length > 1 else f"{self.rows} elements"

    @property
    def has_short_rows(self) -> bool:
        """Whether the rows are too short for vectors along them."""
        return 1 < self.length < MIN_VECTOR_ROW_LENGTH

    def is_unrolled(self, cost: int) -> bool:
        """Whether every element of a row gets code of its own, with vectors that run across rows.

        cost: of one element, summed over all instructions.
        """
        is_profitable = (
            self.length * cost <= MAX_CHEAP_UNROLLED_COST or self.rows * self.length >= MIN_ELEMENTS_FOR_LONG_UNROLLING
        )
        return self.has_short_rows and is_profitable

    def pattern_of_result(self, shape: Shape) -> AccessPattern | None:
        """The pattern in which the kernel writes a result of this shape; None if it cannot."""
        size = first_array_shape(shape).size
        if size == self.rows:
            return AccessPattern.PER_ROW
        return AccessPattern.IDENTITY if size == self.rows * self.length else None


def first_array_shape(shape: Shape) -> Shape:
    """The shape of an array itself, or of the first array of a tuple."""
    return shape if shape.is_array else next(leaf for _, leaf in shape.leaves())


# -- the domain of a region


def domain_of_result(shape: Shape) -> IterationDomain:
    """The domain of a region without reductions: its rows are the last dimension of the result."""
    sizes = [size for size in first_array_shape(shape).dimensions if size != 1]
    return IterationDomain(math.prod(sizes[:-1]), sizes[-1] if sizes else 1)


def domain_of_reduction(reduction: Instruction) -> IterationDomain:
    """The domain of a region with this reduction: the rows that it reduces, or else its results."""
    operand, rows = reduction.operands[0].shape, first_array_shape(reduction.shape).size
    length = operand.size // max(rows, 1)
    if length > 1 and max(rows, length) >= MIN_VECTOR_ROW_LENGTH and reduces_rows(reduction, length):
        return IterationDomain(rows, length)
    return IterationDomain(rows, 1)


def reduces_rows(reduction: Instruction, length: int) -> bool:
    """Whether a reduction reduces rows of this length, which are contiguous in memory."""
    dimensions = reduction.operands[0].shape.dimensions
    reduced = {d for d in reduction.dimensions if dimensions[d] > 1}
    return reduced == trailing_dimensions(dimensions, length)


def trailing_dimensions(dimensions: Sequence[int], length: int) -> set[int] | None:
    """The last dimensions, those of size 1 left out, that together have `length` elements; None if none have."""
    found: set[int] = set()
    for d in reversed(range(len(dimensions))):
        if length == 1:
            break
        if dimensions[d] > 1:
            if length % dimensions[d]:
                return None
            length //= dimensions[d]
            found.add(d)
    return found if length == 1 else None


# -- access patterns


def operand_pattern(
    domain: IterationDomain, user: Instruction, pattern: AccessPattern, operand: Instruction
) -> AccessPattern:
    """The pattern in which `user`, itself accessed in `pattern`, accesses one of its operands."""
    if not operand.shape.is_array:
        return AccessPattern.IRREGULAR
    if operand.shape.size == 1:
        return AccessPattern.PER_ROW if domain.rows == 1 else AccessPattern.SCALAR
    if user.op is opcodes.BROADCAST:
        return _broadcast_operand_pattern(domain, user, pattern)
    if user.op is opcodes.REDUCE:
        is_row = pattern is AccessPattern.PER_ROW and domain.length > 1 and reduces_rows(user, domain.length)
        return AccessPattern.IDENTITY if is_row else AccessPattern.IRREGULAR
    if user.op is opcodes.RESHAPE or is_alias(user):
        return pattern
    if (user.op.elementwise or user.op is opcodes.MAP) and operand.shape.dimensions == user.shape.dimensions:
        return pattern
    return _remapped(pattern)


def _remapped(pattern: AccessPattern) -> AccessPattern:
    """The pattern of an operand whose index is some function of the index of its user."""
    if pattern in (AccessPattern.PER_ROW, AccessPattern.ROW_DEPENDENT):
        return AccessPattern.ROW_DEPENDENT
    return AccessPattern.IRREGULAR if pattern is AccessPattern.IDENTITY else pattern


def _broadcast_operand_pattern(
    domain: IterationDomain, broadcast: Instruction, pattern: AccessPattern
) -> AccessPattern:
    dimensions = broadcast.shape.dimensions
    all_dimensions = {d for d, size in enumerate(dimensions) if size > 1}
    operand_dimensions = {d for d in broadcast.dimensions if dimensions[d] > 1}
    if list(broadcast.dimensions) != sorted(broadcast.dimensions):
        return _remapped(pattern)
    if operand_dimensions == all_dimensions:
        return pattern
    columns = trailing_dimensions(dimensions, domain.length) if pattern is AccessPattern.IDENTITY else None
    if columns is None:
        return _remapped(pattern)
    if not operand_dimensions & columns:
        is_every_row = operand_dimensions == all_dimensions - columns
        return AccessPattern.PER_ROW if is_every_row else AccessPattern.ROW_DEPENDENT
    return AccessPattern.PER_COLUMN if operand_dimensions <= columns else AccessPattern.IRREGULAR


def join_patterns(patterns: Iterable[AccessPattern]) -> AccessPattern:
    """The pattern of an array that several users access, each in one of the given patterns."""
    found = set(patterns)
    if len(found) == 1:
        return found.pop()
    if found <= {AccessPattern.PER_ROW, AccessPattern.ROW_DEPENDENT}:
        return AccessPattern.ROW_DEPENDENT
    return AccessPattern.IRREGULAR


def access_patterns(
    domain: IterationDomain, results: Sequence[Instruction], members: Sequence[Instruction]
) -> dict[Instruction, AccessPattern] | str:
    """The access pattern of each member of a region; or the reason why one kernel cannot compute the members.

    members: users before their operands. results: the members that the kernel writes.
    """
    wanted: dict[Instruction, list[AccessPattern]] = {}
    for result in results:
        pattern = domain.pattern_of_result(result.shape)
        if pattern is None:
            return f"{result.name} does not have one element for each of {domain}"
        wanted.setdefault(result, []).append(pattern)
    inside = set(members)
    patterns: dict[Instruction, AccessPattern] = {}
    for member in members:
        pattern = patterns[member] = join_patterns(wanted[member])
        reason = _reason_against_pattern(domain, member, pattern, is_result=member in results)
        if reason:
            return reason
        for operand in dict.fromkeys(member.operands):
            if operand in inside:
                wanted.setdefault(operand, []).append(operand_pattern(domain, member, pattern, operand))
    return patterns


def _reason_against_pattern(
    domain: IterationDomain, member: Instruction, pattern: AccessPattern, *, is_result: bool
) -> str:
    """Why a member cannot be accessed in a pattern; "" if it can."""
    if is_result and pattern not in (AccessPattern.IDENTITY, AccessPattern.PER_ROW):
        return f"{member.name} is read at other positions than it is written"
    if member.op is not opcodes.REDUCE:
        return ""
    if pattern is not AccessPattern.PER_ROW:
        return f"{member.name} reduces other rows, so that it would be computed repeatedly"
    if domain.length > 1 and operand_pattern(domain, member, pattern, member.operands[0]) is not AccessPattern.IDENTITY:
        return f"{member.name} reduces other dimensions than rows of {domain.length}"
    return ""


# -- how often members are computed


def reduction_depths(members: Sequence[Instruction]) -> dict[Instruction, int]:
    """The length of the longest chain of reductions that each member depends on. members: operands before users."""
    found: dict[Instruction, int] = {}
    for member in members:
        below = [found[o] + (o.op is opcodes.REDUCE) for o in member.operands if o in found]
        found[member] = max(below, default=0)
    return found


def evaluation_counts(
    domain: IterationDomain, members: Sequence[Instruction], patterns: dict[Instruction, AccessPattern]
) -> dict[Instruction, float]:
    """How many elements of each member a kernel computes in all. members: users before their operands."""
    found: dict[Instruction, float] = {}
    for member in members:
        found[member] = evaluation_count(domain, member, patterns[member], found)
    return found


def evaluation_count(
    domain: IterationDomain, instruction: Instruction, pattern: AccessPattern, user_counts: Mapping[Instruction, float]
) -> float:
    """How many elements of an instruction a kernel computes in all.

    user_counts: the counts of the instruction's users in the kernel.
    """
    iterations = domain.rows * domain.length
    if pattern is AccessPattern.IDENTITY or pattern is AccessPattern.PER_COLUMN:
        return iterations
    if pattern is AccessPattern.PER_ROW or pattern is AccessPattern.ROW_DEPENDENT:
        return domain.rows
    if pattern is AccessPattern.SCALAR:
        return 1
    users = instruction.users_in(user_counts)
    if not users:
        return iterations
    return sum(user_counts[user] * _operand_elements_per_result(user) for user in users)


def _operand_elements_per_result(user: Instruction) -> float:
    """How many elements of an operand one element of the user's result takes."""
    if user.op is not opcodes.REDUCE:
        return 1
    return user.operands[0].shape.size / max(1, first_array_shape(user.shape).size)
