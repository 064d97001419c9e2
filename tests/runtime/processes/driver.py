"""A process of a test: runs programs that span the processes that mpirun has started, and compares them with one.

    mpirun -n 4 python -m tests.runtime.processes.driver samples 0 100

Prints what differs, and a last line with the number of programs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import xlapy as xla
from tests.runtime.processes.split_runs import (
    Case,
    contiguous,
    differences,
    interleaved,
    random_cases,
    run_alone,
    run_split,
    sample_cases,
    transfer_cases,
)
from xlapy.runtime.collectives.process_group import ProcessGroup, current_process_group


def cases_of(kind: str, first: int, count: int, step: int) -> Iterator[Case]:
    if kind == "random":
        return random_cases(range(first, first + count, step))
    if kind == "transfers":
        return transfer_cases()
    if ":" in kind:
        return (case for case in sample_cases() if case.name == kind.split(":")[1])
    return islice(sample_cases(), first, first + count, step)


def with_results(cases: Iterator[Case], platform: str, group: ProcessGroup) -> Iterator[tuple[Case, Any]]:
    """Yields each case with its results in one process, which some process computes for all."""
    while batch := list(islice(cases, group.process_count)):
        own = group.process_index
        alone = run_alone(batch[own], platform) if own < len(batch) else None
        yield from zip(batch, group.allgather(alone, what="the results of one process", timeout=300), strict=False)


def main(kind: str, first: int, count: int, step: int, platform: str) -> None:
    """Runs every `step`-th of the programs from the first on. Samples are split in two ways, random programs in one."""
    xla.distributed.initialize()
    group = current_process_group()
    assert group is not None
    found: list[str] = []
    ran = refused = 0
    for number, (case, whole) in enumerate(with_results(cases_of(kind, first, count, step), platform, group)):
        for position, topology_of in enumerate((contiguous, interleaved)):
            processes = min(group.process_count, case.device_count)
            topology = topology_of(case.device_count, processes, group.process_index)
            if group.process_index >= processes or (kind == "random" and position != number % 2):
                continue
            begin = time.monotonic()
            own = run_split(case, topology, group, platform, first_id=100 * number)
            found += differences(case, topology, whole, own)
            ran, refused = ran + 1, refused + isinstance(whole, str)
            if isinstance(whole, str) and group.process_index == 0:
                print(f"{case.name} is refused: {whole}", flush=True)
            if time.monotonic() - begin > 5:
                print(f"{case.name} took {time.monotonic() - begin:.1f} s", flush=True)
    for line in found:
        print(f"process {group.process_index}: {line}", flush=True)
    print(f"process {group.process_index}: {ran} runs, {refused} refused, {len(found)} differences", flush=True)
    group.barrier(what="the end of the test")


if __name__ == "__main__":
    kind, first, count, step, platform = sys.argv[1:]
    main(kind, int(first), int(count), int(step), platform)
