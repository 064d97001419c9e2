"""What the package does about garbage collection: functions that run when an object is collected, and pauses.

Reading and compiling allocate many objects, almost all of which stay alive until the end. Without a pause, the cyclic
collector traverses them, and every other object of the process, again and again.
"""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_calls: dict[int, tuple[weakref.ref[Any], Callable[..., Any], tuple[Any, ...]]] = {}
"""What to call when the object of a reference has been collected, by the reference's identity."""

ctypes.pythonapi.Py_IncRef(ctypes.py_object(_calls))  # native code may use the arguments while the interpreter ends


def when_collected(target: object, function: Callable[..., Any], *arguments: Any) -> None:
    """Calls a function once an object has been collected, and keeps the arguments alive until then.

    `weakref.finalize` would not do for what native code uses: it drops the arguments of objects that are collected
    after the interpreter has begun to exit, when programs may still run, and calls the functions of all other objects
    then.
    """
    reference = weakref.ref(target, _call)
    _calls[id(reference)] = reference, function, arguments


def _call(reference: weakref.ref[Any], calls: Any = _calls) -> None:
    _, function, arguments = calls.pop(id(reference))
    function(*arguments)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disables automatic garbage collection inside the block, then enables it again if it was enabled before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
