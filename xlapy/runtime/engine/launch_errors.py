"""Errors of launches: as the engine keeps them, with a code and a message, and as Python raises them.

The codes are those of PJRT and of absl::Status.

Responsible for the conversion in both directions. Does not depend on who raises errors.
"""

from __future__ import annotations

import traceback
from collections import OrderedDict
from typing import Any, Final

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.code import split_code
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import (
    ExecutionError,
    InvalidArgumentError,
    ParseError,
    ProtoError,
    ShapeError,
    UnsupportedError,
    VerificationError,
    XlaError,
    message_of,
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
    """The error of a launch that failed after its call had returned.

    message: ends with the code of the rule, unless the error comes from outside of xlapy. status: the code of
    absl::Status, see above.
    """

    def __init__(self, message: str, status: int) -> None:
        message, code = split_code(message)
        super().__init__(code or codes.FOREIGN_ERROR, message)
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.status)


class _InvalidArgumentLaunchError(FailedLaunchError, InvalidArgumentError):
    """A launch failed because of a value that it was given, such as one that was fed in."""


class _UnsupportedLaunchError(FailedLaunchError, UnsupportedError):
    """A launch failed at something that is not supported."""


_KINDS = {3: _InvalidArgumentLaunchError, 12: _UnsupportedLaunchError}
"""The errors with these codes are also errors of the class that a program in the thread of its caller raises."""


def error_record(native: Any, error: BaseException) -> int:
    """Makes the engine's record of an error; its receiver frees it. native: the engine."""
    data = _message(error).encode("utf-8", "replace")
    return int(native.make_error(_code(error), data, len(data)))


def take_error(native: Any, address: int) -> FailedLaunchError:
    """The error in a record of the engine, which is freed. native: the engine."""
    error = read_error(address)
    native.free_error(address)
    return error


def read_error(address: int) -> FailedLaunchError:
    """The error in a record of the engine. Its cause is an exception in Python, if there was one recently."""
    record = Record("error", address)
    message = read_bytes(record["message"], record["message_size"]).decode("utf-8", "replace")
    status = record["code"]
    error = _KINDS.get(status, FailedLaunchError)(message, status)
    error.__cause__ = _causes.get(message)
    return error


_MAX_CAUSES = 16

_causes: OrderedDict[str, BaseException] = OrderedDict()
"""The causes of the last errors of launches in Python, by the message of the error. Records have no room for them."""

_lock = fork_safe_lock()


def remember_cause(error: BaseException) -> None:
    """Remembers what caused an error that a record will describe. Only the last few are known.

    The tracebacks keep their lines, but no local variables: those refer to the memory of the launch.
    """
    following: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if following is None:
            break
        traceback.clear_frames(following.__traceback__)
        following = following.__cause__ or following.__context__
    is_own = type(error).__module__.startswith("xlapy")
    cause = error.__cause__ if is_own else error
    if cause is None:
        return
    with _lock:
        _causes[_message(error)] = cause
        while len(_causes) > _MAX_CAUSES:
            _causes.popitem(last=False)


def _message(error: BaseException) -> str:
    message = (str(error) if isinstance(error, XlaError) else message_of(error)) or type(error).__name__
    if isinstance(error, MemoryError):
        message = f"{message} [{codes.OUT_OF_MEMORY}]"
    if _code(error) == INTERNAL and not type(error).__module__.startswith("xlapy"):
        message = f"{type(error).__name__}: {message}"
    return message


def _code(error: BaseException) -> int:
    if isinstance(error, FailedLaunchError):
        return error.status
    return next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL)
