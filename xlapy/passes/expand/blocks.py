"""What several expansions are built of: functions of scalars, reductions, loops, counting arrays, joined arrays.

Owns: these blocks. Must not know: which operation is expanded by them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S32, S64, PrimitiveType
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType
from xlapy.opcodes.movement import DimensionAttributes, DynamicSliceAttributes
from xlapy.opcodes.reduction import ReduceAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import IotaAttributes, ParameterAttributes
from xlapy.passes.rewrite import Writer

Body = Callable[[Writer, list[Instruction]], Instruction]
"""Writes the body of a function, given its parameters; returns the root."""

Step = Callable[[Writer, Instruction, list[Instruction]], Sequence[Instruction]]
"""Writes one round of a loop, given its number (s32, or s64 for many rounds) and the state; returns the next state."""

_INT32_MAX = 2**31 - 1


def function(write: Writer, name: str, parameters: Sequence[Shape], body: Body) -> Computation:
    """A new computation of the module."""
    module = write.computation.module
    assert module is not None
    made = edit.add_computation(module, name)
    into = Writer(write.source, made)
    given = [
        into.add(opcodes.PARAMETER, attributes=ParameterAttributes.make(number=number), shape=shape)
        for number, shape in enumerate(parameters)
    ]
    edit.set_root(made, body(into, given))
    return made


def reducer(write: Writer, op: OpDef, element_type: PrimitiveType) -> Computation:
    """A computation of two scalars by an op of two operands."""
    scalar = Shape.scalar(element_type)
    return function(write, op.name, [scalar, scalar], lambda into, given: into.add(op, *given))


def reduced(
    write: Writer, op: OpDef, operand: Instruction, dimensions: Sequence[int], initial: complex = 0
) -> Instruction:
    """The operand reduced along dimensions by an op of two operands."""
    element_type = operand.shape.element_type
    return write.add(
        opcodes.REDUCE,
        operand,
        write.scalar(initial, element_type),
        attributes=ReduceAttributes.make(dimensions=tuple(dimensions)),
        computations=[reducer(write, op, element_type)],
    )


def compare(
    write: Writer, left: Instruction, right: Instruction, direction: ComparisonDirection, total_order: bool = False
) -> Instruction:
    order = ComparisonType.TOTALORDER if total_order and left.shape.element_type.is_floating else None
    return write.add(opcodes.COMPARE, left, right, attributes=CompareAttributes.make(direction=direction, type=order))


def index_type(*sizes: int) -> PrimitiveType:
    """The type of numbers up to these."""
    return S32 if max(sizes, default=0) <= _INT32_MAX else S64


def iota(write: Writer, shape: Shape, dimension: int) -> Instruction:
    """Each element's index in a dimension."""
    return write.add(opcodes.IOTA, attributes=IotaAttributes.make(iota_dimension=dimension), shape=shape)


def array(write: Writer, values: Any) -> Instruction:
    """A constant of NumPy's shape and element type."""
    return write.literal(Literal.array_of(np.asarray(values, order="C")))


def concatenate(write: Writer, parts: Sequence[Instruction], dimension: int) -> Instruction:
    """The parts one after the other, without those that are empty; a single one is itself."""
    filled = [part for part in parts if part.shape.dimensions[dimension]] or parts[:1]
    if len(filled) == 1:
        return filled[0]
    return write.add(opcodes.CONCATENATE, *filled, attributes=DimensionAttributes.make(dimension=dimension))


def slice_of(write: Writer, operand: Instruction, dimension: int, start: int, limit: int) -> Instruction:
    """Elements `start` up to before `limit` of one dimension, all of the others; the operand if that is all."""
    sizes = operand.shape.dimensions
    if (start, limit) == (0, sizes[dimension]):
        return operand
    starts, limits = [0] * len(sizes), list(sizes)
    starts[dimension], limits[dimension] = start, limit
    return write.slice(operand, starts, limits)


def take(write: Writer, operand: Instruction, index: Instruction, dimension: int) -> Instruction:
    """The slice of size 1 at an index, a scalar that is a value of the program."""
    sizes = list(operand.shape.dimensions)
    sizes[dimension] = 1
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=tuple(sizes))
    starts = _starts(write, operand, index, dimension)
    return write.add(opcodes.DYNAMIC_SLICE, operand, *starts, attributes=attributes)


def put(write: Writer, operand: Instruction, update: Instruction, index: Instruction, dimension: int) -> Instruction:
    """The operand with another slice at an index."""
    return write.add(opcodes.DYNAMIC_UPDATE_SLICE, operand, update, *_starts(write, operand, index, dimension))


def _starts(write: Writer, operand: Instruction, index: Instruction, dimension: int) -> list[Instruction]:
    zero = write.scalar(0, index.shape.element_type)
    return [index if d == dimension else zero for d in range(operand.shape.rank)]


def loop(write: Writer, rounds: int, state: Sequence[Instruction], step: Step, name: str) -> list[Instruction]:
    """A while loop of a fixed number of rounds; the state after the last one.

    Whatever the step reads must be part of the state.
    """
    t = index_type(rounds)
    counter = write.scalar(0, t)
    carried = write.add(opcodes.TUPLE, counter, *state)

    def goes_on(into: Writer, given: list[Instruction]) -> Instruction:
        return compare(into, into.element(given[0], 0), into.scalar(rounds, t), ComparisonDirection.LT)

    def body(into: Writer, given: list[Instruction]) -> Instruction:
        number, *elements = [into.element(given[0], i) for i in range(len(state) + 1)]
        following = step(into, number, elements)
        return into.add(opcodes.TUPLE, into.add(opcodes.ADD, number, into.scalar(1, t)), *following)

    condition = function(write, f"{name}_condition", [carried.shape], goes_on)
    looped = write.add(
        opcodes.WHILE, carried, computations=[condition, function(write, f"{name}_body", [carried.shape], body)]
    )
    return [write.element(looped, i + 1) for i in range(len(state))]
