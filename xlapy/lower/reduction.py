"""Lowers reductions to loops with carried values.

A reduction may be reordered if its reducer is a sum, product, extremum or similar operation, or selects as argmax does;
it then runs in vectors (`loops.reduction_order`). Any other reduction combines its elements one by one, in row-major
order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xlapy import opcodes
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import identity_of, monoid
from xlapy.hlo.selections import is_selection
from xlapy.loops import Affine, AxisKind, Builder, Value
from xlapy.loops.reduction_order import accumulator_vectors
from xlapy.lower.core import LOWERINGS, ComplexElement, Element, Index, Lowering, flatten_elements
from xlapy.lower.elementwise import select_element
from xlapy.lower.movement import element_where
from xlapy.lower.windows import span_positions, window_span
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.reduction import WindowAttributes

MAX_UNROLLED_WINDOW = 8
"""The largest number of elements along the innermost dimension of a window that are unrolled; more are a loop."""

Carried = Sequence[Value]


def unflatten_elements(values: Carried, like: Sequence[Element]) -> list[Element]:
    """The elements whose values `flatten_elements` returns. like: elements of the same types."""
    rest = iter(values)
    return [ComplexElement(next(rest), next(rest)) if isinstance(e, ComplexElement) else next(rest) for e in like]


def combine_elements(
    lowering: Lowering, computation: Computation, left: Sequence[Element], right: Sequence[Element]
) -> list[Element]:
    """Applies a reducer to two partial results."""
    result = lowering.apply(computation, [*left, *right])
    return result if isinstance(result, list) else [result]


def can_be_reordered(computation: Computation) -> bool:
    """Whether a reducer may combine partial results in any order."""
    return monoid(computation) is not None or is_selection(computation)


def reduce_elements(
    lowering: Lowering,
    extents: Sequence[int],
    initial: Sequence[Element],
    computation: Computation,
    values: Callable[[Index], Sequence[Element]],
    *,
    is_contiguous: bool = False,
) -> list[Element]:
    """Reduces `values(index)` over all indices below `extents`, starting from the initial elements.

    is_contiguous: the elements are contiguous in memory, so that one axis may run over all of them.
    """
    builder = lowering.builder
    has_parts = any(isinstance(element, ComplexElement) for element in initial)
    in_lanes = not builder.block.in_vector and not has_parts and can_be_reordered(computation)
    if in_lanes and is_contiguous:
        extents = (math.prod(extents),)

    def step(index: Index, carried: Carried) -> Carried:
        return flatten_elements(
            combine_elements(lowering, computation, unflatten_elements(carried, initial), values(index))
        )

    def nest(index: Index, carried: Carried) -> list[Value]:
        depth = len(index)
        if depth == len(extents):
            return list(step(index, carried))
        last_in_lanes = in_lanes and depth == len(extents) - 1
        options = _lanes(lowering, computation, initial, extents[-1]) if last_in_lanes else {}
        return builder.reduce(extents[depth], carried, lambda p, c: nest((*index, p), c), **options)

    return unflatten_elements(nest((), flatten_elements(initial)), initial)


def _lanes(lowering: Lowering, computation: Computation, initial: Sequence[Element], extent: int) -> dict[str, Any]:
    """The arguments of `Builder.reduce` for a reduction in vectors; {} if there are too few terms."""
    types = [value.type for value in flatten_elements(initial)]
    width = min(lowering.builder.lanes(t) for t in types)
    if extent < width:
        return {}

    def combine(left: Carried, right: Carried) -> Carried:
        return flatten_elements(
            combine_elements(
                lowering, computation, unflatten_elements(left, initial), unflatten_elements(right, initial)
            )
        )

    return {
        "kind": AxisKind.VECTOR,
        "width": width,
        "accumulators": accumulator_vectors(extent, width),
        "identities": neutral_elements(lowering.builder, computation, initial),
        "combine": combine,
    }


def neutral_elements(builder: Builder, computation: Computation, initial: Sequence[Element]) -> list[Value]:
    """Returns the initial values of additional lanes of a reducer that can be reordered."""
    values = flatten_elements(initial)
    if monoid(computation) is None:
        return values  # a selection may see its initial values any number of times
    return [builder.constant(values[0].type, identity_of(computation))]


# -- reduce


@LOWERINGS.rule(opcodes.REDUCE)
def reduce(lowering: Lowering, instruction: Instruction, index: Index) -> Any:
    """Loops over the reduced dimensions, hoisted to where the index is known. A single element is not combined."""
    count = len(instruction.operands) // 2
    operands, inits = instruction.operands[:count], instruction.operands[count:]
    reduced = sorted(instruction.dimensions)
    shape = operands[0].shape
    extents = [shape.dimensions[d] for d in reduced]

    def values(inner: Index) -> list[Element]:
        positions = _spread(lowering.builder, inner, extents)
        return [lowering.element(operand, insert_components(index, reduced, positions)) for operand in operands]

    with lowering.hoisted(index):
        if math.prod(extents) == 1:
            results = values((Affine(),) * len(reduced))
        else:
            initial = [lowering.element(init, ()) for init in inits]
            trailing = reduced == list(range(shape.rank - len(reduced), shape.rank))
            results = reduce_elements(lowering, extents, initial, instruction.to_apply, values, is_contiguous=trailing)
    return results if instruction.shape.is_tuple else results[0]


def _spread(builder: Builder, inner: Index, extents: Sequence[int]) -> Index:
    """The positions in several dimensions, given the position on one axis over all of them."""
    if len(inner) == len(extents):
        return inner
    positions: list[Affine] = []
    (position,) = inner
    for size in reversed(extents[1:]):
        positions.append(builder.remainder(position, size))
        position = builder.quotient(position, size)
    return (position, *reversed(positions))


def insert_components(index: Index, chosen: Sequence[int], positions: Index) -> Index:
    """Inserts positions into an index, as the components of the given dimensions, which are ascending."""
    rest, inner = iter(index), iter(positions)
    rank = len(index) + len(chosen)
    return tuple(next(inner) if d in chosen else next(rest) for d in range(rank))


# -- map


@LOWERINGS.rule(opcodes.MAP)
def map_(lowering: Lowering, instruction: Instruction, index: Index) -> Any:
    return lowering.apply(instruction.to_apply, [lowering.element(o, index) for o in instruction.operands])


# -- reduce-window


@LOWERINGS.rule(opcodes.REDUCE_WINDOW)
def reduce_window(lowering: Lowering, instruction: Instruction, index: Index) -> Any:
    """Loops over the window; padding and holes do not change the accumulator."""
    count = len(instruction.operands) // 2
    operands, inits = instruction.operands[:count], instruction.operands[count:]
    window: Window = instruction.attributes_as(WindowAttributes).window
    builder = lowering.builder
    if not index:
        results = [lowering.element(operand, ()) for operand in operands]
        return results if instruction.shape.is_tuple else results[0]
    initial = [lowering.element(init, ()) for init in inits]

    spans = [
        window_span(lowering, position, dimension, size)
        for position, dimension, size in zip(index, window.dimensions, operands[0].shape.dimensions, strict=True)
    ]
    innermost = max((d for d, size in enumerate(window.sizes) if size > 1), default=-1)

    def step(offsets: Index, carried: Carried) -> Carried:
        base_index, condition = span_positions(lowering, spans, offsets)
        before = unflatten_elements(carried, initial)
        values = [element_where(lowering, operand, base_index, condition) for operand in operands]
        after = combine_elements(lowering, instruction.to_apply, before, values)
        if condition is not None:
            after = [select_element(builder, condition, new, old) for new, old in zip(after, before, strict=True)]
        return flatten_elements(after)

    def nest(offsets: Index, carried: Carried) -> list[Value]:
        depth = len(offsets)
        if depth == len(spans):
            return list(step(offsets, carried))
        count = spans[depth].count
        if count == 1:
            return nest((*offsets, Affine()), carried)
        is_unrolled = depth == innermost and isinstance(count, int) and count <= MAX_UNROLLED_WINDOW
        kind = AxisKind.UNROLL if is_unrolled else AxisKind.SERIAL
        return builder.reduce(count, carried, lambda p, c: nest((*offsets, p), c), kind=kind)

    empty = not operands[0].shape.size
    results = initial if empty else unflatten_elements(nest((), flatten_elements(initial)), initial)
    return results if instruction.shape.is_tuple else results[0]
