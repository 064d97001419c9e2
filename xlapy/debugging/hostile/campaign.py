"""Runs the inputs of many seeds in child processes, and collects the faults.

Responsible for the processes and for what is said when one dies. Does not depend on formats, nor on where faults are
saved.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from xlapy.debugging.fuzzing.worker import Worker, WorkerDied, WorkerTimeout
from xlapy.debugging.hostile.examiner import Outcome, Verdict

_EXAMINER = "xlapy.debugging.hostile.examiner"
WALL_SECONDS = 120.0
"""Seconds after which a process is killed that gives no answer. Its own limits are far lower, but count CPU time, and a
new process also makes its corpus in this time."""
_BATCH = 200
"""Inputs per request to a process."""


@dataclass(frozen=True, slots=True)
class HostileFault:
    """An input, by format and seed, and the fault that it leads to."""

    format: str
    seed: int
    outcome: Outcome

    def __str__(self) -> str:
        outcome = self.outcome
        return f"{self.format} seed {self.seed}: {outcome.verdict.value} {outcome.cause}\n{outcome.message}"


@dataclass(slots=True)
class HostileReport:
    """The number of inputs per format and verdict, and the faults."""

    counts: Counter[tuple[str, Verdict]] = field(default_factory=Counter[tuple[str, Verdict]])
    faults: list[HostileFault] = field(default_factory=list[HostileFault])
    slowest: float = 0.0
    """CPU seconds of the slowest input without a fault."""
    largest: int = 0
    """Bytes of the largest input without a fault."""

    @property
    def inputs(self) -> int:
        return self.counts.total()

    def count(self, format_: str, verdict: Verdict) -> int:
        return self.counts[format_, verdict]

    def distinct_faults(self) -> list[HostileFault]:
        """Returns the first fault of each format, verdict and cause."""
        distinct: dict[tuple[str, Verdict, str], HostileFault] = {}
        for fault in self.faults:
            distinct.setdefault((fault.format, fault.outcome.verdict, fault.outcome.cause), fault)
        return list(distinct.values())

    def add(self, format_: str, seed: int, outcome: Outcome) -> HostileFault | None:
        """Counts an outcome, and returns the fault if it is one."""
        self.counts[format_, outcome.verdict] += 1
        if outcome.verdict.is_fault:
            self.faults.append(fault := HostileFault(format_, seed, outcome))
            return fault
        self.slowest, self.largest = max(self.slowest, outcome.seconds), max(self.largest, outcome.memory)
        return None


class Campaign:
    """Runs ranges of seeds, each in one of `jobs` processes. `on_progress` is called after each input, by one thread at
    a time, with the report so far and the fault of the input, if any."""

    def __init__(self, jobs: int, on_progress: Callable[[HostileReport, HostileFault | None], None]) -> None:
        self.report = HostileReport()
        self._jobs = jobs
        self._on_progress = on_progress
        self._lock = threading.Lock()

    def run(self, seeds: Iterator[tuple[str, int, int]]) -> HostileReport:
        """Examines ranges of seeds (format, first, count). A range is taken when a process is free."""
        with ThreadPoolExecutor(self._jobs) as threads:
            for future in [threads.submit(self._run_ranges, seeds) for _ in range(self._jobs)]:
                future.result()
        return self.report

    def _run_ranges(self, seeds: Iterator[tuple[str, int, int]]) -> None:
        with Worker(f"{_EXAMINER}:examine_seeds", seconds=WALL_SECONDS) as worker:
            while True:
                with self._lock:
                    batch = next(seeds, None)
                if batch is None:
                    return
                self._run_range(worker, *batch)

    def _run_range(self, worker: Worker, format_: str, first: int, count: int) -> None:
        end = first + count
        while first < end:
            done: list[Outcome] = []

            def add(outcome: Outcome, start: int = first, done: list[Outcome] = done) -> None:
                self._add(format_, start + len(done), outcome)
                done.append(outcome)

            try:
                worker.follow(add, format_, first, end - first)
            except WorkerDied as error:
                verdict = Verdict.HANG if isinstance(error, WorkerTimeout) else Verdict.DIED
                add(Outcome(verdict, message=str(error)))
            first += len(done)

    def _add(self, format_: str, seed: int, outcome: Outcome) -> None:
        with self._lock:
            self._on_progress(self.report, self.report.add(format_, seed, outcome))


def batches(format_: str, first: int, count: int) -> Iterator[tuple[str, int, int]]:
    """Splits a range of seeds into ranges of a size for one request."""
    for start in range(first, first + count, _BATCH):
        yield format_, start, min(_BATCH, first + count - start)
