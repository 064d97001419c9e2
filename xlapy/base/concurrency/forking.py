"""Locks across `os.fork`: a child finds them free, and what they guard in order.

A child has only the thread that forked. A lock that another thread held would stay locked, with half a change behind
it. A fork therefore waits until it has all registered locks, and both processes release them afterwards.

Locks are acquired all or none: while one of them is awaited, none is held, so a thread that waits for one lock while it
holds another cannot block the fork. After `MAX_WAIT_SECONDS` the fork goes on without the locks that are missing: the
child gets new ones, and `lost` says so to their owners.

Responsible for locks of Python. The native locks of `runtime.engine` are handled there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

MAX_WAIT_SECONDS = 20.0
"""The longest time that a fork waits for locks. Only LLVM's lock is held for longer than microseconds."""

_locks: WeakKeyDictionary[Any, Callable[[], None] | None] = WeakKeyDictionary()
_held: list[Any] = []
"""The locks that the forking thread holds, from before the fork until after it."""
_missing: list[Any] = []
"""The locks that the fork went on without."""
_resets: list[Callable[[], None]] = []
"""What a child calls before threads start in it."""


def fork_safe_lock() -> threading.RLock:
    """Returns a new lock that a forked child finds free. It must not be held while the process forks.

    The thread that holds it may acquire it again: signal handlers and finalizers run between any two instructions, and
    may need the lock that they have interrupted.
    """
    lock = threading.RLock()
    register_lock(lock)
    return lock


def register_lock(lock: Any, lost: Callable[[], None] | None = None) -> None:
    """Registers a `threading.Lock` or `RLock`, which is kept as long as its owner keeps it.

    lost: called in a child in which another thread of the parent held the lock. What it guards may be half changed.
    """
    _locks[lock] = lost


def call_in_child(reset: Callable[[], None]) -> None:
    """Registers a function that forked children call before the runtime starts threads in them.

    Python calls the handlers of `os.register_at_fork` in the order in which they were registered, so one of what is
    made later than the threads would come after them.
    """
    _resets.append(reset)


def _before() -> None:
    _held[:], _missing[:] = _acquire_all(list(_locks), time.monotonic() + MAX_WAIT_SECONDS)


def _acquire_all(locks: Sequence[Any], deadline: float) -> tuple[list[Any], list[Any]]:
    """Returns the locks that were acquired: all of them before the deadline, else those that are free; and the
    others."""
    awaited: Any = None
    while True:
        # the lock that was awaited is kept: between two locks that are rarely free at once, the second is then all
        # that is missing
        held = [] if awaited is None else [awaited]
        busy: list[Any] = []
        for lock in locks:
            if lock is not awaited:
                (held if lock.acquire(blocking=False) else busy).append(lock)
        remaining = deadline - time.monotonic()
        if not busy or remaining <= 0:
            return held, busy
        for lock in held:
            lock.release()
        awaited = busy[0] if busy[0].acquire(timeout=remaining) else None


def _after_in_parent() -> None:
    for lock in _held:
        lock.release()
    _held.clear()
    _missing.clear()


def _after_in_child() -> None:
    missing = list(_missing)
    _after_in_parent()
    for lock in missing:
        lock._at_fork_reinit()
        lost = _locks.get(lock)
        if lost is not None:
            lost()
    for reset in _resets:
        reset()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
