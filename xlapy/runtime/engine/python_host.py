"""The host's side of a run whose only host callbacks are custom calls of Python functions, on one device.

Responsible for what native code finds in its address table, and for the error of a failed call. Does not depend on what
the functions are told.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from typing import Any, Final

from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.targets.python_callbacks import PythonCallbacks

NEVER_CANCELED: Final = (ctypes.c_int64 * 1)()
"""The shared memory of a run that nothing cancels. It is never set."""

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)


class PythonHost:
    """The host of one run. callbacks: those of the program. shared: the address of the word that cancels the run."""

    def __init__(
        self, program: NativeProgram, callbacks: PythonCallbacks, shared: int = ctypes.addressof(NEVER_CANCELED)
    ) -> None:
        self._callbacks = callbacks
        self._callback_index, self._device_index = program.callback_index, program.device_index
        self._shared_index, self._shared = program.shared_index, shared
        self._error: BaseException | None = None

    def install(self, table: Any, _: Any = None) -> object:
        """Stores the address of the callback in an address table. It is valid as long as the returned object."""
        statuses = self._statuses(table)
        next(statuses)
        function = _CALLBACK(statuses.send)
        table[self._callback_index] = ctypes.cast(function, ctypes.c_void_p).value
        table[self._device_index] = 0
        table[self._shared_index] = self._shared
        return function

    def failure(self) -> BaseException:
        """Returns and forgets the error that ended native code."""
        error, self._error = self._error, None
        return error or ExecutionError(codes.CANCELED, "the run is canceled")

    def _statuses(self, table: Any) -> Generator[int, int, None]:
        """Makes each call whose number is sent; yields 0, or 1 if it failed.

        This is a generator because it resumes inside of `try`: a function would start outside of it, where signal
        handlers may raise.
        """
        is_calling, status = False, 0
        while True:
            try:
                while True:
                    is_calling = False
                    number = yield status
                    is_calling, status = True, 0
                    self._callbacks.call(number, table)
            except BaseException as error:  # no exception may pass through native code
                if isinstance(error, GeneratorExit) and not is_calling:  # the generator is closed
                    return
                self._error = error
                status = 1
