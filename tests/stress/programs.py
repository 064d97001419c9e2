"""Programs whose right results are known, each other than the last: what threads and soak tests compile and run.

A task is a function of a number and a client with four devices: it compiles a program that depends on the number, runs
it and asserts its result or its error. It shares nothing but the client with other tasks, so that any number of them
may run at once. Together they use what the runtime has: large and small results, thread pool, loops, donation,
collectives, callbacks, feeds, errors, cancellation, LAPACK, serialized programs.
"""

from __future__ import annotations

import gc
import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import xlapy as xla
from xlapy.base.errors import ExecutionError, InvalidArgumentError, ParseError, VerificationError

DEVICES = 4

ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
LESS = "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }"


def module(number: int, entry: str, computations: str = "", replicas: int = 1) -> str:
    return f"HloModule m{number}, replica_count={replicas}\n{computations}\nENTRY e {{ {entry} }}\n"


def ramp(size: int, number: int) -> np.ndarray[Any, Any]:
    """Numbers in [0, 1) that differ from task to task."""
    return ((np.arange(size) * 7 + number) % 1000 / 1000).astype(np.float32)


def read(value: Any) -> list[np.ndarray[Any, Any]]:
    """Waits for results, whose errors are raised here if their program runs asynchronously."""
    if isinstance(value, list | tuple):
        return [array for element in value for array in read(element)]
    return [np.asarray(value)]


@contextmanager
def fails(kind: type[Exception], *words: str) -> Any:
    """Asserts that the block raises an error of a kind whose text has all words."""
    try:
        yield
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} not in: {error}"
    else:
        raise AssertionError(f"no {kind.__name__}")


# -- one device


def elementwise(number: int, client: xla.Client) -> None:
    """A kernel that the thread pool divides."""
    size = 200_000 + number % 5000
    entry = (
        f"p = f32[{size}] parameter(0) c = f32[] constant({number}) b = f32[{size}] broadcast(c), dimensions={{}} "
        f"a = f32[{size}] subtract(p, b) ROOT e = f32[{size}] exponential(a)"
    )
    x = ramp(size, number) + np.float32(number)
    assert np.allclose(client.compile(module(number, entry))(x), np.exp(x - np.float32(number)), rtol=1e-5)


def product(number: int, client: xla.Client) -> None:
    rows, inner, columns = 40 + number % 50, 60 + number % 70, 30 + number % 90
    entry = (
        f"p = f32[{rows},{inner}] parameter(0) q = f32[{inner},{columns}] parameter(1) "
        f"d = f32[{rows},{columns}] dot(p, q), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} "
        f"c = f32[] constant({number}) b = f32[{rows},{columns}] broadcast(c), dimensions={{}} "
        f"ROOT r = f32[{rows},{columns}] add(d, b)"
    )
    p, q = ramp(rows * inner, number).reshape(rows, inner), ramp(inner * columns, 3).reshape(inner, columns)
    assert np.allclose(client.compile(module(number, entry))(p, q), p @ q + np.float32(number), rtol=1e-4)


def sorted_sum(number: int, client: xla.Client) -> None:
    """A sort by a comparator, and a sum of the smallest half; the result is a tuple."""
    size = 3000 + number % 1000
    entry = (
        f"p = f32[{size}] parameter(0) s = f32[{size}] sort(p), dimensions={{0}}, to_apply=less "
        f"h = f32[{size // 2}] slice(s), slice={{[0:{size // 2}]}} z = f32[] constant({number}) "
        f"t = f32[] reduce(h, z), dimensions={{0}}, to_apply=add ROOT r = (f32[{size}], f32[]) tuple(s, t)"
    )
    x = ramp(size, number)[::-1].copy()
    ordered, total = client.compile(module(number, entry, ADD + LESS))(x)
    assert np.array_equal(ordered, np.sort(x))
    assert np.allclose(total, np.sort(x)[: size // 2].sum() + number, rtol=1e-4)


def loop(number: int, client: xla.Client) -> None:
    """A loop that updates its state in place."""
    size, steps = 50 + number % 20, 3 + number % 17
    state = f"(s32[], f32[{size}])"
    parts = f"s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0"
    computations = f"""
below {{ {parts} n = s32[] constant({steps}) ROOT r = pred[] compare(i, n), direction=LT }}
step {{ {parts} x = f32[{size}] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  f = f32[] convert(i) u = f32[1] reshape(f) y = f32[{size}] dynamic-update-slice(x, u, i)
  ROOT q = {state} tuple(j, y) }}"""
    entry = (
        f"x = f32[{size}] parameter(0) z = s32[] constant(0) t = {state} tuple(z, x) "
        f"w = {state} while(t), condition=below, body=step ROOT r = f32[{size}] get-tuple-element(w), index=1"
    )
    x = ramp(size, number)
    expected = x.copy()
    expected[:steps] = np.arange(steps)
    assert np.array_equal(client.compile(module(number, entry, computations))(x), expected)


def linear_algebra(number: int, client: xla.Client) -> None:
    """A call of LAPACK."""
    size = 5 + number % 30
    factor = np.tril(ramp(size * size, number).reshape(size, size)) + np.eye(size, dtype=np.float32)
    entry = f"p = f32[{size},{size}] parameter(0) ROOT c = f32[{size},{size}] cholesky(p), lower=true"
    result = np.tril(client.compile(module(number, entry))(factor @ factor.T))
    assert np.allclose(result, factor, atol=1e-2)


def serialized(number: int, client: xla.Client) -> None:
    """A program that is stored and loaded, and used after the one that it was stored from is gone."""
    size = 100 + number % 100
    entry = f"p = s32[{size}] parameter(0) c = s32[{size}] iota(), iota_dimension=0 ROOT r = s32[{size}] add(p, c)"
    loaded = client.deserialize(client.compile(module(number, entry)).serialize())
    x = np.full(size, number, np.int32)
    assert np.array_equal(loaded(x), x + np.arange(size))


def donated(number: int, client: xla.Client) -> None:
    """Steps that update a donated buffer in place; the buffer is gone afterwards."""
    size = 20_000 + number % 1000
    entry = (
        f"p = f32[{size}] parameter(0) c = f32[] constant({number % 8}) b = f32[{size}] broadcast(c), dimensions={{}} "
        f"ROOT r = f32[{size}] add(p, b)"
    )
    step = client.compile(module(number, entry), donate=[0])
    x = ramp(size, number)
    given = value = client.device_put(x)
    for _ in range(3):
        value = step(value)
    assert np.allclose(value, x + np.float32(3 * (number % 8)), atol=1e-5)
    with fails(InvalidArgumentError, "donated"):
        read(step(given))


def donated_twice(number: int, client: xla.Client) -> None:
    """Two threads give the same buffer: one has the result, the other an error."""
    size = 30_000 + number % 1000
    entry = (
        f"p = f32[{size}] parameter(0) c = f32[] constant(1) b = f32[{size}] broadcast(c), dimensions={{}} "
        f"ROOT r = f32[{size}] add(p, b)"
    )
    step = client.compile(module(number, entry), donate=[0])
    given = client.device_put(np.full(size, number % 100, np.float32))
    outcomes = at_once(lambda: np.asarray(step(given)), 2)
    good = [outcome for outcome in outcomes if isinstance(outcome, np.ndarray)]
    assert len(good) == 1, outcomes
    assert (good[0] == number % 100 + 1).all()
    assert any(isinstance(outcome, InvalidArgumentError) for outcome in outcomes), outcomes


def shared(number: int, client: xla.Client) -> None:
    """Three threads run one program at once."""
    size = 10_000 + number % 1000
    entry = f"p = f32[{size}] parameter(0) q = f32[{size}] multiply(p, p) ROOT r = f32[{size}] add(q, p)"
    program = client.compile(module(number, entry))
    x = ramp(size, number)
    for result in at_once(lambda: [np.asarray(program(x)) for _ in range(3)], 3):
        assert not isinstance(result, Exception), result
        assert all(np.allclose(one, x * x + x, atol=1e-6) for one in result)


def interpreted(number: int, _: xla.Client) -> None:
    """The other platform, at the same time."""
    size = 10 + number % 20
    entry = f"p = f32[{size}] parameter(0) ROOT r = f32[{size}] negate(p)"
    x = ramp(size, number)
    assert np.array_equal(xla.Client("interpreter").compile(module(number, entry))(x), -x)


# -- errors


def wrong_programs(number: int, client: xla.Client) -> None:
    size = 3 + number % 50
    with fails(ParseError):
        client.compile(module(number, f"p = f32[{size}] parameter(0) ROOT r = f32[{size}] nonsense{number}(p)"))
    with fails(VerificationError, "q"):
        client.compile(
            module(number, f"p = f32[{size}] parameter(0) q = f32[{size + 1}] negate(p) ROOT r = f32[{size}] negate(p)")
        )


def wrong_arguments(number: int, client: xla.Client) -> None:
    size = 3 + number % 50
    program = client.compile(module(number, f"p = f32[{size}] parameter(0) ROOT r = f32[{size}] negate(p)"))
    with fails(InvalidArgumentError, f"f32[{size}]"):
        program(np.zeros(size + 1, np.float32))
    assert not np.asarray(program(np.zeros(size, np.float32))).any()


def not_a_number(number: int, client: xla.Client) -> None:
    size = 3 + number % 50
    entry = f"p = f32[{size}] parameter(0) l{number} = f32[{size}] log(p) ROOT r = f32[{size}] negate(l{number})"
    with fails(ExecutionError, f"l{number}"):
        read(client.compile(module(number, entry), check_nans=True)(np.full(size, -1, np.float32)))


# -- callbacks

_TARGET = "stress_target"


def target(values: Any) -> Any:
    """Doubles its operand; refuses negative numbers."""
    if values.flat[0] < 0:
        raise ValueError(f"refuses {values.flat[0]}")
    return values * 2


def register_targets() -> None:
    """Registers what the programs call; once in a process."""
    xla.register_custom_call_target(_TARGET, target)


def callback(number: int, client: xla.Client) -> None:
    size = 1 + number % 30
    entry = (
        f'p = f32[{size}] parameter(0) c = f32[{size}] custom-call(p), custom_call_target="{_TARGET}" '
        f"ROOT r = f32[{size}] add(c, p)"
    )
    program = client.compile(module(number, entry))
    x = ramp(size, number)
    assert np.allclose(program(x), 3 * x, atol=1e-5)
    with fails(ExecutionError, f"refuses -{number + 1}"):
        read(program(np.full(size, -number - 1, np.float32)))
    assert np.allclose(program(x), 3 * x, atol=1e-5)


# -- several devices


def devices(number: int, client: xla.Client) -> None:
    size = 100 + number % 200
    entry = (
        f"p = f32[{size}] parameter(0) s = f32[{size}] all-reduce(p), replica_groups={{}}, to_apply=add "
        f"g = f32[{size * DEVICES}] all-gather(p), replica_groups={{}}, dimensions={{0}} "
        f"ROOT t = (f32[{size}], f32[{size * DEVICES}]) tuple(s, g)"
    )
    program = client.compile(module(number, entry, ADD, DEVICES))
    given = [ramp(size, number + device) for device in range(DEVICES)]
    for total, gathered in program.execute_sharded([[x] for x in given]):
        assert np.allclose(total, sum(given), atol=1e-4)
        assert np.array_equal(gathered, np.concatenate(given))


def deadlock(number: int, client: xla.Client) -> None:
    """Device 0 waits for devices that never come."""
    computations = f"""{ADD}
meets {{ p = f32[2] parameter(0) ROOT r{number} = f32[2] all-reduce(p), replica_groups={{}}, to_apply=add }}
stays {{ p = f32[2] parameter(0) ROOT r = f32[2] negate(p) }}"""
    entry = (
        "p = f32[2] parameter(0) i = u32[] replica-id() b = s32[] convert(i) "
        "ROOT c = f32[2] conditional(b, p, p), branch_computations={meets, stays}"
    )
    program = client.compile(module(number, entry, computations, 2))
    with fails(ExecutionError, f"r{number}"):
        read(program.execute_sharded([[np.zeros(2, np.float32)]] * 2))


def cancellation(number: int, client: xla.Client) -> None:
    """A device fails; the others, which run an endless loop or wait for it, end."""
    state = "(s32[], f32[2])"
    computations = f"""{ADD}
always {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(0)
  ROOT r = pred[] compare(i, n), direction=GE }}
again {{ s = {state} parameter(0) x = f32[2] get-tuple-element(s), index=1 y = f32[2] cosine(x)
  n = s32[] constant(0) ROOT q = {state} tuple(n, y) }}
fails {{ p = f32[2] parameter(0) ROOT r = f32[2] custom-call(p), custom_call_target="{_TARGET}" }}
runs {{ p = f32[2] parameter(0) z = s32[] constant(0) t = {state} tuple(z, p)
  w = {state} while(t), condition=always, body=again ROOT r = f32[2] get-tuple-element(w), index=1 }}
waits {{ p = f32[2] parameter(0) ROOT r = f32[2] all-reduce(p), replica_groups={{}}, to_apply=add }}"""
    entry = (
        "p = f32[2] parameter(0) i = u32[] replica-id() b = s32[] convert(i) "
        "ROOT c = f32[2] conditional(b, p, p, p), branch_computations={fails, runs, waits}"
    )
    program = client.compile(module(number, entry, computations, DEVICES))
    with fails(ExecutionError, f"refuses -{number + 1}"):
        read(program.execute_sharded([[np.full(2, -number - 1, np.float32)]] * DEVICES))


def feeds(number: int, _: xla.Client) -> None:
    """Infeed and outfeed on a client of its own, as the queues of a device are shared by all programs on it."""
    client = xla.Client("cpu", devices=2)
    entry = (
        "k = token[] after-all() i = (f32[2], token[]) infeed(k) x = f32[2] get-tuple-element(i), index=0 "
        "n = token[] get-tuple-element(i), index=1 s = f32[2] all-reduce(x), replica_groups={}, to_apply=add "
        "o = token[] outfeed(s, n) ROOT r = f32[2] negate(x)"
    )
    program = client.compile(module(number, entry, ADD, 2))
    for device in client.devices:
        device.transfer_to_infeed(np.full(2, number + device.id, np.float32))
    results = program.execute_sharded([[], []])
    for device, result in zip(client.devices, results, strict=True):
        assert np.array_equal(result, [-number - device.id] * 2)
        assert np.array_equal(device.transfer_from_outfeed(timeout=10), [2 * number + 1] * 2)


Task = Callable[[int, xla.Client], None]

TASKS: Sequence[Task] = (
    elementwise, product, sorted_sum, loop, linear_algebra, serialized, donated, donated_twice, shared, interpreted,
    wrong_programs, wrong_arguments, not_a_number, callback, devices, deadlock, cancellation, feeds,
)  # fmt: skip


# -- threads


def at_once(function: Callable[[], Any], threads: int) -> list[Any]:
    """Calls a function in several threads at once; returns what each returned or raised."""
    gate, outcomes = threading.Barrier(threads), list[Any]([None]) * threads

    def call(index: int) -> None:
        gate.wait()
        try:
            outcomes[index] = function()
        except Exception as error:
            outcomes[index] = error

    started = [threading.Thread(target=call, args=(index,)) for index in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return outcomes


class Collector:
    """Collects garbage again and again in a thread of its own, for as long as the block runs.

    It does so for a quarter of the time at most: a collection holds the GIL, and JAX has many objects.
    """

    def __init__(self, seconds: float = 0.02) -> None:
        self._end = threading.Event()
        self._seconds = seconds
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        pause = self._seconds
        for generation in itertools.cycle((0, 1, 2)):
            if self._end.wait(pause):
                return
            started = time.monotonic()
            gc.collect(generation)
            pause = max(self._seconds, 3 * (time.monotonic() - started))

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def shuffled(tasks: Sequence[Task], count: int, seed: int) -> list[Task]:
    """Returns `count` tasks, every one about as often as the others, in random order."""
    chosen = [tasks[index % len(tasks)] for index in range(count)]
    random.Random(seed).shuffle(chosen)
    return chosen
