"""Runs HLO text on the number of devices in its header: on the interpreter, or on the platform that a test sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xlapy as xla
from xlapy.runtime import Client, Executable

platform = "interpreter"

REDUCERS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
subtract { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] subtract(a, b) }
"""


def module(entry: str, replicas: int = 1, partitions: int = 1, computations: str = REDUCERS) -> str:
    """Returns a module with this entry; the word MANUAL in it stands for the sharding that XLA's partitioner does not
    change.
    """
    header = f"HloModule m, replica_count={replicas}, num_partitions={partitions}\n"
    manual = ", sharding={manual}" if partitions > 1 else ""
    return header + computations + f"ENTRY e {{ {entry.replace(' MANUAL', manual)} }}\n"


def make_client(devices: int = 1) -> Client:
    return Client(platform, devices=devices)


def compile_on_devices(text: str) -> Executable:
    config = xla.parse_hlo(text).config
    return make_client(config.replica_count * config.num_partitions).compile(text)


def run_on_devices(text: str, arguments: Sequence[Sequence[Any]] = ()) -> list[Any]:
    """Returns the result of each device, when all are ready; without `arguments`, the devices have none."""
    executable = compile_on_devices(text)
    results: list[Any] = xla.block_until_ready(
        executable.execute_sharded(arguments or [[] for _ in executable.devices])
    )
    return results


def lists(results: Sequence[Any]) -> list[Any]:
    """Converts results to nested lists, and keeps tuples."""
    return [tuple(lists(r)) if isinstance(r, tuple) else np.asarray(r).tolist() for r in results]


def floats(*values: Any) -> list[np.ndarray[Any, Any]]:
    return [np.array(value, np.float32) for value in values]
