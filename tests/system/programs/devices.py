"""Four devices in one process: arrays on each, sharded programs, collectives."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import shard_map
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

devices = jax.devices()
assert len(devices) == 4 and [device.id for device in devices] == [0, 1, 2, 3]

# Arrays and programs on one of them.
x = np.arange(12, dtype=np.float32).reshape(4, 3)
for device in devices:
    placed = jax.device_put(x, device)
    result = jax.jit(lambda v: v * 2)(placed)
    assert result.devices() == {device} and np.array_equal(result, x * 2)
assert jax.device_put(jax.device_put(x, devices[1]), devices[3]).devices() == {devices[3]}
assert {memory.kind for memory in devices[0].addressable_memories()} == {"device", "pinned_host", "unpinned_host"}
host = jax.device_put(x, SingleDeviceSharding(devices[0], memory_kind="pinned_host"))
assert host.sharding.memory_kind == "pinned_host" and np.array_equal(host, x)

# One shard per device: shard_map and pmap.
mesh = Mesh(np.array(devices), "i")
sharded = NamedSharding(mesh, P("i"))
rows = jax.device_put(x, sharded)
total = jax.jit(shard_map(lambda v: jax.lax.psum(v, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()))
assert np.array_equal(total(rows), x.sum(0, keepdims=True))
turned = jax.jit(
    shard_map(
        lambda v: jax.lax.ppermute(v, "i", [(k, (k + 1) % 4) for k in range(4)]),
        mesh=mesh,
        in_specs=P("i"),
        out_specs=P("i"),
    )
)
assert np.array_equal(turned(rows), np.roll(x, 1, 0))
assert np.array_equal(jax.pmap(lambda v: v - jax.lax.pmean(v, "b"), axis_name="b")(x), x - x.mean(0))

# The partitioner.
product = jax.jit(lambda a, b: a @ b, out_shardings=NamedSharding(mesh, P()))
a = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
assert np.allclose(
    product(jax.device_put(a, NamedSharding(mesh, P("i", None))), jax.device_put(a, NamedSharding(mesh, P(None, "i")))),
    a @ a,
    atol=1e-5,
)
kept = jax.jit(lambda v: jnp.sin(v) + 1)(jax.device_put(a, NamedSharding(mesh, P(None, "i"))))
assert kept.sharding.is_equivalent_to(NamedSharding(mesh, P(None, "i")), 2) and np.allclose(
    kept, np.sin(a) + 1, atol=1e-6
)
mean = jax.jit(lambda v: (v - v.mean(1, keepdims=True)).sum(0))
assert np.allclose(
    mean(jax.device_put(a, NamedSharding(mesh, P("i", None)))), (a - a.mean(1, keepdims=True)).sum(0), atol=1e-5
)
loss = jax.jit(jax.grad(lambda w, v: jnp.mean(jnp.tanh(v @ w) ** 2)))
expected = loss(a, a)
assert np.allclose(
    loss(jax.device_put(a, NamedSharding(mesh, P())), jax.device_put(a, NamedSharding(mesh, P("i")))),
    expected,
    atol=1e-6,
)
print("ok")
