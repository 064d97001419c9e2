"""Finds the address of native code or data that a user passes as a ctypes function, an address or a PyCapsule.

Does not depend on calling conventions.
"""

from __future__ import annotations

import ctypes
from typing import Any

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


def _capsule_address(what: str, capsule: object) -> int:
    try:
        label = _capsule_name(capsule)
        address: int | None = _capsule_pointer(capsule, label)
    except ValueError as error:
        raise InvalidArgumentError(f"{what} is not a usable PyCapsule: {error}") from error
    return address or 0


_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
