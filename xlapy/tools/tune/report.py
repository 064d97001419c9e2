"""The table of a tuned program, and its figures as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xlapy.tools.profile.report import time_text
from xlapy.tools.tune.tuner import TunedProgram, TunedRow


def print_report(console: Console, tuned: TunedProgram) -> None:
    """Prints a row for each kernel: its part of the run time, the plans before and after, and the times."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("kernel", max_width=44, overflow="fold")
    for title in ("share", "tried", "before", "after", "gain"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("plan", overflow="fold")
    for row in tuned.rows:
        table.add_row(*_cells(row))
    console.print(table)
    if tuned.untuned_kernels:
        console.print(f"{tuned.untuned_kernels} more kernels take little time and were not tuned", style="dim")
    gain = tuned.before / tuned.after if tuned.after else 1.0
    console.print(
        f"{tuned.module.name}: {time_text(tuned.before)} per run before, {time_text(tuned.after)} after "
        f"({gain:.2f}x), {len(tuned.kernels)} of {len(tuned.rows)} plans changed"
    )


def _cells(row: TunedRow) -> list[Text]:
    kernel = row.found.kernel
    gain = f"{row.before / row.after:.2f}x" if row.is_kept and row.after else ""
    return [
        Text(f"{kernel.name}: {kernel.what}"),
        Text(f"{row.share:.1%}"),
        Text(str(max(0, len(row.found.trials) - 1))),
        Text(time_text(row.before)),
        Text(time_text(row.after) if row.is_kept else ""),
        Text(gain, style="bold green" if row.is_kept else ""),
        Text(_outcome(row)),
    ]


def _outcome(row: TunedRow) -> str:
    """Returns the plan that is kept, with the one that it replaces, or why the default plan stays."""
    found, default = row.found, str(row.found.kernel.choice.plan)
    if row.is_kept and found.winner is not None:
        return f"{found.winner.plan}\nwas {default}"
    if found.winner is not None:
        return f"{default}\n{1 / found.winner.ratio:.2f}x alone, but no faster in the program: {found.winner.plan}"
    return f"{default}\n{found.reason}"


def report_json(tuned: TunedProgram) -> dict[str, Any]:
    """Returns the figures as plain values. Times are in seconds."""
    return {
        "module": tuned.module.name,
        "before_seconds": tuned.before,
        "after_seconds": tuned.after,
        "kernels": [_row_json(row) for row in tuned.rows],
        "untuned_kernels": tuned.untuned_kernels,
    }


def _row_json(row: TunedRow) -> Mapping[str, Any]:
    found = row.found
    return {
        "name": found.kernel.name,
        "what": found.kernel.what,
        "fingerprint": found.kernel.fingerprint,
        "share": row.share,
        "limit": found.kernel.limit,
        "before_seconds": row.before,
        "after_seconds": row.after,
        "is_kept": row.is_kept,
        "default_plan": str(found.kernel.choice.plan),
        "plan": None if found.winner is None else str(found.winner.plan),
        "reason": found.reason,
        "wrong_plans": [str(plan) for plan in found.wrong],
        "trials": [{"plan": str(trial.plan), "ratio": trial.ratio} for trial in found.trials],
    }
