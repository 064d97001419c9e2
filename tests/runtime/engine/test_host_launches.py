"""Programs that call the host are queued like all others: feeds after the call, errors that travel, one order."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.test_interruption import interrupted
from tests.interpreter.runners.custom import entry, registered
from tests.interpreter.runners.replica import module
from tests.raising import raises
from tests.runtime.engine.test_asynchronous import ADD, count_to
from tests.runtime.engine.test_forks import in_child
from tests.threads import run_in_threads
from xlapy.base import flags
from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.error_codes.execution import running as running_codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.base.flags import Flags
from xlapy.runtime.engine.core.queues import CAPACITY

ONE = np.ones(1, np.float32)
FEED = entry("""p = f32[1] parameter(0) k = token[] after-all() i = (f32[1], token[]) infeed(k)
  x = f32[1] get-tuple-element(i), index=0 t = token[] get-tuple-element(i), index=1
  ROOT r = f32[1] add(x, p)""")
"""Adds a value that is fed in."""

SHOW = entry("""p = f32[1] parameter(0) k = token[] parameter(1) ROOT o = token[] outfeed(p, k)""")
"""Feeds its argument out."""

CALL = entry('p = f32[1] parameter(0) ROOT r = f32[1] custom-call(p), custom_call_target="target"')
COPY = entry("p = f32[1] parameter(0) ROOT r = f32[1] copy(p)")
RECEIVE = entry("""p = f32[1] parameter(0) k = token[] after-all()
  s = (f32[1], u32[], token[]) send(p, k), channel_id=1, is_host_transfer=true
  e = token[] send-done(s), channel_id=1, is_host_transfer=true
  v = (f32[1], u32[], token[]) recv(e), channel_id=2, is_host_transfer=true
  w = (f32[1], token[]) recv-done(v), channel_id=2, is_host_transfer=true
  ROOT x = f32[1] get-tuple-element(w), index=0""")
"""Sends its argument to the host, and returns the answer."""


def value(number: float) -> np.ndarray[Any, Any]:
    return np.array([number], np.float32)


def test_values_are_fed_in_after_the_call() -> None:
    client = xla.Client("cpu")
    feed = client.compile(FEED)
    first = feed(ONE)
    second = feed(first)
    total = client.compile(ADD)(first, second)
    assert not (first.is_ready() or second.is_ready() or total.is_ready())
    client.devices[0].transfer_to_infeed(value(10))
    assert first.item() == 11 and not second.is_ready()
    client.devices[0].transfer_to_infeed(value(100))
    assert (second.item(), total.item()) == (111, 122)
    assert len(client.devices[0].infeed) == 0


def test_arrays_may_change_after_the_call() -> None:
    client, given = xla.Client("cpu"), value(5)
    result = client.compile(FEED)(given)
    given[:] = 77
    client.devices[0].transfer_to_infeed(value(1))
    assert result.item() == 6


def test_values_are_fed_out_after_the_call() -> None:
    client = xla.Client("cpu")
    pending = client.compile(FEED)(ONE)
    token = client.compile(SHOW)(pending, None)
    assert not token.is_ready()
    client.devices[0].transfer_to_infeed(value(4))
    assert np.asarray(client.devices[0].transfer_from_outfeed(timeout=20)).tolist() == [5]
    assert token.block_until_ready() is token and token.is_ready()


def test_transfers_with_the_host_after_the_call() -> None:
    client = xla.Client("cpu")
    device, result = client.devices[0], client.compile(RECEIVE)(value(3))
    sent = np.asarray(device.transfer_from_channel(1, timeout=20))
    assert not result.is_ready()
    device.transfer_to_channel(2, sent * 2)
    assert result.item() == 6


def test_a_callback_runs_while_the_caller_goes_on() -> None:
    may_return, threads = threading.Event(), list[int]()

    def wait(x: Any) -> Any:
        threads.append(threading.get_ident())
        assert may_return.wait(20)
        return x + 1

    with registered(wait):
        result = xla.Client("cpu").compile(CALL)(ONE)
        assert not result.is_ready()
        may_return.set()
        assert result.item() == 2
    assert threads != [threading.get_ident()] and len(threads) == 1


def test_the_error_of_a_callback_travels() -> None:
    def fail(_: Any) -> Any:
        raise KeyError("weights")

    client = xla.Client("cpu")
    failure = ["r (custom-call): target 'target' raised KeyError: 'weights'"]
    with registered(fail):
        failed = client.compile(CALL)(ONE)
        after = client.compile(FEED)(failed)
        token = client.compile(SHOW)(after, None)
        last = client.compile(ADD)(after, ONE)
        for result in (failed, after, token, last):
            with raises(ExecutionError, codes.FAILED_TARGET, *failure) as caught:
                result.block_until_ready()
            assert isinstance(caught.value.__cause__, KeyError)
        with raises(ExecutionError, codes.FAILED_TARGET, *failure):
            np.asarray(last)
    with registered(np.negative):
        assert client.compile(CALL)(ONE).item() == -1


def test_a_failed_token_fails_the_programs_that_take_it() -> None:
    client = xla.Client("cpu")
    with registered(lambda x: x[:0]):
        failed = client.compile(SHOW)(client.compile(CALL)(ONE), None)
        after = client.compile(SHOW)(ONE, failed)
        with raises(ExecutionError, codes.TARGET_RESULT):
            xla.block_until_ready([after])
    assert len(client.devices[0].outfeed) == 0


def test_a_value_of_another_shape_is_an_invalid_argument() -> None:
    client = xla.Client("cpu")
    result = client.compile(FEED)(ONE)
    client.devices[0].transfer_to_infeed(np.zeros(3, np.float32))
    with raises(InvalidArgumentError, calls_codes.ARGUMENT_SHAPE, "f32[1] (float32)", "float32[3]"):
        result.block_until_ready()


def test_what_is_wrong_with_arguments_is_raised_by_the_call() -> None:
    with raises(InvalidArgumentError, calls_codes.ARGUMENT_SHAPE, "parameter 0"):
        xla.Client("cpu").compile(FEED)(np.zeros(2, np.float32))


@pytest.mark.parametrize(("inner", "expected"), [(COPY, 1), (count_to(200_000), 200_001), (FEED, 8)])
def test_a_callback_runs_programs_of_the_same_device(inner: str, expected: int) -> None:
    """They do not queue behind the program that calls back."""
    client = xla.Client("cpu")
    client.devices[0].transfer_to_infeed(value(7))
    with registered(lambda x: np.asarray(client.compile(inner)(x))):
        assert client.compile(CALL)(ONE).item() == expected


def test_callbacks_may_be_nested() -> None:
    client, depth = xla.Client("cpu"), [0]

    def nested(x: Any) -> Any:
        depth[0] += 1
        return np.asarray(client.compile(CALL)(x)) + 1 if depth[0] < 4 else x

    with registered(nested):
        assert client.compile(CALL)(ONE).item() == 4


def test_a_callback_runs_a_program_on_several_devices() -> None:
    text = module(
        "p = f32[1] parameter(0) ROOT r = f32[1] all-reduce(p), to_apply=add",
        2,
        computations="add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }",
    )
    client = xla.Client("cpu", devices=2)
    total = client.compile(text)
    with registered(lambda x: np.asarray(total.execute_sharded([[x], [x * 2]])[1])):
        assert client.compile(CALL)(ONE).item() == 3


def test_a_donated_buffer_is_gone_after_a_failure() -> None:
    client = xla.Client("cpu")

    def fail(_: Any) -> Any:
        raise ValueError("not now")

    with registered(fail):
        program = client.compile(CALL, donate=[0])
        given = client.device_put(ONE)
        failed = program(given)
        assert given.is_deleted()
        with raises(ExecutionError, codes.FAILED_TARGET, "not now"):
            failed.block_until_ready()
        with raises(InvalidArgumentError, calls_codes.DELETED_BUFFER):
            program(given)
        again = program(failed)
        with raises(ExecutionError, codes.FAILED_TARGET, "not now"):
            np.asarray(again)
    with registered(np.negative):
        assert program(client.device_put(ONE)).item() == -1


def test_side_effects_keep_the_order_of_the_calls() -> None:
    client = xla.Client("cpu")
    met: list[float] = []

    def note(x: Any) -> Any:
        met.append(float(x[0]))
        return x

    with registered(note):
        show, count, call = client.compile(SHOW), client.compile(count_to(100_000)), client.compile(CALL)
        rounds = [(show(value(n), None), call(value(n)), count(value(n))) for n in range(10)]
        xla.block_until_ready(rounds)
    assert met == list(range(10))
    shown = [np.asarray(client.devices[0].transfer_from_outfeed(timeout=20)).item() for _ in range(10)]
    assert shown == list(range(10))


def test_random_programs_from_four_threads() -> None:
    """Each thread has a chain of its own: what it computes, and where it fails, does not depend on the others."""
    client = xla.Client("cpu")
    with registered(np.negative):
        call = client.compile(CALL)
    add, count = client.compile(ADD), client.compile(count_to(20_000))
    feed, device = client.compile(FEED), client.devices[0]

    def target(x: Any) -> Any:
        if x[0] % 7 == 3:
            raise ValueError(f"refused {x[0]:g}")
        return x * 2

    def chain(thread: int) -> None:
        rng = random.Random(thread)
        for _ in range(12):
            number, failure = float(rng.randint(0, 50)), ""
            result: Any = client.device_put(value(number))
            for _ in range(rng.randint(1, 5)):
                kind = rng.choice(["add", "call", "count", "feed"])
                if kind == "feed":
                    device.transfer_to_infeed(ONE)
                result = {"add": lambda x: add(x, ONE), "call": call, "count": count, "feed": feed}[kind](result)
                if failure:
                    if kind == "feed":  # the program does not run, so the value is left to the next one
                        left.append(1)
                    continue
                if kind == "call":
                    failure = f"refused {number:g}" if number % 7 == 3 else ""
                number = {"add": number + 1, "call": number * 2, "count": number + 20_000, "feed": number + 1}[kind]
            if failure:
                with raises(ExecutionError, codes.FAILED_TARGET) as raised:
                    result.block_until_ready()
                assert raised.value.message.endswith(f"ValueError: {failure}")
            else:
                assert result.item() == number

    left: list[int] = []
    with registered(target):
        run_in_threads(4, chain)
    assert len(device.infeed) == len(left)


def test_control_c_in_a_wait_cancels_what_waits_for_a_feed() -> None:
    client = xla.Client("cpu")
    feed = client.compile(FEED)
    first = feed(ONE)
    assert interrupted(lambda: feed(first)) < 2
    for _ in range(2):
        with raises(ExecutionError, running_codes.CANCELED):
            first.block_until_ready()
    client.devices[0].transfer_to_infeed(ONE)
    assert feed(ONE).item() == 2


def test_control_c_in_a_call_that_waits_for_room() -> None:
    """The call has no effect; what was queued before goes on."""
    client = xla.Client("cpu")
    feed, queued = client.compile(FEED), list[Any]()

    def fill() -> None:
        while True:
            queued.append(feed(ONE))

    assert interrupted(fill) < 2
    assert len(queued) >= CAPACITY
    for _ in queued:
        client.devices[0].transfer_to_infeed(ONE)
    assert [result.item() for result in queued] == [2] * len(queued)


def limited(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    values = Flags({"collective_timeout": seconds})
    monkeypatch.setattr(flags, "current", lambda: values)


def test_a_device_that_is_busy_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device 1 waits for a message of device 0, which waits for a feed of an earlier program for longer than the
    timeout of the later one."""
    text = module(
        """p = f32[1] parameter(0) k = token[] after-all()
        s = (f32[1], u32[], token[]) send(p, k),
          frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}
        e = token[] send-done(s)
        v = (f32[1], u32[], token[]) recv(k),
          frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}
        w = (f32[1], token[]) recv-done(v) ROOT x = f32[1] get-tuple-element(w), index=0""",
        2,
    )
    client = xla.Client("cpu", devices=2)
    later = client.compile(text)
    limited(monkeypatch, 30)
    busy = client.compile(FEED)(ONE)
    wait_for_attached(client.devices[0])
    limited(monkeypatch, 1)
    results = later.execute_sharded([[value(5)], [value(6)]])
    threading.Event().wait(1.3)
    assert not results[1].is_ready()
    client.devices[0].transfer_to_infeed(ONE)
    assert busy.item() == 2
    assert [result.item() for result in results] == [0, 5]


# -- what stays synchronous


def test_sizes_that_only_the_program_knows() -> None:
    """A buffer has its sizes from the start."""
    text = FEED.replace("p = f32[1]", "q = f32[<=3] parameter(1) p = f32[1]")
    text = text.replace("ROOT r = f32[1] add(x, p)", "r = f32[1] add(x, p) n = f32[<=3] negate(q) ROOT b = tuple(r, n)")
    client = xla.Client("cpu")
    client.devices[0].transfer_to_infeed(value(1))
    both = client.compile(text.replace("= tuple", "= (f32[1], f32[<=3]) tuple"))(ONE, np.ones(2, np.float32))
    assert all(buffer.is_ready() for buffer in both)
    assert [np.asarray(buffer).tolist() for buffer in both] == [[2], [-1, -1]]


def test_a_program_without_results_has_run_when_the_call_returns() -> None:
    """Nothing could carry its error."""
    text = entry(
        'p = f32[1] parameter(0) c = f32[1] custom-call(p), custom_call_target="target", '
        "custom_call_has_side_effect=true ROOT r = () tuple()"
    )

    def fail(_: Any) -> Any:
        raise ValueError("not now")

    with registered(fail), raises(ExecutionError, codes.FAILED_TARGET, "not now"):
        xla.Client("cpu").compile(text)(ONE)


def test_programs_with_checks_have_run_when_the_call_returns() -> None:
    with registered(lambda x: x * np.float32(np.nan)), raises(ExecutionError, running_codes.INVALID_VALUE):
        xla.Client("cpu").compile(CALL, check_nans=True)(ONE)


# -- ends of processes


def ends(lines: str) -> subprocess.CompletedProcess[str]:
    script = f"import numpy as np, xlapy as xla\nclient = xla.Client('cpu')\nfeed = client.compile({FEED!r})\n{lines}\n"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)


def test_the_process_ends_while_a_program_waits_for_its_feed() -> None:
    done = ends("result = feed(np.ones(1, np.float32))\nafter = feed(result)\nprint(result.is_ready())")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_a_program_that_was_fed_finishes_before_the_process_ends() -> None:
    lines = """import time
xla.register_custom_call_target("target", lambda x: (time.sleep(0.2), print("called", flush=True), x)[2])
result = feed(np.ones(1, np.float32))
client.devices[0].transfer_to_infeed(np.ones(1, np.float32))
last = client.compile(TEXT)(result)"""
    done = ends(f"TEXT = {CALL!r}\n{lines}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "called\n", "")


def test_a_fork_while_a_program_waits_for_its_feed() -> None:
    """The program fails in the child, where its queues can be used again, and goes on in the parent."""
    client = xla.Client("cpu")
    feed, device = client.compile(FEED), client.devices[0]
    running = feed(ONE)
    queued = feed(ONE)
    wait_for_attached(device)

    def use() -> None:
        with raises(ExecutionError, running_codes.FORKED):
            running.block_until_ready()
        device.transfer_to_infeed(value(20))
        assert queued.item() == 21
        device.transfer_to_infeed(value(30))
        assert feed(ONE).item() == 31

    assert in_child(use) == 0
    device.transfer_to_infeed(value(2))
    device.transfer_to_infeed(value(3))
    assert (running.item(), queued.item()) == (3, 4)


def wait_for_attached(device: Any) -> None:
    """Waits until the program that runs takes values without the host."""
    for _ in range(2000):
        if device.infeed._consumer is not None:
            return
        threading.Event().wait(0.001)
    raise AssertionError("no program is attached")
