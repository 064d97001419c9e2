"""Programs still run after the exit functions of the process, as libraries call these in their tests (chex)."""

import atexit
import gc

import jax
import jax.numpy as jnp
import numpy as np

n = len(jax.devices())
total = jax.pmap(lambda x: jax.lax.psum(x * 2.0, "i"), axis_name="i")
large = jax.pmap(lambda x: jax.lax.all_gather(x @ x.T, "i").sum(), axis_name="i")
donating = jax.jit(lambda a: jnp.sort(a, axis=0) + 1, donate_argnums=0)
x, y = jnp.ones((n, 2)), jnp.ones((n, 300, 300))
pending = [large(y) for _ in range(3)]


def check(run):
    assert float(run(x).sum()) == 4 * n * n
    np.testing.assert_allclose(np.asarray(large(y)), np.full(n, n * 300.0**3))
    assert float(donating(jnp.ones((300, 300))).sum()) == 2 * 300 * 300
    kept = jax.pure_callback(lambda v: v * 3, jax.ShapeDtypeStruct((4,), jnp.float32), jnp.ones(4))
    assert kept.tolist() == [3] * 4
    assert float(jax.jit(lambda v: (v @ v).sum())(jnp.ones((300, 300)))) == 300.0**3


for _ in range(2):
    atexit._run_exitfuncs()
    check(total)
    check(jax.pmap(lambda x: jax.lax.psum(x * 2.0, "i"), axis_name="i"))  # compiled after the exit functions
    gc.collect()
for one in pending:
    np.testing.assert_allclose(np.asarray(one), np.full(n, n * 300.0**3))
print("ok")
