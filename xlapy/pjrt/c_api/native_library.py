"""The native library of the plugin, linked once per process, with the entries that are implemented in Python.

Responsible for when it is linked, and for the end of the interpreter. Does not depend on what the entries do.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import time

from xlapy.pjrt.c_api.entries import native_entries
from xlapy.pjrt.native.link import NativeLibrary

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

_POLL_SECONDS = 0.001
"""Seconds between polls for running launches at interpreter exit."""


@functools.cache
def native() -> NativeLibrary:
    """Returns the native library; links it on first use."""
    for name in _ENTRY_MODULES:
        importlib.import_module(name)
    linked = NativeLibrary(native_entries(native))
    atexit.register(_finish_launches, linked)
    os.register_at_fork(
        before=linked.before_fork,
        after_in_parent=lambda: linked.after_fork(0),
        after_in_child=lambda: linked.after_fork(1),
    )
    return linked


def _finish_launches(linked: NativeLibrary) -> None:
    """Waits for running launches at interpreter exit. Ctrl-C cancels them."""
    linked.stop_streams()
    while not linked.are_streams_idle():
        try:
            time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:
            linked.set_canceled(1)
    linked.set_canceled(0)
