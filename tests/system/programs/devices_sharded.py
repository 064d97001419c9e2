"""Programs sharded over four devices give the results of JAX's CPU on one, partitioned or not."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("x",))
cpu = jax.devices("cpu")[0]
generator = np.random.default_rng(0)
a = generator.normal(size=(8, 8, 8)).astype(np.float32) + 8 * np.eye(8, dtype=np.float32)
symmetric = a @ a.transpose(0, 2, 1)


def check(function, array, axis):
    spec = P(*[None] * axis, "x")
    expected = jax.jit(function)(jax.device_put(array, cpu))
    found = jax.jit(function)(jax.device_put(array, NamedSharding(mesh, spec)))
    jax.tree.map(
        lambda f, e: np.testing.assert_allclose(np.asarray(f), np.asarray(e), rtol=2e-3, atol=2e-3), found, expected
    )


# The text of a compiled program names its devices.
rows = jax.device_put(a, NamedSharding(mesh, P("x")))
assert "num_partitions=4" in jax.jit(lambda x: x.sum(0)).lower(rows).compile().as_text()

for axis in 0, 2:
    check(jnp.linalg.cholesky, symmetric, axis)
    check(lambda x: jnp.linalg.solve(x, x), a, axis)
    check(lambda x: jnp.linalg.eigh(x)[0], symmetric, axis)
    check(jnp.fft.fft, a, axis)
    check(lambda x: jax.lax.top_k(x, 3), a, axis)
    check(lambda x: jnp.cumsum(x, axis=0), a, axis)
    check(lambda x: jax.lax.scan(lambda carry, row: (carry + row, carry @ row), jnp.zeros((8, 8)), x), a, axis)
    check(lambda x: x.at[jnp.array([3, 1, 7])].add(jnp.roll(x, 3, 0)[:3]), a, axis)
    check(lambda x: jax.lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, x), a, axis)
    check(lambda x: x + jax.random.normal(jax.random.key(0), x.shape), a, axis)

# Callbacks run once, with whole arrays.
seen = []


def note(x):
    seen.append(x.shape)
    return np.float32(x.sum())


@jax.jit
def noted(x):
    io_callback(lambda y: seen.append(y.shape), None, x + 1)
    return x - io_callback(note, jax.ShapeDtypeStruct((), np.float32), x, ordered=True)


x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("x")))
assert np.asarray(noted(x)).tolist() == [value - 28 for value in range(8)]
jax.effects_barrier()
assert seen == [(8,)] * 2

# Compilation reports shardings.
told = []


@jax.jit
def inspected(x):
    y = x @ x.T
    jax.debug.inspect_array_sharding(y, callback=told.append)
    jax.debug.inspect_array_sharding(y.sum(), callback=told.append)
    return y


inspected(jax.device_put(a[0], NamedSharding(mesh, P("x"))))
assert [sharding.spec for sharding in told] == [P("x"), P()], told
try:
    jax.jit(lambda x: jax.debug.inspect_array_sharding(x, callback=lambda _: 1 // 0))(x)
except Exception as error:
    assert "Error calling inspect_sharding: integer division or modulo by zero" in str(error), error
else:
    raise AssertionError("the callback's error is lost")
print("ok")
