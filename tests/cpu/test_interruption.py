"""Signals while native code runs: Ctrl-C ends the run, its arguments stay usable, and other threads continue."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.custom import registered

CPU = xla.Client("cpu")
ENDLESS = 10**15


class Interrupted(BaseException):
    """The exception that the signal handler of these tests raises, as that of Ctrl-C raises KeyboardInterrupt."""


@contextmanager
def signaled(handler: Callable[[], None], seconds: float = 0.1, again: float = 0.0) -> Iterator[None]:
    """Schedules a signal handler, called as that of Ctrl-C is, after some seconds."""
    before = signal.signal(signal.SIGALRM, lambda *_: handler())
    signal.setitimer(signal.ITIMER_REAL, seconds, again)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def interrupt() -> None:
    raise Interrupted


def interrupted(run: Callable[[], Any]) -> float:
    """Interrupts a run that would last for hours; returns the seconds until it ended."""
    met: list[float] = []

    def handler() -> None:
        met.append(time.monotonic())
        interrupt()

    with pytest.raises(Interrupted), signaled(handler):
        xla.block_until_ready(run())
    return time.monotonic() - met[0]


def loop(size: int, rounds: int, module: str = "HloModule m", step: str = "y = f32[K] add(x, one)") -> str:
    return f"""{module}
less {{ s = (s64[], f32[K]) parameter(0) i = s64[] get-tuple-element(s), index=0 n = s64[] constant({rounds})
  ROOT r = pred[] compare(i, n), direction=LT }}
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
step {{ s = (s64[], f32[K]) parameter(0) i = s64[] get-tuple-element(s), index=0
  x = f32[K] get-tuple-element(s), index=1
  unit = f32[] constant(1) one = f32[K] broadcast(unit), dimensions={{}} {step}
  j = s64[] constant(1) k = s64[] add(i, j) ROOT r = (s64[], f32[K]) tuple(k, y) }}
ENTRY e {{ x = f32[K] parameter(0) i = s64[] constant(0) s = (s64[], f32[K]) tuple(i, x)
  w = (s64[], f32[K]) while(s), condition=less, body=step ROOT r = f32[K] get-tuple-element(w), index=1 }}
""".replace("f32[K]", f"f32[{size}]")


UNTIL_DONE = """HloModule m
or { a = pred[] parameter(0)  b = pred[] parameter(1)  ROOT c = pred[] or(a, b) }
test { s = (f32[K]) parameter(0)  x = f32[K] get-tuple-element(s), index=0  n = f32[] constant(2)
  m = f32[K] broadcast(n), dimensions={}  p = pred[K] compare(x, m), direction=LT  no = pred[] constant(false)
  ROOT r = pred[] reduce(p, no), dimensions={0}, to_apply=or }
step { s = (f32[K]) parameter(0)  x = f32[K] get-tuple-element(s), index=0  n = f32[] constant(2)
  m = f32[K] broadcast(n), dimensions={}  p = pred[K] compare(x, m), direction=LT  h = f32[] constant(0.5)
  g = f32[K] broadcast(h), dimensions={}  y = f32[K] multiply(x, g)  z = f32[K] select(p, y, x)
  ROOT r = (f32[K]) tuple(z) }
ENTRY e { x = f32[K] parameter(0)  t = (f32[K]) tuple(x)  ROOT w = (f32[K]) while(t), condition=test, body=step }"""


@pytest.mark.parametrize("size", [16, 100_000])
def test_a_loop_of_elements_that_are_never_done_ends(size: int):
    program = CPU.compile(UNTIL_DONE.replace("K", str(size)))
    assert interrupted(lambda: program(np.ones(size, np.float32))) < 1


@pytest.mark.parametrize("size", [1, 1000, 1 << 20])
def test_a_loop_ends(size: int) -> None:
    executable = CPU.compile(loop(size, ENDLESS))
    given = CPU.device_put(np.zeros(size, np.float32))
    for _ in range(2):
        assert interrupted(lambda: executable(given)) < 1
    assert not np.asarray(given).any()


def short_by_mistake() -> Any:
    """A program that runs in the caller's thread, with a loop of any length: it seems to count from 0 to 5, but the
    counter begins with an argument."""
    text = loop(1, 5).replace(
        "ENTRY e { x = f32[1] parameter(0) i = s64[] constant(0)",
        "ENTRY e { x = f32[1] parameter(0) i = s64[] parameter(1)",
    )
    executable = CPU.compile(text)
    assert not executable.program.compiled.program.is_long_running
    return executable


def test_a_loop_ends_that_was_expected_to_be_short() -> None:
    executable, x = short_by_mistake(), np.zeros(1, np.float32)
    for _ in range(2):
        assert interrupted(lambda: executable(x, -ENDLESS)) < 1
    assert executable(x, 0).item() == 5


def test_a_handler_runs_the_program_that_it_interrupts(capfd: pytest.CaptureFixture[str]) -> None:
    """The inner run polls within the poll of the outer one, which goes on after it."""
    executable, x = short_by_mistake(), np.zeros(1, np.float32)
    seen: list[str] = []

    def handler() -> None:
        seen.append("called")
        if len(seen) == 1:
            assert executable(x, 0).item() == 5
            with pytest.raises(Interrupted):
                executable(x, -ENDLESS)
            seen.append("ended")
        else:
            raise Interrupted

    with signaled(handler, 0.05, 0.1), pytest.raises(Interrupted):
        executable(x, -ENDLESS)
    assert seen == ["called", "called", "ended", "called"]
    assert capfd.readouterr().err == ""


def test_a_handler_interrupts_the_program_that_a_handler_runs(capfd: pytest.CaptureFixture[str]) -> None:
    executable, x = short_by_mistake(), np.zeros(1, np.float32)
    seen: list[str] = []

    def handler() -> None:
        if len(seen) == 3:
            raise Interrupted
        seen.append("begun")
        try:
            executable(x, -ENDLESS)
        except Interrupted:
            seen.append("interrupted")
            raise LookupError("nested") from None
        except LookupError:
            seen.append("nested")
            raise

    with signaled(handler, 0.05, 0.1), pytest.raises(LookupError, match="nested"):
        executable(x, -ENDLESS)
    assert seen == ["begun"] * 3 + ["interrupted", "nested", "nested"]
    assert executable(x, 0).item() == 5
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("error", [GeneratorExit, StopIteration, SystemExit])
def test_handlers_may_raise_any_exception(error: type[BaseException]) -> None:
    executable, x = short_by_mistake(), np.zeros(1, np.float32)

    def handler() -> None:
        raise error

    for _ in range(2):
        with pytest.raises(error), signaled(handler):
            executable(x, -ENDLESS)


def test_a_long_sequence_of_kernels_ends() -> None:
    dots = "\n".join(
        f"x{n + 1} = f32[1024,1024] dot(x{n}, x{n}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        for n in range(60)
    )
    text = f"HloModule m\nENTRY e {{ x0 = f32[1024,1024] parameter(0)\n{dots}\nROOT r = f32[1024,1024] negate(x60) }}"
    executable = CPU.compile(text)
    interrupted(lambda: executable(np.zeros((1024, 1024), np.float32)))


LONG = {
    "pieces": "i = f32[1048576,1048576] iota(), iota_dimension=1 s = f32[1048576,1048576] sine(i)"
    " ROOT r = f32[] reduce(s, z), dimensions={0,1}, to_apply=add",
    "a row of vectors": "i = f32[1099511627776] iota(), iota_dimension=0 s = f32[1099511627776] sine(i)"
    " ROOT r = f32[] reduce(s, z), dimensions={0}, to_apply=add",
    "a row": "i = f32[1099511627776] iota(), iota_dimension=0"
    " ROOT r = f32[] reduce(i, z), dimensions={0}, to_apply=odd",
    "a product": "i = f32[4,4294967296] iota(), iota_dimension=1"
    " ROOT r = f32[4,4] dot(i,i), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "a window": "i = f32[1099511627776] iota(), iota_dimension=0"
    " ROOT r = f32[4] reduce-window(i, z), window={size=274877906944 stride=274877906944}, to_apply=add",
}
"""Kernels that take hours and need little memory."""

REDUCERS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
odd { a = f32[] parameter(0) b = f32[] parameter(1) d = f32[] multiply(a, b) s = f32[] sine(d)
  ROOT c = f32[] add(s, b) }
"""


@pytest.mark.parametrize("body", LONG.values(), ids=LONG)
def test_a_long_kernel_ends(body: str) -> None:
    executable = CPU.compile(f"HloModule m\n{REDUCERS}ENTRY e {{ z = f32[] constant(0) {body} }}")
    for _ in range(2):
        assert interrupted(executable) < 1


def test_a_long_kernel_ends_while_another_thread_has_the_pool() -> None:
    executable = CPU.compile(f"HloModule m\n{REDUCERS}ENTRY e {{ z = f32[] constant(0) {LONG['pieces']} }}")
    finite = CPU.compile(
        f"HloModule m\n{REDUCERS}ENTRY e {{ z = f32[] constant(0) {LONG['pieces']} }}".replace("1048576,", "4096,")
    )
    other = threading.Thread(target=lambda: xla.block_until_ready(finite()))
    other.start()
    assert interrupted(executable) < 1
    other.join()


def test_donated_arguments_are_deleted_and_the_program_runs_again() -> None:
    executable = CPU.compile(loop(1000, ENDLESS), donate=[0])
    given = CPU.device_put(np.zeros(1000, np.float32))
    interrupted(lambda: executable(given))
    assert given.is_deleted()
    short = CPU.compile(loop(1000, 5), donate=[0])
    np.testing.assert_array_equal(short(CPU.device_put(np.zeros(1000, np.float32))), np.full(1000, 5))
    interrupted(lambda: executable(CPU.device_put(np.zeros(1000, np.float32))))


def test_handlers_that_raise_nothing_run_and_the_program_goes_on() -> None:
    met: list[int] = []
    executable = CPU.compile(loop(1, 200_000_000))
    with signaled(lambda: met.append(1), 0.02, 0.02):
        assert float(np.asarray(executable(np.zeros(1, np.float32)))[0]) == 2**24
    assert len(met) > 1


def test_programs_of_other_threads_go_on() -> None:
    results: list[float] = []
    finite = CPU.compile(loop(1, 300_000_000))
    other = threading.Thread(target=lambda: results.append(float(np.asarray(finite(np.zeros(1, np.float32)))[0])))
    endless = CPU.compile(loop(1, ENDLESS))
    other.start()
    interrupted(lambda: endless(np.zeros(1, np.float32)))
    other.join()
    assert results == [2**24]


TWO = "HloModule m, replica_count=2"
REDUCE = "y = f32[K] all-reduce(x), replica_groups={{0,1}}, to_apply=add"
WAITING = """HloModule m, replica_count=2
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
less { s = (s64[], s64[]) parameter(0) i = s64[] get-tuple-element(s), index=0 n = s64[] get-tuple-element(s), index=1
  ROOT r = pred[] compare(i, n), direction=LT }
step { s = (s64[], s64[]) parameter(0) i = s64[] get-tuple-element(s), index=0 n = s64[] get-tuple-element(s), index=1
  j = s64[] constant(1) k = s64[] add(i, j) ROOT r = (s64[], s64[]) tuple(k, n) }
ENTRY e { n = s64[] parameter(0) i = s64[] constant(0) s = (s64[], s64[]) tuple(i, n)
  w = (s64[], s64[]) while(s), condition=less, body=step o = s64[] get-tuple-element(w), index=0 x = f32[] convert(o)
  ROOT y = f32[] all-reduce(x), replica_groups={{0,1}}, to_apply=add }"""


def test_devices_in_an_endless_loop_of_collectives_stop() -> None:
    client = xla.Client("cpu", devices=2)
    executable = client.compile(loop(8, ENDLESS, TWO, REDUCE))
    assert interrupted(lambda: executable.execute_sharded([[np.ones(8, np.float32)]] * 2)) < 2
    short = client.compile(loop(8, 3, TWO, REDUCE))
    for result in short.execute_sharded([[np.ones(8, np.float32)]] * 2):
        np.testing.assert_array_equal(result, np.full(8, 8))


def test_a_device_that_waits_for_one_in_an_endless_loop_ends() -> None:
    executable = xla.Client("cpu", devices=2).compile(WAITING)
    assert interrupted(lambda: executable.execute_sharded([[np.int64(ENDLESS)], [np.int64(0)]])) < 2
    assert [float(r) for r in executable.execute_sharded([[np.int64(2)], [np.int64(3)]])] == [5, 5]


def test_a_loop_that_calls_python_ends() -> None:
    """The handler runs inside the called function, or just when it begins."""
    call = 'y = f32[K] custom-call(x), custom_call_target="target"'
    with registered(lambda x: x):
        executable = xla.Client("cpu").compile(loop(3, ENDLESS, step=call))
        for _ in range(5):
            assert interrupted(lambda: executable(np.ones(3, np.float32))) < 2
