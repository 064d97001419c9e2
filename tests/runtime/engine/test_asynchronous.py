"""Asynchronous results: calls return before long programs have run, in order, and failures appear in the results."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.runtime.engine import native_buffers
from xlapy.runtime.engine.native_engine import engine

CPU = xla.Client("cpu")


def count_to(rounds: int, size: int = 1) -> str:
    """A program that adds 1 to its argument in each round of a loop."""
    return f"""HloModule count
less {{ s = (s64[], f32[{size}]) parameter(0) i = s64[] get-tuple-element(s), index=0 n = s64[] constant({rounds})
  ROOT r = pred[] compare(i, n), direction=LT }}
step {{ s = (s64[], f32[{size}]) parameter(0) i = s64[] get-tuple-element(s), index=0
  x = f32[{size}] get-tuple-element(s), index=1 unit = f32[] constant(1)
  one = f32[{size}] broadcast(unit), dimensions={{}} y = f32[{size}] add(x, one)
  j = s64[] constant(1) k = s64[] add(i, j) ROOT r = (s64[], f32[{size}]) tuple(k, y) }}
ENTRY e {{ x = f32[{size}] parameter(0) i = s64[] constant(0) s = (s64[], f32[{size}]) tuple(i, x)
  w = (s64[], f32[{size}]) while(s), condition=less, body=step ROOT r = f32[{size}] get-tuple-element(w), index=1 }}
"""


ENDLESS = 10**15
ADD = "HloModule add\nENTRY e { a = f32[1] parameter(0) b = f32[1] parameter(1) ROOT r = f32[1] add(a, b) }"


@pytest.fixture
def pending() -> Iterator[xla.Buffer]:
    """A result that is pending until the end of the test."""
    result = CPU.compile(count_to(ENDLESS))(np.zeros(1, np.float32))
    yield result
    engine().set_canceled(1)
    with raises(ExecutionError, codes.CANCELED):
        result.block_until_ready()
    engine().set_canceled(0)


def test_short_programs_have_run_when_the_call_returns() -> None:
    result = CPU.compile(ADD)(np.ones(1, np.float32), np.ones(1, np.float32))
    assert result.is_ready()
    assert result.block_until_ready() is result


def test_a_long_program_runs_after_the_call(pending: xla.Buffer) -> None:
    assert not pending.is_ready()
    assert (pending.shape, pending.dtype, pending.is_deleted()) == ((1,), np.float32, False)


def test_a_program_that_reads_a_pending_result_is_pending_too(pending: xla.Buffer) -> None:
    """The host may go on calling; a call that waited for the loop would never return."""
    total = CPU.compile(ADD)(pending, np.ones(1, np.float32))
    assert not total.is_ready()
    with raises(ExecutionError, codes.CANCELED):
        engine().set_canceled(1)
        try:
            np.asarray(total)
        finally:
            engine().set_canceled(0)


def test_results_of_pending_calls_are_right_in_order() -> None:
    count = CPU.compile(count_to(2_000_000))
    first = count(np.zeros(1, np.float32))
    second = count(first)
    both = CPU.compile(ADD)(first, second)
    assert float(np.asarray(both)[0]) == 6_000_000
    assert first.is_ready() and second.is_ready()


def test_arrays_may_change_after_the_call() -> None:
    """A queued program reads a copy."""
    given = np.zeros(1000, np.float32)
    result = CPU.compile(count_to(100_000, 1000))(given)
    given[:] = 77
    assert np.all(np.asarray(result) == 100_000)


def test_an_error_travels_with_the_buffers() -> None:
    """Programs that read a failed result fail with its error, and so does everything that reads theirs."""
    failed = CPU.compile(count_to(ENDLESS))(np.zeros(1, np.float32))
    after = CPU.compile(ADD)(failed, failed)
    engine().set_canceled(1)
    with raises(ExecutionError, codes.CANCELED):
        failed.block_until_ready()
    engine().set_canceled(0)
    for buffer in (after, CPU.compile(ADD)(after, np.ones(1, np.float32))):
        with raises(ExecutionError, codes.CANCELED):
            np.asarray(buffer)
    assert repr(after) == f"Buffer(f32[1], failed: the program was canceled [{codes.CANCELED}])"
    assert float(CPU.compile(ADD)(np.ones(1, np.float32), np.ones(1, np.float32)).item()) == 2


def test_nested_results_that_are_pending_failed_or_deleted() -> None:
    """One that is pending, failed or deleted is found wherever it is, also among buffers of other platforms."""
    count, add = CPU.compile(count_to(1_000_000)), CPU.compile(ADD)
    ready = add(np.ones(1, np.float32), np.ones(1, np.float32))
    host = xla.Client("interpreter").device_put(np.ones(1, np.float32))
    pending = [count(np.zeros(1, np.float32)) for _ in range(3)]
    results = (ready, [pending[0], (), host, (pending[1], [pending[2]])])
    assert xla.block_until_ready(results) is results
    assert all(buffer.is_ready() for buffer in pending)
    failed = CPU.compile(count_to(ENDLESS))(np.zeros(1, np.float32))
    engine().set_canceled(1)
    with raises(ExecutionError, codes.CANCELED):
        xla.block_until_ready((ready, [ready, (failed,)], ready))
    engine().set_canceled(0)
    pending[1].delete()
    with raises(InvalidArgumentError, calls_codes.DELETED_BUFFER, "f32[1]"):
        xla.block_until_ready([ready, *pending])
    assert xla.block_until_ready([(), []]) == [(), []]


def test_a_pending_result_may_be_deleted_and_dropped(pending: xla.Buffer) -> None:
    total = CPU.compile(ADD)(pending, pending)
    total.delete()
    with raises(InvalidArgumentError, calls_codes.DELETED_BUFFER, "f32[1]"):
        total.is_ready()
    with raises(InvalidArgumentError, calls_codes.DELETED_BUFFER, "f32[1]"):
        total.block_until_ready()
    del total
    gc.collect()


def test_a_program_may_be_dropped_while_it_runs() -> None:
    """Its machine code lives until the launch has finished."""
    results = [CPU.compile(count_to(3_000_000 + number))(np.zeros(1, np.float32)) for number in range(3)]
    gc.collect()
    CPU.trim()
    assert [result.item() for result in results] == [3_000_000, 3_000_001, 3_000_002]


def test_a_pending_buffer_is_donated() -> None:
    """The second program overwrites the memory of the first one's result, once that has run."""
    count = CPU.compile(count_to(1_000_000), donate=[0])
    first = count(CPU.device_put(np.zeros(1, np.float32)))
    second = count(first)
    assert first.is_deleted()
    assert float(np.asarray(second)[0]) == 2_000_000


def test_of_several_threads_that_donate_a_buffer_one_succeeds() -> None:
    step = CPU.compile(ADD, donate=[0])
    for _ in range(50):
        given, barrier = CPU.device_put(np.ones(1, np.float32)), threading.Barrier(4)
        outcomes: list[str] = []

        def donate(given: xla.Buffer, barrier: threading.Barrier, outcomes: list[str]) -> None:
            barrier.wait()
            try:
                outcomes.append(str(float(np.asarray(step(given, np.ones(1, np.float32)))[0])))
            except InvalidArgumentError as error:
                outcomes.append("donated" if "donated" in str(error) else str(error))

        threads = [threading.Thread(target=donate, args=(given, barrier, outcomes)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["2.0", "donated", "donated", "donated"]


def test_nested_results_are_awaited_together() -> None:
    text = (
        count_to(1_000_000)
        .replace("ROOT r = f32[1] get-tuple-element(w), index=1", "ROOT t = tuple(w)")
        .replace("ROOT t = tuple(w)", "ROOT t = ((s64[], f32[1])) tuple(w)")
    )
    ((rounds, total),) = xla.block_until_ready(CPU.compile(text)(np.zeros(1, np.float32)))
    assert rounds.is_ready() and total.is_ready()
    assert int(rounds) == 1_000_000


def test_devices_run_at_the_same_time_and_in_order() -> None:
    client = xla.Client("cpu", devices=2)
    add = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
    entry = "ENTRY e { x = f32[2] parameter(0) ROOT y = f32[2] all-reduce(x), replica_groups={}, to_apply=add }"
    reduce = client.compile(f"HloModule m, replica_count=2\n{add}\n{entry}")
    results = [[np.full(2, 1, np.float32)], [np.full(2, 2, np.float32)]]
    for _ in range(4):
        results = [[result] for result in reduce.execute_sharded(results)]
    assert [np.asarray(result).tolist() for (result,) in results] == [[24, 24], [24, 24]]


def test_memory_that_another_device_reads_is_not_overwritten() -> None:
    """A queued launch of device 1 reads the elements of a buffer of device 0, which is then donated to a program on
    device 0: the streams of the two run at the same time."""
    client = xla.Client("cpu", devices=2)
    text = count_to(ENDLESS).replace("HloModule count", "HloModule count, replica_count=2")
    reader = client.compile(text)
    writer = client.compile(count_to(100_000), donate=[0])
    given = client.device_put(np.ones(1, np.float32))
    address = given.unsafe_buffer_pointer()
    results = reader.execute_sharded([[np.zeros(1, np.float32)], [given]])
    try:
        written = writer(given)
        assert given.is_deleted()
        engine().set_canceled(1)
        for result in results:
            with raises(ExecutionError, codes.CANCELED):
                result.block_until_ready()
        with raises(ExecutionError, codes.CANCELED):
            written.block_until_ready()
        assert native_buffers.address(written._handle) != address
    finally:
        engine().set_canceled(0)


def test_a_canceled_launch_leaves_those_of_threads_that_have_ended() -> None:
    """The C library gives the address of a thread that has ended to a later one."""
    blocker = CPU.compile(count_to(ENDLESS))(np.zeros(1, np.float32))
    count = CPU.compile(count_to(ENDLESS))
    results: list[xla.Buffer] = []
    addresses: list[int] = []

    def call() -> None:
        addresses.append(threading.get_ident())
        results.append(count(np.zeros(1, np.float32)))

    while len(set(addresses)) == len(addresses) and len(addresses) < 25:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    first, second = results[addresses.index(addresses[-1])], results[-1]
    assert first is not second, "the C library never uses an address again"
    try:
        engine().cancel_launch_of_event(native_buffers.event(second._handle))
        for other in (blocker, *results[: addresses.index(addresses[-1])]):
            engine().cancel_launch_of_event(native_buffers.event(other._handle))
            with raises(ExecutionError, codes.CANCELED):
                other.block_until_ready()
        stream = native_buffers.device(first._handle)
        deadline = time.monotonic() + 60
        while not first.is_ready() and not engine().is_stream_running(stream):
            assert time.monotonic() < deadline
        assert not first.is_ready(), "the launch of the first thread was canceled"
    finally:
        engine().set_canceled(1)
        for result in (blocker, *results):
            with raises(ExecutionError, codes.CANCELED):
                result.block_until_ready()
        engine().set_canceled(0)
