"""Asynchronous launches of long programs: results that are not ready, failures, and the order of launches."""

import os
import threading
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.threads import run_in_threads
from xlapy.base.error_codes.execution.running import CANCELED, FORKED
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.objects.platform import platform

x = jnp.ones(1000)
endless = jax.jit(lambda v: jax.lax.while_loop(lambda c: c[0] >= 0, jnp.sin, v))
sweep = jax.jit(lambda v: jax.lax.fori_loop(0, 5000, lambda i, c: jnp.sin(c) + 1, v))
increment = jax.jit(lambda v: v + 1, donate_argnums=0)
last = np.asarray(sweep(x))


def cancel(*arrays):
    """Cancels running and queued launches."""
    native().set_canceled(1)
    for array in arrays:
        with pytest.raises(jax.errors.JaxRuntimeError, match=rf"CANCELLED: the program was canceled \[{CANCELED}\]"):
            array.block_until_ready()
    native().set_canceled(0)


# The call returns; reads of the results report the error, and so do launches that use them.
first = endless(x)
second, third = first + 1, endless(x)
assert not first.is_ready() and not second.is_ready() and not first.is_deleted()
assert (x * 2)[0] == 2  # does not depend on the results
second.copy_to_host_async()


def read():
    with pytest.raises(jax.errors.JaxRuntimeError):
        np.asarray(first)
    ended.append(first)


ended = []
waiting = threading.Thread(target=read)
waiting.start()
cancel(first, second, third)
waiting.join()
assert len(ended) == 1
for failed in (first, second):
    with pytest.raises(jax.errors.JaxRuntimeError, match="canceled"):
        np.asarray(failed)
    with pytest.raises(jax.errors.JaxRuntimeError, match="canceled"):
        np.asarray(failed * 2)
    with pytest.raises(jax.errors.JaxRuntimeError, match="canceled"):
        jax.device_put(failed, jax.devices("cpu")[0]).block_until_ready()

# Buffers may be deleted before the launches that use them; a queued launch may take over a donated buffer.
given = sweep(x)
address = given.unsafe_buffer_pointer()
result = increment(given)
assert given.is_deleted() and result.unsafe_buffer_pointer() == address
assert np.array_equal(result, last + 1)
gone = sweep(x)
kept = gone + 1
gone.delete()
assert np.array_equal(kept, last + 1)
with pytest.raises(RuntimeError, match="deleted"):
    np.asarray(gone)
del gone

# A donated buffer is not overwritten before other launches have read it.
shared = sweep(x)
readers = [sweep(shared) for _ in range(3)]
assert np.array_equal(increment(shared), last + 1)
assert all(np.array_equal(reader, readers[0]) for reader in readers)
with pytest.raises(RuntimeError, match="donate"):
    twice = sweep(x)
    jax.jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))(twice, twice)

# More launches than the queue holds, functions deleted before they run, borrowed host memory.
held = np.full(100_000, 2, np.float32)
many = [jax.jit(lambda v, n=n: sweep(v[:1000]) + n)(held) for n in range(5)] + [sweep(x) for _ in range(50)]
held = None
assert all(np.array_equal(one, many[5]) for one in many[5:]) and np.array_equal(many[1], many[0] + 1)

# Operations outside the stream wait for it: callbacks, copies to host layouts.
seen = []
jax.debug.callback(lambda v: seen.append(float(v[0])), sweep(x), ordered=True)
jax.effects_barrier()
assert seen == [float(last[0])]
square = sweep(x)[:900].reshape(30, 30)
assert np.array_equal(jax.device_get(square.T), last[:900].reshape(30, 30).T)


# A callback may launch programs and wait for them.
def compute(value):
    return np.asarray(sweep(jnp.asarray(value)))


inside = jax.pure_callback(compute, jax.ShapeDtypeStruct((1000,), np.float32), sweep(x))
assert np.array_equal(inside, sweep(sweep(x)))

# Concurrent calls from many threads: one that got another's frame or donated memory would compute other values.
alone = [np.asarray(sweep(x + number)) for number in range(8)]


def work(number):
    donated = sweep(x + number)
    return np.asarray(sweep(x + number)), np.asarray(increment(donated))


for expected, (plain, incremented) in zip(alone, run_in_threads(8, work), strict=True):
    assert np.array_equal(plain, expected) and np.array_equal(incremented, expected + 1)

# The child of a fork runs queued and new launches; the running launch is lost.
running, waits = endless(x), sweep(x)
while not native().is_stream_running(platform().devices[0].stream):
    time.sleep(0.001)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    child = os.fork()
if child == 0:
    try:
        with pytest.raises(jax.errors.JaxRuntimeError, match=rf"forked .*\[{FORKED}\]"):
            running.block_until_ready()
        assert np.array_equal(waits, last) and np.array_equal(sweep(x), last)
    except BaseException:
        os._exit(1)
    os._exit(0)
cancel(running)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("ok")
