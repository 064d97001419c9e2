"""Compares one random module between the interpreter and another implementation, instruction by instruction.

Responsible for the verdict on each instruction, also if the implementation rejects the module or dies. Does not depend
on the implementation or on how modules are generated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from xlapy.base.shape import Shape
from xlapy.debugging.fuzzing.implementations import Implementation
from xlapy.debugging.fuzzing.worker import Caller, WorkerDied, WorkerError
from xlapy.hlo.module import Module
from xlapy.testing.instruction_by_instruction import assert_step, describe, flat_module, steps_of
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.sum_errors import Step

Value = Any


class Verdict(Enum):
    """The result of comparing an instruction."""

    AGREES = "agree"
    KNOWN_DIVERGENCE = "known divergence"
    DIFFERS = "differ"
    REFUSED = "refused"
    """The implementation does not compile it, and no class of known divergences says why."""
    DIED = "implementation died"
    FAILED = "failed"
    """The interpreter, or another part of xlapy, raised an error."""


BAD = (Verdict.DIFFERS, Verdict.REFUSED, Verdict.DIED, Verdict.FAILED)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An instruction with its operands, the verdict and its reason: a class, the difference, or an error message.

    `theirs` is the value of the other implementation, if there is one.
    """

    step: Step
    verdict: Verdict
    reason: str = ""
    theirs: Value = None

    @property
    def is_bad(self) -> bool:
        return self.verdict in BAD

    def __str__(self) -> str:
        return f"{self.verdict.value}: {describe(self.step.instruction)}: {self.reason}"


def arguments_of(module: Module, seed: int) -> list[Value]:
    """Returns random arguments of the entry, including NaN, infinities and extreme values."""
    return random_arguments([p.shape for p in module.entry_computation.parameters], seed, special=True)


def compare(
    module: Module, arguments: Sequence[Value], implementation: Implementation, worker: Caller
) -> list[Outcome]:
    """Returns the outcome of every instruction of the entry except its parameters."""
    outcomes: list[Outcome] = []
    comparable: list[Step] = []
    for step in steps_of(module, arguments, implementation.adjust):
        reason = implementation.known_divergence(step)
        mistake = shape_mismatch(step.instruction.shape, step.value)
        if mistake:
            outcomes.append(Outcome(step, Verdict.FAILED, mistake))
        elif reason is None or step.instruction.op in implementation.draws:
            comparable.append(step)
        else:
            outcomes.append(Outcome(step, Verdict.KNOWN_DIVERGENCE, reason))
    return [*outcomes, *compare_steps(comparable, implementation, worker)]


def shape_mismatch(shape: Shape, value: Value) -> str:
    """Returns how a value violates its declared shape; "" if it does not."""
    if shape.is_tuple and len(value) == len(shape.tuple_shapes):
        parts = [shape_mismatch(part, element) for part, element in zip(shape.tuple_shapes, value, strict=True)]
        return next(filter(None, parts), "")
    if not shape.is_array:
        return ""
    array = np.asarray(value)
    fits = array.shape == shape.dimensions and array.dtype == shape.dtype
    return "" if fits else f"the interpreter gives {array.dtype}{list(array.shape)} for {shape.to_text(layout=False)}"


def compare_steps(steps: Sequence[Step], implementation: Implementation, worker: Caller) -> Iterator[Outcome]:
    """Yields the outcome of each step. Runs steps together; if that fails, runs each half, to find the step that
    fails."""
    if not steps:
        return
    try:
        results = implementation.run(worker, *flat_module(steps))
    except (WorkerError, WorkerDied) as error:
        if len(steps) == 1:
            verdict = Verdict.REFUSED if isinstance(error, WorkerError) else Verdict.DIED
            yield Outcome(steps[0], verdict, str(error))
            return
        middle = len(steps) // 2
        yield from compare_steps(steps[:middle], implementation, worker)
        yield from compare_steps(steps[middle:], implementation, worker)
        return
    for step, result in zip(steps, results, strict=True):
        yield _outcome_of_result(step, result, implementation)


def _outcome_of_result(step: Step, result: Value, implementation: Implementation) -> Outcome:
    reason = implementation.known_divergence(step)
    if reason is not None:
        return Outcome(step, Verdict.KNOWN_DIVERGENCE, reason, result)
    ours, theirs = implementation.compared(step, result)
    try:
        assert_step(
            ours,
            theirs,
            rule=implementation.rule(step),
            flush_denormals=implementation.flushes_denormals,
            excess_precision=implementation.excess_precision,
        )
    except AssertionError as error:
        return Outcome(step, Verdict.DIFFERS, str(error), result)
    return Outcome(step, Verdict.AGREES)
