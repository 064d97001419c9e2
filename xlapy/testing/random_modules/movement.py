"""Makers of instructions that move elements: every attribute form, sizes of 0, negative padding, any positions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.base.layout import Layout
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension, SliceRanges
from xlapy.opcodes.movement import (
    BroadcastAttributes,
    DimensionAttributes,
    DimensionsAttributes,
    DynamicSliceAttributes,
    PadAttributes,
    ReshapeAttributes,
    ShuffleAttributes,
    ShuffleMode,
    SliceAttributes,
)
from xlapy.opcodes.registry import OpDef
from xlapy.testing.random_modules.draft import MOST_ELEMENTS, Draft, Maker, Unsuitable


def _operand(draft: Draft, least_rank: int = 0) -> Instruction:
    return draft.array(lambda _: True, lambda _: True, least_rank)


def broadcast(draft: Draft) -> None:
    """New dimensions anywhere, and those of the operand in any order."""
    operand = _operand(draft)
    rank = operand.shape.rank + draft.integer(0, 2)
    places = draft.shuffled(range(rank))[: operand.shape.rank]
    sizes = [draft.size() for _ in range(rank)]
    for size, place in zip(operand.shape.dimensions, places, strict=True):
        sizes[place] = size
    if prod(sizes) > MOST_ELEMENTS:
        raise Unsuitable
    shape = Shape.array(operand.shape.element_type, sizes)
    draft.add(opcodes.BROADCAST, (operand,), BroadcastAttributes.make(dimensions=tuple(places)), shape=shape)


def factored(draft: Draft, count: int) -> list[int]:
    """Sizes whose product is `count`, in random order, with ones among them."""
    if count == 0:
        return draft.shuffled([0, *(draft.positive(4) for _ in range(draft.integer(0, 3)))])
    sizes: list[int] = []
    while count > 1:
        divisors = [d for d in range(2, count + 1) if count % d == 0]
        sizes.append(draft.choice(divisors))
        count //= sizes[-1]
    return draft.shuffled([*sizes, *[1] * draft.choice((0, 0, 1, 2))])


def reshape(draft: Draft) -> None:
    operand = _operand(draft)
    shape = Shape.array(operand.shape.element_type, factored(draft, operand.shape.size))
    draft.add(opcodes.RESHAPE, (operand,), ReshapeAttributes.make(), shape=shape)


def bitcast(draft: Draft) -> None:
    """Between row-major shapes of one element type: a reshape."""
    operand = draft.array(lambda s: s == s.with_default_layout(), lambda _: True)
    shape = Shape.array(operand.shape.element_type, factored(draft, operand.shape.size))
    draft.add(opcodes.BITCAST, (operand,), shape=shape)


def transpose(draft: Draft) -> None:
    operand = _operand(draft)
    permutation = tuple(draft.shuffled(range(operand.shape.rank)))
    draft.add(opcodes.TRANSPOSE, (operand,), DimensionsAttributes.make(dimensions=permutation))


def reverse(draft: Draft) -> None:
    operand = _operand(draft)
    dimensions = draft.shuffled(draft.some(range(operand.shape.rank)))
    draft.add(opcodes.REVERSE, (operand,), DimensionsAttributes.make(dimensions=tuple(dimensions)))


def concatenate(draft: Draft) -> None:
    first = _operand(draft, 1)
    dimension = draft.integer(0, first.shape.rank - 1)
    before, after = first.shape.dimensions[:dimension], first.shape.dimensions[dimension + 1 :]
    sizes = [draft.size() for _ in range(draft.integer(0, 3))]
    if prod((*before, *after)) * (first.shape.dimensions[dimension] + sum(sizes)) > MOST_ELEMENTS:
        raise Unsuitable
    others = [draft.values((*before, size, *after), first.shape.element_type) for size in sizes]
    draft.add(opcodes.CONCATENATE, draft.shuffled([first, *others]), DimensionAttributes.make(dimension=dimension))


def slice_(draft: Draft) -> None:
    operand = _operand(draft)
    starts, limits, strides = [], [], []
    for size in operand.shape.dimensions:
        low, high = sorted((draft.integer(0, size), draft.integer(0, size)))
        starts.append(low if draft.chance(0.6) else 0)
        limits.append(high if draft.chance(0.6) else size)
        strides.append(draft.choice((1, 1, 1, 2, 3)))
    ranges = SliceRanges(tuple(starts), tuple(limits), tuple(strides))
    draft.add(opcodes.SLICE, (operand,), SliceAttributes.make(ranges=ranges))


def pad(draft: Draft) -> None:
    """Of rank 1 or more: without dimensions there is no text that XLA reads."""
    operand = _operand(draft, 1)
    entries: list[PaddingDimension] = []
    for size in operand.shape.dimensions:
        entry = PaddingDimension(draft.integer(-2, 3), draft.integer(-2, 3), draft.choice((0, 0, 0, 1, 2)))
        entries.append(entry if entry.output_size(size) >= 0 else PaddingDimension(0, 0))
    config = PaddingConfig(tuple(entries))
    sizes = zip(entries, operand.shape.dimensions, strict=True)
    if prod(entry.output_size(size) for entry, size in sizes) > MOST_ELEMENTS:
        raise Unsuitable
    value = draft.values((), operand.shape.element_type)
    draft.add(opcodes.PAD, (operand, value), PadAttributes.make(padding=config))


def _positions(draft: Draft, dimensions: Sequence[int]) -> list[Instruction]:
    """One scalar a dimension, all of one integer type, often out of range."""
    if not dimensions:
        return []
    first = draft.indices((), max(dimensions))
    t: PrimitiveType = first.shape.element_type
    return [first, *(draft.values((), t) for _ in dimensions[1:])]


def dynamic_slice(draft: Draft) -> None:
    operand = _operand(draft, 1)
    sizes = tuple(draft.integer(0 if draft.chance(0.1) else min(1, size), size) for size in operand.shape.dimensions)
    positions = _positions(draft, operand.shape.dimensions)
    draft.add(opcodes.DYNAMIC_SLICE, (operand, *positions), DynamicSliceAttributes.make(dynamic_slice_sizes=sizes))


def dynamic_update_slice(draft: Draft) -> None:
    operand = _operand(draft, 1)
    sizes = [draft.integer(0 if draft.chance(0.1) else min(1, size), size) for size in operand.shape.dimensions]
    update = draft.values(sizes, operand.shape.element_type)
    draft.add(opcodes.DYNAMIC_UPDATE_SLICE, (operand, update, *_positions(draft, operand.shape.dimensions)))


def copy(draft: Draft) -> None:
    """Often into another layout."""
    operand = _operand(draft)
    order = draft.shuffled(range(operand.shape.rank))
    draft.add(opcodes.COPY, (operand,), shape=operand.shape.with_layout(Layout(order)))


def shuffle(draft: Draft) -> None:
    """Rotations by any distance, and permutations by coordinates in one or two dimensions, shared or not."""
    operand = draft.array(lambda s: 0 not in s.dimensions, lambda _: True, 1)
    sizes = operand.shape.dimensions
    chosen = tuple(draft.shuffled(range(len(sizes)))[: draft.choice((1, 1, 2))])
    if draft.chance(0.5):
        shifts = tuple(draft.integer(-2 * sizes[d], 2 * sizes[d]) for d in chosen)
        attributes = ShuffleAttributes.make(dimensions=chosen, mode=ShuffleMode.ROTATE, shifts=shifts)
    else:
        shared = tuple(1 if draft.chance(0.2) else size for size in sizes)
        places = [draft.rng.integers(0, sizes[d], shared) for d in chosen]
        indices = places[0] if len(chosen) == 1 else np.stack(places, axis=-1)
        literal = Literal.of(indices.astype(draft.choice((np.int32, np.int64))))
        attributes = ShuffleAttributes.make(dimensions=chosen, mode=ShuffleMode.PERMUTE, indices=literal)
    draft.add(opcodes.SHUFFLE, (operand,), attributes)


def get_dimension_size(draft: Draft) -> None:
    operand = _operand(draft, 1)
    dimension = draft.integer(0, operand.shape.rank - 1)
    draft.add(opcodes.GET_DIMENSION_SIZE, (operand,), DimensionAttributes.make(dimension=dimension))


MAKERS: tuple[tuple[OpDef, Maker], ...] = (
    (opcodes.BROADCAST, broadcast),
    (opcodes.BROADCAST, broadcast),
    (opcodes.RESHAPE, reshape),
    (opcodes.RESHAPE, reshape),
    (opcodes.BITCAST, bitcast),
    (opcodes.TRANSPOSE, transpose),
    (opcodes.TRANSPOSE, transpose),
    (opcodes.REVERSE, reverse),
    (opcodes.CONCATENATE, concatenate),
    (opcodes.CONCATENATE, concatenate),
    (opcodes.SLICE, slice_),
    (opcodes.SLICE, slice_),
    (opcodes.PAD, pad),
    (opcodes.PAD, pad),
    (opcodes.DYNAMIC_SLICE, dynamic_slice),
    (opcodes.DYNAMIC_UPDATE_SLICE, dynamic_update_slice),
    (opcodes.COPY, copy),
    (opcodes.SHUFFLE, shuffle),
    (opcodes.GET_DIMENSION_SIZE, get_dimension_size),
)
