"""Errors of launches: as the engine keeps them, with a code and a message, and as Python raises them.

The codes are those of PJRT and of absl::Status.

Responsible for the conversion in both directions. Does not depend on who raises errors.
"""

from __future__ import annotations

from typing import Any, Final

from xlapy.base.errors import (
    ExecutionError,
    InvalidArgumentError,
    ParseError,
    ProtoError,
    ShapeError,
    UnsupportedError,
    VerificationError,
)
from xlapy.runtime.engine.records import Record, read_bytes

INTERNAL: Final = 13

_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (KeyboardInterrupt, 1),
    (InvalidArgumentError, 3),
    (ParseError, 3),
    (ProtoError, 3),
    (ShapeError, 3),
    (VerificationError, 3),
    (MemoryError, 8),
    (UnsupportedError, 12),
)
"""CANCELLED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED. All other errors are INTERNAL."""


class FailedLaunchError(ExecutionError):
    """The error of a launch that failed after its call had returned. code: see above."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def error_record(native: Any, error: BaseException) -> int:
    """Makes the engine's record of an error; its receiver frees it. native: the engine."""
    code = (
        error.code
        if isinstance(error, FailedLaunchError)
        else next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL)
    )
    message = str(error) or type(error).__name__
    if code == INTERNAL and not type(error).__module__.startswith("xlapy"):
        message = f"{type(error).__name__}: {message}"
    data = message.encode("utf-8", "replace")
    return int(native.make_error(code, data, len(data)))


def take_error(native: Any, address: int) -> FailedLaunchError:
    """The error in a record of the engine, which is freed. native: the engine."""
    record = Record("error", address)
    code, message = record["code"], read_bytes(record["message"], record["message_size"]).decode("utf-8", "replace")
    native.free_error(address)
    return FailedLaunchError(message, code)
