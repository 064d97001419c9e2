"""Python's collection of unreachable cycles, put off while a program is read and compiled.

That makes a great many objects, of which hardly any are garbage before its end: the collector would go through all of
them, and through all that the process has besides, again and again.

Owns: the pause. Must not know: what is done meanwhile.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collecting_later() -> Iterator[None]:
    """Collects nothing by itself until the end; leaves the collector off if it was."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
