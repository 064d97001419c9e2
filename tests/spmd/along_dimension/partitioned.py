"""Runs a program partitioned and whole, and compares the results."""

from __future__ import annotations

from typing import Any

import numpy as np

import xlapy as xla
from tests.spmd.sharded_runs import local_array
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.spmd import partition


def collectives(module: Module) -> list[str]:
    """Returns the names of the collectives of a module that send data."""
    return sorted({i.op.name for i in module.instructions() if i.op.family == "collectives" and i.operands})


def largest_all_gather(module: Module) -> int:
    """Returns the number of elements of the largest result of an all-gather; 0 without one."""
    gathers = [i for i in module.instructions() if i.op.name == "all-gather"]  # each has one result or several
    sizes = [leaf.size for gather in gathers for _, leaf in gather.shape.leaves()]
    return max(sizes, default=0)


def check_partitioned(
    text: str,
    devices: int,
    given: list[Any],
    platform: str = "interpreter",
    tolerance: float | None = None,
    whole: str = "",
) -> Module:
    """Checks that local results are the tiles of the whole result; returns the partitioned module.

    tolerance: relative and absolute; None if results have to have the same bits. whole: another program to compare
    with, if the given one has manual regions.
    """
    unpartitioned, module = xla.parse_hlo(whole or text), xla.parse_hlo(text)
    shapes = [parameter.shape for parameter in unpartitioned.entry_computation.parameters]
    leaves = [leaf for _, leaf in unpartitioned.entry_computation.root_instruction.shape.leaves()]
    expected = xla.Client(platform).compile(unpartitioned)(*given)
    expected = list(expected) if len(leaves) > 1 else [expected]
    shardings = partition(module, devices)
    verify(module)
    partitioned = xla.parse_hlo(module.to_text())
    parts = [
        [local_array(*each, device, devices) for each in zip(given, shapes, shardings.parameters, strict=True)]
        for device in range(devices)
    ]
    results = xla.Client(platform, devices=devices).compile(module, 1, devices).execute_sharded(parts)
    for device, result in enumerate(results):
        found = list(result) if len(leaves) > 1 else [result]
        for got, want, leaf, sharding in zip(found, expected, leaves, shardings.results, strict=True):
            part = local_array(np.asarray(want), leaf, sharding, device, devices)
            if tolerance is None:
                assert np.asarray(got).tobytes() == np.ascontiguousarray(part).tobytes()
            else:
                np.testing.assert_allclose(np.asarray(got), part, rtol=tolerance, atol=tolerance)
    return partitioned
