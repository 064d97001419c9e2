"""Finds the address of native code or data that a user passes as a ctypes function, an address or a PyCapsule, and
checks that the process has such memory there.

Does not depend on calling conventions.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import InvalidArgumentError

_CFUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]
"""The base class of all ctypes functions, loaded from a library or not."""


def address_of(what: str, value: Any) -> int | None:
    """Returns the address of `value`, or None if it is of another kind.

    Raises `InvalidArgumentError`, which names `what`, for an unusable capsule.
    """
    if isinstance(value, _CFUNCTION):
        return ctypes.cast(value, ctypes.c_void_p).value or 0
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if type(value).__name__ == "PyCapsule":
        return _capsule_address(what, value)
    return None


def require_memory(what: str, address: int, size: int, access: str) -> None:
    """Raises `InvalidArgumentError`, which names `what`, unless the process may access all bytes at an address.

    access: "r", "rw" or "rx" (data to read, data to write, code). Where the system does not say what memory there is,
    only addresses that no system uses are refused.
    """
    checked, last = address, address + size
    for first, end, allowed in _mapped_memory():
        if first <= checked < end and set(access) <= set(allowed):
            checked = min(end, last)
        if checked == last:
            return
    kind = {"r": "readable memory", "rw": "writable memory", "rx": "code"}[access]
    raise InvalidArgumentError(
        codes.TARGET_ADDRESS, f"{what} is at the address {address}, where the process has no {kind}"
    )


def _mapped_memory() -> list[tuple[int, int, str]]:
    """The memory of the process in ascending order: first byte, end, permissions."""
    try:
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    except OSError:
        return [(1 << 12, 1 << 64, "rwx")]
    rows = [line.split(maxsplit=2)[:2] for line in lines]
    return [(*(int(bound, 16) for bound in span.split("-")), allowed) for span, allowed in rows]  # type: ignore[misc]


def _capsule_address(what: str, capsule: object) -> int:
    try:
        label = _capsule_name(capsule)
        address: int | None = _capsule_pointer(capsule, label)
    except ValueError as error:
        raise InvalidArgumentError(codes.TARGET_ADDRESS, f"{what} is not a usable PyCapsule: {error}") from error
    return address or 0


_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
