"""Calls a function in a child process, which may die or hang without affecting this process.

Responsible for the lifetime of the process, the time limits, and the errors raised when it dies. Does not depend on the
function.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import IO, Any, Protocol

from xlapy.base.error_codes.code import split_code
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import ExecutionError
from xlapy.debugging.fuzzing.server import write_frame

_READ_BYTES = 1 << 20

_STARTING = 60.0
"""Maximum seconds until a new process is ready."""


class WorkerError(ExecutionError):
    """Raised if the function raised; has the message of its exception."""


class WorkerDied(ExecutionError):
    """Raised if the process died, or was killed after its time limit."""


class WorkerTimeout(WorkerDied):
    """Raised if the process was killed after its time limit."""


class Caller(Protocol):
    """The interface for calling another implementation's function."""

    def call(self, *arguments: Any, **keywords: Any) -> Any:
        """Returns the function's result; raises the errors of `Worker.call`."""
        ...


class Worker:
    """Calls `module:function` in a child process, which starts on first use, and again after each death."""

    def __init__(self, function: str, *, seconds: float = 120.0) -> None:
        self._function = function
        self.seconds = seconds
        """Maximum seconds per answer."""
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._noise: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker

    def call(self, *arguments: Any, **keywords: Any) -> Any:
        """Returns the function's result. Raises `WorkerError` if it raised, `WorkerDied` if the process died."""
        return self._call(arguments, keywords, None)

    def follow(self, on_message: Callable[[Any], None], *arguments: Any, **keywords: Any) -> Any:
        """Calls a function that reports progress: `on_message` receives each value that it emits.

        The time limit holds between two such values.
        """
        return self._call(arguments, keywords, on_message)

    def _call(self, arguments: Any, keywords: Any, on_message: Callable[[Any], None] | None) -> Any:
        process = self._start_process()
        assert process.stdin is not None
        try:
            write_frame(process.stdin, (arguments, keywords, on_message is not None))
            kind, value = "ready", None
            while kind in ("ready", "item"):
                if kind == "item" and on_message is not None:
                    on_message(value)
                kind, value = self._answer(process)
        except (BrokenPipeError, EOFError):
            raise WorkerDied(codes.WORKER, self._death_message(process)) from None
        if kind == "error":
            raise WorkerError(split_code(str(value))[1] or codes.WORKER, str(value))
        return value

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._noise.close()

    def _start_process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._noise.seek(0)
            self._noise.truncate()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "xlapy.debugging.fuzzing.server", self._function],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._noise,
            )
            self._is_ready = False
        return self._process

    def _answer(self, process: subprocess.Popen[bytes]) -> Any:
        """Returns the next frame. Kills the process after the time limit, which does not include the start of the
        process.
        """
        seconds = self.seconds if self._is_ready else self.seconds + _STARTING
        self._is_ready = True
        header = self._read(process, 8, time.monotonic() + seconds)
        return pickle.loads(self._read(process, int.from_bytes(header, "little"), time.monotonic() + self.seconds))

    def _read(self, process: subprocess.Popen[bytes], size: int, deadline: float) -> bytes:
        assert process.stdout is not None
        handle = process.stdout.fileno()
        data = bytearray()
        while len(data) < size:
            ready, _, _ = select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                self.close()
                raise WorkerTimeout(codes.WORKER, f"no answer within {self.seconds:g} seconds")
            piece = os.read(handle, min(_READ_BYTES, size - len(data)))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _death_message(self, process: subprocess.Popen[bytes]) -> str:
        """Returns how the process ended, and its last line of output."""
        code = process.wait()
        self._process = None
        self._noise.seek(0)
        lines = [line for line in self._noise.read().decode(errors="replace").splitlines() if line.strip()]
        fatal = [line for line in lines if " Check failed" in line or line.startswith("F")]
        how = f"died by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"{how}: {(fatal or lines or ['it said nothing'])[-1][:1000]}"
