"""What every stress test has: a short and a long form, a seed, progress, figures, faults, and child processes.

A stress test is a module of this folder with `STRESS = Stress(...)`. Its function receives a `Run`, counts and reports
with it, and fails by `run.fault(...)`; it does not stop at the first fault. What may end or block the process is called
by `call_in_child`. Does not depend on what is tested.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
_NOT_STRESS_TESTS = (
    "harness",
    "child",
    "programs",
    "jax_programs",
    "explored",
    "mutants",
    "equivalent_mutants",
    "killed_processes",
)
_SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is done: `count` units (what a unit is, the stress test says), or `seconds` of time."""

    count: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        if self == ALL:
            return "all"
        return f"{self.count:,} times" if self.count is not None else f"{self.seconds:g} seconds"


ALL = Amount(seconds=math.inf)
"""Until nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Stress:
    """A stress test: `run` does `short` in the suite, and `long` by `make stress`."""

    what: str
    """What is done and what must not happen, in one line."""
    short: Amount
    long: Amount
    run: Callable[[Run], None]


@dataclass(slots=True)
class Run:
    """A run of a stress test: what it is asked to do, and what it has found."""

    name: str
    seed: int
    amount: Amount
    short: bool
    files: Sequence[str] = ()
    """The files of the package to work on, for stress tests of source files; all if empty."""
    done: int = 0
    """Finished units."""
    faults: list[str] = field(default_factory=list[str])
    figures: dict[str, object] = field(default_factory=dict[str, object])
    """What the final table shows."""
    _started: float = field(default_factory=time.monotonic)
    _said: float = field(default_factory=time.monotonic)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def goes_on(self) -> bool:
        """Whether units are left to do."""
        if self.amount.count is not None:
            return self.done < self.amount.count
        assert self.amount.seconds is not None
        return self.elapsed < self.amount.seconds

    def advance(self, units: int = 1, note: str = "") -> None:
        """Counts finished units, and prints a line now and then."""
        self.done += units
        if time.monotonic() - self._said > _SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self.say(f"{self.done:,} of {self.amount}, {len(self.faults)} faults{', ' + note if note else ''}")

    def fault(self, text: str) -> None:
        """Records a fault; the text says how it is reproduced."""
        self.faults.append(text)
        self.say(f"FAULT: {text}")

    def count(self, figure: str, number: int = 1) -> None:
        """Adds to a figure that counts."""
        self.figures[figure] = int(str(self.figures.get(figure, 0))) + number

    def say(self, line: str) -> None:
        print(f"[{self.name} {self.elapsed:7.1f} s] {line}", file=sys.stderr, flush=True)

    def table(self) -> str:
        """Returns the final figures as a table."""
        rows = {
            "seed": self.seed,
            "amount": self.amount,
            "done": f"{self.done:,}",
            "seconds": f"{self.elapsed:.1f}",
            **self.figures,
            "faults": len(self.faults),
        }
        width = max(map(len, rows))
        return "\n".join([self.name, *(f"  {name:<{width}}  {_shown(value)}" for name, value in rows.items())])


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else str(value)


# -- stress tests


def names() -> list[str]:
    """Returns the names of all stress tests."""
    stems = (path.stem for path in sorted(FOLDER.glob("*.py")))
    return [stem for stem in stems if stem not in _NOT_STRESS_TESTS and not stem.startswith(("_", "test_"))]


def load(name: str) -> Stress:
    stress = importlib.import_module(f"tests.stress.{name}").STRESS
    assert isinstance(stress, Stress)
    return stress


def perform(
    name: str, seed: int, amount: Amount | None = None, *, short: bool = False, files: Sequence[str] = ()
) -> Run:
    """Runs a stress test to its end, and returns what it has done and found. An exception of it is a fault."""
    stress = load(name)
    run = Run(name, seed, amount or (stress.short if short else stress.long), short, files)
    try:
        stress.run(run)
    except Exception:
        run.fault(f"the stress test itself failed:\n{traceback.format_exc()}")
    return run


# -- child processes


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of a child process: the value that its function returned, or what it died of and its last output."""

    value: Any = None
    death: str = ""

    @property
    def is_death(self) -> bool:
        return bool(self.death)


def call_in_child(
    function: str,
    arguments: Mapping[str, Any],
    seconds: float,
    *,
    memory: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Answer:
    """Calls `module:function` with keywords in a process of its own, which may die or block.

    Arguments and value are JSON. After `seconds` the process is aborted, and prints the stack of each of its threads.
    memory: bytes of address space that the process may have.
    """
    with tempfile.TemporaryFile("w+") as answer:
        command = [
            sys.executable, "-X", "faulthandler", "-m", "tests.stress.child", function, str(answer.fileno()),
            str(memory or 0),
        ]  # fmt: skip
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(answer.fileno(),),
            text=True,
        )
        errors, how = _end_of(process, json.dumps(arguments), seconds)
        answer.seek(0)
        written = answer.read()
    if not how and process.returncode < 0:
        how = f"died by {signal.Signals(-process.returncode).name}"
    elif not how and (process.returncode or not written):
        how = f"ended with exit code {process.returncode}"
    if how:
        return Answer(death=f"{how}\n{errors[-6000:]}")
    return Answer(json.loads(written))


def _end_of(process: subprocess.Popen[str], arguments: str, seconds: float) -> tuple[str, str]:
    """Waits for a process; returns its errors, and "" or why it was ended."""
    try:
        return process.communicate(arguments, timeout=seconds)[1], ""
    except subprocess.TimeoutExpired:
        how = f"no answer within {seconds:g} seconds"
        process.send_signal(signal.SIGABRT)
    try:
        return process.communicate(timeout=20)[1], how
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1], how
