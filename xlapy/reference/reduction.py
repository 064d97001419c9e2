"""Definitions of reduce, reduce-window, select-and-scatter, map and scan.

A reducer takes the accumulators first, then as many new elements. Elements are combined one by one in row-major order,
starting from the initial values. Where XLA departs from the text of the specification, the definition says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.reduction import ScanAttributes, WindowAttributes
from xlapy.opcodes.requirements import elements_of
from xlapy.reference.convolution import base_position
from xlapy.reference.core import Function, Value, defines
from xlapy.reference.elements import Index, array_of_shape, indices, number, sizes_at, with_values

Elements = Sequence[Any]
"""One element of each operand."""


def in_tuple(value: Value) -> tuple[Value, ...]:
    """Returns the results of a computation as a tuple."""
    return value if isinstance(value, tuple) else (value,)


def fold(reducer: Function, inits: Elements, rows: Iterable[Elements]) -> Elements:
    """Combines rows of elements one after the other: reducer(reducer(inits, row 0), row 1) ..."""
    accumulators = inits
    for row in rows:
        accumulators = in_tuple(reducer(*accumulators, *map(np.asarray, row)))
    return accumulators


def tabulate_rows(instruction: Instruction, elements_at: Any) -> Value:
    """Returns the arrays of the result, or of its tuple, whose elements at each index are `elements_at(index)`."""
    shapes = elements_of(instruction.shape)
    results = [np.empty(shape.dimensions, shape.dtype) for shape in shapes]
    for index in indices(shapes[0].dimensions):
        for result, element in zip(results, elements_at(index), strict=True):
            result[index] = element
    return tuple(results) if instruction.shape.is_tuple else results[0]


def halves(operands: Sequence[Array]) -> tuple[Sequence[Array], Sequence[Array]]:
    """Splits the operands of a reduction into arrays and initial values."""
    return operands[: len(operands) // 2], operands[len(operands) // 2 :]


@defines(opcodes.REDUCE)
def reduce(instruction: Instruction, reducer: Function, *operands: Array) -> Value:
    """result[i] = fold of all elements that agree with i in the dimensions that are kept.

    Departure of XLA: if there is exactly one element per result, it is the result; the initial value is not used.
    """
    arrays, inits = halves(operands)

    def elements_at(index: Index) -> Elements:
        rows = reduced_rows(arrays, instruction.dimensions, index)
        return rows[0] if len(rows) == 1 else fold(reducer, inits, rows)

    return tabulate_rows(instruction, elements_at)


def reduced_rows(arrays: Sequence[Array], dimensions: Sequence[int], index: Index) -> list[Elements]:
    """Returns the rows that are reduced to the result at an index, in row-major order."""
    reduced = sorted(dimensions)
    kept = [d for d in range(arrays[0].ndim) if d not in reduced]
    base = with_values((0,) * arrays[0].ndim, kept, index)
    places = [with_values(base, reduced, position) for position in indices(sizes_at(arrays[0], reduced))]
    return [[array[place] for array in arrays] for place in places]


@defines(opcodes.REDUCE_WINDOW)
def reduce_window(instruction: Instruction, reducer: Function, *operands: Array) -> Value:
    """result[i] = fold of the elements under the window at position i.

    Departures of XLA: padding and holes are left out, while the text fills them with the initial value; and a window
    without dimensions returns the operand.
    """
    arrays, inits = halves(operands)
    window = instruction.attributes_as(WindowAttributes).window

    def elements_at(index: Index) -> Elements:
        if not index:
            return arrays
        places = elements_under(window, index, arrays[0].shape)
        return fold(reducer, inits, ([array[place] for array in arrays] for place in places))

    return tabulate_rows(instruction, elements_at)


def elements_under(window: Window, position: Index, sizes: Sequence[int]) -> Iterable[Index]:
    """Yields the elements of an array under the window at a position, in row-major order, without padding and holes."""
    reached: list[list[int]] = []
    for dimension, p, size in zip(window.dimensions, position, sizes, strict=True):
        places = (base_position(dimension, p, offset, size) for offset in range(dimension.size))
        reached.append([place for place in places if place is not None])
    for choice in indices([len(places) for places in reached]):
        yield tuple(places[k] for places, k in zip(reached, choice, strict=True))


@defines(opcodes.SELECT_AND_SCATTER)
def select_and_scatter(
    instruction: Instruction, select: Function, scatter: Function, operand: Array, source: Array, init: Array
) -> Array:
    """Each window selects one element, never padding; source[i] is combined into the result at its position.

    The element selected so far stays selected if select(selected, next) is true. Windows are in row-major order.
    """
    window = instruction.attributes_as(WindowAttributes).window
    result = array_of_shape(instruction.shape, lambda _: init[()])
    for position in indices(source.shape):
        selected: Index | None = None
        for place in elements_under(window, position, operand.shape):
            if selected is None or not number(select(np.asarray(operand[selected]), np.asarray(operand[place]))):
                selected = place
        if selected is not None:
            result[selected] = scatter(np.asarray(result[selected]), np.asarray(source[position]))
    return result


@defines(opcodes.MAP)
def map_(instruction: Instruction, function: Function, *operands: Array) -> Array:
    """result[i] = function(operand 0[i], operand 1[i], ...); a scalar is used at every index."""

    def element_at(index: Index) -> Any:
        return function(*(np.asarray(operand[index] if operand.ndim else operand) for operand in operands))

    return array_of_shape(instruction.shape, element_at)


@defines(opcodes.SCAN)
def scan(instruction: Instruction, body: Function, *operands: Value) -> Value:
    """(outputs, carries) = body(slices of the inputs, carries), slice after slice along a dimension, or backwards.

    An output is the slices that the body returns, in the same positions.
    """
    attributes = instruction.attributes_as(ScanAttributes)
    count, dimension = attributes.num_carries, instruction.dimensions[0]
    inputs, carries = operands[: len(operands) - count], operands[len(operands) - count :]
    shapes = elements_of(instruction.shape)
    outputs = [np.empty(shape.dimensions, shape.dtype) for shape in shapes[: len(shapes) - count]]
    positions = range((*inputs, *outputs)[0].shape[dimension])
    for position in reversed(positions) if attributes.is_reverse else positions:
        returned = in_tuple(body(*(slice_at(array, dimension, position) for array in inputs), *carries))
        for output, part in zip(outputs, returned, strict=False):
            for index in indices(part.shape):
                output[(*index[:dimension], position, *index[dimension:])] = part[index]
        carries = returned[len(outputs) :]
    results = (*outputs, *carries)
    return results if instruction.shape.is_tuple else results[0]


def slice_at(array: Array, dimension: int, position: int) -> Array:
    """Returns the slice at a position along a dimension, which it does not have."""
    result = np.empty([size for d, size in enumerate(array.shape) if d != dimension], array.dtype)
    for index in indices(result.shape):
        result[index] = array[(*index[:dimension], position, *index[dimension:])]
    return result
