"""Runs a hostile text: it must be rejected with an error of xlapy, or run, within its time and memory.

Responsible for the time limits, for bounding the size of runs, and for trying a batch of texts in a process that may
die. Does not depend on where the texts come from.
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
from xlapy.runtime.engine.memory import value_bytes
from xlapy.runtime.system_memory import limit_memory
from xlapy.testing.random_arguments import random_arguments
from xlapy.text import parse_hlo

LARGEST_VALUE = 1 << 20
"""Bytes; a program with a larger value is compiled but not run."""

SECONDS_TO_READ = 20.0
SECONDS_TO_RUN = 1.0

REFUSED, RAN, NOT_RUN = "refused", "ran", "not run"


class OutOfTime(BaseException):
    """Raised at the end of the time limit."""


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
    """Returns `refused`, `ran`, or `not run` (too large, or longer than `seconds`, such as endless loops).

    A module that parses is printed and parsed again. Errors other than those of xlapy are not caught.
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
    """Returns two consecutive prints, each of the module that the previous print parses to, once they no longer change.

    The first prints may order computations differently and number stack frames by that order, as XLA's do.
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


# -- in a child process


@dataclass(slots=True)
class Survival:
    """The number of texts per outcome, and the texts that caused anything but an error of xlapy."""

    counts: Counter[str] = field(default_factory=Counter[str])
    faults: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Pairs of a text and what it caused."""

    @property
    def tried(self) -> int:
        return sum(self.counts.values()) + len(self.faults)


def outcomes(texts: Sequence[str], platform: str = "interpreter") -> list[tuple[str, str]]:
    """Returns for each text its outcome, and "" or the traceback of an unexpected error."""
    limit_memory()
    return [_outcome_or_traceback(text, platform) for text in texts]


def _outcome_or_traceback(text: str, platform: str) -> tuple[str, str]:
    try:
        return outcome(text, platform=platform), ""
    except (Exception, OutOfTime) as error:
        return "", "".join(traceback.format_exception(error)[-6:])


def try_texts(texts: Sequence[str], worker: Worker, platform: str = "interpreter") -> Survival:
    """Runs `outcomes` in a worker. If a text kills or blocks the worker, it is found by trying each text alone."""
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
