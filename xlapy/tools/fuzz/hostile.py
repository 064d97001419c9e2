"""`xlapy fuzz --hostile FORMAT`: damaged inputs of a format; each must be read or rejected within bounds.

Responsible for progress, output and the folder of a fault. Does not depend on formats, nor on how inputs are run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from xlapy.debugging.fuzzing.worker import Worker, WorkerDied
from xlapy.debugging.hostile.campaign import Campaign, HostileFault, HostileReport, batches
from xlapy.debugging.hostile.examiner import Outcome, Verdict
from xlapy.debugging.hostile.formats import input_of
from xlapy.debugging.hostile.reduction import reduce_input

_SECONDS_BETWEEN_LINES = 10.0
_MOST_REDUCED = 20
"""Distinct faults that are reduced; of further ones only the input is saved."""
_REDUCTION_SECONDS = 30.0
INPUT, REDUCED, DESCRIPTION = "input", "reduced", "README.md"
_SEEDS_PER_TURN = 200


def run_hostile(format_: str, seeds: range | None, first: int, seconds: float, jobs: int, output: Path) -> int:
    """Runs the inputs of a range of seeds, or of all from `first` on for `seconds`; returns the exit code."""
    console = Console()
    progress = _Progress(console)
    campaign = Campaign(jobs, progress.show)
    ranges = batches(format_, seeds[0], len(seeds)) if seeds is not None else _for_seconds(format_, first, seconds)
    try:
        campaign.run(ranges)
    except KeyboardInterrupt:
        console.print("interrupted")
    report = campaign.report
    for number, fault in enumerate(report.distinct_faults()):
        folder = _save(output, fault, is_reduced=number < _MOST_REDUCED)
        console.print(f"{folder}: {fault.outcome.verdict.value} {fault.outcome.cause}", markup=False, soft_wrap=True)
    console.print(summary(format_, report), highlight=False, soft_wrap=True)
    return 1 if report.faults else 0


def replay_hostile(format_: str, folder: Path) -> int:
    """Runs the saved input of a folder again."""
    with Worker("xlapy.debugging.hostile.examiner:examine_bytes") as worker:
        for name in (INPUT, REDUCED):
            if (folder / name).exists():
                try:
                    outcome: Outcome = worker.call(format_, (folder / name).read_bytes())
                except WorkerDied as error:
                    outcome = Outcome(Verdict.DIED, message=str(error))
                click.echo(f"{name}: {outcome.verdict.value} {outcome.cause}\n{outcome.message}")
                if outcome.verdict.is_fault:
                    return 1
    return 0


def summary(format_: str, report: HostileReport) -> str:
    """Returns one line with the counts of a report."""
    counts = ", ".join(f"{report.count(format_, one):,} {one.value}" for one in Verdict if report.count(format_, one))
    return (
        f"{report.inputs:,} inputs of {format_}: {counts or 'none'}; {len(report.distinct_faults())} distinct faults; "
        f"at most {report.slowest:.2f} s and {report.largest >> 20} MiB without a fault"
    )


def _for_seconds(format_: str, first: int, seconds: float) -> Iterator[tuple[str, int, int]]:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield format_, first, _SEEDS_PER_TURN
        first += _SEEDS_PER_TURN


class _Progress:
    """Prints each distinct fault once, and now and then the counts."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen: set[tuple[Verdict, str]] = set()
        self._said = time.monotonic()

    def show(self, report: HostileReport, fault: HostileFault | None) -> None:
        if fault is not None and (fault.outcome.verdict, fault.outcome.cause) not in self._seen:
            self._seen.add((fault.outcome.verdict, fault.outcome.cause))
            self._console.print(str(fault), markup=False, highlight=False, soft_wrap=True)
        if time.monotonic() - self._said > _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self._console.print(f"{report.inputs:,} inputs, {len(report.faults):,} faults", highlight=False)


def _save(output: Path, fault: HostileFault, *, is_reduced: bool) -> Path:
    """Writes the input of a fault, a smaller one with the same fault, and the command that runs it again."""
    folder = output / f"{fault.format}-seed{fault.seed}-{fault.outcome.verdict.value.replace(' ', '-')}"
    folder.mkdir(parents=True, exist_ok=True)
    data = input_of(fault.format, fault.seed)
    (folder / INPUT).write_bytes(data)
    if is_reduced:
        (folder / REDUCED).write_bytes(reduce_input(fault.format, data, fault.outcome, _REDUCTION_SECONDS))
    (folder / DESCRIPTION).write_text(
        f"# {fault.outcome.verdict.value}: {fault.outcome.cause}\n\nThe input of seed {fault.seed}.\n\n"
        f"```\n{fault.outcome.message}\n```\n\nAgain: `xlapy fuzz --hostile {fault.format} --replay {folder}`\n",
        errors="backslashreplace",
    )
    return folder
