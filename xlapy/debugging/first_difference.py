"""Where a platform leaves the interpreter: the first instruction of a program whose value differs.

First every instruction of the entry is computed alone, on the operands that the interpreter has for it. What is wrong
only together with others (a fusion, memory used again) does not show there: then the program is cut off behind one
instruction after the other, until what is left differs.

Owns: this search. Must not know: what the platform does, how differences are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xlapy.base.errors import XlaError
from xlapy.debugging.fuzzing.differential import Outcome, Verdict, compare
from xlapy.debugging.fuzzing.implementations import Implementation, plain
from xlapy.debugging.fuzzing.worker import WorkerError
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.opcodes.sources import CONSTANT
from xlapy.testing.comparison import assert_close
from xlapy.testing.instruction_by_instruction import Step, describe, steps_of

Value = Any
Run = Callable[[Module | str, Sequence[Value]], Value]
"""A program, or its text, on the platform: the result in plain arrays."""


@dataclass(frozen=True, slots=True)
class Difference:
    """An instruction, the operands and the value that the interpreter has, the platform's value, and what differs."""

    step: Step
    actual: Value
    message: str
    alone: bool
    """Whether it differs when it is computed by itself."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of a program. whole: how its results differ, "" if they do not."""

    whole: str
    difference: Difference | None
    agreeing: int
    excused: tuple[str, ...]
    """Instructions that are not compared, and why."""
    refused: tuple[str, ...]
    """Instructions that the platform does not run by themselves, and why."""

    @property
    def agrees(self) -> bool:
        return not self.whole and self.difference is None


def compare_with_interpreter(
    module: Module, arguments: Sequence[Value], run: Run, implementation: Implementation
) -> Comparison:
    """Compares a program on one device; `implementation` says what is known of the platform that `run` runs it on.

    Raises what the platform and the interpreter raise for the whole program.
    """
    steps = steps_of(module, arguments, implementation.adjust)
    actual = run(module, arguments)
    whole = _difference_of_results(module, steps, arguments, actual, implementation)
    outcomes = _in_order(compare(module, arguments, implementation, _Here(run)), steps)
    bad = next((o for o in outcomes if o.verdict is Verdict.DIFFERS), None)
    difference = None if bad is None else Difference(bad.step, bad.theirs, bad.reason, alone=True)
    if difference is None and whole:
        difference = _first_prefix(module, steps, arguments, run, implementation)
    return Comparison(
        whole,
        difference,
        sum(o.verdict is Verdict.AGREES for o in outcomes),
        tuple(_told(o) for o in outcomes if o.verdict is Verdict.KNOWN_DIVERGENCE),
        tuple(_told(o) for o in outcomes if o.verdict in (Verdict.REFUSED, Verdict.FAILED)),
    )


def _told(outcome: Outcome) -> str:
    return f"{outcome.step.instruction.name}: {outcome.reason}"


class _Here:
    """What `compare` calls instead of another process."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def call(self, *arguments: Any, **_: Any) -> Value:
        text, values = arguments
        try:
            return self._run(text, values)
        except XlaError as error:
            raise WorkerError(str(error)) from error


def _in_order(outcomes: Sequence[Outcome], steps: Sequence[Step]) -> list[Outcome]:
    place = {step.instruction: number for number, step in enumerate(steps)}
    return sorted(outcomes, key=lambda outcome: place[outcome.step.instruction])


def _difference_of_results(
    module: Module, steps: Sequence[Step], arguments: Sequence[Value], actual: Value, implementation: Implementation
) -> str:
    """By the rule of whole programs; "" where there is none."""
    root = module.entry_computation.root_instruction
    expected = next((step.value for step in steps if step.instruction is root), None)
    if expected is None:  # a parameter
        expected = arguments[root.parameter_number]
    return _difference(actual, expected, implementation, "result")


def _difference(actual: Value, expected: Value, implementation: Implementation, where: str) -> str:
    try:
        assert_close(
            actual, plain(expected), rule="program", flush_denormals=implementation.flushes_denormals, where=where
        )
    except AssertionError as error:
        return str(error)
    return ""


def _first_prefix(
    module: Module, steps: Sequence[Step], arguments: Sequence[Value], run: Run, implementation: Implementation
) -> Difference | None:
    """The first instruction behind which the program, cut off there, differs; None if only the whole does."""
    for step in steps:
        if step.instruction.op is CONSTANT:
            continue
        actual = run(cut_behind(module, step), arguments)
        message = _difference(actual, step.value, implementation, describe(step.instruction))
        if message:
            return Difference(step, actual, message, alone=False)
    return None


def cut_behind(module: Module, step: Step) -> Module:
    """The program with the value of an instruction as its result, what came behind it gone."""
    position = module.entry_computation.instructions.index(step.instruction)
    copy = edit.clone_module(module)
    entry = copy.entry_computation
    edit.set_root(entry, entry.instructions[position])
    copy.config.entry_computation_layout = entry.program_shape
    copy.config.input_output_alias, copy.config.buffer_donors = (), ()
    return copy
