"""Pauses Python's cyclic garbage collector while a program is read and compiled.

Reading and compiling allocate many objects, almost all of which stay alive until the end. Without the pause the
collector traverses them, and every other object of the process, again and again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
