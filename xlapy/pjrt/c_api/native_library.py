"""The native half, linked once in a process, with the entries in Python behind it.

Owns: when it is linked, the end of the interpreter. Must not know: what entries do.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import time

from xlapy.pjrt.c_api.entries import thunks
from xlapy.pjrt.native.link import Native

_ENTRY_MODULES = (
    "xlapy.pjrt.objects.platform",
    "xlapy.pjrt.objects.layouts",
    "xlapy.pjrt.objects.buffers",
    "xlapy.pjrt.objects.executable",
    "xlapy.pjrt.objects.execute",
    "xlapy.pjrt.objects.deadlock_check",
    "xlapy.pjrt.compile.serialized",
    "xlapy.pjrt.profiler.profiler",
)
"""The modules whose import registers entries that are implemented in Python."""

_GLANCE = 0.001
"""Seconds between two looks at workers, at the end."""


@functools.cache
def native() -> Native:
    """The native functions, with entries in Python behind them."""
    for name in _ENTRY_MODULES:
        importlib.import_module(name)
    linked = Native(thunks(native))
    atexit.register(_end, linked)
    os.register_at_fork(
        before=linked.before_fork,
        after_in_parent=lambda: linked.after_fork(0),
        after_in_child=lambda: linked.after_fork(1),
    )
    return linked


def _end(linked: Native) -> None:
    """Waits for what is running; Ctrl-C ends it."""
    linked.stop_streams()
    while not linked.are_streams_idle():
        try:
            time.sleep(_GLANCE)
        except KeyboardInterrupt:
            linked.set_cancelled(1)
    linked.set_cancelled(0)
