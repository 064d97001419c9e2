"""What becomes of a hostile text: it is refused with an error of xlapy, or it runs, each within its time and memory.

Owns: the time limits, the small sizes to which runs are held, and how a batch of texts is tried in a process that may
die of one of them. Must not know: where the texts come from.
"""

from __future__ import annotations

import signal
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from xlapy.base.errors import XlaError
from xlapy.debugging.fuzzing.worker import Worker, WorkerDied, WorkerError
from xlapy.hlo.module import Module
from xlapy.runtime.backend import load_backend
from xlapy.runtime.engine.arguments import check_arguments
from xlapy.runtime.engine.memory import limit_memory, value_bytes
from xlapy.testing.random_arguments import random_arguments
from xlapy.text import parse_hlo

LARGEST_VALUE = 1 << 20
"""Bytes; a program with a larger value is compiled but not run."""

SECONDS_TO_READ = 20.0
SECONDS_TO_RUN = 1.0

REFUSED, RAN, NOT_RUN = "refused", "ran", "not run"


class OutOfTime(BaseException):
    """The time limit is over."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises `OutOfTime` in the body when the time is over (main thread only)."""

    def ring(_: int, __: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def outcome(text: str, seconds: float = SECONDS_TO_RUN, platform: str = "interpreter") -> str:
    """`refused`, `ran`, `not run` (too large, or longer than `seconds`, as endless loops are).

    What is read is printed and read again. Whatever is raised but errors of xlapy comes through.
    """
    try:
        with time_limit(SECONDS_TO_READ):
            module = parse_hlo(text)
            first, second = _printed_again(module)
        assert first == second
        return _run(module, seconds, platform)
    except XlaError as error:
        assert str(error)
        return REFUSED


def _printed_again(module: Module) -> tuple[str, str]:
    """Two prints in a row, each of what the last one reads as, once they settle.

    The first prints may order computations otherwise and number stack frames by that order, as XLA's do.
    """
    before, text = "", module.to_text(print_large_constants=True)
    for _ in range(4):
        before, text = text, parse_hlo(text).to_text(print_large_constants=True)
        if text == before:
            break
    return before, text


def _run(module: Module, seconds: float, platform: str) -> str:
    program = load_backend(platform).compile(module)
    if max(value_bytes(instruction.shape) for instruction in module.instructions()) > LARGEST_VALUE:
        return NOT_RUN
    entry = module.entry_computation.program_shape
    arguments = check_arguments(entry, random_arguments(entry.parameters, seed=1))
    try:
        with time_limit(seconds):
            program.execute(arguments)
    except OutOfTime:
        return NOT_RUN
    return RAN


# -- in a process of its own


@dataclass(slots=True)
class Survival:
    """How many texts came to which end, and those that something else than an error of xlapy came out of."""

    counts: Counter[str] = field(default_factory=Counter[str])
    faults: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Texts and what they led to."""

    @property
    def tried(self) -> int:
        return sum(self.counts.values()) + len(self.faults)


def outcomes(texts: Sequence[str], platform: str = "interpreter") -> list[tuple[str, str]]:
    """For each text its outcome, and "" or the traceback of what came out instead."""
    limit_memory()
    return [_outcome_or_traceback(text, platform) for text in texts]


def _outcome_or_traceback(text: str, platform: str) -> tuple[str, str]:
    try:
        return outcome(text, platform=platform), ""
    except (Exception, OutOfTime) as error:
        return "", "".join(traceback.format_exception(error)[-6:])


def try_texts(texts: Sequence[str], worker: Worker, platform: str = "interpreter") -> Survival:
    """Tries texts by `outcomes` in a worker; one that kills or stops it is found by trying each alone."""
    survival = Survival()
    try:
        answers = worker.call(texts, platform)
    except (WorkerDied, WorkerError) as error:
        if len(texts) == 1:
            survival.faults.append((texts[0], str(error)))
            return survival
        for text in texts:
            alone = try_texts([text], worker, platform)
            survival.counts += alone.counts
            survival.faults += alone.faults
        return survival
    for text, (end, trouble) in zip(texts, answers, strict=True):
        if trouble:
            survival.faults.append((text, trouble))
        else:
            survival.counts[end] += 1
    return survival
