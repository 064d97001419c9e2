"""Asynchronous launches on several devices: synchronization, order, failures, and launches after a failure."""

import os
import time
import warnings
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.threads import run_in_threads
from xlapy.base.error_codes.execution.running import CANCELED, DEADLOCK
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.objects.platform import platform
from xlapy.runtime.collectives import watchdog

devices = jax.devices()
mesh = Mesh(np.array(devices), "i")
sharded = NamedSharding(mesh, P("i"))


def on(mesh, body, whole=False, **options):
    out = P() if whole else P("i")
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=out, check_vma=False), **options)


def total(v):
    return lax.psum(v, "i")


def around(v):
    return lax.ppermute(v, "i", [(0, 1), (1, 2), (2, 3), (3, 0)])


x = jax.device_put(np.arange(4000, dtype=np.float32) % 7, sharded)
endless = on(mesh, lambda v: lax.while_loop(lambda c: total(c)[0] >= 0, jnp.abs, v))
sweep = on(mesh, lambda v: lax.fori_loop(0, 500, lambda i, c: around(c) + 1, v))
sums = on(mesh, total, whole=True)
expected = np.asarray(x) + 500


def cancel(*arrays):
    """Cancels running and queued launches."""
    native().set_canceled(1)
    for array in arrays:
        with pytest.raises(jax.errors.JaxRuntimeError, match=rf"CANCELLED: the program was canceled \[{CANCELED}\]"):
            array.block_until_ready()
    native().set_canceled(0)


# Calls return, even those of short programs that need the results; reads of the results report the error.
first = endless(x)
second, third = first + 1, sums(first)
assert not any(array.is_ready() for array in (first, second, third))
assert np.array_equal(x + 1, np.arange(4000) % 7 + 1)
cancel(first, second, third)
for failed in (first, second, third):
    with pytest.raises(jax.errors.JaxRuntimeError, match="canceled"):
        np.asarray(failed)
assert np.array_equal(sweep(x), expected)

# A device that fails cancels the others: here one device gets an argument of a failed launch.
parts = [jax.device_put(np.ones(3, np.float32), device) for device in devices]
parts[2] = jax.jit(lambda v: lax.while_loop(lambda c: c[0] >= 0, jnp.abs, v))(parts[2])
given = jax.make_array_from_single_device_arrays((12,), sharded, parts)
result = sums(given)
while not native().is_stream_running(platform().devices[0].stream):
    time.sleep(0.001)
cancel(parts[2], result)
assert np.array_equal(sums(x), np.asarray(x).reshape(4, 1000).sum(0))

# Deadlocks are detected, wherever the devices wait; later launches run.
stuck = on(mesh, lambda v: lax.cond(lax.axis_index("i") == 1, lambda c: c, total, v))
result = stuck(x)
with pytest.raises(jax.errors.JaxRuntimeError, match=rf"can never finish: .* waits for device 1.*\[{DEADLOCK}\]"):
    result.block_until_ready()
assert np.array_equal(sweep(x), expected)

# Waiting for a device that still executes earlier launches does not count toward the timeout.
busy = jax.jit(lambda v, rounds: lax.fori_loop(0, rounds, lambda i, c: jnp.sin(c), v))
ones, rounds, waited = jax.device_put(jnp.ones(1000), devices[3]), 100_000, 0.0
with mock.patch.object(watchdog, "collective_timeout", lambda: 0.1):
    while waited < 0.3:
        rounds *= 2
        begin = time.perf_counter()
        busy(ones, rounds)
        result = sums(x)
        assert np.array_equal(result, np.asarray(x).reshape(4, 1000).sum(0))
        waited = time.perf_counter() - begin

# Queued launches take over donated memory, unless it has other owners.
donating = on(mesh, lambda v: v + total(v)[:1], donate_argnums=0)
given = sweep(x)
addresses = [shard.data.unsafe_buffer_pointer() for shard in given.addressable_shards]
result = donating(given)
assert given.is_deleted() and [s.data.unsafe_buffer_pointer() for s in result.addressable_shards] == addresses
shared = sweep(x)
readers = [sweep(shared) for _ in range(3)]
later = donating(shared)
assert all(np.array_equal(reader, expected + 500) for reader in readers) and np.array_equal(later, result)

# More launches than the queues hold; functions and arguments deleted before they run.
value = x
for _ in range(40):
    value = sweep(value)
many = [on(mesh, lambda v, n=n: around(v) + n)(sweep(x)) for n in range(3)]
assert np.array_equal(value, np.asarray(x) + 40 * 500)
assert all(np.array_equal(one, np.roll(expected, 1000) + n) for n, one in enumerate(many))

# Concurrent calls on overlapping sets of devices in any order, including short programs without collectives.
meshes = [mesh, Mesh(np.array(devices[:2]), "i"), Mesh(np.array([devices[3], devices[1]]), "i")]
functions = [on(one, lambda v: v + total(v)) for one in meshes]
arrays = [jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(one, P("i"))) for one in meshes]
shorts = [jax.jit(lambda v: v * 0.25) for _ in meshes]


def reference(number):
    value = np.arange(8, dtype=np.float64)
    for _ in range(30):
        rows = value.reshape(4 if number == 0 else 2, -1)
        value = (rows + rows.sum(0)).reshape(-1) * 0.25
    return value


def work(number):
    value = arrays[number % 3]
    for _ in range(30):
        value = shorts[number % 3](functions[number % 3](value))
    return np.asarray(value)


for number, value in enumerate(run_in_threads(9, work)):
    np.testing.assert_allclose(value, reference(number % 3), rtol=1e-4)

# Programs with callbacks wait for asynchronous launches, and may launch programs.
seen = jax.pure_callback(
    lambda v: np.asarray(sums(jax.device_put(np.asarray(v), sharded))),
    jax.ShapeDtypeStruct((1000,), np.float32),
    sweep(x),
)
assert np.array_equal(seen, expected.reshape(4, 1000).sum(0))

# The child of a fork runs queued and new launches; running launches are lost.
running, waits = endless(x), sweep(x)
while not all(native().is_stream_running(device.stream) for device in platform().devices):
    time.sleep(0.001)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    child = os.fork()
if child == 0:
    try:
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"forked|canceled"):
            running.block_until_ready()
        assert np.array_equal(waits, expected) and np.array_equal(sweep(x), expected)
    except BaseException:
        os._exit(1)
    os._exit(0)
cancel(running)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("ok")
