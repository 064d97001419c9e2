"""All-reduces between processes, beside `MPI_Allreduce` of the same library in the same run.

    mpirun -n 4 python benchmarks/processes.py

Each process has one device. Prints, for an array of 8 bytes and for one of 4 MB, the median time of an all-reduce and
its ratio to `MPI_Allreduce`: in a program that executes it in a loop, and in one that is launched for each, which
includes arguments, results and the wait for them. `--processor-time` also prints the processor time of an all-reduce
over all processes, in which waiting counts.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import xlapy as xla
from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.runtime.backend import load_backend
from xlapy.runtime.collectives.process_group import ProcessGroup, current_process_group

SIZES = (2, 1 << 20)
"""Numbers of f32 elements."""

ITERATIONS = {2: 200, 1 << 20: 4}
"""All-reduces in one launch of the program with a loop."""

_SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
_LOOP = """HloModule all_reduces, replica_count=COUNT
SUM
less { s = (s32[], f32[SIZE]) parameter(0)
  i = s32[] get-tuple-element(s), index=0 n = s32[] constant(ITERATIONS) ROOT r = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[SIZE]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[SIZE] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  r = f32[SIZE] all-reduce(x), to_apply=sum, replica_groups={} ROOT t = (s32[], f32[SIZE]) tuple(j, r) }
ENTRY e { i = s32[] constant(0) x = f32[SIZE] parameter(0) s = (s32[], f32[SIZE]) tuple(i, x)
  w = (s32[], f32[SIZE]) while(s), condition=less, body=step ROOT r = f32[SIZE] get-tuple-element(w), index=1 }"""
_TEXT = """HloModule all_reduce, replica_count=COUNT
SUM
ENTRY e { x = f32[SIZE] parameter(0) ROOT r = f32[SIZE] all-reduce(x), to_apply=sum, replica_groups={} }"""


def median_seconds(step: Callable[[], object], repetitions: int) -> tuple[float, float]:
    """Returns the median time of a step, and the mean processor time of this process."""
    for _ in range(max(3, repetitions // 10)):
        step()
    times: list[float] = []
    begin = time.process_time()
    for _ in range(repetitions):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times), (time.process_time() - begin) / repetitions


def mpi_seconds(size: int, repetitions: int) -> tuple[float, float]:
    """The times of `MPI_Allreduce`. Nothing else uses MPI meanwhile."""
    from mpi4py import MPI

    given, result = np.ones(size, np.float32), np.empty(size, np.float32)
    return median_seconds(lambda: MPI.COMM_WORLD.Allreduce(given, result, MPI.SUM), repetitions)


def program_seconds(group: ProcessGroup, size: int, repetitions: int, iterations: int) -> tuple[float, float]:
    """The times of an all-reduce in a program with a loop, or alone if `iterations` is 0."""
    count = group.process_count
    topology = ProcessTopology(group.process_index, tuple(range(count)))
    words = {"COUNT": count, "SIZE": size, "SUM": _SUM, "ITERATIONS": iterations}
    text = _LOOP if iterations else _TEXT
    for word, value in words.items():
        text = text.replace(word, str(value))
    module = xla.parse_hlo(text)
    program = load_backend("cpu").compile(module, count, 1, topology=topology)  # type: ignore[call-arg]
    program.connect(group, range(count))  # type: ignore[attr-defined]
    call = program.sharded_fast_path
    assert call is not None
    argument = xla.Client("cpu", single_process=True).device_put(np.zeros(size, np.float32))  # of the same stream

    def step() -> None:
        (result,) = call([[argument]])
        result.block_until_ready()

    times = median_seconds(step, max(10, repetitions // max(1, iterations)))
    return times[0] / max(1, iterations), times[1] / max(1, iterations)


def main() -> None:
    """Prints the times in process 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--repetitions", type=int, default=100)
    given = parser.parse_args()
    by_mpi = [mpi_seconds(size, given.repetitions) for size in SIZES]
    xla.distributed.initialize()
    group = current_process_group()
    assert group is not None
    in_loop = [program_seconds(group, size, given.repetitions, ITERATIONS[size]) for size in SIZES]
    launched = [program_seconds(group, size, given.repetitions, 0) for size in SIZES]
    rows = group.allgather([by_mpi, in_loop, launched], what="the times")
    if group.process_index:
        return
    names = ("MPI_Allreduce", "in a loop", "launched")
    for number, size in enumerate(SIZES):
        print(f"{4 * size} bytes")
        times = [max(row[kind][number][0] for row in rows) for kind in range(3)]
        for kind, name in enumerate(names):
            line = f"  {name:<14} {1e6 * times[kind]:9.1f} us  {times[kind] / times[0]:5.2f}x"
            processor = sum(row[kind][number][1] for row in rows)
            print(f"{line}  processor time {1e6 * processor:8.1f} us" if given.processor_time else line)


if __name__ == "__main__":
    main()
