"""Finds the first instruction of a program whose value on a platform differs from the interpreter's.

Each instruction of the entry is first compiled alone and run on the interpreter's operands. Some faults, such as those
of a fusion or of a buffer reused too early, do not appear this way; then the program is truncated after one instruction
after the other, until its result differs.

Responsible for this search. Does not depend on the platform or on how differences are displayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xlapy.base.errors import XlaError
from xlapy.debugging.fuzzing.differential import Outcome, Verdict, compare
from xlapy.debugging.fuzzing.implementations import Implementation
from xlapy.debugging.fuzzing.worker import WorkerError
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.opcodes.sources import CONSTANT
from xlapy.testing.instruction_by_instruction import describe, steps_of
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.testing.sum_errors import Step

Value = Any
RunProgram = Callable[[Module | str, Sequence[Value]], Value]
"""Runs a program, given as a module or as text, on the platform and returns its result as plain arrays."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An instruction with the interpreter's operands and value, the value of the platform, and how the two differ."""

    step: Step
    actual: Value
    message: str
    compiled_alone: bool
    """Whether the instruction differs if it is compiled alone, not only after those before it."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing a program. result_difference: how its results differ, "" if they do not."""

    result_difference: str
    difference: Difference | None
    agreeing_count: int
    known_divergences: tuple[str, ...]
    """Instructions that are not compared because of a known divergence, with the reason."""
    refused: tuple[str, ...]
    """Instructions that the platform refuses to compile alone, with the reason."""

    @property
    def agrees(self) -> bool:
        return not self.result_difference and self.difference is None


def compare_with_interpreter(
    module: Module, arguments: Sequence[Value], run: RunProgram, implementation: Implementation
) -> Comparison:
    """Compares a program on one device.

    `run` runs programs on the platform; `implementation` describes its known properties. Raises the errors that the
    platform or the interpreter raises for the whole program.
    """
    steps = steps_of(module, arguments, implementation.adjust)
    actual = run(module, arguments)
    result_difference = _difference(module, arguments, actual, implementation, "result")
    outcomes = _in_program_order(compare(module, arguments, implementation, _InProcessCaller(run)), steps)
    bad = next((o for o in outcomes if o.verdict is Verdict.DIFFERS), None)
    difference = None if bad is None else Difference(bad.step, bad.theirs, bad.reason, compiled_alone=True)
    if difference is None and result_difference:
        difference = _find_differing_prefix(module, steps, arguments, run, implementation)
    return Comparison(
        result_difference,
        difference,
        sum(o.verdict is Verdict.AGREES for o in outcomes),
        tuple(_describe_outcome(o) for o in outcomes if o.verdict is Verdict.KNOWN_DIVERGENCE),
        tuple(_describe_outcome(o) for o in outcomes if o.verdict in (Verdict.REFUSED, Verdict.FAILED)),
    )


def _describe_outcome(outcome: Outcome) -> str:
    return f"{outcome.step.instruction.name}: {outcome.reason}"


class _InProcessCaller:
    """A `Caller` that runs programs in this process. Takes the place of a worker in `compare`."""

    def __init__(self, run: RunProgram) -> None:
        self._run = run

    def call(self, *arguments: Any, **_: Any) -> Value:
        text, values = arguments
        try:
            return self._run(text, values)
        except XlaError as error:
            raise WorkerError(error.code, error.message) from error


def _in_program_order(outcomes: Sequence[Outcome], steps: Sequence[Step]) -> list[Outcome]:
    positions = {step.instruction: number for number, step in enumerate(steps)}
    return sorted(outcomes, key=lambda outcome: positions[outcome.step.instruction])


def _difference(
    module: Module, arguments: Sequence[Value], actual: Value, implementation: Implementation, where: str
) -> str:
    """Describes how the result of a program differs from the interpreter's; "" if it does not."""
    tolerance = program_tolerance(
        module,
        arguments,
        flush_denormals=implementation.flushes_denormals,
        excess_precision=implementation.excess_precision,
    )
    try:
        tolerance.assert_close(actual, where)
    except AssertionError as error:
        return str(error)
    return ""


def _find_differing_prefix(
    module: Module, steps: Sequence[Step], arguments: Sequence[Value], run: RunProgram, implementation: Implementation
) -> Difference | None:
    """Returns the first instruction for which the program truncated after it gives another result; None if there is
    none.
    """
    for step in steps:
        if step.instruction.op is CONSTANT:
            continue
        truncated = truncate_after(module, step)
        actual = run(truncated, arguments)
        message = _difference(truncated, arguments, actual, implementation, describe(step.instruction))
        if message:
            return Difference(step, actual, message, compiled_alone=False)
    return None


def truncate_after(module: Module, step: Step) -> Module:
    """Returns a copy of a program truncated after an instruction of its entry, whose value becomes the result."""
    position = module.entry_computation.instructions.index(step.instruction)
    copy = edit.clone_module(module)
    entry = copy.entry_computation
    edit.set_root(entry, entry.instructions[position])
    copy.config.entry_computation_layout = entry.program_shape
    copy.config.input_output_alias, copy.config.buffer_donors = (), ()
    return copy
