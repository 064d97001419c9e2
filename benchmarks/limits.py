"""The physical limits of programs: the least time in which the machine can move their bytes and do their arithmetic.

`xlapy profile` counts what each kernel reads, writes and computes; small kernels measure what the machine reaches at
the size and mixture of each (`xlapy.runtime.machine`), in the same run. The limit of a program is the sum of those of
its kernels, each the longer one of memory and arithmetic.

Responsible for the figures and their text. Does not depend on how programs are timed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import xlapy as xla
from xlapy.runtime.machine import Machine
from xlapy.tools.profile.measuring import measure
from xlapy.tools.profile.native import native_rows
from xlapy.tools.profile.rows import Row, all_rows
from xlapy.tools.profile.session import Session

MIN_RUNS, MAX_RUNS = 3, 15
PROFILE_SECONDS = 0.5
"""The duration of the profiled runs of a program, within these numbers of runs."""

WANTED = {"memory": 0.85, "compute": 0.80}
"""The share of the limit that a program should reach, by what bounds it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of a program in seconds per run, and what it follows from.

    bound: `memory` or `compute`, where most of the limit comes from; empty if the program moves and computes nothing.
    amount: bytes or operations of the kernels with this bound. level: the cache, or memory, where most bytes are moved.
    loss: where the program loses most of the time beyond the limit.
    """

    seconds: float
    bound: str = ""
    amount: float = 0.0
    level: str = ""
    loss: str = ""

    def share(self, seconds: float) -> float:
        """The share of the limit that a time of the program reaches."""
        return self.seconds / seconds if seconds else 0.0

    def is_reached(self, seconds: float) -> bool:
        """Whether a time of the program reaches the share that it should."""
        return not self.bound or self.share(seconds) >= WANTED[self.bound]

    @property
    def text(self) -> str:
        """The limit, such as `67 MB at 24 GB/s, memory` or `268 M operations at 190 G/s`."""
        if not self.bound:
            return "-"
        rate = self.amount / self.seconds / 1e9 if self.seconds else 0.0
        amount = self.amount / 1e6
        if self.bound == "memory":
            return f"{amount:.3g} MB at {rate:.3g} GB/s, {self.level}"
        return f"{amount:.4g} M operations at {rate:.3g} G/s"


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """A program with its arguments on the device. A call runs it and waits for its results."""

    executable: xla.Executable
    arguments: Sequence[Any]

    def __call__(self) -> Any:
        return xla.block_until_ready(self.executable(*self.arguments))

    def limit(self, machine: Machine) -> Limit:
        return limit_of(self.executable, self.arguments, machine)


def limit_of(executable: xla.Executable, arguments: Sequence[Any], machine: Machine) -> Limit:
    """Profiles a program on one device, and returns its limit."""
    session = Session(executable, [list(arguments)])
    session.run(executable)
    begin = time.perf_counter()
    session.run(executable)
    spent = time.perf_counter() - begin
    runs = max(MIN_RUNS, min(MAX_RUNS, round(PROFILE_SECONDS / max(spent, 1e-7))))
    measured = measure(executable, session.run, runs)
    rows = [row for _, row in all_rows(native_rows(measured, machine)) if not row.children]
    total = sum(row.minimum_seconds for row in rows)
    in_memory = [row for row in rows if row.memory_seconds >= row.arithmetic_seconds]
    computing = [row for row in rows if row.memory_seconds < row.arithmetic_seconds]
    if not total:
        return Limit(0.0)
    loss = _loss(rows, measured.wall)
    if 2 * sum(row.minimum_seconds for row in in_memory) >= total:
        largest = max(in_memory, key=lambda row: row.minimum_seconds)
        return Limit(total, "memory", sum(row.moved for row in in_memory), largest.level, loss)
    return Limit(total, "compute", sum(row.computed for row in computing), "", loss)


def _loss(rows: Sequence[Row], wall: float) -> str:
    """Says which kernel takes most of the time beyond the limit, or that the time is spent outside of kernels."""
    lost = {id(row): row.seconds - row.minimum_seconds for row in rows}
    worst = max(rows, key=lambda row: lost[id(row)])
    outside = wall - sum(row.seconds for row in rows)
    if outside > lost[id(worst)]:
        return f"{outside / wall:.0%} of the time is outside of kernels"
    kernel = f"{worst.name} ({worst.inside or worst.opcode})"
    return f"{kernel} takes {worst.seconds / wall:.0%} of the time, and reaches {worst.limit:.0%} of its limit"


def shortfalls(limits: dict[str, tuple[Limit, float]]) -> list[str]:
    """Returns lines about the programs that do not reach the share of their limit that they should. limits: of each
    program, with its seconds per run."""
    lines: list[str] = []
    for bound, share in WANTED.items():
        of_bound = {name: pair for name, pair in limits.items() if pair[0].bound == bound}
        below = {name: pair for name, pair in of_bound.items() if not pair[0].is_reached(pair[1])}
        lines.append(
            f"{len(of_bound) - len(below)} of {len(of_bound)} {bound}-bound rows reach {share:.0%} of the limit"
        )
        for name, (limit, seconds) in sorted(below.items(), key=lambda item: item[1][0].share(item[1][1])):
            lines.append(f"  {name}: {limit.share(seconds):.0%} of {limit.text}; {limit.loss}")
    return lines
