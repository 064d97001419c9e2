"""Entries in Python: the table of them, and what is around each.

Owns: the road of errors. Must not know: what entries do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xlapy.base.errors import (
    ExecutionError,
    InvalidArgumentError,
    ParseError,
    ProtoError,
    ShapeError,
    UnsupportedError,
    VerificationError,
)
from xlapy.pjrt.structs import structure

if TYPE_CHECKING:
    from xlapy.pjrt.native.link import Native, Thunk

Entry = Callable[[Any], "int | None"]
"""From the arguments to the address of an error, if it is not raised."""

_entries: dict[str, tuple[str, Entry]] = {}

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
"""PJRT's codes of errors: CANCELLED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNIMPLEMENTED; INTERNAL is what is left."""

_INTERNAL = 13


class FailedRunError(ExecutionError):
    """The error of a run that nobody waited for. code: PJRT's."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def entry(name: str, arguments: str = "") -> Callable[[Entry], Entry]:
    """Makes a function of an entry's arguments that entry. arguments: the structure, if it has not the entry's name."""

    def add(function: Entry) -> Entry:
        _entries[name] = (arguments or name, function)
        return function

    return add


def thunks(native: Callable[[], Native]) -> dict[str, Thunk]:
    """All entries as native code calls them: from the address of the arguments to that of an error, or 0."""
    return {name: functools.partial(_called, native, structure(of), body) for name, (of, body) in _entries.items()}


def _called(native: Callable[[], Native], arguments: Any, function: Entry, address: int) -> int:
    """Whatever is raised becomes an error: an exception would be lost in native code, and look like success."""
    try:
        return function(arguments.from_address(address)) or 0
    except BaseException as error:
        return error_of(native(), error)


def error_of(native: Native, error: BaseException) -> int:
    """The address of an error record, which whoever gets it destroys."""
    code = (
        error.code
        if isinstance(error, FailedRunError)
        else next((code for kind, code in _CODES if isinstance(error, kind)), _INTERNAL)
    )
    message = str(error) or type(error).__name__
    if code == _INTERNAL and not type(error).__module__.startswith("xlapy"):
        message = f"{type(error).__name__}: {message}"
    data = message.encode("utf-8", "replace")
    return int(native.make_error(code, data, len(data)))
