"""Writes the results of `benchmarks/cpu.py` as a table for the terminal, the same table as Markdown, and a chart."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.limits import Limit, shortfalls

Results = Mapping[str, Mapping[str, Any]]
"""The measurements of each workload: by setting, then by workload."""


def write(results: Results, groups: Mapping[str, str], folder: Path) -> None:
    """Prints the table, and writes cpu.json, cpu.md and cpu.svg into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [_row(name, results) for name in groups]
    Console(width=210).print(_table(results, rows))
    summary = [*_summary(results, groups), *_totals(results)]
    summary += [f"{setting}: {line}" for setting in results for line in shortfalls(_limits(results[setting]))]
    print("\n" + "\n".join(summary))
    (folder / "cpu.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "cpu.md").write_text(_markdown(results, rows, summary))
    _chart(results, groups, folder / "cpu.svg")
    print(f"\nwritten to {folder}: cpu.json, cpu.md, cpu.svg")


def ratio(figures: Mapping[str, Any], kind: str, reference: str = "xla") -> float:
    """Returns the figure of `reference` divided by xlapy's, or nan if there is none for `reference`."""
    ours = figures[kind]["ours"]
    return figures[kind].get(reference, math.nan) / ours if ours else math.nan


def _limits(by_name: Mapping[str, Any]) -> dict[str, tuple[Limit, float]]:
    """Returns the limit and the run time of each workload."""
    return {name: (Limit(**figures["limit"]), figures["run"]["ours"]) for name, figures in by_name.items()}


def _headers(results: Results) -> list[str]:
    headers = ["workload"]
    for setting in results:
        headers += [f"XLA ms, {setting}", "ours ms", "ratio", "of limit"]
    return [*headers, "limit", "torch ratio", "compile XLA ms", "ours ms", "live XLA MB", "ours MB"]


def _row(name: str, results: Results) -> list[str]:
    cells = [name]
    for figures in (by_name[name] for by_name in results.values()):
        run = figures["run"]
        share = Limit(**figures["limit"]).share(run["ours"])
        cells += [f"{run['xla'] * 1e3:.3f}", f"{run['ours'] * 1e3:.3f}", f"{ratio(figures, 'run'):.2f}", f"{share:.0%}"]
    figures = next(iter(results.values()))[name]
    cells.append(Limit(**figures["limit"]).text)
    torch = ratio(figures, "run", "torch")
    cells.append("" if math.isnan(torch) else f"{torch:.2f}")
    cells += [f"{figures['compile'][platform] * 1e3:.0f}" for platform in ("xla", "ours")]
    return cells + [f"{figures['live'][platform] / 1e6:.3f}" for platform in ("xla", "ours")]


def _table(results: Results, rows: Iterable[Sequence[str]]) -> Table:
    table = Table(box=None)
    for number, header in enumerate(_headers(results)):
        table.add_column(header, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _markdown(results: Results, rows: Sequence[Sequence[str]], summary: Sequence[str]) -> str:
    headers = _headers(results)
    lines = [f"| {' | '.join(headers)} |", f"|{'|'.join(['---', *['---:'] * (len(headers) - 1)])}|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *[f"- {line}" for line in summary]]) + "\n"


def _summary(results: Results, groups: Mapping[str, str]) -> list[str]:
    """Returns lines with the geometric mean and the lowest ratio of each group of workloads."""
    lines: list[str] = []
    for setting, by_name in results.items():
        for group in dict.fromkeys(groups.values()):
            found = {name: ratio(by_name[name], "run") for name in groups if groups[name] == group}
            least = min(found, key=lambda name: found[name])
            mean = math.exp(sum(map(math.log, found.values())) / len(found))
            lines.append(f"{setting}, {group}: geometric mean {mean:.2f}, lowest {found[least]:.2f} ({least})")
    return lines


def _totals(results: Results) -> list[str]:
    """Returns lines with the total compile times and the workloads with the worst compile-time and memory ratios."""
    figures = next(iter(results.values()))
    sums = {platform: sum(f["compile"][platform] for f in figures.values()) * 1e3 for platform in ("xla", "ours")}
    longest = min(figures, key=lambda name: ratio(figures[name], "compile"))
    largest = min(figures, key=lambda name: ratio(figures[name], "live"))
    share = 1 / ratio(figures[longest], "compile")
    live = 1 / ratio(figures[largest], "live")
    return [
        f"total compile time: XLA {sums['xla']:.0f} ms, ours {sums['ours']:.0f} ms; at most {share:.2f}x ({longest})",
        f"live memory of temporaries and results: at most {live:.2f}x XLA's ({largest})",
    ]


def _chart(results: Results, groups: Mapping[str, str], path: Path) -> None:
    """Draws the ratios as bars on a logarithmic scale, in the order of the groups."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "xlapy"
    names = list(groups)[::-1]
    figure, axes = pyplot.subplots(figsize=(9, 1 + 0.32 * len(names)))
    height = 0.8 / len(results)
    for number, (setting, by_name) in enumerate(results.items()):
        ratios = [ratio(by_name[name], "run") for name in names]
        positions = [position + 0.4 - height * (number + 0.5) for position in range(len(names))]
        bars = axes.barh(positions, [r - 1 for r in ratios], height, left=1, label=f"glibc {setting}")
        axes.bar_label(bars, [f"{r:.2f}" for r in ratios], padding=2, fontsize=7)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", yticks=range(len(names)), yticklabels=names, xlabel="time of XLA:CPU / time of xlapy")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.margins(y=0.01, x=0.15)
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
