"""A process of a test: runs programs that span the processes that mpirun has started, and compares them with one.

    mpirun -n 4 python -m tests.runtime.processes.driver samples 0 100

Prints what differs, and a last line with the number of programs.
"""

from __future__ import annotations

import sys
import time
from itertools import islice

import xlapy as xla
from tests.runtime.processes.split_runs import (
    contiguous,
    differences,
    interleaved,
    random_cases,
    run_alone,
    run_split,
    sample_cases,
    transfer_cases,
)
from xlapy.runtime.collectives.process_group import current_process_group


def main(kind: str, first: int, count: int, step: int, platform: str) -> None:
    """Runs every `step`-th of the programs from the first on."""
    xla.distributed.initialize()
    group = current_process_group()
    assert group is not None
    found: list[str] = []
    ran = refused = 0
    chosen = range(first, first + count, step)
    cases = random_cases(chosen) if kind == "random" else islice(sample_cases(), first, first + count, step)
    if kind == "transfers":
        cases = transfer_cases()
    if ":" in kind:
        cases = (case for case in sample_cases() if case.name == kind.split(":")[1])
    for number, case in enumerate(cases):
        for topology_of in (contiguous, interleaved):
            processes = min(group.process_count, case.device_count)
            topology = topology_of(case.device_count, processes, group.process_index)
            if group.process_index >= processes:
                continue
            begin = time.monotonic()
            own = run_split(case, topology, group, platform, first_id=100 * number)
            whole = run_alone(case, platform)
            found += differences(case, topology, whole, own)
            ran, refused = ran + 1, refused + isinstance(whole, str)
            if time.monotonic() - begin > 5:
                print(f"{case.name} took {time.monotonic() - begin:.1f} s", flush=True)
    for line in found:
        print(f"process {group.process_index}: {line}", flush=True)
    print(f"process {group.process_index}: {ran} runs, {refused} refused, {len(found)} differences", flush=True)
    group.barrier(what="the end of the test")


if __name__ == "__main__":
    kind, first, count, step, platform = sys.argv[1:]
    main(kind, int(first), int(count), int(step), platform)
