"""Measures the benchmark modules of XLA's repository on the platform cpu and on XLA:CPU, alternating.

    python -m benchmarks.xla_modules DIR [NAME ...] [--runs 3] [--json FILE]

DIR holds HLO files, such as `xla/backends/cpu/benchmarks/hlo` of a checkout of XLA; NAME selects files by a part of
their name. Each module is measured in a process of its own: compile and run times (medians), and the memory of
temporaries and results. A ratio above 1 means that xlapy is faster or needs less memory. Then come the geometric means,
those without modules that XLA computes by one thread or element by element (sorts, depthwise convolutions, updates in
place), and the lowest ratio. Modules that need several devices or more memory than there is are listed with the reason.
Nothing else may run on the machine meanwhile.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from xlapy.base.errors import XlaError
from xlapy.tools.bench import Measured, measure_apart
from xlapy.tools.elided_constants import FILL

SPECIAL = re.compile(r"^(argsort|sort|topk|depthwise_conv|in_place)")
"""Names of modules that XLA:CPU computes by one thread or element by element. They are left out of a second mean."""

ENDINGS = (".hlo", ".txt", ".pb")


def ratio(theirs: float | None, ours: float) -> float:
    """Returns XLA's figure divided by xlapy's; nan without XLA's. Both are at least a byte or a nanosecond."""
    return math.nan if theirs is None else max(theirs, 1e-9) / max(ours, 1e-9)


def _row(name: str, found: Measured) -> list[str]:
    cells = [name]
    for theirs, ours, factor, digits in (
        (found.xla_compile_seconds, found.compile_seconds, 1e3, 0),
        (found.xla_run_seconds, found.run_seconds, 1e3, 3),
        (found.xla_live_bytes, found.live_bytes, 1e-6, 2),
    ):
        shown = "-" if theirs is None else f"{theirs * factor:.{digits}f}"
        cells += [shown, f"{ours * factor:.{digits}f}", "-" if theirs is None else f"{_ratio_of(theirs, ours):.2f}"]
    return cells


def _ratio_of(theirs: float, ours: float) -> float:
    return ratio(theirs, ours) if theirs or ours else 1.0


def _table(measured: dict[str, Measured]) -> Table:
    table = Table(box=None)
    table.add_column("module", no_wrap=True)
    for what, unit in (("compile", "ms"), ("run", "ms"), ("live", "MB")):
        for title in (f"{what} XLA {unit}", f"ours {unit}", "ratio"):
            table.add_column(title, justify="right")
    for name, found in measured.items():
        table.add_row(*_row(name, found))
    return table


def summary(measured: dict[str, Measured]) -> list[str]:
    """Returns lines with the geometric means and the lowest ratios of the modules that XLA runs, too."""
    both = {name: found for name, found in measured.items() if found.xla_run_seconds is not None}
    if not both:
        return ["XLA runs none of the modules"]
    plain = {name: found for name, found in both.items() if not SPECIAL.match(name)}
    lines: list[str] = []
    for what, part in (("all", both), ("without sorts, depthwise convolutions and updates in place", plain)):
        if part:
            lines.append(f"run time, {what}: {_means(part, lambda m: ratio(m.xla_run_seconds, m.run_seconds))}")
    lines.append(f"compile time: {_means(both, lambda m: ratio(m.xla_compile_seconds, m.compile_seconds))}")
    sums = [sum(m.compile_seconds for m in both.values()), sum(m.xla_compile_seconds or 0.0 for m in both.values())]
    lines.append(f"compile time in sum: {sums[0]:.2f} s, XLA {sums[1]:.2f} s ({sums[0] / sums[1]:.2f}x)")
    lines.append(f"live memory: {_means(both, lambda m: _ratio_of(m.xla_live_bytes or 0, m.live_bytes))}")
    return lines


def _means(part: dict[str, Measured], ratio_of: Callable[[Measured], float]) -> str:
    ratios = {name: ratio_of(found) for name, found in part.items()}
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    lowest = min(ratios, key=lambda name: ratios[name])
    below = sum(value < 1 for value in ratios.values())
    return (
        f"geometric mean {mean:.2f} of {len(ratios)} modules, lowest {ratios[lowest]:.2f} ({lowest}), {below} below 1"
    )


def measure(files: Sequence[Path], runs: int) -> tuple[dict[str, Measured], dict[str, str]]:
    """Measures modules. Returns the figures of each, and the reasons why others were not measured, by name."""
    measured: dict[str, Measured] = {}
    left_out: dict[str, str] = {}
    for file in track(files, "", console=Console(stderr=True), transient=True):
        try:
            measured[file.stem] = measure_apart(str(file), (), 0, runs, True, FILL)
        except (XlaError, MemoryError) as error:
            left_out[file.stem] = (str(error).splitlines() or [type(error).__name__])[0]
        except BrokenProcessPool:
            left_out[file.stem] = "its process was ended, most likely for its memory"
    return measured, left_out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("names", nargs="*", metavar="NAME", help="parts of names of files; all by default")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures in seconds and bytes")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is no folder")
    files = sorted(f for f in options.folder.iterdir() if f.name.endswith(ENDINGS))
    files = [file for file in files if not options.names or any(name in file.name for name in options.names)]
    if not files:
        parser.error(f"{options.folder} has no such file ({', '.join(ENDINGS)})")
    measured, left_out = measure(files, options.runs)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 170
    console.print(_table(measured))
    print()
    for line in summary(measured):
        print(line)
    refused = {name: found.xla_refusal for name, found in measured.items() if found.xla_refusal is not None}
    for title, reasons in (("XLA does not run", refused), ("not measured", left_out)):
        if reasons:
            print(f"\n{title}:")
            for name, reason in reasons.items():
                print(f"  {name}: {reason}")
    if options.json is not None:
        figures = {name: asdict(found) for name, found in measured.items()}
        options.json.write_text(json.dumps({"measured": figures, "left out": left_out}, indent=1) + "\n")
    sys.exit(0 if measured else 1)


if __name__ == "__main__":
    main()
