"""Sleeping and waking on a word of memory, as native code does it, from Python.

Owns: these two calls of the system. Must not know: what the words mean.
"""

from __future__ import annotations

import ctypes
from typing import Any

_SYSCALL, _WAIT, _WAKE = ctypes.c_long(202), 128, 129
_library: Any = ctypes.CDLL(None)


def wake(address: int) -> None:
    """Wakes all who sleep on a word."""
    _library.syscall(_SYSCALL, ctypes.c_void_p(address), _WAKE, 2**31 - 1, None, None, 0)


def sleep(address: int, seen: int, seconds: float) -> None:
    """Until a word is not what was seen, or somebody wakes who sleeps on it; for a second at most."""
    nanoseconds = max(0, min(int(seconds * 1e9), 999_999_999))
    slice_ = (ctypes.c_int64 * 2)(0, nanoseconds)
    _library.syscall(_SYSCALL, ctypes.c_void_p(address), _WAIT, ctypes.c_uint32(seen), ctypes.byref(slice_), None, 0)
