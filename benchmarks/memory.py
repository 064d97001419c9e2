"""Compares the memory of benchmark programs on the platform cpu with that of XLA:CPU. Compiles them; runs nothing.

    python -m benchmarks.memory [PATTERN ...] [--least 1.0] [--json FILE]

Compiles those programs of `cpu`, `jax_programs`, `transformers`, `networks` and `convolutions` whose names match one of
the regular expressions (all without any). Lists the bytes of temporaries and results, the largest ratios first; a ratio
above 1 means that xlapy needs more. Programs with a ratio of at most `--least` are counted only, and so are those that
need less than 64 KiB with xlapy.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.progress import track

import xlapy as xla
from benchmarks import convolutions, networks, programs, transformer_programs, workloads
from benchmarks.convolution_layers import LAYERS

MIN_BYTES = 1 << 16
"""Programs that need fewer bytes are not listed: they fit in the cache of a core in any case."""

UNOPTIMIZED = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options of XLA that shorten its compilation and leave the memory of the program as it is."""

Lowering = Callable[[], Any]
"""Returns a program as JAX lowers it."""


@dataclass(frozen=True)
class Memory:
    """The bytes of temporaries and of results."""

    temporaries: int
    results: int

    @property
    def total(self) -> int:
        return self.temporaries + self.results


@dataclass(frozen=True)
class Row:
    """A program of a benchmark. x64: whether JAX's 64-bit types are enabled."""

    lower: Lowering
    x64: bool = False


def rows() -> Iterator[tuple[str, Row]]:
    """Yields the name of each program, after that of its benchmark, and the program."""
    for name, load in workloads.WORKLOADS.items():
        yield f"cpu: {name}", Row(_lowering(load.function, load.arguments), load.x64)
    for name, program in programs.PROGRAMS.items():
        yield f"jax_programs: {name}", Row(_lowering(program.function, program.arguments))
    for name, part in transformer_programs.PROGRAMS.items():
        yield f"transformers: {name}", Row(_lowering(part.function, part.arguments))
    for name, network in networks.ROWS.items():
        yield f"networks: {name}", Row(lambda row=network: networks.lowered_row(row, *networks.arrays_of(row))[0])
    for name, layer in LAYERS.items():
        yield f"convolutions: {name}", Row(lambda layer=layer: convolutions.lowered_layer(layer)[0])


def _lowering(function: Callable[..., Any], arguments: Callable[[], Sequence[Any]]) -> Lowering:
    return lambda: jax.jit(lambda *given: function(*given), keep_unused=True).lower(*arguments())


def measure(row: Row) -> tuple[Memory, Memory]:
    """Returns the memory of a program on XLA:CPU and on cpu."""
    with jax.enable_x64(True) if row.x64 else nullcontext():
        lowered = row.lower()
        theirs = lowered.compile(UNOPTIMIZED).memory_analysis()
    ours = xla.Client("cpu").compile(lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True))
    theirs, ours = (
        Memory(found.temp_size_in_bytes, found.output_size_in_bytes) for found in (theirs, ours.memory_analysis())
    )
    return theirs, ours


def _ratio(theirs: Memory, ours: Memory) -> float:
    return max(ours.total, 1) / max(theirs.total, 1)


def _table(found: Mapping[str, tuple[Memory, Memory]], least: float) -> Iterator[str]:
    """Yields the lines of the table, and its summary."""
    ratios = {name: _ratio(*pair) for name, pair in found.items()}
    large = {name: ratio for name, ratio in ratios.items() if found[name][1].total >= MIN_BYTES}
    yield f"{'program':60}{'XLA MB':>12}{'xlapy MB':>12}{'ratio':>8}{'results MB':>12}"
    for name in sorted((name for name, ratio in large.items() if ratio > least), key=lambda name: -large[name]):
        theirs, ours = found[name]
        figures = f"{theirs.total / 1e6:>12.3f}{ours.total / 1e6:>12.3f}{ratios[name]:>8.2f}{ours.results / 1e6:>12.3f}"
        yield f"{name:60}{figures}"
    over = sum(ratio > least for ratio in large.values())
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    yield (
        f"{over} of {len(large)} programs of at least {MIN_BYTES >> 10} KiB need more than {least} of XLA's memory; "
        f"{len(ratios) - len(large)} are smaller; geometric mean of all {mean:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("patterns", nargs="*", metavar="PATTERN")
    parser.add_argument("--least", type=float, default=1.0, help="the ratio above which programs are listed")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures of all programs")
    options = parser.parse_args()
    chosen = {n: r for n, r in rows() if not options.patterns or any(re.search(p, n) for p in options.patterns)}
    if not chosen:
        parser.error("no program matches")
    found: dict[str, tuple[Memory, Memory]] = {}
    for name, row in track(chosen.items(), "", console=Console(stderr=True), transient=True):
        found[name] = measure(row)
        jax.clear_caches()
    for line in _table(found, options.least):
        print(line)
    if options.json is not None:
        figures = {name: {"xla": asdict(theirs), "xlapy": asdict(ours)} for name, (theirs, ours) in found.items()}
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
