"""Entries in Python: the table of them, and what is around each.

Owns: the road of errors. Must not know: what entries do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
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
from xlapy.pjrt.c_api.structs import structure

if TYPE_CHECKING:
    from xlapy.pjrt.native.link import Native, Thunk

Entry = Callable[[Any], "int | None"]
"""From the arguments to the address of an error, if it is not raised."""

Needs = tuple[int, Sequence[str]]
"""The least size of arguments, which is not padded, and the fields that are not null."""

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
    return {
        name: functools.partial(_called, native, structure(of), _needs(of) if name == of else (0, ()), body)
        for name, (of, body) in _entries.items()
    }


def _called(native: Callable[[], Native], arguments: Any, needs: Needs, function: Entry, address: int) -> int:
    """Whatever is raised becomes an error: an exception would be lost in native code, and look like success."""
    try:
        given = arguments.from_address(address)
        _check(given, *needs)
        return function(given) or 0
    except BaseException as error:
        return error_of(native(), error)


_HANDLES = frozenset({"client", "device", "memory", "executable", "buffer", "src", "topology"})
"""What the arguments of most entries begin with."""

_NEEDED = {
    "Client_Compile": ("program",),
    "Executable_OptimizedProgram": ("program",),
    "LoadedExecutable_Execute": ("options",),
    "Buffer_CopyToMemory": ("dst_memory",),
    "Buffer_CopyToDevice": ("dst_device",),
}
"""What else is never null."""


def _needs(name: str) -> Needs:
    """What the arguments of an entry of PJRT's table must be."""
    arguments = structure(name)
    names = [name for name, *_ in arguments._fields_]
    if names[1:2] != ["extension_start"]:
        return 0, ()
    last = getattr(arguments, names[-1])
    handles = [name for name in names[2:3] if name in _HANDLES]
    return last.offset + last.size, (*handles, *_NEEDED.get(name, ()))


def _check(given: Any, size: int, pointers: Sequence[str]) -> None:
    name = f"PJRT_{type(given).__name__}"
    if size and given.struct_size < size:
        raise InvalidArgumentError(f"{name}: the arguments have {given.struct_size} bytes, not {size} or more")
    for pointer in pointers:
        if not getattr(given, pointer):
            raise InvalidArgumentError(f"{name}: {pointer} is null")


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
