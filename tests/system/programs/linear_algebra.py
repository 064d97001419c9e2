"""Decompositions, solvers and their derivatives, compared with JAX's CPU."""

import jax
import jax.numpy as jnp
import numpy as np

cpu = jax.devices("cpu")[0]
rng = np.random.default_rng(1)
a = rng.standard_normal((3, 6, 6)).astype(np.float32)
symmetric = a @ a.swapaxes(-1, -2) + 6 * np.eye(6, dtype=np.float32)
b = rng.standard_normal((3, 6, 2)).astype(np.float32)


def same(function, *arguments):
    ours = jax.jit(function)(*arguments)
    with jax.default_device(cpu):
        theirs = jax.jit(function)(*arguments)
    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=2e-3, atol=2e-3), ours, theirs)


same(jnp.linalg.solve, symmetric, b)
same(jnp.linalg.inv, symmetric)
same(jnp.linalg.cholesky, symmetric)
same(jnp.linalg.slogdet, symmetric)
same(lambda m: jnp.linalg.eigh(m)[0], symmetric)
same(lambda m: jnp.abs(jnp.linalg.qr(m)[1]), a)
same(lambda m: jnp.linalg.svd(m, compute_uv=False), a)
same(lambda m: jnp.sort(jnp.abs(jnp.linalg.eigvals(m))), a)
same(jax.grad(lambda m: jnp.linalg.slogdet(m)[1].sum()), symmetric)
same(jax.grad(lambda m: jnp.sum(jnp.linalg.cholesky(m))), symmetric)
same(lambda m: jax.scipy.linalg.expm(m[0] / 10), a)
same(lambda m, v: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(m[0]), v[0]), symmetric, b)
same(lambda d, v: jax.lax.linalg.tridiagonal_solve(d, d + 4, d, v), np.ones(6, np.float32), b[0])
print("ok")
