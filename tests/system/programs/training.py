"""Training with optax and flax: losses and weights follow JAX's CPU step by step."""

import flax.linen as nn
import jax
import numpy as np
import optax

cpu = jax.devices("cpu")[0]
rng = np.random.default_rng(0)
images = rng.standard_normal((16, 8, 8, 1)).astype(np.float32)
labels = rng.integers(0, 4, 16)


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(4, (3, 3))(x))
        x = nn.avg_pool(x, (2, 2), (2, 2))
        x = nn.LayerNorm()(x.reshape(x.shape[0], -1))
        x = nn.Dense(16)(x)
        return nn.Dense(4)(nn.gelu(x))


def train():
    network, optimizer = Network(), optax.adamw(1e-2)
    weights = network.init(jax.random.key(0), images)
    state = optimizer.init(weights)

    def loss(weights, images, labels):
        logits = network.apply(weights, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    @jax.jit
    def step(weights, state, images, labels):
        value, gradient = jax.value_and_grad(loss)(weights, images, labels)
        changes, state = optimizer.update(gradient, state, weights)
        return optax.apply_updates(weights, changes), state, value

    losses = []
    for _ in range(8):
        weights, state, value = step(weights, state, images, labels)
        losses.append(float(value))
    return losses, weights


losses, weights = train()
with jax.default_device(cpu):
    expected, expected_weights = train()
np.testing.assert_allclose(losses, expected, rtol=1e-3)
assert losses[-1] < losses[0]
jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-2, atol=3e-3), weights, expected_weights)
print("ok")
