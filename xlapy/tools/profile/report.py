"""A profile: the rows of a program, its runs and the machine, as a record, JSON and a table.

Responsible for the record and these formats. Does not depend on how times are measured or on pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from xlapy.analysis.cost import instruction_costs
from xlapy.hlo.module import Module
from xlapy.runtime.machine import Machine
from xlapy.tools.memory import ProgramMemory
from xlapy.tools.profile.rows import HostCallback, Row, Share, all_rows, shares_by


@dataclass(frozen=True, slots=True)
class Profile:
    """Where the time of a run goes. Times are in seconds, on each device."""

    module: Module
    """The module as it runs: after its platform's optimization."""
    platform: str
    rows: list[Row]
    """The rows of the entry computation, most expensive first."""
    wall: float
    """The time of a call, including the work before and after the thunks; on cpu without instruments."""
    instrumented_wall: float
    """The time of a call with instruments."""
    runs: int
    machine: Machine | None
    """The limits of the machine; None if rows are not compared with them."""
    devices: int = 1
    host_callbacks: Sequence[HostCallback] = ()
    """The instructions that the host computes, most expensive first."""
    memory: ProgramMemory | None = None
    """The memory of a run; None if it is unknown before the run."""

    @property
    def thunk_seconds(self) -> float:
        """The seconds of all rows together."""
        return sum(row.seconds for row in self.rows)

    @property
    def unit(self) -> tuple[str, float]:
        """The unit of printed times: its name, and the number of units per second."""
        return ("ms", 1e3) if self.wall >= 1e-3 else ("us", 1e6)

    @property
    def summary(self) -> list[str]:
        """A summary of the measurement, as lines."""
        where = f"{self.platform}, {_counted(self.runs, 'run')}"
        if self.devices > 1:
            where += f", {self.devices} devices"
        inside, outside = self.thunk_seconds, max(0.0, self.wall - self.thunk_seconds)
        lines = [
            f"{self.module.name} on {where}: {time_text(self.wall)} per run, {time_text(inside)} "
            f"({inside / self.wall if self.wall else 0:.1%}) in thunks, {time_text(outside)} outside"
        ]
        if self.instrumented_wall != self.wall:
            lines[0] += f"; measuring adds {max(0.0, self.instrumented_wall / self.wall - 1):.1%}"
        for one in self.host_callbacks:
            share = one.seconds / self.wall if self.wall else 0.0
            lines += [
                f"the host computes {one.name} ({one.opcode}) {_count_text(one.executions)} times per run, "
                f"{time_text(one.seconds)} ({share:.1%}): {one.reason}"
            ]
        if self.memory is not None:
            lines += [f"{self.memory.summary}; {self.memory.peak_text}"]
        if self.machine is not None:
            lines += [_limits_text(self.machine)]
        return lines

    def shares(self, key: str) -> list[Share]:
        """Returns the time by `source` or `opcode`, most expensive first."""
        return shares_by(self.rows, key, instruction_costs(self.module))

    def to_json(self) -> dict[str, Any]:
        """Returns plain values; `rows` are in the order of the table, each with its depth."""
        return {
            "module": self.module.name,
            "platform": self.platform,
            "summary": self.summary,
            "runs": self.runs,
            "devices": self.devices,
            "seconds": self.wall,
            "instrumented_seconds": self.instrumented_wall,
            "thunk_seconds": self.thunk_seconds,
            "host_callbacks": [asdict(one) for one in self.host_callbacks],
            "memory": None if self.memory is None else asdict(self.memory),
            "machine": None if self.machine is None else _machine_json(self.machine),
            "rows": [_row_json(depth, row, self.wall) for depth, row in all_rows(self.rows)],
            "by_source": [_share_json(share, self.wall) for share in self.shares("source")],
            "by_opcode": [_share_json(share, self.wall) for share in self.shares("opcode")],
        }


def _machine_json(machine: Machine) -> dict[str, Any]:
    """Returns the figures of a machine; `levels` has the bandwidth of each level of memory, on one and all threads."""
    levels = {
        name: [{"level": level, **asdict(bandwidth)} for level, bandwidth in machine.levels(roofline)]
        for name, roofline in (("one", machine.one), ("all", machine.all))
    }
    return {**asdict(machine), "levels": levels}


def _row_json(depth: int, row: Row, wall: float) -> dict[str, Any]:
    return {
        "name": row.name,
        "opcode": row.opcode,
        "inside": row.inside,
        "source": row.source,
        "framework": row.framework,
        "depth": depth,
        "seconds": row.seconds,
        "own_seconds": row.own_seconds,
        "share": row.seconds / wall if wall else 0.0,
        "executions": row.executions,
        "iterations": row.iterations,
        "bytes_read": row.read,
        "bytes_written": row.written,
        "flops": row.flops,
        "operations": row.operations,
        "threads": row.threads,
        "limit": row.limit,
        "bound": row.bound,
        "level": row.level,
    }


def _share_json(share: Share, wall: float) -> dict[str, Any]:
    return {
        "name": share.name,
        "seconds": share.seconds,
        "share": share.seconds / wall if wall else 0.0,
        "instructions": sorted(share.rows),
    }


# -- the table


def print_rows(console: Console, profile: Profile, top: int) -> None:
    """Prints the most expensive rows; rows inside loops and branches are indented below them."""
    with_limits = profile.machine is not None
    unit, factor = profile.unit
    table = Table(box=None, header_style="bold", pad_edge=False, expand=True)
    table.add_column("instruction", no_wrap=True, max_width=40)
    for title in (unit, "share", "runs", "GB/s", "GFLOP/s"):
        table.add_column(title, justify="right", no_wrap=True)
    if with_limits:
        table.add_column("limit", justify="right", no_wrap=True)
        table.add_column("bound", no_wrap=True)
        table.add_column("data in", no_wrap=True)
    table.add_column("what", no_wrap=True, style="dim", ratio=1)
    rows = list(all_rows(profile.rows))
    shown = {id(row) for _, row in sorted(rows, key=lambda pair: -pair[1].seconds)[:top]}
    for depth, row in rows:
        if id(row) in shown:
            table.add_row(*_cells(depth, row, profile, with_limits, factor))
    console.print(table)
    if len(rows) > top:
        console.print(f"{len(rows) - top} more (--top {len(rows)})", style="dim")


def _cells(depth: int, row: Row, profile: Profile, with_limits: bool, factor: float) -> list[str | Text]:
    share = row.seconds / profile.wall if profile.wall else 0.0
    cells: list[str | Text] = [
        Text("  " * depth + row.name),
        f"{row.seconds * factor:.4g}",
        Text(f"{share:.1%}", style=_heat(share)),
        _count_text(row.executions) if row.iterations is None else f"{_count_text(row.iterations)} iterations",
        _rate_text(row.per_second(row.moved)),
        _rate_text(row.per_second(row.computed)),
    ]
    if with_limits:
        cells += ["", "", ""] if row.children else [f"{row.limit:.0%}", row.bound, row.level]
    what = row.inside or (row.opcode if row.opcode != row.name.partition(".")[0] else "")
    cells.append(Text(", ".join(part for part in (what, row.source) if part)))
    return cells


def print_shares(console: Console, profile: Profile, key: str, top: int) -> None:
    """Prints the time by source line or by opcode."""
    unit, factor = profile.unit
    table = Table(box=None, header_style="bold", pad_edge=False, expand=True)
    table.add_column("source line" if key == "source" else key, no_wrap=True)
    table.add_column(unit, justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("instructions", no_wrap=True, style="dim", ratio=1)
    shares = profile.shares(key)
    for share in shares[:top]:
        part = share.seconds / profile.wall if profile.wall else 0.0
        names = sorted(share.rows)
        listed = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        table.add_row(
            Text(share.name), f"{share.seconds * factor:.4g}", Text(f"{part:.1%}", style=_heat(part)), Text(listed)
        )
    console.print(table)
    if len(shares) > top:
        console.print(f"{len(shares) - top} more (--top {len(shares)})", style="dim")


def _heat(share: float) -> str:
    return "bold red" if share >= 0.25 else "yellow" if share >= 0.05 else ""


def figures_text(row: Row) -> str:
    """Returns `1.2 ms, 30 runs, 12.3 GB/s, 45.6 GFLOP/s, 37% of the limit (memory)`; the limit only if it was
    compared."""
    count, noun = (row.executions, "run") if row.iterations is None else (row.iterations, "iteration")
    runs = f"{_count_text(count)} {noun}{'' if count == 1 else 's'}"
    parts = [time_text(row.seconds), runs]
    parts += [f"{rate / 1e9:.3g} {unit}" for rate, unit in rates(row) if rate]
    if row.minimum_seconds and not row.children:
        parts.append(f"{row.limit:.0%} of the limit ({row.bound})")
    return ", ".join(parts)


def rates(row: Row) -> list[tuple[float, str]]:
    """Returns the memory traffic and arithmetic per second, with their units in billions."""
    return [(row.per_second(row.moved), "GB/s"), (row.per_second(row.computed), "GFLOP/s")]


def time_text(seconds: float) -> str:
    """Formats a time: `1.234 s`, `12.3 ms`, `4.56 us`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.4g} {unit}"
    return f"{seconds * 1e6:.4g} us"


def _rate_text(rate: float) -> str:
    return f"{rate / 1e9:.3g}" if rate else ""


def _count_text(count: float) -> str:
    return f"{count:,.0f}" if count == round(count) or count >= 100 else f"{count:.3g}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _limits_text(machine: Machine) -> str:
    limits = machine.all
    read = ", ".join(f"{name} {b.read / 1e9:.3g}" for name, b in machine.levels(limits))
    return (
        f"{machine.processor}, {_counted(limits.threads, 'thread')}: {read} GB/s, "
        f"f32 {limits.operations['f32'] / 1e9:.4g} and f64 {limits.operations['f64'] / 1e9:.4g} GFLOP/s at most"
    )
