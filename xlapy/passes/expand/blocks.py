"""Building blocks of expansions: computations, reductions, counted loops, iotas, slices, concatenations.

Does not depend on the operations that are expanded.
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

ComputationBody = Callable[[Writer, list[Instruction]], Instruction]
"""Writes the instructions of a computation, given its parameters; returns the root."""

LoopBody = Callable[[Writer, Instruction, list[Instruction]], Sequence[Instruction]]
"""Writes one iteration of a loop, given its number (of the `index_type` of the trip count) and the state.

Returns the next state.
"""

_INT32_MAX = 2**31 - 1


def new_computation(write: Writer, name: str, parameters: Sequence[Shape], body: ComputationBody) -> Computation:
    """Adds a computation to the module."""
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


def reducer_computation(write: Writer, op: OpDef, element_type: PrimitiveType) -> Computation:
    """Adds a computation that applies a binary operation to two scalars."""
    scalar = Shape.scalar(element_type)
    return new_computation(write, op.name, [scalar, scalar], lambda into, given: into.add(op, *given))


def reduce_dimensions(
    write: Writer, op: OpDef, operand: Instruction, dimensions: Sequence[int], initial: complex = 0
) -> Instruction:
    """Writes a reduce of an operand along dimensions by a binary operation."""
    element_type = operand.shape.element_type
    return write.add(
        opcodes.REDUCE,
        operand,
        write.scalar(initial, element_type),
        attributes=ReduceAttributes.make(dimensions=tuple(dimensions)),
        computations=[reducer_computation(write, op, element_type)],
    )


def compare(
    write: Writer, left: Instruction, right: Instruction, direction: ComparisonDirection, total_order: bool = False
) -> Instruction:
    """Writes a comparison; total_order: floats compare in the total order, in which NaN is ordered."""
    order = ComparisonType.TOTALORDER if total_order and left.shape.element_type.is_floating else None
    return write.add(opcodes.COMPARE, left, right, attributes=CompareAttributes.make(direction=direction, type=order))


def index_type(*sizes: int) -> PrimitiveType:
    """Returns the integer type for indices up to the given sizes: s32, or s64 for greater ones."""
    return S32 if max(sizes, default=0) <= _INT32_MAX else S64


def iota(write: Writer, shape: Shape, dimension: int) -> Instruction:
    """Writes an iota along a dimension."""
    return write.add(opcodes.IOTA, attributes=IotaAttributes.make(iota_dimension=dimension), shape=shape)


def array_constant(write: Writer, values: Any) -> Instruction:
    """Writes a constant with the shape and element type of a NumPy array."""
    return write.constant(Literal.array_of(np.asarray(values, order="C")))


def concatenate(write: Writer, parts: Sequence[Instruction], dimension: int) -> Instruction:
    """Writes a concatenate of the parts that have elements; returns a single part itself."""
    filled = [part for part in parts if part.shape.dimensions[dimension]] or parts[:1]
    if len(filled) == 1:
        return filled[0]
    return write.add(opcodes.CONCATENATE, *filled, attributes=DimensionAttributes.make(dimension=dimension))


def conjugated(write: Writer, operand: Instruction) -> Instruction:
    """Returns the complex conjugates; real numbers as they are."""
    if not operand.shape.element_type.is_complex:
        return operand
    imaginary = write.add(opcodes.NEGATE, write.add(opcodes.IMAG, operand))
    return write.add(opcodes.COMPLEX, write.add(opcodes.REAL, operand), imaginary)


def slice_dimension(write: Writer, operand: Instruction, dimension: int, start: int, limit: int) -> Instruction:
    """Writes a slice of the elements [start, limit) of one dimension; returns the operand itself if these are all."""
    sizes = operand.shape.dimensions
    if (start, limit) == (0, sizes[dimension]):
        return operand
    starts, limits = [0] * len(sizes), list(sizes)
    starts[dimension], limits[dimension] = start, limit
    return write.slice(operand, starts, limits)


def slice_at_index(write: Writer, operand: Instruction, index: Instruction, dimension: int) -> Instruction:
    """Writes a dynamic slice of size 1 at an index of one dimension; the index is a scalar instruction."""
    sizes = list(operand.shape.dimensions)
    sizes[dimension] = 1
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=tuple(sizes))
    starts = _starts(write, operand, index, dimension)
    return write.add(opcodes.DYNAMIC_SLICE, operand, *starts, attributes=attributes)


def update_at_index(
    write: Writer, operand: Instruction, update: Instruction, index: Instruction, dimension: int
) -> Instruction:
    """Writes an update of the slice at an index of one dimension; the index is a scalar instruction."""
    return write.add(opcodes.DYNAMIC_UPDATE_SLICE, operand, update, *_starts(write, operand, index, dimension))


def _starts(write: Writer, operand: Instruction, index: Instruction, dimension: int) -> list[Instruction]:
    zero = write.scalar(0, index.shape.element_type)
    return [index if d == dimension else zero for d in range(operand.shape.rank)]


def counted_loop(
    write: Writer, trip_count: int, state: Sequence[Instruction], body: LoopBody, name: str
) -> list[Instruction]:
    """Writes a while loop with a fixed trip count; returns the state after the last iteration.

    All values that the body reads must be part of the state.
    """
    t = index_type(trip_count)
    counter = write.scalar(0, t)
    initial = write.add(opcodes.TUPLE, counter, *state)

    def condition(into: Writer, given: list[Instruction]) -> Instruction:
        return compare(into, into.get_tuple_element(given[0], 0), into.scalar(trip_count, t), ComparisonDirection.LT)

    def iteration(into: Writer, given: list[Instruction]) -> Instruction:
        number, *elements = [into.get_tuple_element(given[0], i) for i in range(len(state) + 1)]
        following = body(into, number, elements)
        return into.add(opcodes.TUPLE, into.add(opcodes.ADD, number, into.scalar(1, t)), *following)

    computations = [
        new_computation(write, f"{name}_condition", [initial.shape], condition),
        new_computation(write, f"{name}_body", [initial.shape], iteration),
    ]
    looped = write.add(opcodes.WHILE, initial, computations=computations)
    return [write.get_tuple_element(looped, i + 1) for i in range(len(state))]
