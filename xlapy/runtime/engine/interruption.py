"""Interruption of native code by signals: Ctrl-C, and whatever else a signal handler raises.

Python runs signal handlers in the main thread, and only while that thread runs Python. Native code that has run for
long therefore calls a Python function at its safepoint polls, which gives handlers a chance to run.

Responsible for that function and for the error that a handler raised. Does not depend on programs.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator

_POLL_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32)


class Interruption:
    """The interruption of one run at a time. `function` is the address of `int32_t f(void)`, which returns 0 to
    continue; `thread` is the thread that must call it."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        results = _poll_results(self)
        next(results)
        self._called = _POLL_FUNCTION(results.__next__)
        self.function = ctypes.cast(self._called, ctypes.c_void_p).value or 0
        self.thread = threading.main_thread().ident or 0

    def record(self, error: BaseException) -> None:
        """Records what a handler raised."""
        self._error = error

    def take_error(self) -> BaseException | None:
        """Returns and clears what a handler raised, or None."""
        error, self._error = self._error, None
        return error


def _poll_results(interruption: Interruption) -> Generator[int, None, None]:
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
        except GeneratorExit:
            return
        except BaseException as error:  # an exception must not unwind through native code
            interruption.record(error)
            result = 1
