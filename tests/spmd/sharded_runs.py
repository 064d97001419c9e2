"""Runs a program with shardings on several devices of one process and compares it with the unpartitioned program."""

from __future__ import annotations

from typing import Any

import numpy as np

import xlapy as xla
from xlapy.base.shape import Shape
from xlapy.hlo.module import Module
from xlapy.hlo.sharding import Sharding
from xlapy.hlo.verify import verify
from xlapy.spmd import partition
from xlapy.spmd.array_sharding import array_sharding_of
from xlapy.spmd.tiling import tile_count


def local_array(array: Any, shape: Shape, sharding: Sharding, device: int, devices: int) -> Any:
    """Returns the local array of a device."""
    for dimension, tiling in enumerate(array_sharding_of(sharding, shape, devices).tilings):
        if tiling is not None:
            array = np.split(array, tile_count(tiling), dimension)[tiling.tile_of(device)]
    return array


def collectives_of(module: Module) -> set[str]:
    """Returns the names of the collectives of a module."""
    return {i.op.name for i in module.instructions() if i.op.family == "collectives"} - {"partition-id"}


def run_sharded(text: str, devices: int, given: list[Any], platform: str = "interpreter") -> tuple[Module, list[Any]]:
    """Partitions a program, checks that each device has its tile of the result bit for bit, returns the program.

    Also returns the whole results. NaN of different signs and payloads count as equal.
    """
    whole, module = xla.parse_hlo(text), xla.parse_hlo(text)
    shapes = [parameter.shape for parameter in whole.entry_computation.parameters]
    leaves = [leaf for _, leaf in whole.entry_computation.root_instruction.shape.leaves()]
    is_array = whole.entry_computation.root_instruction.shape.is_array
    expected = xla.Client(platform).compile(whole)(*given)
    expected = [expected] if is_array else list(expected)
    shardings = partition(module, devices)
    verify(module)
    parts = [
        [local_array(*each, device, devices) for each in zip(given, shapes, shardings.parameters, strict=True)]
        for device in range(devices)
    ]
    partitioned = module.to_text()
    results = xla.Client(platform, devices=devices).compile(module, 1, devices).execute_sharded(parts)
    for device, result in enumerate(results):
        found = [result] if is_array else list(result)
        for got, want, leaf, sharding in zip(found, expected, leaves, shardings.results, strict=True):
            want_part = local_array(np.asarray(want), leaf, sharding, device, devices)
            np.testing.assert_array_equal(np.asarray(got), want_part, err_msg=f"device {device}\n{text}\n{partitioned}")
    return module, [np.asarray(each) for each in expected]
