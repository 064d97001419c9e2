"""What becomes of a hostile text: it is refused with an error of xlapy, or it runs, each within its time and memory.

Owns the time limit and the small sizes to which runs are held.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from xlapy.base.errors import XlaError
from xlapy.hlo.module import Module
from xlapy.runtime.arguments import check_arguments
from xlapy.runtime.backend import load_backend
from xlapy.runtime.memory import value_bytes
from xlapy.testing.random_arguments import random_arguments
from xlapy.text import parse_hlo

LARGEST_VALUE = 1 << 20
"""Bytes; a program with a larger value is compiled but not run."""


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


def outcome(text: str, seconds: float = 1.0) -> str:
    """`refused`, `ran`, `not run` (too large, or longer than `seconds`, as endless loops are).

    Whatever is raised but errors of xlapy comes through.
    """
    try:
        with time_limit(20):
            module = parse_hlo(text)
            again = parse_hlo(module.to_text(print_large_constants=True))
        assert again.instruction_count == module.instruction_count
        return _run(module, seconds)
    except XlaError as error:
        assert str(error)
        return "refused"


def _run(module: Module, seconds: float) -> str:
    program = load_backend("interpreter").compile(module)
    if max(value_bytes(instruction.shape) for instruction in module.instructions()) > LARGEST_VALUE:
        return "not run"
    entry = module.entry_computation.program_shape
    arguments = check_arguments(entry, random_arguments(entry.parameters, seed=1))
    try:
        with time_limit(seconds):
            program.execute(arguments)
    except OutOfTime:
        return "not run"
    return "ran"
