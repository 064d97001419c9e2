"""The native half, linked once in a process, with the entries in Python behind it.

Owns: when it is linked, the end of the interpreter. Must not know: what entries do.
"""

from __future__ import annotations

import atexit
import functools
import importlib

from xlapy.pjrt.entries import thunks
from xlapy.pjrt.native.link import Native

_ENTRIES = ("platform", "buffers", "executable", "execute")
"""The modules of entries in Python."""


@functools.cache
def native() -> Native:
    """The native functions; entries in Python are called until the interpreter ends."""
    for name in _ENTRIES:
        importlib.import_module(f"xlapy.pjrt.{name}")
    linked = Native(thunks(native))
    atexit.register(linked.close)
    return linked
