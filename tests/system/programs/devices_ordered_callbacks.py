"""Ordered callbacks: their order over calls, devices and threads, with pending arguments, and after one has failed."""

import time

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import io_callback

from tests.threads import run_in_threads

seen = []


def note(value):
    if value[0] == 13:
        raise LookupError("thirteen")
    time.sleep(0.001)
    seen.append(int(value[0]))
    return value


def ordered(x):
    return io_callback(note, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)


# Calls of two programs, on two devices in turns: the token moves with them.
once, twice = jax.jit(ordered), jax.jit(lambda x: ordered(ordered(x) + 1))
devices = jax.devices()[:3]
for number in range(12):
    x = jax.device_put(jnp.full(2, 10 * number), devices[number % 3])
    result = (twice if number % 2 else once)(x)
    assert result.devices() == {devices[number % 3]}
jax.effects_barrier()
assert seen == [
    value for number in range(12) for value in ([10 * number, 10 * number + 1] if number % 2 else [10 * number])
], seen


# Arguments that a long program still computes, on another device than that of the next callback.
@jax.jit
def long(x):
    return jax.lax.fori_loop(0, 100, lambda _, m: jnp.sin(m @ m), x)[0, :2] * 0 + 7


seen.clear()
square = jnp.ones((200, 200))
for _ in range(3):
    pending = long(jax.device_put(square, devices[1]))
    once(pending)
    once(jax.device_put(jnp.full(2, 8.0), devices[2]))
    once(long(square))
    once(jnp.full(2, 9.0))
jax.effects_barrier()
assert seen == [7, 8, 7, 9] * 3, seen

# One that fails: those before it have run, those after it run.
seen.clear()
for number in range(11, 16):
    if number == 13:
        with pytest.raises(RuntimeError, match="LookupError: thirteen"):
            jax.block_until_ready(once(jnp.full(2, number)))
    else:
        once(jnp.full(2, number))
with pytest.raises(RuntimeError, match="LookupError: thirteen"):
    jax.block_until_ready(jax.jit(lambda x: ordered(ordered(x) + 3))(jnp.full(2, 10)))
once(jnp.full(2, 17))
jax.effects_barrier()
assert seen == [11, 12, 14, 15, 10, 17], seen

# Each thread has an order of its own: a token that threads share would reorder or lose callbacks.
seen.clear()


def work(thread):
    for number in range(20):
        (twice if number % 2 else once)(jnp.full(2, 1000 * thread + 10 * number))
    jax.effects_barrier()


run_in_threads(4, work)
one = [value for number in range(20) for value in ([10 * number, 10 * number + 1] if number % 2 else [10 * number])]
assert len(seen) == 4 * len(one)
for thread in range(4):
    assert [value % 1000 for value in seen if value // 1000 == thread] == one

print("ok")
