"""A simulated step as lines, tables and JSON.

Responsible for what is shown. Does not depend on how times are estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from xlapy.analysis.simulation.machine import MachineDescription
from xlapy.analysis.simulation.outcome import Outcome, Usage
from xlapy.analysis.simulation.topology import make_topology
from xlapy.hlo.instruction import Instruction, source_of
from xlapy.text.describe import byte_text, contents_of, framework_name_of

UNKNOWN_SOURCE = "(no source line)"

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


def time_text(seconds: float) -> str:
    """Formats a time with four digits: `1.5 s`, `12.34 ms`, `0.5 us`."""
    size, unit = next((pair for pair in _UNITS if seconds >= pair[0]), _UNITS[-1])
    return f"{seconds / size:.4g} {unit}"


@dataclass(frozen=True, slots=True)
class Report:
    """A simulated module on a machine."""

    name: str
    machine: MachineDescription
    outcome: Outcome

    @property
    def summary(self) -> list[str]:
        """Time, memory and warnings, as lines."""
        outcome, memory = self.outcome, self.outcome.memory
        topology = make_topology(self.machine, outcome.devices)
        launch = f"launch {time_text(outcome.launch)}, " if outcome.launch else ""
        fits = ""
        if self.machine.memory:
            share = memory.peak / self.machine.memory
            fits = f", {share:.0%} of a device" if share <= 1 else f": does not fit in {byte_text(self.machine.memory)}"
        at = f" in {memory.peak_at.name}" if memory.peak_at is not None else ""
        return [
            f"{self.name} on {self.machine.name}: {outcome.devices} devices ({topology.describe()})",
            f"step: {time_text(outcome.seconds)}: {launch}kernels {time_text(outcome.kernel_seconds)}, waiting for "
            f"collectives {time_text(outcome.exposed_seconds)} of {time_text(outcome.communication_seconds)}",
            f"memory: {byte_text(memory.peak)} at most{at}{fits} (arguments {byte_text(memory.arguments)}, results "
            f"{byte_text(memory.results)})",
            *(f"warning: {warning}" for warning in outcome.warnings),
        ]

    @property
    def by_opcode(self) -> list[tuple[str, float]]:
        return self.outcome.by(lambda one: contents_of(one) if one.op.name == "custom-call" else one.op.name)

    @property
    def by_source(self) -> list[tuple[str, float]]:
        """The time by source line or, without lines, by the framework's name."""
        return self.outcome.by(lambda one: source_of(one) or framework_name_of(one) or UNKNOWN_SOURCE)

    @property
    def collectives(self) -> list[tuple[Usage, str, int]]:
        """The collectives with their groups and bytes, the one that the device waits longest for first."""
        outcome = self.outcome
        found = [(outcome.usages[one], use.groups, use.bytes) for one, use in outcome.collectives.items()]
        return sorted(found, key=lambda row: (-row[0].exposed, -row[0].busy))

    @property
    def critical(self) -> list[Usage]:
        """The instructions on the critical path, the one that takes most of it first."""
        found = [usage for usage in self.outcome.usages.values() if usage.critical]
        return sorted(found, key=lambda usage: -usage.critical)

    def to_json(self) -> dict[str, Any]:
        """Everything that the tables have, in seconds and bytes."""
        outcome = self.outcome
        return {
            "name": self.name,
            "machine": self.machine.name,
            "devices": outcome.devices,
            "seconds": outcome.seconds,
            "launch_seconds": outcome.launch,
            "kernel_seconds": outcome.kernel_seconds,
            "communication_seconds": outcome.communication_seconds,
            "exposed_seconds": outcome.exposed_seconds,
            "memory": {
                "peak": outcome.memory.peak,
                "arguments": outcome.memory.arguments,
                "results": outcome.memory.results,
                "peak_at": outcome.memory.peak_at.name if outcome.memory.peak_at is not None else "",
            },
            "by_opcode": dict(self.by_opcode),
            "by_source": dict(self.by_source),
            "collectives": [
                {**_figures(usage), "groups": groups, "bytes": size} for usage, groups, size in self.collectives
            ],
            "critical_path": [_figures(usage) for usage in self.critical],
            "warnings": outcome.warnings,
        }


def _figures(usage: Usage) -> dict[str, Any]:
    one = usage.instruction
    return {
        "name": one.name,
        "opcode": one.op.name,
        "source": source_of(one),
        "executions": usage.executions,
        "busy": usage.busy,
        "exposed": usage.exposed,
        "critical": usage.critical,
    }


def what_of(instruction: Instruction) -> str:
    """Returns the opcode of an instruction, or what is in a fusion or a custom call."""
    return contents_of(instruction) or instruction.op.name


def print_report(console: Console, report: Report, top: int) -> None:
    """Prints the summary and the first `top` rows of each table."""
    for line in report.summary:
        console.print(line, markup=False)
    for table in tables(report, top):
        console.print()
        console.print(table)


def tables(report: Report, top: int) -> Iterator[Table]:
    """Yields the tables that have rows."""
    seconds = report.outcome.seconds
    yield _shares("time by operation", report.by_opcode, seconds, top)
    if report.collectives:
        yield _collectives(report, top)
    yield _critical(report, top)
    if any(name != UNKNOWN_SOURCE for name, _ in report.by_source):
        yield _shares("time by source line", report.by_source, seconds, top)


def share_text(part: float, whole: float) -> str:
    return f"{part / whole if whole else 0:.1%}"


def _shares(title: str, rows: Sequence[tuple[str, float]], whole: float, top: int) -> Table:
    table = _table(title, "time", "share")
    for name, seconds in rows[:top]:
        table.add_row(name, time_text(seconds), share_text(seconds, whole))
    if rest := rows[top:]:
        seconds = sum(one for _, one in rest)
        table.add_row(f"{len(rest)} others", time_text(seconds), share_text(seconds, whole))
    return table


def _collectives(report: Report, top: int) -> Table:
    table = _table("collectives", "groups", "bytes", "times", "busy", "waiting", "share")
    for usage, groups, size in report.collectives[:top]:
        table.add_row(
            usage.instruction.name, groups, byte_text(size), f"{usage.executions:.0f}", time_text(usage.busy),
            time_text(usage.exposed), share_text(usage.exposed, report.outcome.seconds),
        )  # fmt: skip
    if rest := report.collectives[top:]:
        busy, exposed = sum(usage.busy for usage, *_ in rest), sum(usage.exposed for usage, *_ in rest)
        share = share_text(exposed, report.outcome.seconds)
        table.add_row(f"{len(rest)} others", "", "", "", time_text(busy), time_text(exposed), share)
    return table


def _critical(report: Report, top: int) -> Table:
    table = _table("critical path", "what", "times", "time", "share")
    for usage in report.critical[:top]:
        one = usage.instruction
        table.add_row(
            one.name, what_of(one), f"{usage.executions:.0f}", time_text(usage.critical),
            share_text(usage.critical, report.outcome.seconds),
        )  # fmt: skip
    if rest := report.critical[top:]:
        seconds = sum(usage.critical for usage in rest)
        share = share_text(seconds, report.outcome.seconds)
        table.add_row(f"{len(rest)} others", "", "", time_text(seconds), share)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(title, overflow="ellipsis", max_width=60, no_wrap=True)
    for name in columns:
        is_text = name in ("what", "groups")
        table.add_column(name, justify="left" if is_text else "right", overflow="ellipsis", max_width=50, no_wrap=True)
    return table


@dataclass(frozen=True, slots=True)
class SweepRow:
    """A mesh of a sweep, and what its simulation found; or `refusal`, why the program cannot be partitioned for it."""

    mesh: str
    report: Report | None
    refusal: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"mesh": self.mesh, **({"error": self.refusal} if self.report is None else self.report.to_json())}


def print_sweep(console: Console, rows: Sequence[SweepRow]) -> None:
    """Prints one row per mesh, the fastest first."""
    table = _table("mesh", "step", "kernels", "waiting", "memory", "fits")
    found = [(row.mesh, row.report) for row in rows if row.report is not None]
    for mesh, report in sorted(found, key=lambda pair: pair[1].outcome.seconds):
        outcome, available = report.outcome, report.machine.memory
        fits = "" if not available else "yes" if outcome.memory.peak <= available else "no"
        table.add_row(
            mesh, time_text(outcome.seconds), time_text(outcome.kernel_seconds), time_text(outcome.exposed_seconds),
            byte_text(outcome.memory.peak), fits,
        )  # fmt: skip
    console.print(table)
    for row in rows:
        if row.report is None:
            console.print(f"{row.mesh}: {row.refusal}", markup=False)
