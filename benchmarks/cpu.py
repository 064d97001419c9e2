"""Measures the platform cpu and XLA:CPU on the same HLO, alternating, in one process.

    python benchmarks/cpu.py [NAME ...] [--runs 5] [--settings installed,tuned] [--output DIR]

Reports medians over the runs; a ratio above 1 means that xlapy is faster or needs less memory. Both use all processors,
arguments are on their devices, and no cache of compiled programs is used. Every workload runs in two settings, each in
its own process: with the memory allocator as installed, and with MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ set
so that glibc keeps freed memory. The second setting spares XLA the page faults of every large result, so that it
compares the generated code alone. If torch is installed, workloads that torch has a function for are also run with
torch. Nothing else may run on the machine meanwhile.

The limit of a workload is the least time in which the machine can move its bytes and compute its operations, measured
in the same run (`benchmarks/limits.py`). Workloads that reach less of it than they should are listed.

Writes DIR/cpu.json, DIR/cpu.md and DIR/cpu.svg.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.progress import Progress

import xlapy as xla
from benchmarks import report
from benchmarks.limits import limit_of
from benchmarks.workloads import WORKLOADS, Workload
from xlapy.runtime.machine import Machine, machine_roofline

SETTINGS = {
    "installed": {},
    "tuned": {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"},
}

COMPILATIONS = 3
MIN_SAMPLE_SECONDS = 5e-3
"""The minimum duration of one timed sample. Programs that take less are called several times per sample."""


def measure(workload: Workload, runs: int, machine: Machine) -> dict[str, Any]:
    """Measures one workload: run times, compile times and the machine's limit in seconds, live memory in bytes."""
    arguments = workload.arguments()
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]
    with jax.enable_x64(True) if workload.x64 else nullcontext():
        compiled = [_compile(workload, arguments) for _ in range(COMPILATIONS)]
        theirs, ours = compiled[0][2:]
        on_device = jax.device_put(arguments)
        buffers = [xla.Client("cpu").device_put(leaf) for leaf in leaves]
        implementations: dict[str, Callable[[], Any]] = {
            "xla": lambda: jax.block_until_ready(theirs(*on_device)),
            "ours": lambda: xla.block_until_ready(ours(*buffers)),
        }
        if workload.torch is not None and importlib.util.find_spec("torch") is not None:
            implementations["torch"] = _torch(workload.torch, leaves)
        times = _alternate(implementations, runs)
    limit = limit_of(ours, buffers, machine)
    memory = theirs.memory_analysis()
    return {
        "run": times,
        "limit": asdict(limit),
        "compile": {name: statistics.median(c[n] for c in compiled) for n, name in enumerate(("xla", "ours"))},
        "live": {
            "xla": memory.temp_size_in_bytes + memory.output_size_in_bytes,
            "ours": _live_bytes(ours),
        },
    }


def _compile(workload: Workload, arguments: Sequence[Any]) -> tuple[float, float, Any, xla.Executable]:
    """Compiles a workload with XLA and with xlapy: (XLA's seconds, xlapy's seconds, XLA's executable, xlapy's
    executable).

    The function is jitted anew on each call, because JAX would otherwise return the executable of an earlier call.
    """
    jax.clear_caches()
    lowered = jax.jit(lambda *given: workload.function(*given), keep_unused=True).lower(*arguments)
    text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    client = xla.Client("cpu")
    start = time.perf_counter()
    theirs = lowered.compile()
    middle = time.perf_counter()
    ours = client.compile(text)
    return middle - start, time.perf_counter() - middle, theirs, ours


def _live_bytes(executable: xla.Executable) -> int:
    memory = executable.memory_analysis()
    return memory.temp_size_in_bytes + memory.output_size_in_bytes


def _torch(make: Callable[[Any], Callable[..., Any]], leaves: Sequence[np.ndarray]) -> Callable[[], Any]:
    import torch

    function = make(torch)
    tensors = [torch.from_numpy(leaf.copy()) for leaf in leaves]
    return lambda: function(*tensors)


def _alternate(implementations: dict[str, Callable[[], Any]], runs: int) -> dict[str, float]:
    """Returns the median seconds per call of each implementation; every run times all of them, one after the other."""
    counts: dict[str, int] = {}
    for name, call in implementations.items():
        call()
        counts[name] = max(1, round(MIN_SAMPLE_SECONDS / max(_timed(call, 1), 1e-7)))
    found: dict[str, list[float]] = {name: [] for name in implementations}
    for _ in range(runs):
        for name, call in implementations.items():
            found[name].append(_timed(call, counts[name]))
    return {name: statistics.median(values) for name, values in found.items()}


def _timed(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def measure_here(names: Sequence[str], runs: int) -> dict[str, Any]:
    """Measures the machine and the workloads in this process."""
    machine = machine_roofline(anew=True)
    jax.jit(lambda x: x + 1)(np.float32(1))
    xla.Client("cpu").compile("HloModule warm ENTRY e { ROOT x = f32[] parameter(0) }")
    results: dict[str, Any] = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(names))
        for name in names:
            progress.update(task, description=name)
            results[name] = measure(WORKLOADS[name], runs, machine)
            progress.advance(task)
            gc.collect()
    return results


def measure_in(setting: str, names: Sequence[str], runs: int) -> dict[str, Any]:
    """Measures the workloads in a new process that has the setting's environment variables."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "results.json"
        command = [sys.executable, "-m", "benchmarks.cpu", *names, "--runs", str(runs), "--here", str(path)]
        subprocess.run(command, env={**os.environ, **SETTINGS[setting]}, check=True)
        return json.loads(path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(WORKLOADS)}; all by default")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--settings", default="installed,tuned", help="which of installed, tuned")
    parser.add_argument("--output", type=Path, default=Path("bench-output"))
    parser.add_argument("--here", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in WORKLOADS]
    if unknown:
        parser.error(f"unknown workload {unknown[0]!r}; known are {', '.join(WORKLOADS)}")
    if unknown := set(options.settings.split(",")) - set(SETTINGS):
        parser.error(f"unknown setting {min(unknown)!r}; known are {', '.join(SETTINGS)}")
    names = options.names or list(WORKLOADS)
    if options.here is not None:
        options.here.write_text(json.dumps(measure_here(names, options.runs)))
        return
    results = {setting: measure_in(setting, names, options.runs) for setting in options.settings.split(",")}
    report.write(results, {name: WORKLOADS[name].group for name in names}, options.output)


if __name__ == "__main__":
    main()
