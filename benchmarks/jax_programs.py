"""JAX programs on xlapy beside JAX's own CPU: both through JAX, in one process, alternating.

    python -m benchmarks.jax_programs [NAME ...] [--runs 7] [--output FILE]

Medians of the runs; a ratio above 1 means that xlapy is the faster, or needs less. Both use all processors, arguments
are on their devices. Results are compared: a program whose results differ is an error. Compile times are those from
lowered programs to executables, without any cache; memory is that of temporaries and results. Nothing else may run
meanwhile. FILE gets the table as Markdown.
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

from benchmarks.programs import PROGRAMS, Program

SAMPLE_SECONDS = 2e-2
"""The least that is timed at once: short programs run several times."""

HEADS = ["program", "JAX ms", "xlapy ms", "ratio", "compile JAX ms", "xlapy ms", "live JAX MB", "xlapy MB"]


@dataclass(frozen=True)
class Contestant:
    """A program on one platform: seconds, bytes."""

    call: Callable[[], Any]
    compiling: float
    live: int


@dataclass(frozen=True)
class Figures:
    """Of one program, theirs and ours: seconds, bytes."""

    run: tuple[float, float]
    compiling: tuple[float, float]
    live: tuple[int, int]

    @property
    def ratio(self) -> float:
        return self.run[0] / self.run[1]


def measure(name: str, program: Program, runs: int) -> Figures:
    contestants = [_compiled(program, platform) for platform in ("cpu", "xlapy")]
    _compare(name, program, *[c.call() for c in contestants])
    times = _alternate([c.call for c in contestants], runs)
    theirs, ours = contestants
    return Figures((times[0], times[1]), (theirs.compiling, ours.compiling), (theirs.live, ours.live))


def _compiled(program: Program, platform: str) -> Contestant:
    device = jax.devices(platform)[0]
    with jax.default_device(device):
        arguments = jax.device_put(program.arguments(), device)
        lowered = jax.jit(lambda *given: program.function(*given)).lower(*arguments)
        start = time.perf_counter()
        compiled = lowered.compile()
        seconds = time.perf_counter() - start
    memory = compiled.memory_analysis()
    live = memory.temp_size_in_bytes + memory.output_size_in_bytes
    return Contestant(lambda: jax.block_until_ready(compiled(*arguments)), seconds, live)


def _compare(name: str, program: Program, theirs: Any, ours: Any) -> None:
    """Raises where results differ by more than the tolerance, beside the largest element."""
    for number, (wanted, got) in enumerate(zip(jax.tree.leaves(theirs), jax.tree.leaves(ours), strict=True)):
        wanted, got = np.asarray(wanted, np.float64), np.asarray(got, np.float64)
        difference = np.abs(got - wanted).max(initial=0)
        if not difference <= program.tolerance * max(np.abs(wanted).max(initial=0), 1e-6):
            raise SystemExit(f"{name}: result {number} differs by {difference:.3g} from that of JAX's CPU")


def _alternate(calls: Sequence[Callable[[], Any]], runs: int) -> list[float]:
    """The median time of each, one after the other in every run."""
    counts: list[int] = []
    for call in calls:
        _timed(call, 2)
        counts.append(max(1, round(SAMPLE_SECONDS / max(_timed(call, 1), 1e-7))))
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
    run = [f"{seconds * 1e3:.3f}" for seconds in figures.run]
    compiling = [f"{seconds * 1e3:.0f}" for seconds in figures.compiling]
    live = [f"{size / 1e6:.3f}" for size in figures.live]
    return [name, *run, f"{figures.ratio:.2f}", *compiling, *live]


def _summary(found: Mapping[str, Figures]) -> list[str]:
    """The geometric mean and the least ratio of each group of programs, and of all."""
    groups = {group: [n for n in found if PROGRAMS[n].group == group] for group in _groups(found)}
    groups["all"] = list(found)
    lines: list[str] = []
    for group, names in groups.items():
        least = min(names, key=lambda name: found[name].ratio)
        mean = math.exp(statistics.fmean(math.log(found[name].ratio) for name in names))
        lines.append(f"{group}: geometric mean {mean:.2f}, least {found[least].ratio:.2f} ({least})")
    sums = [sum(f.compiling[who] for f in found.values()) * 1e3 for who in (0, 1)]
    largest = max(found, key=lambda name: found[name].live[1] / max(found[name].live[0], 1))
    share = found[largest].live[1] / max(found[largest].live[0], 1)
    lines.append(f"compile time in sum: JAX {sums[0]:.0f} ms, xlapy {sums[1]:.0f} ms")
    return [*lines, f"live memory of temporaries and results: at most {share:.2f}x JAX's ({largest})"]


def _groups(found: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(PROGRAMS[name].group for name in found))


def _table(rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None)
    for number, head in enumerate(HEADS):
        table.add_column(head, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _markdown(rows: Iterable[Sequence[str]], summary: Iterable[str]) -> str:
    lines = [f"| {' | '.join(HEADS)} |", f"|{'|'.join(['---', *['---:'] * (len(HEADS) - 1)])}|"]
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
    for name in track(options.names or PROGRAMS, "", console=Console(stderr=True), transient=True):
        found[name] = measure(name, PROGRAMS[name], options.runs)
        gc.collect()
    rows, summary = [_row(name, figures) for name, figures in found.items()], _summary(found)
    Console(width=130).print(_table(rows))
    print("\n" + "\n".join(summary))
    if options.output is not None:
        options.output.write_text(_markdown(rows, summary))


if __name__ == "__main__":
    main()
