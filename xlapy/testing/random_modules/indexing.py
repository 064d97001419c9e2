"""Op generators for gathers and scatters: batching dimensions, permuted and implicit index vectors, windows of any
size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xlapy.opcodes.indexing import GATHER, SCATTER, GatherAttributes, ScatterAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.testing.random_modules.generator import MAX_ELEMENTS, ModuleGenerator, OpGenerator, SkipDraw
from xlapy.testing.random_modules.scalar_computations import scatter_computation

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Numbers:
    """The dimension numbers that gathers and scatters share. `many` are the dimensions of the gathered slices or
    updates.
    """

    indices: Ints
    many: Ints
    offsets: Ints
    dropped: Ints
    index_map: Ints
    batching: Ints
    indices_batching: Ints
    vector_dim: int
    slice_sizes: Ints
    vectors: int
    """Returns the number of index vectors."""


def _numbers(generator: ModuleGenerator, operand: Sequence[int]) -> Numbers:
    rank = len(operand)
    batching = generator.random_subset(range(rank), 0.2)
    free = [d for d in range(rank) if d not in batching]
    dropped = generator.random_subset(free, 0.4)
    kept = [d for d in free if d not in dropped]
    slice_sizes = [min(1, size) for size in operand]
    for d in kept:
        slice_sizes[d] = generator.integer(0 if generator.chance(0.1) else min(1, operand[d]), operand[d])
    index_map = generator.random_subset(generator.shuffled(free), 0.7) or free[:1]
    positions = generator.shuffled(range(len(batching) + generator.integer(0, 2)))
    batch = [generator.size() for _ in positions]
    for index, d in zip(positions, batching, strict=False):
        batch[index] = operand[d]
    vector_dim = generator.integer(0, len(batch))
    indices = [*batch[:vector_dim], len(index_map), *batch[vector_dim:]]
    if len(index_map) == 1 and generator.chance(0.3):
        vector_dim, indices = len(batch), batch
    offsets = sorted(generator.shuffled(range(len(batch) + len(kept)))[: len(kept)])
    many = _merged(offsets, [slice_sizes[d] for d in kept], batch)
    if max(prod(indices), prod(many)) > MAX_ELEMENTS:
        raise SkipDraw
    indices_batching = tuple(p if p < vector_dim else p + 1 for p in positions[: len(batching)])
    return Numbers(
        tuple(indices),
        many,
        tuple(offsets),
        tuple(dropped),
        tuple(index_map),
        tuple(batching),
        indices_batching,
        vector_dim,
        tuple(slice_sizes),
        prod(batch),
    )


def _merged(offsets: Sequence[int], windows: Sequence[int], batch: Sequence[int]) -> Ints:
    of_windows, of_batch = iter(windows), iter(batch)
    return tuple(next(of_windows) if d in offsets else next(of_batch) for d in range(len(windows) + len(batch)))


def gather(generator: ModuleGenerator) -> None:
    """Adds a gather. If the operand has no elements, neither has the result: reading a missing element is
    unspecified."""
    operand = generator.array(lambda s: s.rank > 0, lambda _: True)
    n = _numbers(generator, operand.shape.dimensions)
    if not operand.shape.size and prod(n.many) > 0:
        raise SkipDraw
    attributes = GatherAttributes.make(
        offset_dims=n.offsets,
        collapsed_slice_dims=n.dropped,
        start_index_map=n.index_map,
        operand_batching_dims=n.batching,
        start_indices_batching_dims=n.indices_batching,
        index_vector_dim=n.vector_dim,
        slice_sizes=n.slice_sizes,
        indices_are_sorted=n.vectors < 2,
    )
    generator.add(GATHER, (operand, generator.indices(n.indices, max(operand.shape.dimensions))), attributes)


def scatter(generator: ModuleGenerator) -> None:
    """Adds a scatter. Sets indices_are_sorted and unique_indices only if there is at most one index vector."""
    first = generator.array(lambda s: s.rank > 0, lambda _: True)
    sizes = first.shape.dimensions
    n = _numbers(generator, sizes)
    t = first.shape.element_type
    types = [t, *generator.compatible_types(t, generator.choice((0, 0, 0, 1)))]
    operands = [first, *(generator.array_of(sizes, t) for t in types[1:])]
    updates = [generator.array_of(n.many, t) for t in types]
    attributes = ScatterAttributes.make(
        update_window_dims=n.offsets,
        inserted_window_dims=n.dropped,
        scatter_dims_to_operand_dims=n.index_map,
        input_batching_dims=n.batching,
        scatter_indices_batching_dims=n.indices_batching,
        index_vector_dim=n.vector_dim,
        indices_are_sorted=n.vectors < 2,
        unique_indices=n.vectors < 2,
    )
    indices = generator.indices(n.indices, max(sizes))
    generator.add(SCATTER, (*operands, indices, *updates), attributes, (scatter_computation(generator, types),))


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = ((GATHER, gather), (SCATTER, scatter))
