"""Threads that run until the process ends.

Responsible for starting threads. Must not know what they do.
"""

from __future__ import annotations

from xlapy.native.function import Function, external, native
from xlapy.native.records import Owned, Record
from xlapy.native.values import Address, Bool, Int32, Nullable, Word


class ThreadId(Record):
    """Where the C library stores the number of a thread."""

    number: Owned[Word]


@external
def pthread_create(  # type: ignore[empty-body]
    f: Function, thread: Address, attributes: Nullable[Address], function: Address, argument: Address
) -> Int32:
    """Starts a thread; returns 0, or why that is not possible."""


@external
def pthread_detach(f: Function, thread: Word) -> Int32:  # type: ignore[empty-body]
    """Nobody will wait for the end of the thread."""


@native
def start_thread(f: Function, function: Address, argument: Address) -> Bool:
    """Starts a thread that runs until the process ends; false if that is not possible."""
    thread = f.stack(ThreadId.byte_size()).cast(ThreadId)
    with f.when(pthread_create(f, thread, f.null(Address), function, argument) != 0):
        f.ret(False)
    pthread_detach(f, thread.number)
    return f.constant(Bool, True)
