"""What ends native code from outside: Ctrl-C, and whatever else a handler of a signal raises.

Python handles signals in the main thread, and only while that runs Python. So native code that has run for long calls a
function here from time to time; handlers run as soon as it does.

Owns: that function, the error that a handler raised. Must not know: programs.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator

_ASK = ctypes.CFUNCTYPE(ctypes.c_int32)


class Interruption:
    """Of one run at a time. `function` is the address of `int32_t f(void)`: 0 to go on; `thread` the one to call it."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        answers = _answers(self)
        next(answers)
        self._called = _ASK(answers.__next__)
        self.function = ctypes.cast(self._called, ctypes.c_void_p).value or 0
        self.thread = threading.main_thread().ident or 0

    def note(self, error: BaseException) -> None:
        """Keeps what a handler raised."""
        self._error = error

    def taken(self) -> BaseException | None:
        """What a handler raised, if one did since it was last asked."""
        error, self._error = self._error, None
        return error


def _answers(interruption: Interruption) -> Generator[int, None, None]:
    """An answer for each time that native code asks.

    A generator, as it goes on inside of `try`: a function would begin outside, where handlers may already raise.
    """
    answer = 0
    while True:
        try:
            while True:
                yield answer
                answer = 0
        except GeneratorExit:
            return
        except BaseException as error:  # nothing may pass through native code
            interruption.note(error)
            answer = 1
