"""One random module on the interpreter and on a peer, instruction by instruction.

Owns: what becomes of each instruction, also when the peer refuses the module or dies of it. Must not know: who the peer
is, how modules are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from xlapy.base.shape import Shape
from xlapy.debugging.fuzzing.peers import Peer
from xlapy.debugging.fuzzing.worker import Caller, WorkerDied, WorkerError
from xlapy.hlo.module import Module
from xlapy.testing.instruction_by_instruction import Step, assert_step, describe, flat_module, steps_of
from xlapy.testing.random_arguments import random_arguments

Value = Any


class Verdict(Enum):
    """What became of an instruction."""

    AGREES = "agree"
    EXCUSED = "excused"
    DIFFERS = "differ"
    REFUSED = "refused"
    """The peer does not compile it, and no class says why."""
    DIED = "peer died"
    FAILED = "failed"
    """The interpreter, or another part of xlapy, raised."""


BAD = (Verdict.DIFFERS, Verdict.REFUSED, Verdict.DIED, Verdict.FAILED)


@dataclass(frozen=True, slots=True)
class Outcome:
    """An instruction with its operands, what became of it, and why: a class, or the difference, or the peer's words.

    `theirs` is the peer's value, where it gave one.
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
    """Random arguments of the entry, NaN, infinities and extremes among them."""
    return random_arguments([p.shape for p in module.entry_computation.parameters], seed, special=True)


def compare(module: Module, arguments: Sequence[Value], peer: Peer, worker: Caller) -> list[Outcome]:
    """What becomes of every instruction of the entry but its parameters."""
    outcomes: list[Outcome] = []
    comparable: list[Step] = []
    for step in steps_of(module, arguments, peer.adjust):
        reason = peer.excuse(step)
        mistake = misshapen(step.instruction.shape, step.value)
        if mistake:
            outcomes.append(Outcome(step, Verdict.FAILED, mistake))
        elif reason is None or step.instruction.op in peer.draws:
            comparable.append(step)
        else:
            outcomes.append(Outcome(step, Verdict.EXCUSED, reason))
    return [*outcomes, *compared(comparable, peer, worker)]


def misshapen(shape: Shape, value: Value) -> str:
    """How a value breaks the shape that is declared for it; "" if it does not."""
    if shape.is_tuple and len(value) == len(shape.tuple_shapes):
        parts = [misshapen(part, element) for part, element in zip(shape.tuple_shapes, value, strict=True)]
        return next(filter(None, parts), "")
    if not shape.is_array:
        return ""
    array = np.asarray(value)
    fits = array.shape == shape.dimensions and array.dtype == shape.dtype
    return "" if fits else f"the interpreter gives {array.dtype}{list(array.shape)} for {shape.to_text(layout=False)}"


def compared(steps: Sequence[Step], peer: Peer, worker: Caller) -> Iterator[Outcome]:
    """What becomes of each step. Runs steps together; when that fails, each half, so that what it fails of is found."""
    if not steps:
        return
    try:
        results = peer.run(worker, *flat_module(steps))
    except (WorkerError, WorkerDied) as error:
        if len(steps) == 1:
            verdict = Verdict.REFUSED if isinstance(error, WorkerError) else Verdict.DIED
            yield Outcome(steps[0], verdict, str(error))
            return
        middle = len(steps) // 2
        yield from compared(steps[:middle], peer, worker)
        yield from compared(steps[middle:], peer, worker)
        return
    for step, result in zip(steps, results, strict=True):
        yield _judged(step, result, peer)


def _judged(step: Step, result: Value, peer: Peer) -> Outcome:
    reason = peer.excuse(step)
    if reason is not None:
        return Outcome(step, Verdict.EXCUSED, reason, result)
    ours, theirs = peer.compared(step, result)
    try:
        assert_step(ours, theirs, rule=peer.rule(step), flush_denormals=peer.flushes_denormals)
    except AssertionError as error:
        return Outcome(step, Verdict.DIFFERS, str(error), result)
    return Outcome(step, Verdict.AGREES)
