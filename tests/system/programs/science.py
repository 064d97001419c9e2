"""Ordinary differential equations (diffrax), sampling (numpyro), minimization, and modules as pytrees (equinox)."""

import diffrax
import equinox
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.optimize import minimize
from numpyro.infer import MCMC, NUTS

cpu = jax.devices("cpu")[0]


def both(function):
    ours = function()
    with jax.default_device(cpu):
        return np.asarray(ours), np.asarray(function())


def orbit():
    def slope(t, y, mu):
        return jnp.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

    found = diffrax.diffeqsolve(
        diffrax.ODETerm(slope),
        diffrax.Tsit5(),
        0.0,
        3.0,
        0.1,
        jnp.array([2.0, 0.0]),
        args=1.5,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0, 3, 7)),
        stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
    )
    return found.ys


np.testing.assert_allclose(*both(orbit), rtol=1e-4, atol=1e-4)


def valley():
    target = jnp.array([1.0, 2.0, 3.0])
    found = minimize(
        lambda x: jnp.sum((x - target) ** 2 * target) + jnp.sum((x - target) ** 4), jnp.zeros(3), method="BFGS"
    )
    return found.x


ours, theirs = both(valley)
np.testing.assert_allclose(ours, [1, 2, 3], atol=1e-2)
np.testing.assert_allclose(ours, theirs, atol=1e-2)


def network():
    model = equinox.nn.MLP(3, 2, 16, 2, key=jax.random.key(1))
    return equinox.filter_jit(jax.vmap(model))(jnp.arange(12.0).reshape(4, 3) / 12)


np.testing.assert_allclose(*both(network), rtol=1e-5, atol=1e-5)

data = 3 + 0.5 * np.random.default_rng(0).standard_normal(40).astype(np.float32)


def model(values):
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    scale = numpyro.sample("scale", dist.HalfNormal(2))
    numpyro.sample("values", dist.Normal(mean, scale), obs=values)


def posterior():
    chain = MCMC(NUTS(model), num_warmup=150, num_samples=150, progress_bar=False)
    chain.run(jax.random.key(0), data)
    samples = chain.get_samples()
    return jnp.array([samples["mean"].mean(), samples["scale"].mean()])


ours, theirs = both(posterior)
np.testing.assert_allclose(ours, theirs, atol=0.1)
np.testing.assert_allclose(ours[0], data.mean(), atol=0.1)
print("ok")
