"""Entries of the C API that are implemented in Python: their table, and their exceptions as PJRT errors.

Responsible for checking arguments and for errors. Does not depend on what the entries do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.pjrt.c_api.structs import fields, structure
from xlapy.runtime.engine.launch_errors import error_record

if TYPE_CHECKING:
    from xlapy.pjrt.native.link import NativeEntry, NativeLibrary

Entry = Callable[[Any], "int | None"]
"""A function from the arguments to the address of an error, or None. It may also raise."""

_entries: dict[str, tuple[str, Entry]] = {}


def entry(name: str, arguments: str = "") -> Callable[[Entry], Entry]:
    """Decorator that registers a function as an entry. arguments: name of the argument structure, by default that of
    the entry."""

    def add(function: Entry) -> Entry:
        _entries[name] = (arguments or name, function)
        return function

    return add


def registered_entries() -> frozenset[str]:
    """The names of all entries in Python whose modules are imported."""
    return frozenset(_entries)


def native_entries(native: Callable[[], NativeLibrary]) -> dict[str, NativeEntry]:
    """All entries as native code calls them: functions from the address of the arguments to that of an error, or 0."""
    return {
        name: functools.partial(
            _call_entry,
            native,
            structure(structure_name),
            _required_fields(structure_name) if name == structure_name else (),
            body,
        )
        for name, (structure_name, body) in _entries.items()
    }


def _call_entry(
    native: Callable[[], NativeLibrary], arguments: Any, needed: Sequence[str], function: Entry, address: int
) -> int:
    """Calls an entry. Every exception becomes an error, because native code would lose it and report success."""
    try:
        values = arguments.from_address(address)
        _check(values, needed)
        return function(values) or 0
    except BaseException as error:
        return error_record(native(), error)


_HANDLES = frozenset({"client", "device", "memory", "executable", "buffer", "src", "topology"})
"""Fields with which the arguments of most entries begin."""

_REQUIRED_FIELDS = {
    "Client_Compile": ("program",),
    "Client_Load": ("executable",),
    "Compile": ("program",),
    "Executable_OptimizedProgram": ("program",),
    "LoadedExecutable_Execute": ("options",),
    "Buffer_CopyToMemory": ("dst_memory",),
    "Buffer_CopyToDevice": ("dst_device",),
}
"""Other fields that must not be null."""


def _required_fields(name: str) -> Sequence[str]:
    """The fields of an entry's arguments that must not be null."""
    handles = [field for field in fields(name)[:1] if field in _HANDLES and not name.endswith("_Destroy")]
    return (*handles, *_REQUIRED_FIELDS.get(name, ()))


def _check(values: Any, needed: Sequence[str]) -> None:
    for field in needed:
        if not getattr(values, field):
            raise InvalidArgumentError(codes.NULL_POINTER, f"PJRT_{type(values).__name__}: {field} is null")
