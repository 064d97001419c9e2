"""Steps of JAX programs over 8 devices have the same bits in one process and in several."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.processes import run_job

PROGRAM = Path(__file__).parent / "programs" / "steps.py"
STEPS = (
    "convolutions, training step",
    "data-parallel step",
    "data-parallel network",
    "tensor-parallel step",
    "transformer step, data and tensor",
    "fully sharded step",
    "experts, einsum dispatch",
    "experts, all-to-all",
    "ring attention",
)


@functools.cache
def digests(count: int, name: str) -> dict[int, str]:
    """What each device has after the steps of a program in a number of processes."""
    flags = f"--num_devices={8 // count} --collective_timeout=60"
    done = run_job(PROGRAM, count, str(count), name, timeout=240, JAX_PLATFORMS="xlapy", XLAPY_FLAGS=flags)
    found = {int(device): digest for device, digest in re.findall(r"device (\d): (\w{64})", done.output)}
    assert sorted(found) == list(range(8)), f"{done.output}\n{done.errors}"
    assert done.code == 0, done.errors
    return found


def test_steps_of_adam_over_data_and_model() -> None:
    assert digests(2, "adam") == digests(1, "adam")


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, 8])
def test_steps_of_adam_in_more_processes(count: int) -> None:
    assert digests(count, "adam") == digests(1, "adam")


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("name", STEPS)
def test_steps_of_benchmarks(name: str, count: int) -> None:
    assert digests(count, name) == digests(1, name)
