"""Handles of Python objects: addresses of memory whose first word is 0, where PJRT keeps a function table.

Responsible for which object a handle stands for. Does not depend on what the objects are.
"""

from __future__ import annotations

import ctypes
from typing import Any, Generic, TypeVar

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError

T = TypeVar("T")


class HandleTable(Generic[T]):
    """The objects of one kind that have handles. what: their name in errors."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._entries: dict[int, tuple[Any, T]] = {}
        self._lock = fork_safe_lock()

    def add(self, value: T) -> int:
        """Gives an object a handle."""
        memory = (ctypes.c_int64 * 1)()
        handle = ctypes.addressof(memory)
        with self._lock:
            self._entries[handle] = memory, value
        return handle

    def at(self, handle: int) -> T:
        """The object with a handle; `InvalidArgumentError` if there is none."""
        with self._lock:
            found = self._entries.get(handle)
        if found is None:
            raise InvalidArgumentError(codes.HANDLE, f"{handle:#x} is not a {self._what}, or was destroyed")
        return found[1]

    def remove(self, handle: int) -> T | None:
        """Invalidates a handle; returns the object, or None if there is none."""
        with self._lock:
            found = self._entries.pop(handle, None)
        return None if found is None else found[1]
