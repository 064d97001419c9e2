"""Op generators for data movement: every attribute form, sizes of 0, negative padding, any positions."""

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
from xlapy.testing.random_modules.generator import MAX_ELEMENTS, ModuleGenerator, OpGenerator, SkipDraw


def _operand(generator: ModuleGenerator, min_rank: int = 0) -> Instruction:
    return generator.array(lambda _: True, lambda _: True, min_rank)


def broadcast(generator: ModuleGenerator) -> None:
    """Adds a broadcast with new dimensions anywhere and the operand's dimensions in any order."""
    operand = _operand(generator)
    rank = operand.shape.rank + generator.integer(0, 2)
    positions = generator.shuffled(range(rank))[: operand.shape.rank]
    sizes = [generator.size() for _ in range(rank)]
    for size, index in zip(operand.shape.dimensions, positions, strict=True):
        sizes[index] = size
    if prod(sizes) > MAX_ELEMENTS:
        raise SkipDraw
    shape = Shape.array(operand.shape.element_type, sizes)
    generator.add(opcodes.BROADCAST, (operand,), BroadcastAttributes.make(dimensions=tuple(positions)), shape=shape)


def factored(generator: ModuleGenerator, count: int) -> list[int]:
    """Returns sizes, including ones, whose product is `count`, in random order."""
    if count == 0:
        return generator.shuffled([0, *(generator.positive(4) for _ in range(generator.integer(0, 3)))])
    sizes: list[int] = []
    while count > 1:
        divisors = [d for d in range(2, count + 1) if count % d == 0]
        sizes.append(generator.choice(divisors))
        count //= sizes[-1]
    return generator.shuffled([*sizes, *[1] * generator.choice((0, 0, 1, 2))])


def reshape(generator: ModuleGenerator) -> None:
    operand = _operand(generator)
    shape = Shape.array(operand.shape.element_type, factored(generator, operand.shape.size))
    generator.add(opcodes.RESHAPE, (operand,), ReshapeAttributes.make(), shape=shape)


def bitcast(generator: ModuleGenerator) -> None:
    """Adds a bitcast between row-major shapes with the same element type, which is a reshape."""
    operand = generator.array(lambda s: s == s.with_default_layout(), lambda _: True)
    shape = Shape.array(operand.shape.element_type, factored(generator, operand.shape.size))
    generator.add(opcodes.BITCAST, (operand,), shape=shape)


def transpose(generator: ModuleGenerator) -> None:
    operand = _operand(generator)
    permutation = tuple(generator.shuffled(range(operand.shape.rank)))
    generator.add(opcodes.TRANSPOSE, (operand,), DimensionsAttributes.make(dimensions=permutation))


def reverse(generator: ModuleGenerator) -> None:
    operand = _operand(generator)
    dimensions = generator.shuffled(generator.random_subset(range(operand.shape.rank)))
    generator.add(opcodes.REVERSE, (operand,), DimensionsAttributes.make(dimensions=tuple(dimensions)))


def concatenate(generator: ModuleGenerator) -> None:
    first = _operand(generator, 1)
    dimension = generator.integer(0, first.shape.rank - 1)
    before, after = first.shape.dimensions[:dimension], first.shape.dimensions[dimension + 1 :]
    sizes = [generator.size() for _ in range(generator.integer(0, 3))]
    if prod((*before, *after)) * (first.shape.dimensions[dimension] + sum(sizes)) > MAX_ELEMENTS:
        raise SkipDraw
    others = [generator.array_of((*before, size, *after), first.shape.element_type) for size in sizes]
    generator.add(
        opcodes.CONCATENATE, generator.shuffled([first, *others]), DimensionAttributes.make(dimension=dimension)
    )


def slice_(generator: ModuleGenerator) -> None:
    operand = _operand(generator)
    starts, limits, strides = [], [], []
    for size in operand.shape.dimensions:
        low, high = sorted((generator.integer(0, size), generator.integer(0, size)))
        starts.append(low if generator.chance(0.6) else 0)
        limits.append(high if generator.chance(0.6) else size)
        strides.append(generator.choice((1, 1, 1, 2, 3)))
    ranges = SliceRanges(tuple(starts), tuple(limits), tuple(strides))
    generator.add(opcodes.SLICE, (operand,), SliceAttributes.make(ranges=ranges))


def pad(generator: ModuleGenerator) -> None:
    """Adds a pad of an array of rank 1 or more. XLA cannot parse the padding of a scalar."""
    operand = _operand(generator, 1)
    entries: list[PaddingDimension] = []
    for size in operand.shape.dimensions:
        entry = PaddingDimension(generator.integer(-2, 3), generator.integer(-2, 3), generator.choice((0, 0, 0, 1, 2)))
        entries.append(entry if entry.output_size(size) >= 0 else PaddingDimension(0, 0))
    config = PaddingConfig(tuple(entries))
    sizes = zip(entries, operand.shape.dimensions, strict=True)
    if prod(entry.output_size(size) for entry, size in sizes) > MAX_ELEMENTS:
        raise SkipDraw
    value = generator.array_of((), operand.shape.element_type)
    generator.add(opcodes.PAD, (operand, value), PadAttributes.make(padding=config))


def _positions(generator: ModuleGenerator, dimensions: Sequence[int]) -> list[Instruction]:
    """Returns one scalar per dimension, all of the same integer type. They are often out of range."""
    if not dimensions:
        return []
    first = generator.indices((), max(dimensions))
    t: PrimitiveType = first.shape.element_type
    return [first, *(generator.array_of((), t) for _ in dimensions[1:])]


def dynamic_slice(generator: ModuleGenerator) -> None:
    operand = _operand(generator, 1)
    sizes = tuple(
        generator.integer(0 if generator.chance(0.1) else min(1, size), size) for size in operand.shape.dimensions
    )
    positions = _positions(generator, operand.shape.dimensions)
    generator.add(opcodes.DYNAMIC_SLICE, (operand, *positions), DynamicSliceAttributes.make(dynamic_slice_sizes=sizes))


def dynamic_update_slice(generator: ModuleGenerator) -> None:
    operand = _operand(generator, 1)
    sizes = [generator.integer(0 if generator.chance(0.1) else min(1, size), size) for size in operand.shape.dimensions]
    update = generator.array_of(sizes, operand.shape.element_type)
    generator.add(opcodes.DYNAMIC_UPDATE_SLICE, (operand, update, *_positions(generator, operand.shape.dimensions)))


def copy(generator: ModuleGenerator) -> None:
    """Adds a copy, often with another layout."""
    operand = _operand(generator)
    order = generator.shuffled(range(operand.shape.rank))
    generator.add(opcodes.COPY, (operand,), shape=operand.shape.with_layout(Layout(order)))


def shuffle(generator: ModuleGenerator) -> None:
    """Adds rotations by any distance, or permutations by coordinates along one or two dimensions, shared or not."""
    operand = generator.array(lambda s: 0 not in s.dimensions, lambda _: True, 1)
    sizes = operand.shape.dimensions
    chosen = tuple(generator.shuffled(range(len(sizes)))[: generator.choice((1, 1, 2))])
    if generator.chance(0.5):
        shifts = tuple(generator.integer(-2 * sizes[d], 2 * sizes[d]) for d in chosen)
        attributes = ShuffleAttributes.make(dimensions=chosen, mode=ShuffleMode.ROTATE, shifts=shifts)
    else:
        shared = tuple(1 if generator.chance(0.2) else size for size in sizes)
        positions = [generator.rng.integers(0, sizes[d], shared) for d in chosen]
        indices = positions[0] if len(chosen) == 1 else np.stack(positions, axis=-1)
        literal = Literal.of(indices.astype(generator.choice((np.int32, np.int64))))
        attributes = ShuffleAttributes.make(dimensions=chosen, mode=ShuffleMode.PERMUTE, indices=literal)
    generator.add(opcodes.SHUFFLE, (operand,), attributes)


def get_dimension_size(generator: ModuleGenerator) -> None:
    operand = _operand(generator, 1)
    dimension = generator.integer(0, operand.shape.rank - 1)
    generator.add(opcodes.GET_DIMENSION_SIZE, (operand,), DimensionAttributes.make(dimension=dimension))


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = (
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
