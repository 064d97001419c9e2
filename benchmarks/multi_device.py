"""Measures JAX programs on eight devices of xlapy and on eight of JAX's own CPU platform, alternating, in one process.

    python -m benchmarks.multi_device [NAME|GROUP ...] [--runs 5] [--output FILE]

Reports medians over the runs; a ratio above 1 means that xlapy is faster. All devices share the processors of the
machine, and arguments are on their devices. Results are compared; a difference above the program's tolerance is an
error. `collectives` lists those of xlapy's program, for example `2 all-gather`. Nothing else may run on the machine
meanwhile. FILE receives the table as Markdown; with `--append`, rows of other programs in FILE stay.
"""

from __future__ import annotations

import os

os.environ["JAX_PLATFORMS"] = "xlapy,cpu"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"

import argparse
import gc
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from rich.console import Console
from rich.table import Table

from benchmarks.jax_programs import alternate, compare
from benchmarks.multi_device_programs import PROGRAMS, MeshProgram
from xlapy.analysis.simulation.communication import KINDS
from xlapy.text import parse_hlo

HEADERS = ["program", "JAX ms", "xlapy ms", "ratio", "compile JAX ms", "xlapy ms", "collectives"]


@dataclass(frozen=True)
class Figures:
    """Seconds of a step and of compilation on JAX's CPU and on xlapy, and the collectives of xlapy's program."""

    run_seconds: tuple[float, float]
    compile_seconds: tuple[float, float]
    collectives: str

    @property
    def ratio(self) -> float:
        return self.run_seconds[0] / self.run_seconds[1]


def measure(name: str, program: MeshProgram, runs: int) -> Figures:
    """Compiles a program for both platforms, compares their results, and times them alternately."""
    calls, seconds, texts = zip(*[_compiled(program, platform) for platform in ("cpu", "xlapy")], strict=True)
    if program.tolerance is not None:
        compare(name, program.tolerance, *[call() for call in calls])
    theirs, ours = alternate(calls, runs)
    return Figures((theirs, ours), seconds, _collectives(texts[1]))


def _compiled(program: MeshProgram, platform: str) -> tuple[Callable[[], Any], float, str]:
    """Returns a call of the program on a platform, the seconds of compilation, and the text of the compiled module."""
    names, sizes = zip(*program.axes, strict=True)
    mesh = Mesh(np.array(jax.devices(platform)).reshape(sizes), names)
    inputs, outputs = _shardings(program.inputs, mesh), _shardings(program.outputs, mesh)
    given = program.arguments()
    if not isinstance(inputs, tuple):
        inputs = (inputs,)
    with jax.default_device(jax.devices(platform)[0]):
        arguments = [jax.device_put(one, sharding) for one, sharding in zip(given, inputs, strict=True)]
        function = program.make(mesh)
        lowered = jax.jit(lambda *values: function(*values), in_shardings=inputs, out_shardings=outputs).lower(
            *arguments
        )
        start = time.perf_counter()
        compiled = lowered.compile()
        seconds = time.perf_counter() - start
    text = compiled.as_text() if platform == "xlapy" else ""
    return lambda: jax.block_until_ready(compiled(*arguments)), seconds, text or ""


def _shardings(specifications: Any, mesh: Mesh) -> Any:
    return jax.tree.map(
        lambda one: NamedSharding(mesh, one), specifications, is_leaf=lambda one: isinstance(one, PartitionSpec)
    )


def _collectives(text: str) -> str:
    counts = Counter(KINDS[one.op].value for one in parse_hlo(text).instructions() if one.op in KINDS)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _row(name: str, figures: Figures) -> list[str]:
    run = [f"{seconds * 1e3:.3f}" for seconds in figures.run_seconds]
    compiling = [f"{seconds * 1e3:.0f}" for seconds in figures.compile_seconds]
    return [name, *run, f"{figures.ratio:.2f}", *compiling, figures.collectives]


def _summary(ratios: Mapping[str, float]) -> list[str]:
    """Returns lines with the geometric mean and the lowest ratio of each group of programs, and of all programs."""
    groups: dict[str, dict[str, float]] = {}
    for name, ratio in ratios.items():
        groups.setdefault(PROGRAMS[name].group, {})[name] = ratio
    groups["all"] = dict(ratios)
    lines: list[str] = []
    for group, found in groups.items():
        lowest = min(found, key=lambda name: found[name])
        mean = math.exp(statistics.fmean(map(math.log, found.values())))
        lines.append(f"{group}: geometric mean {mean:.2f}, lowest {found[lowest]:.2f} ({lowest})")
    below = [name for name, ratio in ratios.items() if ratio < 1]
    return [*lines, f"below 1: {', '.join(below) or 'none'}"]


def _markdown(rows: Iterable[Sequence[str]], summary: Iterable[str]) -> str:
    lines = [f"| {' | '.join(HEADERS)} |", f"|{'|'.join(['---', *['---:'] * (len(HEADERS) - 2), '---'])}|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *[f"- {line}" for line in summary]]) + "\n"


def _rows_of(path: Path) -> dict[str, list[str]]:
    """Returns the rows of an earlier table, by program."""
    lines = path.read_text().splitlines() if path.exists() else []
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {row[0]: row for row in cells if row[0] in PROGRAMS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    groups = list(dict.fromkeys(program.group for program in PROGRAMS.values()))
    parser.add_argument("names", nargs="*", metavar="NAME|GROUP", help=f"of {', '.join(PROGRAMS)}; all by default")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--append", action="store_true", help="keep rows of other programs in the file of --output")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in PROGRAMS and name not in groups]
    if unknown:
        parser.error(f"unknown program {unknown[0]!r}; known are {', '.join([*groups, *PROGRAMS])}")
    rows = _rows_of(options.output) if options.append and options.output is not None else {}
    for name, program in PROGRAMS.items():
        if options.names and name not in options.names and program.group not in options.names:
            continue
        rows[name] = _row(name, measure(name, program, options.runs))
        print(" | ".join(rows[name]), flush=True)
        gc.collect()
        if options.output is not None:
            ordered = [rows[known] for known in PROGRAMS if known in rows]
            options.output.write_text(_markdown(ordered, _summary({row[0]: float(row[3]) for row in ordered})))
    table = Table(box=None)
    for number, header in enumerate(HEADERS):
        table.add_column(header, justify="right" if 0 < number < len(HEADERS) - 1 else "left")
    for known in PROGRAMS:
        if known in rows:
            table.add_row(*rows[known])
    Console(width=150).print(table)
    print("\n" + "\n".join(_summary({name: float(row[3]) for name, row in rows.items()})))


if __name__ == "__main__":
    main()
