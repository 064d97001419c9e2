"""Random programs give the same results on eight devices as on one."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.spmd.random_programs import random_program
from tests.spmd.sharded_runs import local_array
from xlapy.hlo.verify import verify
from xlapy.spmd import partition

DEVICES = 8


def check(text: str) -> None:
    whole, module = xla.parse_hlo(text), xla.parse_hlo(text)
    shapes = [parameter.shape for parameter in whole.entry_computation.parameters]
    chance = np.random.default_rng(0)
    given = [chance.integers(-5, 6, shape.dimensions).astype(np.int32) for shape in shapes]
    expected = xla.Client("interpreter").compile(whole)(*given)
    leaves = [leaf for _, leaf in whole.entry_computation.root_instruction.shape.leaves()]
    shardings = partition(module, DEVICES)
    verify(module)
    parts = [
        [local_array(*each, device, DEVICES) for each in zip(given, shapes, shardings.parameters, strict=True)]
        for device in range(DEVICES)
    ]
    results = xla.Client("interpreter", devices=DEVICES).compile(module, 1, DEVICES).execute_sharded(parts)
    for device, result in enumerate(results):
        for got, wanted, leaf, sharding in zip(result, expected, leaves, shardings.results, strict=True):
            tile = local_array(np.asarray(wanted), leaf, sharding, device, DEVICES)
            np.testing.assert_array_equal(np.asarray(got), tile, f"device {device}\n{text}")


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    check(random_program(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1600, 100))
def test_many_random_programs(first: int) -> None:
    for seed in range(first, first + 100):
        check(random_program(seed, 20))
