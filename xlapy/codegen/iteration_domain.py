"""Groups of instructions that one kernel computes row by row: where each array stands to the rows.

A kernel goes through rows * length places. An array of as many elements is FULL if its element at a place in row-major
order is wanted there; an array of one element a row is of the kind ROW. Example, a softmax of f32[64,1000], 64 rows of
1000: the exponentials are FULL, their sums ROW, a mask of f32[1000] that is added to every row COLUMN. A reduction in
the group has to be of the kind ROW: its value then is computed once, before the elements of its row.

Owns: these kinds. Must not know: loops, which instructions should be in a group.
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

LEAST_LENGTH = 16
"""Shorter rows are not worth vectors along them: if there are as many of them, vectors go over rows."""

LITTLE_CODE = 256
"""Operations of a row each place of which has code of its own: such code is compiled fast."""

MANY_PLACES = 1 << 14
"""From so many on, longer code for short rows gains more than the time to compile it."""


class Kind(Enum):
    """At which elements of an array a kernel looks while it is at a place."""

    FULL = "at that of the place"
    ROW = "at that of the row"
    PER_ROW = "at one that follows the row, the same for several rows perhaps"
    COLUMN = "at one that follows the place in the row alone"
    SCALAR = "at always the same"
    OTHER = "at any"


@dataclass(frozen=True, slots=True)
class Space:
    """The places of a kernel. length 1: of arrays of `rows` elements, the reductions among which are of any kind."""

    rows: int
    length: int

    def __str__(self) -> str:
        return f"{self.rows} rows of {self.length}" if self.length > 1 else f"{self.rows} elements"

    @property
    def is_short(self) -> bool:
        """Whether rows are shorter than what is worth vectors along them."""
        return 1 < self.length < LEAST_LENGTH

    def is_written_out(self, cost: int) -> bool:
        """Whether the places of a row have code of their own, and vectors go over rows.

        cost: of one element of all instructions together.
        """
        is_worth_it = self.length * cost <= LITTLE_CODE or self.rows * self.length >= MANY_PLACES
        return self.is_short and is_worth_it

    def kind_of_result(self, shape: Shape) -> Kind | None:
        """How an array has to lie to be a result of the kernel; None if it cannot."""
        size = first_array_shape(shape).size
        if size == self.rows:
            return Kind.ROW
        return Kind.FULL if size == self.rows * self.length else None


def first_array_shape(shape: Shape) -> Shape:
    """The array itself, or the first of a tuple."""
    return shape if shape.is_array else next(leaf for _, leaf in shape.leaves())


def space_of_result(shape: Shape) -> Space:
    """The last dimension as rows: how kernels without reductions go through their result."""
    sizes = [size for size in first_array_shape(shape).dimensions if size != 1]
    return Space(math.prod(sizes[:-1]), sizes[-1] if sizes else 1)


def space_of_reduction(reduction: Instruction) -> Space:
    """Rows, if the reduction has one result a row that is long enough; else its results."""
    operand, rows = reduction.operands[0].shape, first_array_shape(reduction.shape).size
    length = operand.size // max(rows, 1)
    if length > 1 and max(rows, length) >= LEAST_LENGTH and reduces_rows(reduction, length):
        return Space(rows, length)
    return Space(rows, 1)


def reduces_rows(reduction: Instruction, length: int) -> bool:
    """Whether it reduces what is contiguous in memory: rows of that length."""
    dimensions = reduction.operands[0].shape.dimensions
    reduced = {d for d in reduction.dimensions if dimensions[d] > 1}
    return reduced == trailing(dimensions, length)


def trailing(dimensions: Sequence[int], length: int) -> set[int] | None:
    """The last dimensions that are not 1 and have so many elements; None if there are none such."""
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


def operand_kind(space: Space, user: Instruction, kind: Kind, operand: Instruction) -> Kind:
    """The kind of an operand of an array of some kind."""
    if not operand.shape.is_array:
        return Kind.OTHER
    if operand.shape.size == 1:
        return Kind.ROW if space.rows == 1 else Kind.SCALAR
    if user.op is opcodes.BROADCAST:
        return _of_broadcast(space, user, kind)
    if user.op is opcodes.REDUCE:
        is_row = kind is Kind.ROW and space.length > 1 and reduces_rows(user, space.length)
        return Kind.FULL if is_row else Kind.OTHER
    if user.op is opcodes.RESHAPE or is_alias(user):
        return kind
    if (user.op.elementwise or user.op is opcodes.MAP) and operand.shape.dimensions == user.shape.dimensions:
        return kind
    return _moved(kind)


def _moved(kind: Kind) -> Kind:
    """The kind of what is looked at at an index that follows from that of its user."""
    if kind in (Kind.ROW, Kind.PER_ROW):
        return Kind.PER_ROW
    return Kind.OTHER if kind is Kind.FULL else kind


def _of_broadcast(space: Space, broadcast: Instruction, kind: Kind) -> Kind:
    dimensions = broadcast.shape.dimensions
    every = {d for d, size in enumerate(dimensions) if size > 1}
    kept = {d for d in broadcast.dimensions if dimensions[d] > 1}
    if list(broadcast.dimensions) != sorted(broadcast.dimensions):
        return _moved(kind)
    if kept == every:
        return kind
    columns = trailing(dimensions, space.length) if kind is Kind.FULL else None
    if columns is None:
        return _moved(kind)
    if not kept & columns:
        return Kind.ROW if kept == every - columns else Kind.PER_ROW
    return Kind.COLUMN if kept <= columns else Kind.OTHER


def joined(kinds: Iterable[Kind]) -> Kind:
    """The kind of an array that several users look at."""
    found = set(kinds)
    if len(found) == 1:
        return found.pop()
    return Kind.PER_ROW if found <= {Kind.ROW, Kind.PER_ROW} else Kind.OTHER


def classify(
    space: Space, results: Sequence[Instruction], members: Sequence[Instruction]
) -> dict[Instruction, Kind] | str:
    """The kind of each member, users before what they use; or why the members are not computed together.

    results: those of the members that the kernel writes.
    """
    wanted: dict[Instruction, list[Kind]] = {}
    for result in results:
        kind = space.kind_of_result(result.shape)
        if kind is None:
            return f"{result.name} has not an element for each of {space}"
        wanted.setdefault(result, []).append(kind)
    inside = set(members)
    kinds: dict[Instruction, Kind] = {}
    for member in members:
        kind = kinds[member] = joined(wanted[member])
        problem = _problem(space, member, kind, is_result=member in results)
        if problem:
            return problem
        for operand in dict.fromkeys(member.operands):
            if operand in inside:
                wanted.setdefault(operand, []).append(operand_kind(space, member, kind, operand))
    return kinds


def _problem(space: Space, member: Instruction, kind: Kind, *, is_result: bool) -> str:
    """Why a member cannot be of its kind; "" if it can."""
    if is_result and kind not in (Kind.FULL, Kind.ROW):
        return f"{member.name} is looked at at other places than it is written"
    if member.op is not opcodes.REDUCE:
        return ""
    if kind is not Kind.ROW:
        return f"{member.name} reduces other rows, it would be computed again and again"
    if space.length > 1 and operand_kind(space, member, kind, member.operands[0]) is not Kind.FULL:
        return f"{member.name} reduces other dimensions than rows of {space.length}"
    return ""


def depths(members: Sequence[Instruction]) -> dict[Instruction, int]:
    """How many reductions, one needed by the next, each member waits for. Members stand behind what they use."""
    found: dict[Instruction, int] = {}
    for member in members:
        below = [found[o] + (o.op is opcodes.REDUCE) for o in member.operands if o in found]
        found[member] = max(below, default=0)
    return found


def evaluations(
    space: Space, members: Sequence[Instruction], kinds: dict[Instruction, Kind]
) -> dict[Instruction, float]:
    """How often an element of each member is computed, all elements together. Users stand before what they use."""
    found: dict[Instruction, float] = {}
    for member in members:
        found[member] = times_computed(space, member, kinds[member], found)
    return found


def times_computed(space: Space, instruction: Instruction, kind: Kind, of_users: Mapping[Instruction, float]) -> float:
    """How often an element of an instruction of some kind is computed, from what is known of its users in the group."""
    places = space.rows * space.length
    fixed = {Kind.FULL: places, Kind.ROW: space.rows, Kind.PER_ROW: space.rows, Kind.COLUMN: places, Kind.SCALAR: 1}
    if kind in fixed:
        return fixed[kind]
    users = [user for user in instruction.users if user in of_users]
    if not users:
        return places
    return sum(of_users[user] * _terms(user) for user in users)


def _terms(user: Instruction) -> float:
    """How many elements of an operand one element of a user takes."""
    if user.op is not opcodes.REDUCE:
        return 1
    return user.operands[0].shape.size / max(1, first_array_shape(user.shape).size)
