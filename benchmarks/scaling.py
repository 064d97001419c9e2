"""Measures how the compile time of the platform cpu grows with the number of instructions, for modules of many shapes.

    python -m benchmarks.scaling [SHAPE ...] [--sizes 1000 4000 16000] [--steps] [--xla]

Prints the time per instruction at each size, and the exponent of the growth between the last two sizes: 1 if the time
is proportional to the number of instructions. Parsing and verifying HLO text is not included. `--steps` also prints the
steps whose time grows with an exponent above 1.2 and that take at least 2% of the time. `--xla` compiles the same
modules with XLA:CPU, on all processors.
"""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections import defaultdict

from rich.console import Console
from rich.table import Table

import xlapy as xla
from benchmarks.module_shapes import SHAPES
from xlapy.base.garbage_collection import gc_paused
from xlapy.cpu.compiler import compile_module
from xlapy.testing.xla_cpu import compile_hlo

STEEP, MIN_SHARE = 1.2, 0.02
"""The exponent above which a step is printed, and the least part of the time that it takes."""


def step_seconds(module: xla.Module) -> tuple[float, dict[str, float]]:
    """Compiles a module; returns the seconds in total, and of each pass, stage and phase of LLVM."""
    gc.collect()
    start = time.perf_counter()
    with gc_paused():  # as `Client.compile` does
        trace = compile_module(module).record.trace
    total = time.perf_counter() - start
    seconds: dict[str, float] = defaultdict(float)
    for span in trace.spans:
        if span.kind != "compiler" and span.name != "passes":
            seconds[f"{span.kind} {span.name}"] += span.seconds
    return total, seconds


def _exponent(counts: list[int], seconds: list[float]) -> float:
    """The exponent of the growth between the last two counts."""
    if seconds[-1] <= 0 or seconds[-2] <= 0:
        return 0.0
    return math.log(seconds[-1] / seconds[-2]) / math.log(counts[-1] / counts[-2])


def _print_steps(name: str, counts: list[int], steps: list[dict[str, float]], total: float, *, every: bool) -> None:
    for step, seconds in sorted(steps[-1].items(), key=lambda item: -item[1]):
        exponent = _exponent(counts, [found.get(step, 0.0) for found in steps[-2:]]) if len(counts) > 1 else 0.0
        if seconds >= MIN_SHARE * total and (every or exponent > STEEP):
            print(f"    {name}: {step} takes {seconds:.2f} s, exponent {exponent:.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="SHAPE", help=f"of {', '.join(SHAPES)}; all by default")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 4000, 16000], help="numbers of instructions")
    parser.add_argument("--steps", action="store_true", help="print each step that takes long and grows fast")
    parser.add_argument("--all-steps", action="store_true", help="print each step that takes long")
    parser.add_argument("--xla", action="store_true", help="also compile the modules with XLA:CPU")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in SHAPES]
    if unknown:
        parser.error(f"unknown shape {unknown[0]!r}; known are {', '.join(SHAPES)}")
    compile_module(xla.parse_hlo(SHAPES["tree"](100)))
    headers = ["shape", *(f"us per instruction of {size:,}" for size in options.sizes), "total s", "exponent"]
    table = Table(box=None)
    for header in [*headers, *(["XLA total s", "exponent"] if options.xla else [])]:
        table.add_column(header, justify="left" if header == "shape" else "right")
    for name in options.names or SHAPES:
        table.add_row(*_row(name, options))
        print(name, flush=True)
    Console(width=140).print(table)


def _row(name: str, options: argparse.Namespace) -> list[str]:
    counts, totals, theirs = list[int](), list[float](), list[float]()
    steps: list[dict[str, float]] = []
    for size in options.sizes:
        text = SHAPES[name](size)
        module = xla.parse_hlo(text)
        counts.append(module.instruction_count)
        total, seconds = step_seconds(module)
        totals.append(total)
        steps.append(seconds)
        if options.xla:
            gc.collect()
            start = time.perf_counter()
            compile_hlo(text)
            theirs.append(time.perf_counter() - start)
    if options.steps or options.all_steps:
        _print_steps(name, counts, steps, totals[-1], every=options.all_steps)
    row = [name, *(f"{1e6 * total / count:.0f}" for total, count in zip(totals, counts, strict=True))]
    for seconds_of_all in [totals, theirs] if options.xla else [totals]:
        row += [f"{seconds_of_all[-1]:.2f}", f"{_exponent(counts, seconds_of_all):.2f}" if len(counts) > 1 else ""]
    return row


if __name__ == "__main__":
    main()
