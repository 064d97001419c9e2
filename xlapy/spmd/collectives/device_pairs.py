"""The source and target devices of collective-permutes.

Pairs are computed from the tilings by which devices are arranged, all at once, and kept: permutes of equal form share
one tuple of pairs, whatever their arrays are.

Responsible for pairs of devices. Does not depend on what is sent.

Worked example: on 2 x 4 devices, rows of 4 hold the tiles 0 to 3 each. Tile 1 receives from tile 0, tile 2 from tile 1,
tile 3 from tile 2: the pairs are (0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from xlapy.opcodes.attributes.permutations import Permutation
from xlapy.opcodes.attributes.replica_groups import ReplicaGroups
from xlapy.spmd.tiling import Tiling, replica_groups_along, tile_numbers


def pairs_of_tiles(tiling: Tiling, others: Iterable[Tiling | None], sources: np.ndarray[Any, Any]) -> Permutation:
    """Returns the pairs with which each tile receives from `sources[tile]`; from none if that is negative.

    others: all other tilings in which the contents of devices differ.
    """
    given = tuple([other for other in others if other is not None])
    return _pairs_of_tiles(tiling, given, sources.astype(np.int64).tobytes())


@functools.lru_cache(maxsize=32)
def _pairs_of_tiles(tiling: Tiling, others: tuple[Tiling, ...], sources: bytes) -> Permutation:
    source_tiles = np.frombuffer(sources, np.int64)
    target_tiles = np.flatnonzero(source_tiles >= 0)
    return _pairs_of_ranks(replica_groups_along(tiling, others), source_tiles[target_tiles], target_tiles)


@functools.lru_cache(maxsize=16)
def pairs_in_groups(groups: ReplicaGroups, moves: tuple[tuple[int, int], ...]) -> Permutation:
    """Returns the pairs with which members of each group send to each other.

    moves: the ranks in the group of the sender and of the receiver; each rank sends and receives at most once.
    """
    sources, targets = np.asarray(moves, np.int64).reshape(-1, 2).T
    return _pairs_of_ranks(groups, sources, targets)


def _pairs_of_ranks(groups: ReplicaGroups, sources: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> Permutation:
    devices = np.asarray(groups.groups)
    return _sorted_pairs(devices[:, sources].ravel(), devices[:, targets].ravel())


@functools.lru_cache(maxsize=32)
def pairs_of_contents(before: tuple[Tiling, ...], after: tuple[Tiling, ...]) -> Permutation:
    """Returns the pairs of a permutation after which each device holds what the tilings in `after` identify.

    before: the tilings that identify what each device holds before. A device that holds its contents already is paired
    with itself.
    """
    old, new = _contents(before), _contents(after)
    devices = np.arange(len(old))
    is_kept = old == new
    moved = devices[~is_kept]
    sources = moved[np.argsort(old[moved], kind="stable")]
    targets = moved[np.argsort(new[moved], kind="stable")]
    kept = devices[is_kept]
    return _sorted_pairs(np.concatenate([kept, sources]), np.concatenate([kept, targets]))


def _contents(tilings: Iterable[Tiling]) -> np.ndarray[Any, Any]:
    """Returns one number for each device's combination of tiles."""
    total: Any = 0
    for tiling in tilings:
        total = total * tiling.tiles + tile_numbers(tiling)
    return np.asarray(total)


def _sorted_pairs(sources: np.ndarray[Any, Any], targets: np.ndarray[Any, Any]) -> Permutation:
    order = np.argsort(sources)
    return Permutation.make(sources[order].tolist(), targets[order].tolist())
