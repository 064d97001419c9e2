"""Sharded computations give the results of unsharded ones, whatever communication they need."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

assert len(jax.devices()) == 4
mesh = jax.make_mesh((2, 2), ("d", "m"), axis_types=(AxisType.Auto,) * 2)
rng = np.random.default_rng(0)


def cut(array, *axes):
    return jax.device_put(array, NamedSharding(mesh, P(*axes)))


def same(name, function, *arguments, **options):
    """Compares sharded with unsharded results. arguments: pairs of an array and the mesh axes that shard its
    dimensions.
    """
    ours = jax.jit(function, **options)(*[cut(array, *axes) for array, axes in arguments])
    theirs = jax.jit(function)(*[jnp.asarray(array) for array, _ in arguments])
    for got, wanted in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4, err_msg=name)


rows = np.arange(24, dtype=np.float32).reshape(8, 3)
of_rows = {
    "reverse": lambda v: v[::-1],
    "slice": lambda v: (v[2:6], v[::2], v[1:]),
    "pad": lambda v: jnp.pad(v, ((1, 3), (0, 0))),
    "concatenate": lambda v: (jnp.concatenate([v, v * 2]), jnp.concatenate([v[1:], v[:1]])),
    "roll": lambda v: jnp.roll(v, 3, 0),
    "sort": lambda v: (jnp.sort(-v, 0), jnp.argsort(-v, 0), lax.top_k(v.T, 3)),
    "argmax": lambda v: (v.argmax(0), v.argmax(1)),
    "cumsum": lambda v: jnp.cumsum(v, 0),
    "dynamic": lambda v: (lax.dynamic_slice(v, (3, 0), (2, 3)), lax.dynamic_update_slice(v, v[:2] * 9, (3, 0))),
    "gather": lambda v: v[jnp.array([5, 1, 7])],
    "scatter": lambda v: (v.at[jnp.array([5, 1])].set(0), v.at[jnp.array([5, 1])].add(1)),
    "reshape": lambda v: (v.reshape(24), v.reshape(4, 6), v.T),
    "random": lambda v: v + jax.random.uniform(jax.random.key(0), (8, 3)),
    "window": lambda v: lax.reduce_window(v, 0.0, lax.add, (3, 1), (1, 1), "SAME"),
    "select": lambda v: (jnp.where(jnp.arange(8)[:, None] > 3, v, 0), jnp.tril(v)),
    "scan": lambda v: lax.scan(lambda c, row: (c + row, c), jnp.zeros(3), v),
    "loop": lambda v: lax.fori_loop(0, 3, lambda i, c: jnp.roll(c, 1, 0) + 1, v),
    "branches": lambda v: lax.cond(v.sum() > 0, lambda v: v * 2, lambda v: jnp.roll(v, 1, 0), v),
    "search": lambda v: jnp.searchsorted(v[:, 0], jnp.array([3.0, 9.0])),
    "algebra": lambda v: (jnp.linalg.cholesky(v @ v.T + 100 * jnp.eye(8)), jnp.abs(jnp.fft.fft(v, axis=0))),
    "normalize": lambda v: (v - v.mean(0)) / v.std(0),
}
for name, function in of_rows.items():
    same(name, function, (rows, ("d",)))
same("out", lambda v: v[::-1] * 2, (rows, ("d",)), out_shardings=NamedSharding(mesh, P(("d", "m"))))

# A network whose data and weights are sharded along different axes, alone and in a loop.
weights = [rng.standard_normal(shape).astype(np.float32) for shape in ((16, 32), (32, 8))]
data, labels = rng.standard_normal((8, 16)).astype(np.float32), rng.integers(0, 8, 8)


def loss(weights, data, labels):
    scores = jax.nn.log_softmax(jax.nn.gelu(data @ weights[0]) @ weights[1])
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()


def step(first, second, data, labels):
    value, (one, two) = jax.value_and_grad(loss)([first, second], data, labels)
    return (first - 0.1 * one, second - 0.1 * two), value


def train(first, second, data, labels):
    return lax.scan(lambda state, _: step(*state, data, labels), (first, second), None, length=5)


for function in (step, train):
    same("network", function, (weights[0], (None, "m")), (weights[1], ("m",)), (data, ("d",)), (labels, ("d",)))

# Embedding lookups, attention, convolutions, with their gradients.
table, words = rng.standard_normal((50, 16)).astype(np.float32), rng.integers(0, 50, (8, 6))


def attend(table, words):
    x = table[words]
    seen = jnp.where(jnp.tril(jnp.ones((6, 6), bool)), jnp.einsum("bqd,bkd->bqk", x, x), -1e9)
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(seen), x).sum() + x[:, 1:].mean()


for axes in ((), ("m",), (None, "m"), ("d", "m")):
    same(f"attention {axes}", jax.value_and_grad(attend), (table, axes), (words, ("d",)))

images, kernels = rng.standard_normal((8, 3, 10, 10)).astype(np.float32), rng.standard_normal((4, 3, 3, 3))
convolve = jax.grad(lambda i, k: jax.nn.relu(lax.conv(i, k.astype(i.dtype), (1, 1), "SAME")).mean(), (0, 1))
for one, two in ((("d",), ()), (("d",), ("m",)), ((None, None, "d"), ()), (("d", None, None, "m"), ())):
    same(f"convolution {one} {two}", convolve, (images, one), (kernels.astype(np.float32), two))

# Values that are local to a device, in a loop.
total = jax.shard_map(lambda part: lax.psum(part, "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
summed = jax.jit(lambda v: lax.scan(lambda c, _: (c + total(v), None), jnp.zeros((4, 3)), None, length=3)[0])
np.testing.assert_allclose(summed(cut(rows, "d")), 3 * (rows[:4] + rows[4:]))
print("ok")
