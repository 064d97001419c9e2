"""Forks in the checker of interleavings: from the call of `fork` on, a schedule is that of the child.

The call belongs to the step of the synchronizing instruction before it. The child has the memory of its parent as it is
at that moment, and none of the other threads. Native locks that these held are free, as `tests/native/test_locks.py`
shows of the locks themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xlapy.native.checker.machine import Execution
from xlapy.native.checker.state import FINISHED, LockState
from xlapy.native.function import Function, external
from xlapy.native.values import Int32


@external
def fork(f: Function) -> Int32:  # type: ignore[empty-body]
    """Forks; returns 0, in the child."""


def lose_threads(execution: Execution, arguments: Sequence[Any]) -> int:
    """The model of `fork`."""
    state, own = execution.state, execution.thread
    for number, thread in enumerate(state.threads):
        if thread is own:
            continue
        own.actor.joins(thread.actor.clock, thread.actor.view)
        state.threads[number] = replace(thread, frames=(), status=FINISHED, sleeps_on=None, held=())
    for location, lock in list(state.locks.items()):
        if lock.holder not in (-1, own.actor.number):
            state.locks[location] = LockState()
    return 0


MODELS = {"fork": lose_threads}
