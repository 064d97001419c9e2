"""Generates random valid gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


def sizes(dimensions: Sequence[int]) -> str:
    return ",".join(map(str, dimensions))


def braces(values: Sequence[int]) -> str:
    return f"{{{sizes(values)}}}"


@dataclass(frozen=True)
class Case:
    """The dimension numbers of a gather and a scatter; `many` is the gather's result and the scatter's updates."""

    operand: list[int]
    indices: list[int]
    many: list[int]
    offsets: list[int]
    dropped: list[int]
    index_map: list[int]
    batching: list[int]
    indices_batching: list[int]
    vector_dim: int
    slice_sizes: list[int]

    def gather(self, t: str, index_type: str) -> str:
        pairs = (
            f"operand_batching_dims={braces(self.batching)}, "
            f"start_indices_batching_dims={braces(self.indices_batching)}, "
        )
        return f"""HloModule m
            ENTRY e {{
              p = {t}[{sizes(self.operand)}] parameter(0)
              i = {index_type}[{sizes(self.indices)}] parameter(1)
              ROOT r = {t}[{sizes(self.many)}] gather(p, i), offset_dims={braces(self.offsets)},
                collapsed_slice_dims={braces(self.dropped)}, start_index_map={braces(self.index_map)},
                {pairs if self.batching else ""}index_vector_dim={self.vector_dim},
                slice_sizes={braces(self.slice_sizes)}
            }}"""

    def scatter(self, t: str, index_type: str, body: str) -> str:
        """Returns the scatter's text. `body` defines the root of the update computation from `a`, the current value,
        and `b`, the update.
        """
        pairs = (
            f"input_batching_dims={braces(self.batching)}, "
            f"scatter_indices_batching_dims={braces(self.indices_batching)}, "
        )
        return f"""HloModule m
            f {{
              a = {t}[] parameter(0)
              b = {t}[] parameter(1)
              ROOT r = {t}[] {body}
            }}
            ENTRY e {{
              p = {t}[{sizes(self.operand)}] parameter(0)
              i = {index_type}[{sizes(self.indices)}] parameter(1)
              u = {t}[{sizes(self.many)}] parameter(2)
              ROOT s = {t}[{sizes(self.operand)}] scatter(p, i, u), update_window_dims={braces(self.offsets)},
                inserted_window_dims={braces(self.dropped)}, scatter_dims_to_operand_dims={braces(self.index_map)},
                {pairs if self.batching else ""}index_vector_dim={self.vector_dim}, to_apply=f
            }}"""


def random_case(rng: np.random.Generator) -> Case:
    """Generates a case: operands of rank 1 to 4; whole, partial and empty windows; batching, implicit and permuted
    index vectors.
    """
    rank = int(rng.integers(1, 5))
    operand = [int(rng.integers(1, 5)) for _ in range(rank)]
    batching = sorted(int(d) for d in range(rank) if rng.random() < 0.2)
    free = [d for d in range(rank) if d not in batching]
    dropped = [d for d in free if rng.random() < 0.4]
    kept = [d for d in free if d not in dropped]
    slice_sizes = [1] * rank
    for d in kept:
        slice_sizes[d] = int(rng.integers(0 if rng.random() < 0.1 else 1, operand[d] + 1))
    index_map = [int(d) for d in rng.permutation(free) if rng.random() < 0.7]
    if not index_map:  # XLA:CPU changes the result of scatters without index vectors when it simplifies them
        index_map = [int(d) for d in free[:1]]
    extra = int(rng.integers(0 if index_map else 1, 3)) if index_map else 0
    batch = [int(rng.integers(1, 4)) for _ in range(len(batching) + extra)]
    places = [int(p) for p in rng.permutation(len(batch))[: len(batching)]]
    for place, d in zip(places, batching, strict=True):
        batch[place] = operand[d]
    vector_dim = int(rng.integers(0, len(batch) + 1))
    indices = [*batch[:vector_dim], len(index_map), *batch[vector_dim:]]
    if len(index_map) == 1 and rng.random() < 0.3:
        vector_dim, indices = len(batch), batch
    many_rank = len(batch) + len(kept)
    offsets = sorted(int(d) for d in rng.permutation(many_rank)[: len(kept)])
    batches, windows = iter(batch), iter(kept)
    many = [slice_sizes[next(windows)] if d in offsets else next(batches) for d in range(many_rank)]
    indices_batching = [p if p < vector_dim else p + 1 for p in places]
    return Case(
        operand, indices, many, offsets, dropped, index_map, batching, indices_batching, vector_dim, slice_sizes
    )
