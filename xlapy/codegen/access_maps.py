"""Access maps: the element of each operand that a region reads, as an affine function of an iteration domain.

A map is composed from one rule per opcode (`access_rules`) along the graph of a region. Example, the region
out[i, j] = a[j, i] + b[i] of f32[64,100], with the axes i and j of its domain:

    a   (j, i)   offset j * 64 + i   strides 1 along i, 64 along j
    b   (i)      offset i            strides 1 along i, 0 along j

Besides axes, the terms of a position may be a quotient or a remainder, where a reshape cannot be expressed without
division, and a data-dependent value, such as the start of a dynamic slice. An access may have conditions, as that of a
padded array has; it is unconditional if it has none.

Does not depend on loops, on what is computed from the elements, or on how an emitter arranges its loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.codegen.access_rules import reads_of
from xlapy.codegen.iteration_space import Condition, IterationSpace
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Value
from xlapy.loops.positions import is_equal_in_lanes
from xlapy.lower.core import Index, linear


@dataclass(frozen=True, slots=True)
class Access:
    """One element of an array that an iteration reads."""

    operand: Instruction
    index: Index
    """The position along each dimension of the operand."""
    conditions: tuple[Condition, ...] = ()
    """The iteration reads the element where all of these are true."""

    @property
    def is_unconditional(self) -> bool:
        """Whether every iteration reads the element."""
        return not self.conditions

    @property
    def offset(self) -> Affine:
        """The row-major position of the element."""
        return linear(self.index, self.operand.shape.dimensions)


def accesses(
    space: IterationSpace, results: Iterable[tuple[Instruction, Index]], arrays: Collection[Instruction]
) -> list[Access]:
    """Returns the elements of `arrays` that the computation of an element of each result reads.

    results: instructions, each with the index of its element. Equal accesses are returned once.
    """
    walk = _Walk(space, arrays)
    for instruction, index in results:
        walk.visit(instruction, index, ())
    return list(walk.found)


class _Walk:
    """Follows reads from results to the arrays in memory."""

    def __init__(self, space: IterationSpace, arrays: Collection[Instruction]) -> None:
        self.space = space
        self.arrays = arrays
        self.found: dict[Access, None] = {}
        self._visited: set[tuple[Instruction, Index, tuple[Condition, ...]]] = set()

    def visit(self, instruction: Instruction, index: Index, conditions: tuple[Condition, ...]) -> None:
        if instruction in self.arrays:
            self.found.setdefault(Access(instruction, index, conditions))
            return
        key = instruction, index, conditions
        if key in self._visited:
            return
        self._visited.add(key)
        if instruction.op is opcodes.CALL:
            called = instruction.to_apply
            _CalledWalk(self, called, instruction.operands).visit(called.root_instruction, index, conditions)
            return
        for read in reads_of(self.space, instruction, index):
            self.visit(read.operand, read.index, _conjunction(conditions, read.conditions))


class _CalledWalk(_Walk):
    """Follows reads in a called computation, whose parameters are instructions of the caller."""

    def __init__(self, outer: _Walk, called: Computation, operands: Sequence[Instruction]) -> None:
        super().__init__(outer.space, ())
        self.outer = outer
        self.called = called
        self.operands = operands

    def visit(self, instruction: Instruction, index: Index, conditions: tuple[Condition, ...]) -> None:
        if is_parameter(instruction) and instruction.parent is self.called:
            self.outer.visit(self.operands[instruction.parameter_number], index, conditions)
        else:
            super().visit(instruction, index, conditions)


def _conjunction(left: tuple[Condition, ...], right: tuple[Condition, ...]) -> tuple[Condition, ...]:
    return (*left, *(condition for condition in right if condition not in left)) if right else left


# -- what is read off a map


def stride(position: Affine, axis: Value) -> int | None:
    """The stride of a position along an axis; None if it depends on the axis in another way than by a multiple."""
    if any(value is not axis and depends_on_axis(value, (axis,)) for value, _ in position.terms):
        return None
    return position.coefficient(axis)


def stride_in_vectors(position: Affine, axis: Value, lanes: int) -> int | None:
    """The stride of a position along an axis inside of vectors of so many lanes, which begin at multiples of it.

    As `stride`, but quotients that are the same in all lanes of such a vector count as constants. Example: with 16
    lanes, the stride of i div 128 along i is 0.
    """
    kept = [(v, c) for v, c in position.terms if not is_equal_in_lanes(v, axis, lanes)]
    return stride(Affine(tuple(kept), position.constant), axis)


def depends_on_axis(value: Value, axes: Collection[Value]) -> bool:
    """Whether a term of a position is one of the axes, or a quotient, a remainder or data that depends on one."""
    return value in axes or any(depends_on_axis(arg, axes) for arg in value.args)


def evaluate(position: Affine, values: Mapping[Value, int]) -> int:
    """Returns the number that a position is. values: those of the axes and of the data-dependent terms."""
    total = position.constant
    for value, coefficient in position.terms:
        total += coefficient * _number(value, values)
    return total


def _number(value: Value, values: Mapping[Value, int]) -> int:
    if value.op not in ("div", "mod"):
        return values[value]
    dividend, divisor = value.attribute
    number = evaluate(dividend, values)
    return number // divisor if value.op == "div" else number % divisor
