"""Measures the time to load compiled programs from the cache, compared with compiling them.

    python -m benchmarks.loading [NAME ...] [--runs 3]

Names are those of `benchmarks.compiling` and of `benchmarks.workloads`. All times are processor times of new processes.
Each process imports xlapy, creates a client and compiles the program's HLO text five times, first without a cache, then
with a cache that contains the program. The table shows the minimum over all runs of the first and of the later times,
and the total of a process that uses the cache, including its start.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
from rich.console import Console
from rich.table import Table

from benchmarks.compiling import PROGRAMS, Program
from benchmarks.workloads import WORKLOADS

_CHILD = """
import json, sys, time
import xlapy as xla
text, times, client = open(sys.argv[1]).read(), [], xla.Client("cpu")
for _ in range(5):
    begin = time.process_time()
    client.compile(text)
    times.append(time.process_time() - begin)
print(json.dumps([times[0], min(times[1:]), time.process_time()]))
"""

DEFAULT_PROGRAMS = (
    "softmax",
    "layer norm",
    "16 random numbers",
    "convolutions, training",
    "transformer, 4 layers",
    "solve 512",
)
"""The programs measured if none is named."""


def programs() -> dict[str, Program]:
    """Returns all programs by name."""
    return {name: (load.function, load.arguments) for name, load in WORKLOADS.items()} | PROGRAMS


def text_of(program: Program) -> str:
    """Returns the program as HLO text."""
    function, arguments = program[0], program[1]()
    lowered = jax.jit(lambda *given: function(*given), keep_unused=True).lower(*arguments)
    return str(lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True))


def measure(file: Path, folder: str, runs: int) -> list[float]:
    """Returns the minimum seconds of the first compilation in a process, of a later one, and of the whole process."""
    flags = f"--cache_dir={folder}" if folder else ""
    environment = {**os.environ, "XLAPY_FLAGS": flags}
    found: list[list[float]] = []
    for _ in range(runs):
        command = [sys.executable, "-c", _CHILD, str(file)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    return [min(times) for times in zip(*found, strict=True)]


def main() -> None:
    known = programs()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"by default {'; '.join(DEFAULT_PROGRAMS)}")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"unknown program {unknown[0]!r}; known are {', '.join(known)}")
    table = Table(box=None)
    for header in (
        "program",
        "compile ms: first",
        "later",
        "load ms: first",
        "later",
        "ratio: first",
        "later",
        "process ms",
    ):
        table.add_column(header, justify="left" if header == "program" else "right")
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names or DEFAULT_PROGRAMS:
            file = Path(folder) / "program.hlo"
            file.write_text(text_of(known[name]))
            compiled = measure(file, "", options.runs)
            measure(file, f"{folder}/cache", 1)
            loaded = measure(file, f"{folder}/cache", options.runs)
            ratios = [f"{new / old:.2f}" for old, new in zip(compiled[:2], loaded, strict=False)]
            table.add_row(
                name, *(f"{1e3 * t:.1f}" for t in (*compiled[:2], *loaded[:2])), *ratios, f"{1e3 * loaded[2]:.0f}"
            )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
