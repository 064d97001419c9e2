"""Runs passes and programs in a child process, and classifies their faults.

Responsible for the kinds of faults and how they are recognized. Does not depend on how the faulty pass is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from xlapy.base.program_shape import ProgramShape
from xlapy.debugging.bisecting.signature import to_current_arguments, to_original_result
from xlapy.debugging.bisecting.worker_tasks import PassEnded, PassStarted
from xlapy.debugging.fuzzing.implementations import XLA, find_implementation
from xlapy.debugging.fuzzing.worker import Worker, WorkerDied, WorkerError, WorkerTimeout
from xlapy.testing.program_tolerance import ProgramTolerance
from xlapy.text import parse_hlo

Value = Any

_SERVE = "xlapy.debugging.bisecting.worker_tasks:serve"


class FaultKind(Enum):
    """The kinds of faults of a pass or of a compiled program."""

    RAISES = "raises an error"
    DIES = "ends the process"
    HANGS = "hangs"
    BREAKS = "leaves an invalid module"
    CHANGES = "changes the result"
    REFUSED = "makes a program that cannot be compiled"


@dataclass(frozen=True, slots=True)
class ProgramFault:
    """A fault of a pass or of a compiled program. message: the error message, or how the results differ."""

    kind: FaultKind
    message: str

    def is_like(self, other: ProgramFault | None) -> bool:
        """Whether the other fault is of the same kind and, if it is an error, raised by the same exception class."""
        if other is None or other.kind is not self.kind:
            return False
        return self.kind is not FaultKind.RAISES or self.message.split(":")[0] == other.message.split(":")[0]


@dataclass(frozen=True, slots=True)
class PassPosition:
    """One run of a pass in a pipeline.

    run_number: the number of pass runs before it. position: the position of the pass in the pipeline, `11.0` for the
    first pass of group 11. nth_run: the number of runs of this pass so far, from 1. iteration: the iteration of its
    group, from 1; 0 outside of groups.
    """

    run_number: int
    position: str
    name: str
    nth_run: int
    iteration: int

    def __str__(self) -> str:
        nth = f"its {_ordinal(self.nth_run)} run"
        iteration = f", iteration {self.iteration} of its group" if self.iteration else ""
        return f"pass run {self.run_number}: {self.name} at position {self.position} ({nth}{iteration})"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0, "th")
    return f"{number}{ending}"


@dataclass(frozen=True, slots=True)
class PassRun:
    """A completed run of a pass. text: the module after it; None if it did not change. is_misreported: whether the pass
    reported wrongly if it changed the module.
    """

    position: PassPosition
    text: str | None
    is_misreported: bool


@dataclass(slots=True)
class PassTrace:
    """The completed runs of passes over a module, and the run that stopped at a fault, if any."""

    runs: list[PassRun] = field(default_factory=list[PassRun])
    stopped_at: PassPosition | None = None
    fault: ProgramFault | None = None
    invalid_text: str | None = None
    """The text of the invalid module that the last run left, if it did."""


@dataclass(slots=True)
class BisectSession:
    """Runs passes and programs in a child process, so that a crash or a hang is a result.

    original_shape: the signature of the program before any pass. arguments: the arguments of each device.
    timeout_seconds: the maximum time of one pass or one run of a program.
    """

    original_shape: ProgramShape
    arguments: Sequence[Sequence[Value]]
    replicas: int = 1
    loads: tuple[str, ...] = ()
    timeout_seconds: float = 60.0
    worker: Worker = field(init=False)

    def __post_init__(self) -> None:
        self.worker = Worker(_SERVE, seconds=self.timeout_seconds)

    def with_arguments(self, shape: ProgramShape, arguments: Sequence[Sequence[Value]]) -> BisectSession:
        """Returns a session with the same process, for a program with another signature or for other arguments."""
        session = replace(self, original_shape=shape, arguments=arguments)
        session.worker = self.worker
        return session

    def run_passes(
        self, text: str, passes: str | None, only_position: str | None, report_position: Callable[[PassPosition], None]
    ) -> PassTrace:
        """Runs passes on a module as `worker_tasks.run_passes` does, up to the first fault."""
        trace, counts = PassTrace(), dict[str, int]()
        position: PassPosition | None = None

        def receive(item: PassStarted | PassEnded) -> None:
            nonlocal position
            if isinstance(item, PassStarted):
                counts[item.position] = counts.get(item.position, 0) + 1
                position = PassPosition(
                    item.run_number, item.position, item.name, counts[item.position], item.iteration
                )
                report_position(position)
                return
            assert position is not None
            if item.verifier_error:
                trace.stopped_at, trace.invalid_text = position, item.text
                trace.fault = ProgramFault(FaultKind.BREAKS, item.verifier_error)
            else:
                trace.runs.append(PassRun(position, item.text, item.reported_change != (item.text is not None)))
            position = None

        try:
            self.worker.follow(receive, "passes", self.loads, text, passes, only_position)
        except (WorkerError, WorkerDied) as error:
            if position is None:  # no pass has started: the options are invalid
                raise
            trace.stopped_at, trace.fault = position, fault_from_error(error)
        return trace

    def run_interpreter(self, text: str) -> list[Value] | ProgramFault:
        """Returns the interpreter's result on each device, in the form of the original signature."""
        return self._run("platform", text, "interpreter", self.replicas)

    def find_tolerances(
        self, text: str, *, flush_denormals: bool = False, excess_precision: bool = False
    ) -> list[ProgramTolerance] | ProgramFault:
        """Returns the interpreter's result on each device, in the form of the original signature, and its tolerance."""
        current_shape = parse_hlo(text).entry_computation.program_shape
        given = [to_current_arguments(values, self.original_shape, current_shape) for values in self.arguments]
        try:
            found: list[ProgramTolerance] = self.worker.call(
                "interpret", self.loads, text, given, self.replicas, flush_denormals, excess_precision
            )
        except (WorkerError, WorkerDied) as error:
            return fault_from_error(error)
        return found

    def run_cpu(self, text: str) -> list[Value] | ProgramFault:
        """Returns the results of cpu, passes included."""
        return self._run("platform", text, "cpu", self.replicas)

    def run_generated_code(self, text: str) -> list[Value] | ProgramFault:
        """Returns the results of cpu for an optimized module, without passes."""
        return self._run("optimized", text, self.replicas)

    def first_changed_value(self, before: str, after: str) -> list[str]:
        """Describes the first value that a pass changed, as `describe_first_change` does. Returns an empty list if this
        fails.
        """
        try:
            given = to_current_arguments(
                self.arguments[0], self.original_shape, parse_hlo(before).entry_computation.program_shape
            )
            lines: list[str] = self.worker.call("change", self.loads, before, after, given)
        except (WorkerError, WorkerDied):
            return []
        return lines

    def run_xla(self, text: str) -> list[Value] | ProgramFault:
        """Returns the result of XLA:CPU on one device."""
        implementation = find_implementation(XLA)
        given = to_current_arguments(self.arguments[0], self.original_shape, self.original_shape)
        with Worker(implementation.function, seconds=self.timeout_seconds) as worker:
            try:
                return [implementation.run(worker, parse_hlo(text), given)]
            except (WorkerError, WorkerDied) as error:
                return fault_from_error(error)

    def _run(self, task: str, text: str, *options: Any) -> list[Value] | ProgramFault:
        current_shape = parse_hlo(text).entry_computation.program_shape
        given = [to_current_arguments(values, self.original_shape, current_shape) for values in self.arguments]
        try:
            results = self.worker.call(task, self.loads, text, given, *options)
        except (WorkerError, WorkerDied) as error:
            return fault_from_error(error)
        return [to_original_result(result, self.original_shape, current_shape) for result in results]


def fault_from_error(error: WorkerError | WorkerDied) -> ProgramFault:
    """Returns the fault that an error of the worker stands for."""
    message = str(error)
    if isinstance(error, WorkerError):
        kind = FaultKind.REFUSED if message.startswith("UnsupportedError") else FaultKind.RAISES
    else:
        kind = FaultKind.HANGS if isinstance(error, WorkerTimeout) else FaultKind.DIES
    return ProgramFault(kind, message)


def find_result_fault(actual: list[Value] | ProgramFault, expected: Sequence[ProgramTolerance]) -> ProgramFault | None:
    """Returns the first fault in the results of all devices; None if they are within the tolerances."""
    if isinstance(actual, ProgramFault):
        return actual
    for number, (left, tolerance) in enumerate(zip(actual, expected, strict=True)):
        where = f"result of device {number}" if len(expected) > 1 else "result"
        try:
            tolerance.assert_close(left, where)
        except AssertionError as error:
            return ProgramFault(FaultKind.CHANGES, str(error))
    return None
