"""The engine in the child of a fork: what lost threads held or were to complete is free, or has failed."""

from __future__ import annotations

import ctypes
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from tests.runtime.engine.test_asynchronous import ENDLESS, count_to
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.runtime.engine import native_buffers
from xlapy.runtime.engine.core.buffers import Buffer
from xlapy.runtime.engine.launch_errors import take_error
from xlapy.runtime.engine.native_engine import engine

CPU = xla.Client("cpu")
SECONDS = 60
"""After that long, a child that hangs is killed."""

LOST = "the process was forked before this was complete"


def in_child(body: Callable[[], None]) -> int:
    """Runs a function in the child of a fork; returns how the child ended, 0 for success."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        try:
            body()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def event() -> Iterator[int]:
    """An event that a thread of this process is to complete."""
    made = engine().new_event(2)
    yield made
    engine().complete_host_event(made, None, None)
    assert engine().event_error(made) is None
    engine().release_event(made)


def test_an_event_that_a_lost_thread_was_to_complete_has_failed(event: int) -> None:
    def wait() -> None:
        assert engine().is_event_complete(event)
        with raises(ExecutionError, codes.FORKED, LOST):
            native_buffers.await_event(event)
        error = engine().await_event(event)
        assert LOST in str(take_error(engine(), error))

    assert in_child(wait) == 0
    assert not engine().is_event_complete(event)


def test_a_copy_that_waits_for_a_lost_event_fails(event: int) -> None:
    def copy() -> None:
        done = engine().new_event(2)
        engine().fill_when_ready(event, None, None, 0, None, None, done)
        with raises(ExecutionError, codes.FORKED, LOST):
            native_buffers.await_event(done)

    assert in_child(copy) == 0


def test_the_lock_of_a_buffer_that_a_lost_thread_held_is_free() -> None:
    """The word says that a thread holds the lock, and that others sleep, as it does in the middle of `acquire_hold`."""
    double = CPU.compile("HloModule d\nENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] add(p, p) }")
    result = double(np.ones(4, np.float32))
    handle = native_buffers.pointer(result._handle, None)
    lock = ctypes.c_uint32.from_address(handle + Buffer.offsets()["lock"])

    def use() -> None:
        assert np.asarray(double(result)).tolist() == [4] * 4
        result.delete()
        assert result.is_deleted()

    for held in (1, 2):
        lock.value = held
        try:
            assert in_child(use) == 0
        finally:
            lock.value = 0
    assert not result.is_deleted()


def test_a_grandchild_has_events_and_locks_of_its_own(event: int) -> None:
    def fork_again() -> None:
        own = engine().new_event(2)

        def grandchild() -> None:
            assert engine().is_event_complete(event) and engine().is_event_complete(own)
            again = engine().new_event(2)
            assert not engine().is_event_complete(again)
            engine().complete_host_event(again, None, None)
            assert engine().event_error(again) is None

        assert in_child(grandchild) == 0
        assert not engine().is_event_complete(own)

    assert in_child(fork_again) == 0


def test_queued_launches_run_in_the_child_and_the_running_one_has_failed() -> None:
    count = CPU.compile(count_to(1000))
    running = CPU.compile(count_to(ENDLESS))(np.zeros(1, np.float32))
    while not engine().is_stream_running(native_buffers.device(running._handle)):
        pass
    queued = count(np.zeros(1, np.float32))

    def read() -> None:
        with raises(ExecutionError, codes.FORKED):
            running.block_until_ready()
        assert queued.item() == 1000
        assert count(np.ones(1, np.float32)).item() == 1001

    try:
        assert in_child(read) == 0
    finally:
        engine().set_canceled(1)
        with raises(ExecutionError, codes.CANCELED):
            running.block_until_ready()
        engine().set_canceled(0)
