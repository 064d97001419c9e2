"""Interruption of native code by signals: Ctrl-C, and whatever else a signal handler raises.

Python runs signal handlers in the main thread, and only while that thread runs Python. Native code that has run for
long therefore calls a Python function at its safepoint polls, which gives handlers a chance to run. A handler may run
programs itself, also the one that it interrupted, and these poll within the poll.

Responsible for that function and for the errors that handlers raised. Does not depend on programs.
"""

from __future__ import annotations

import ctypes
import itertools
import operator
import threading
from collections.abc import Generator
from typing import Any

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.runtime.engine.native_engine import leak

_POLL_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32)

_NESTED_POLLS = 64
"""Polls of programs in handlers in programs ... that may run at the same time; deeper ones do not let handlers run."""

_errors: list[BaseException] = []
"""What handlers raised in polls of runs that have not ended yet, the innermost run last. Only the main thread polls."""


def poll_thread() -> int:
    """The thread that must call the function of `poll_address`."""
    return threading.main_thread().ident or 0


@SingleFlight
def poll_address() -> int:
    """The address of `int32_t f(void)`, which lets signal handlers run and returns 0 for the run to continue."""
    polls = _POLL_FUNCTION(_results_of_polls().__next__)
    leak(polls)
    return ctypes.cast(polls, ctypes.c_void_p).value or 0


def take_error() -> BaseException | None:
    """Returns and forgets what a handler raised in a poll of the run that has just ended early, or None."""
    return _errors.pop() if _errors else None


def _results_of_polls() -> Any:
    """Returns an iterator over the results of polls, which polls may call again.

    Each poll resumes the first generator that is not running. The choice is made without a function in Python, where a
    handler could raise before any `try`.
    """
    generators = [_poll_results() for _ in range(_NESTED_POLLS)]
    for generator in generators:
        next(generator)
    leak(*generators)  # so that none is ever closed: GeneratorExit is then what a handler raised
    candidates = itertools.chain.from_iterable(itertools.repeat([*generators, _Continue(0)]))
    return map(next, itertools.filterfalse(operator.attrgetter("gi_running"), candidates))


class _Continue(itertools.repeat):  # type: ignore[type-arg]
    """The results of polls that let no handlers run."""

    gi_running = False


def _poll_results() -> Generator[int, None, None]:
    """Yields the result of each poll: 0 to continue, 1 if a handler raised.

    This is a generator because it resumes inside the `try`. A function would start outside of it, where a handler may
    raise already.
    """
    result = 0
    while True:
        try:
            while True:
                yield result
                result = 0
        except BaseException as error:  # an exception must not unwind through native code
            _errors.append(error)
            result = 1
