"""What may become of a pass or a program, and the process in which it happens.

Owns: the kinds of fault, how they are recognised. Must not know: which pass is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np

from xlapy.base.program_shape import ProgramShape
from xlapy.debugging.bisecting.child import Ended, Started
from xlapy.debugging.bisecting.signature import given_now, result_then
from xlapy.debugging.fuzzing.implementations import XLA, find_implementation
from xlapy.debugging.fuzzing.worker import Worker, WorkerDied, WorkerError, WorkerTimeout
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_values import is_integer
from xlapy.text import parse_hlo

Value = Any

_SERVE = "xlapy.debugging.bisecting.child:serve"


class Kind(Enum):
    """What is wrong."""

    RAISES = "raises an error"
    DIES = "ends the process"
    HANGS = "does not come to an end"
    BREAKS = "leaves a module that is not sound"
    CHANGES = "changes the result"
    REFUSED = "makes a program that is refused"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and the words for it."""

    kind: Kind
    message: str

    def is_like(self, other: Fault | None) -> bool:
        """Whether the other is of the same kind, and raised by the same exception if it was."""
        if other is None or other.kind is not self.kind:
            return False
        return self.kind is not Kind.RAISES or self.message.split(":")[0] == other.message.split(":")[0]


@dataclass(frozen=True, slots=True)
class Place:
    """One run of a pass: the how manyth of all runs, of runs of this pass; where the pass stands; its group's round."""

    number: int
    place: str
    name: str
    nth: int
    round: int

    def __str__(self) -> str:
        round_ = f", round {self.round} of its group" if self.round else ""
        return f"pass run {self.number}: {self.name} at place {self.place} (its {_ordinal(self.nth)} run{round_})"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number}{ending}"


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a pass that is over. text: the module behind it, if it is another than before."""

    place: Place
    text: str | None
    misreported: bool


@dataclass(slots=True)
class Way:
    """The runs of passes over a module, and what ended them before their time: the last run's fault."""

    runs: list[Run] = field(default_factory=list[Run])
    stopped: Place | None = None
    fault: Fault | None = None
    broken: str | None = None
    """The text of a module that is not sound."""


@dataclass(slots=True)
class Laboratory:
    """Runs passes and programs where nothing they do matters. values: the arguments, of each device.

    seconds: that one pass or one program may take.
    """

    first: ProgramShape
    values: Sequence[Sequence[Value]]
    replicas: int = 1
    loads: tuple[str, ...] = ()
    seconds: float = 60.0
    worker: Worker = field(init=False)

    def __post_init__(self) -> None:
        self.worker = Worker(_SERVE, seconds=self.seconds)

    def passes(self, text: str, chosen: str | None, only: str | None, told: Callable[[Place], None]) -> Way:
        """Runs passes as `child.run_passes` says, as far as they go."""
        way, counts = Way(), dict[str, int]()
        place: Place | None = None

        def hear(item: Started | Ended) -> None:
            nonlocal place
            if isinstance(item, Started):
                counts[item.place] = counts.get(item.place, 0) + 1
                place = Place(item.number, item.place, item.name, counts[item.place], item.round)
                told(place)
                return
            assert place is not None
            if item.broken:
                way.stopped, way.broken = place, item.text
                way.fault = Fault(Kind.BREAKS, item.broken)
            else:
                way.runs.append(Run(place, item.text, item.reported != (item.text is not None)))
            place = None

        try:
            self.worker.follow(hear, "passes", self.loads, text, chosen, only)
        except (WorkerError, WorkerDied) as error:
            if place is None:  # before the first pass: the question was wrong
                raise
            way.stopped, way.fault = place, fault_of(error)
        return way

    def interpreted(self, text: str) -> list[Value] | Fault:
        """The result on each device, in the form that the program had first."""
        return self._result("platform", text, "interpreter", self.replicas)

    def nudged(self, text: str) -> list[Value] | Fault:
        """The same for arguments that differ in the last bit."""
        rng = np.random.default_rng(0)
        values = [[nudged(value, rng) for value in given] for given in self.values]
        return replaced(self, self.first, values).interpreted(text)

    def native(self, text: str) -> list[Value] | Fault:
        """The same of all of cpu."""
        return self._result("platform", text, "cpu", self.replicas)

    def generated(self, text: str) -> list[Value] | Fault:
        """The same of cpu without passes."""
        return self._result("optimized", text, self.replicas)

    def first_change(self, before: str, after: str) -> list[str]:
        """Where values part on the way, as `values.first_change` says; nothing if that cannot be told."""
        try:
            given = given_now(self.values[0], self.first, parse_hlo(before).entry_computation.program_shape)
            lines: list[str] = self.worker.call("change", self.loads, before, after, given)
        except (WorkerError, WorkerDied):
            return []
        return lines

    def xla(self, text: str) -> list[Value] | Fault:
        """The result of XLA:CPU, on one device."""
        implementation = find_implementation(XLA)
        given = given_now(self.values[0], self.first, self.first)
        with Worker(implementation.function, seconds=self.seconds) as worker:
            try:
                return [implementation.run(worker, parse_hlo(text), given)]
            except (WorkerError, WorkerDied) as error:
                return fault_of(error)

    def _result(self, task: str, text: str, *more: Any) -> list[Value] | Fault:
        now = parse_hlo(text).entry_computation.program_shape
        given = [given_now(values, self.first, now) for values in self.values]
        try:
            results = self.worker.call(task, self.loads, text, given, *more)
        except (WorkerError, WorkerDied) as error:
            return fault_of(error)
        return [result_then(result, self.first, now) for result in results]


def replaced(laboratory: Laboratory, shape: ProgramShape, values: Sequence[Sequence[Value]]) -> Laboratory:
    """A laboratory with the same process, for a program of another signature or for other arguments."""
    made = replace(laboratory, first=shape, values=values)
    made.worker = laboratory.worker
    return made


def nudged(value: Value, rng: np.random.Generator) -> Value:
    """Floats one unit in the last place larger or smaller, or as they are."""
    if isinstance(value, tuple):
        return tuple(nudged(element, rng) for element in value)
    if not isinstance(value, np.ndarray) or value.dtype.kind == "b" or is_integer(value.dtype):
        return value
    eps = float(ml_dtypes.finfo(value.dtype).eps)
    factor = 1 + eps * rng.integers(-1, 2, value.shape)
    wide = value.astype(np.complex128 if value.dtype.kind == "c" else np.float64)
    return (wide * factor).astype(value.dtype)


def fault_of(error: WorkerError | WorkerDied) -> Fault:
    """What an answer that is no result says."""
    message = str(error)
    if isinstance(error, WorkerError):
        kind = Kind.REFUSED if message.startswith("UnsupportedError") else Kind.RAISES
    else:
        kind = Kind.HANGS if isinstance(error, WorkerTimeout) else Kind.DIES
    return Fault(kind, message)


def difference(actual: list[Value] | Fault, expected: Sequence[Value], *, flush: bool = False) -> Fault | None:
    """What is wrong with the results of all devices, by the rule of whole programs; None if nothing is."""
    if isinstance(actual, Fault):
        return actual
    for number, (left, right) in enumerate(zip(actual, expected, strict=True)):
        where = f"result of device {number}" if len(expected) > 1 else "result"
        try:
            assert_close(left, right, rule="program", flush_denormals=flush, where=where)
        except AssertionError as error:
            return Fault(Kind.CHANGES, str(error))
    return None
