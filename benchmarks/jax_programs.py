"""Measures JAX programs on xlapy and on JAX's own CPU platform, alternating, in one process.

    python -m benchmarks.jax_programs [NAME ...] [--runs 7] [--output FILE]

Reports medians over the runs; a ratio above 1 means that xlapy is faster or needs less memory. Both platforms use all
processors, and arguments are on their devices. Results are compared; a difference above the program's tolerance is an
error. Compile times are from the lowered program to the executable, without any cache. Live memory is the size of
temporaries and results. Nothing else may run on the machine meanwhile. FILE receives the table as Markdown.
"""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "xlapy,cpu"

import argparse
import gc
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import xlapy as xla
from benchmarks.limits import Limit, limit_of, shortfalls
from benchmarks.programs import PROGRAMS, Program
from xlapy.runtime.machine import Machine, machine_roofline

MIN_SAMPLE_SECONDS = 2e-2
"""The minimum duration of one timed sample. Programs that take less are called several times per sample."""

HEADERS = ["program", "JAX ms", "xlapy ms", "ratio", "of limit", "limit", "compile JAX ms", "xlapy ms", "live JAX MB",
           "xlapy MB"]  # fmt: skip


@dataclass(frozen=True)
class CompiledProgram:
    """A program compiled for one platform, with its compile time in seconds and its live memory in bytes. text: its
    HLO."""

    call: Callable[[], Any]
    text: str
    arguments: Any
    compile_seconds: float
    live_bytes: int


@dataclass(frozen=True)
class Figures:
    """Measurements of one program as (JAX's CPU, xlapy): run time and compile time in seconds, live memory in bytes.
    limit: the least time of xlapy's program on the machine."""

    run_seconds: tuple[float, float]
    compile_seconds: tuple[float, float]
    live_bytes: tuple[int, int]
    limit: Limit

    @property
    def ratio(self) -> float:
        return self.run_seconds[0] / self.run_seconds[1]


def measure(name: str, program: Program, runs: int, machine: Machine) -> Figures:
    implementations = [_compiled(program, platform) for platform in ("cpu", "xlapy")]
    compare(name, program.tolerance, *[c.call() for c in implementations])
    times = alternate([c.call for c in implementations], runs)
    theirs, ours = implementations
    return Figures(
        (times[0], times[1]),
        (theirs.compile_seconds, ours.compile_seconds),
        (theirs.live_bytes, ours.live_bytes),
        _limit(ours, machine),
    )


def _limit(compiled: CompiledProgram, machine: Machine) -> Limit:
    """Returns the limit of a program, which is compiled once more without JAX."""
    executable = xla.Client("cpu").compile(compiled.text)
    return limit_of(executable, [np.asarray(leaf) for leaf in jax.tree.leaves(compiled.arguments)], machine)


def _compiled(program: Program, platform: str) -> CompiledProgram:
    device = jax.devices(platform)[0]
    with jax.default_device(device):
        arguments = jax.device_put(program.arguments(), device)
        lowered = jax.jit(lambda *given: program.function(*given), keep_unused=True).lower(*arguments)
        start = time.perf_counter()
        compiled = lowered.compile()
        seconds = time.perf_counter() - start
    memory = compiled.memory_analysis()
    live = memory.temp_size_in_bytes + memory.output_size_in_bytes
    text = lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)
    return CompiledProgram(lambda: jax.block_until_ready(compiled(*arguments)), text, arguments, seconds, live)


def compare(name: str, tolerance: float, theirs: Any, ours: Any) -> None:
    """Exits if any result differs by more than the tolerance, relative to the largest element of that result."""
    for number, (wanted, got) in enumerate(zip(jax.tree.leaves(theirs), jax.tree.leaves(ours), strict=True)):
        dtype = np.complex128 if jax.numpy.iscomplexobj(wanted) else np.float64
        wanted, got = np.asarray(wanted).astype(dtype), np.asarray(got).astype(dtype)
        difference = np.abs(got - wanted).max(initial=0)
        if not difference <= tolerance * max(np.abs(wanted).max(initial=0), 1e-6):
            raise SystemExit(f"{name}: result {number} differs by {difference:.3g} from that of JAX's CPU")


def alternate(calls: Sequence[Callable[[], Any]], runs: int) -> list[float]:
    """Returns the median seconds of each call; every run times all calls, one after the other."""
    counts: list[int] = []
    for call in calls:
        _timed(call, 2)
        counts.append(max(1, round(MIN_SAMPLE_SECONDS / max(_timed(call, 1), 1e-7))))
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(runs):
        for times, call, count in zip(found, calls, counts, strict=True):
            times.append(_timed(call, count))
    return [statistics.median(times) for times in found]


def _timed(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def _row(name: str, figures: Figures) -> list[str]:
    run = [f"{seconds * 1e3:.3f}" for seconds in figures.run_seconds]
    compiling = [f"{seconds * 1e3:.0f}" for seconds in figures.compile_seconds]
    live = [f"{size / 1e6:.3f}" for size in figures.live_bytes]
    share = f"{figures.limit.share(figures.run_seconds[1]):.0%}"
    return [name, *run, f"{figures.ratio:.2f}", share, figures.limit.text, *compiling, *live]


def _summary(found: Mapping[str, Figures]) -> list[str]:
    """Returns lines with the geometric mean and the lowest ratio of each group of programs, and of all programs."""
    groups = {group: [n for n in found if PROGRAMS[n].group == group] for group in _groups(found)}
    groups["all"] = list(found)
    lines: list[str] = []
    for group, names in groups.items():
        lowest = min(names, key=lambda name: found[name].ratio)
        mean = math.exp(statistics.fmean(math.log(found[name].ratio) for name in names))
        lines.append(f"{group}: geometric mean {mean:.2f}, lowest {found[lowest].ratio:.2f} ({lowest})")
    sums = [sum(f.compile_seconds[platform] for f in found.values()) * 1e3 for platform in (0, 1)]
    largest = max(found, key=lambda name: found[name].live_bytes[1] / max(found[name].live_bytes[0], 1))
    share = found[largest].live_bytes[1] / max(found[largest].live_bytes[0], 1)
    lines.append(f"total compile time: JAX {sums[0]:.0f} ms, xlapy {sums[1]:.0f} ms")
    lines.append(f"live memory of temporaries and results: at most {share:.2f}x JAX's ({largest})")
    return [*lines, *shortfalls({name: (f.limit, f.run_seconds[1]) for name, f in found.items()})]


def _groups(found: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(PROGRAMS[name].group for name in found))


def _table(rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None)
    for number, header in enumerate(HEADERS):
        table.add_column(header, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _markdown(rows: Iterable[Sequence[str]], summary: Iterable[str]) -> str:
    lines = [f"| {' | '.join(HEADERS)} |", f"|{'|'.join(['---', *['---:'] * (len(HEADERS) - 1)])}|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *[f"- {line}" for line in summary]]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}; all by default")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in PROGRAMS]
    if unknown:
        parser.error(f"unknown program {unknown[0]!r}; known are {', '.join(PROGRAMS)}")
    found: dict[str, Figures] = {}
    machine = machine_roofline(anew=True)
    for name in track(options.names or PROGRAMS, "", console=Console(stderr=True), transient=True):
        found[name] = measure(name, PROGRAMS[name], options.runs, machine)
        gc.collect()
    rows, summary = [_row(name, figures) for name, figures in found.items()], _summary(found)
    Console(width=180).print(_table(rows))
    print("\n" + "\n".join(summary))
    if options.output is not None:
        options.output.write_text(_markdown(rows, summary))


if __name__ == "__main__":
    main()
