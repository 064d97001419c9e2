"""`xlapy run --compare single`: compares the results of a run with those of one process, bit for bit.

Process 0 runs the program on all devices, with the same arguments. Processes exchange digests of their results, and the
arrays that differ only.

Responsible for the comparison and its report. Does not depend on how programs run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import numpy as np

from xlapy.runtime import Client, Executable
from xlapy.tools.run.devices import name_of
from xlapy.tools.run.processes import RunProcesses

Arrays = Sequence[np.ndarray[Any, Any]]


def compare_with_single_process(
    processes: RunProcesses,
    executable: Executable,
    results: Mapping[int, Arrays],
    run_alone: Callable[[Executable], Sequence[Arrays]],
) -> int:
    """Compares results with those of one process, and prints which differ. Returns the exit code of all processes: 1 if
    some do.

    results: the arrays of each device of this process, by its logical number. run_alone: runs an executable on all
    devices in one process; returns the arrays of each.
    """
    expected = processes.together(
        "the run in one process", lambda: run_alone(_single_process(executable)) if processes.prints else None
    )
    digests = {number: list(map(_digest, arrays)) for number, arrays in results.items()}
    gathered = processes.gather(digests, "the results of the run")
    owners = {number: process for process, one in enumerate(gathered) for number in one}
    differing: list[tuple[int, int]] = []
    if expected is not None:
        found = {number: row for one in gathered for number, row in one.items()}
        alone = {number: list(map(_digest, row)) for number, row in enumerate(expected)}
        differing = [
            (number, leaf)
            for number, row in sorted(alone.items())
            for leaf, digest in enumerate(row)
            if found[number][leaf] != digest
        ]
    differing = processes.gather(differing, "which results differ")[0]
    own = {(number, leaf): results[number][leaf] for number, leaf in differing if number in results}
    arrays = {key: array for one in processes.gather(own, "the results that differ") for key, array in one.items()}
    if expected is not None:
        count = f"{len(owners)} device{'' if len(owners) == 1 else 's'} in {processes.count} process"
        where = f"the results of {count}{'' if processes.count == 1 else 'es'}"
        for number, leaf in differing:
            name = f"{name_of(executable, number)}, process {owners[number]}: result {leaf}"
            click.echo(f"{name}: {_difference(arrays[number, leaf], expected[number][leaf])}")
        click.echo(f"{where} {'differ from' if differing else 'have the same bits as'} those of one process")
    return 1 if differing else 0


def _single_process(executable: Executable) -> Executable:
    """Compiles the program for devices of this process."""
    client = Client(executable.platform, devices=len(executable.devices), single_process=True)
    donated = sorted({leaf.parameter for leaf in executable.donated})
    return client.compile(executable.module, executable.num_replicas, executable.num_partitions, donated)


def _digest(array: np.ndarray[Any, Any]) -> str:
    """Digest of the type, the shape and the bits of an array."""
    digest = hashlib.sha256(f"{array.dtype} {array.shape}".encode())
    digest.update(_bytes(array).data)
    return digest.hexdigest()


def _bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _difference(array: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str:
    """Describes where two arrays differ."""
    if (array.dtype, array.shape) != (expected.dtype, expected.shape):
        return f"{array.dtype}{list(array.shape)}, in one process {expected.dtype}{list(expected.shape)}"
    differs = (_bytes(array) != _bytes(expected)).reshape(array.size, -1).any(axis=1)
    first = int(np.argmax(differs))
    place = [int(index) for index in np.unravel_index(first, array.shape)]
    return (
        f"{int(differs.sum())} of {array.size} elements differ; the first at {place} is {array.reshape(-1)[first]}, "
        f"in one process {expected.reshape(-1)[first]}"
    )
