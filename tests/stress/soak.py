"""One process that works for hours: its memory does not grow, and it keeps no descriptors, threads or code.

A unit is one task of `programs` or `jax_programs`, so that programs are compiled and dropped all the time; a training
loop of JAX is kept and continues between them. JAX's caches, which keep thousands of programs, are emptied again and
again. The process then collects garbage, returns free memory to the system and measures itself. What is measured after
the warm-up must not grow.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import random
import statistics
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.stress import programs
from tests.stress.harness import Amount, Answer, Run, Stress, call_in_child

WARM_UP = 600.0
"""Seconds after which nothing may grow any more; a third of shorter runs."""
MAX_BYTES_PER_HOUR = 1 << 20
"""How much the resident memory may grow."""
MIN_SLOPE_SECONDS = 1200.0
"""The shortest time after the warm-up from which the growth of an hour is inferred: free memory within pages that are
in use makes single figures differ by some hundred kilobytes."""
MAX_CODE_BYTES = 4 << 20
"""How much executable memory may vary: code is freed by JIT compilers of 64 programs each."""
NUMBERS = 40
"""Different numbers of tasks, and so different programs of each. JAX remembers the signatures of its own functions for
as long as the functions live, so that new ones must become rare within the warm-up. Programs are always compiled anew.
"""
SECONDS_PER_MEASUREMENT = 30.0
ENVIRONMENT = {"JAX_PLATFORMS": "xlapy", "XLAPY_FLAGS": "--num_devices=4"}


# -- in the child process


class _MallocInfo(ctypes.Structure):
    """`struct mallinfo2` of glibc."""

    _fields_ = [
        *[(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")],
        *[(name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")],
    ]


def measure() -> dict[str, int]:
    """Returns what this process holds, after garbage and free memory have been returned."""
    gc.collect()
    libc = ctypes.CDLL(None)
    libc.malloc_trim(0)
    libc.mallinfo2.restype = _MallocInfo
    info = libc.mallinfo2()
    pages = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    code = [fields[0].split("-") for fields in pages if "x" in fields[1] and len(fields) < 6]
    return {
        "resident": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
        "allocated": info.uordblks + info.hblkhd,
        "code": sum(int(end, 16) - int(start, 16) for start, end in code),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "objects": len(gc.get_objects()),
    }


def work(seed: int, seconds: float, path: str, every: float) -> dict[str, Any]:
    """Runs tasks for some seconds; appends a line with the figures to the file at `path` now and then."""
    import jax

    import xlapy as xla
    from tests.stress import jax_programs

    programs.register_targets()
    client = xla.Client("cpu", devices=programs.DEVICES)
    training = jax_programs.Training()
    tasks: list[Any] = [*programs.TASKS, *jax_programs.TASKS]
    rng, faults = random.Random(seed), list[str]()

    def one(task: Any, number: int) -> None:
        try:
            task(*((number, client) if task in programs.TASKS else (number,)))
            training.step()
        except Exception:
            faults.append(f"{task.__module__}.{task.__name__}({number}):\n{traceback.format_exc()[-1500:]}")

    for task in tasks:  # after this, all threads and files that a process keeps are there
        one(task, 0)
    started, done, next_measurement = time.monotonic(), len(tasks), 0.0
    while (elapsed := time.monotonic() - started) < seconds:
        if elapsed >= next_measurement:
            next_measurement = elapsed + every
            jax.clear_caches()
            _append(path, {"seconds": elapsed, "done": done, **_settled()})
        one(rng.choice(tasks), rng.randrange(NUMBERS))
        done += 1
    jax.clear_caches()
    _append(path, {"seconds": time.monotonic() - started, "done": done, **_settled()})
    return {"done": done, "faults": faults}


def _settled() -> dict[str, int]:
    """Measures when the threads of finished runs have ended."""
    count = -1
    for _ in range(50):
        before, count = count, len(os.listdir("/proc/self/task"))
        if before == count:
            break
        time.sleep(0.02)
    return measure()


def _append(path: str, row: Mapping[str, float]) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


# -- the process that starts it


def run(run: Run) -> None:
    seconds = run.amount.seconds
    assert seconds is not None, "a soak test runs for some time"
    every = min(SECONDS_PER_MEASUREMENT, seconds / 12)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures"
        path.touch()
        arguments = {"seed": run.seed, "seconds": seconds, "path": str(path), "every": every}
        answers: list[Answer] = []
        child = threading.Thread(
            target=lambda: answers.append(
                call_in_child(f"{__name__}:work", arguments, seconds + 300, environment=ENVIRONMENT)
            )
        )
        child.start()
        while child.is_alive():
            child.join(1)
            rows = _rows(path)
            if rows:
                run.advance(int(rows[-1]["done"]) - run.done, _described(rows[-1]))
        rows = _rows(path)
    if answers[0].is_death:
        run.fault(f"seed {run.seed}: {answers[0].death}")
    else:
        for fault in answers[0].value["faults"]:
            run.fault(f"seed {run.seed}, {fault}")
    _judge(run, rows)


def _rows(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def _described(row: Mapping[str, float]) -> str:
    return (
        f"resident {row['resident'] / 1e6:.1f} MB, allocated {row['allocated'] / 1e6:.1f} MB, "
        f"code {row['code'] / 1e6:.2f} MB, {row['descriptors']} descriptors, {row['threads']} threads, "
        f"{row['objects']:,} objects"
    )


def _judge(run: Run, rows: Sequence[Mapping[str, float]]) -> None:
    """Compares what was measured after the warm-up: figures for the table, faults for what grew."""
    end = rows[-1]["seconds"] if rows else 0.0
    start = min(WARM_UP, end / 3)
    warm = [row for row in rows if row["seconds"] >= start]
    if len(warm) < 2:
        run.fault("too few measurements")
        return
    growth = bytes_per_hour(warm)
    run.figures |= {
        "first after warm-up": _described(warm[0]),
        "last": _described(warm[-1]),
        "resident memory, kB an hour": growth / 1e3,
    }
    if warm[-1]["seconds"] - warm[0]["seconds"] >= MIN_SLOPE_SECONDS and growth > MAX_BYTES_PER_HOUR:
        run.fault(f"the resident memory grows by {growth / 1e6:.2f} MB an hour")
    for figure in ("descriptors", "threads"):
        if len({row[figure] for row in warm}) > 1:
            run.fault(f"{figure} change: {[int(row[figure]) for row in warm]}")
    code = [row["code"] for row in warm]
    if max(code) - min(code) > MAX_CODE_BYTES:
        run.fault(f"executable memory varies between {min(code) / 1e6:.1f} and {max(code) / 1e6:.1f} MB")


def bytes_per_hour(rows: Sequence[Mapping[str, float]]) -> float:
    """Returns the slope of the resident memory: the median of the slopes between the first and the second half."""
    half = len(rows) // 2
    slopes = [
        (late["resident"] - early["resident"]) / (late["seconds"] - early["seconds"])
        for early, late in zip(rows, rows[-half:], strict=False)
    ]
    return 3600 * statistics.median(slopes)


STRESS = Stress(
    "hours of mixed work in one process, whose memory does not grow", Amount(seconds=2), Amount(seconds=7200), run
)
