"""The tasks of `programs` for JAX on the plugin, with `XLAPY_FLAGS=--num_devices=4`.

Each traces, compiles and runs functions of its own, so that nothing is found in JAX's caches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.stress.programs import at_once, fails, ramp

logging.getLogger("jax").setLevel(logging.CRITICAL)  # JAX logs each error of a callback

Error = jax.errors.JaxRuntimeError


def elementwise(number: int) -> None:
    x = ramp(200_000 + number % 5000, number)
    assert np.allclose(jax.jit(lambda v: jnp.exp(v - number % 7))(x), np.exp(x - number % 7), rtol=1e-5)


def product(number: int) -> None:
    rows, inner = 30 + number % 50, 20 + number % 60
    a, b = ramp(rows * inner, number).reshape(rows, inner), ramp(inner * 9, 1).reshape(inner, 9)
    assert np.allclose(jax.jit(lambda a, b: a @ b + number % 9)(a, b), a @ b + number % 9, rtol=1e-4)


def gradient(number: int) -> None:
    size = 20 + number % 200
    x = ramp(size, number)
    slope = jax.jit(jax.grad(lambda v: jnp.sum(jnp.sin(v) * (number % 11 + 1))))(x)
    assert np.allclose(slope, np.cos(x) * (number % 11 + 1), rtol=1e-4)


def scan(number: int) -> None:
    size, steps = 10 + number % 50, 3 + number % 13
    x = ramp(size, number)
    final, rows = jax.jit(lambda v: jax.lax.scan(lambda c, i: (c + i, c[0]), v, jnp.arange(steps, dtype=jnp.float32)))(
        x
    )
    assert np.allclose(final, x + steps * (steps - 1) / 2, rtol=1e-5)
    assert rows.shape == (steps,)


def order(number: int) -> None:
    x = ramp(2000 + number % 500, number)
    assert np.array_equal(jax.jit(lambda v: jnp.sort(v)[: v.size // 2])(x), np.sort(x)[: x.size // 2])


def training(number: int) -> None:
    """Steps of a small model whose weights are donated."""
    width = 3 + number % 20
    inputs, targets = ramp(8 * width, number).reshape(8, width), ramp(8, number)
    loss = jax.value_and_grad(lambda w: jnp.mean((jnp.tanh(inputs @ w) - targets) ** 2))

    def update(weights: Any) -> Any:
        value, slope = loss(weights)
        return weights - 0.05 * slope, value

    step = jax.jit(update, donate_argnums=0)
    weights, losses = jnp.zeros(width), []
    for _ in range(5):
        weights, value = step(weights)
        losses.append(value)
    values = [float(value) for value in losses]
    assert values == sorted(values, reverse=True), values


def donated_twice(number: int) -> None:
    """Two threads give the same array: one has the result, the other an error."""
    size = 30_000 + number % 1000
    step = jax.jit(lambda v: v + (number % 5 + 1), donate_argnums=0)
    given = jnp.full(size, float(number % 100))
    outcomes = at_once(lambda: np.asarray(step(given)), 2)
    good = [outcome for outcome in outcomes if isinstance(outcome, np.ndarray)]
    assert len(good) == 1, outcomes
    assert (good[0] == number % 100 + number % 5 + 1).all()


def shared(number: int) -> None:
    """Three threads call one function that none of them has compiled yet."""
    x = ramp(5000 + number % 1000, number)
    function = jax.jit(lambda v: v * v + v)
    for result in at_once(lambda: np.asarray(function(x)), 3):
        assert not isinstance(result, Exception), result
        assert np.allclose(result, x * x + x, atol=1e-6)


def launches(number: int) -> None:
    """Results that are dropped before they are ready."""
    x = jnp.asarray(ramp(10_000 + number % 1000, number))
    step = jax.jit(lambda v: jnp.cos(v) + number % 3)
    for _ in range(20):
        x = step(x)
        step(x)
    assert bool(jnp.isfinite(x).all())


def refuse(values: Any) -> Any:
    raise ValueError(f"refuses {int(np.asarray(values).flat[0])}")


def callback(number: int) -> None:
    x = ramp(5 + number % 30, number)
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    assert np.allclose(jax.jit(lambda v: jax.pure_callback(lambda a: np.asarray(a) * 2, like, v) + v)(x), 3 * x)
    with fails(Error, f"refuses {number % 1000}"):
        jax.jit(lambda v: jax.pure_callback(refuse, like, v) * 2)(x * 0 + number % 1000).block_until_ready()


def wrong(number: int) -> None:
    with fails(TypeError):
        jax.jit(lambda v: v + np.zeros(3 + number % 5))(np.zeros(2))
    deleted = jnp.full(4 + number % 50, 1.0)
    deleted.delete()
    with fails(RuntimeError, "deleted"):
        jax.jit(lambda v: v + number)(deleted)


def _mesh() -> Mesh:
    return Mesh(np.array(jax.devices()[:4]), ("i",))


def devices(number: int) -> None:
    size = 4 * (3 + number % 30)
    x = ramp(size, number)
    total = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "i"), mesh=_mesh(), in_specs=P("i"), out_specs=P()))
    assert np.allclose(total(x), x.reshape(4, -1).sum(0), rtol=1e-5)


def partitioned(number: int) -> None:
    size = 4 * (3 + number % 20)
    x = ramp(size * 8, number).reshape(size, 8)
    placed = jax.device_put(x, NamedSharding(_mesh(), P("i", None)))
    assert np.allclose(jax.jit(lambda v: (v - v.mean(0)) @ v.T)(placed), (x - x.mean(0)) @ x.T, atol=1e-4)


def cancellation(number: int) -> None:
    """One device's callback fails while the others wait for it in a collective."""

    def body(values: Any) -> Any:
        one = jax.lax.axis_index("i") == number % 4
        like = jax.ShapeDtypeStruct(values.shape, values.dtype)
        kept = jax.lax.cond(one, lambda v: jax.pure_callback(refuse, like, v), lambda v: v, values)
        return jax.lax.psum(kept, "i")

    function = jax.jit(jax.shard_map(body, mesh=_mesh(), in_specs=P("i"), out_specs=P("i"), check_vma=False))
    with fails(Error, f"refuses {number % 1000}"):
        function(np.full(8, number % 1000, np.float32)).block_until_ready()


def dropped(number: int) -> None:
    """A failed launch that nobody waits for."""
    like = jax.ShapeDtypeStruct((4,), np.float32)
    with suppress(Error):
        failed = jax.jit(lambda v: jax.pure_callback(refuse, like, v))(np.full(4, number % 100, np.float32))
        _ = np.asarray(failed + 1) if number % 2 else None


Task = Callable[[int], None]

TASKS: Sequence[Task] = (
    elementwise, product, gradient, scan, order, training, donated_twice, shared, launches, callback, wrong, devices,
    partitioned, cancellation, dropped,
)  # fmt: skip


class Training:
    """A training loop that continues: its weights are donated from step to step, and its inputs are new each time."""

    def __init__(self) -> None:
        def loss(weights: Any, inputs: Any) -> Any:
            hidden = jnp.tanh(inputs @ weights["first"])
            return jnp.mean((hidden @ weights["second"] - inputs.sum(1)) ** 2)

        def update(weights: Any, inputs: Any) -> Any:
            value, slopes = jax.value_and_grad(loss)(weights, inputs)
            return jax.tree.map(lambda w, s: w - 0.01 * s, weights, slopes), value

        self._step = jax.jit(update, donate_argnums=0)
        self._weights = {"first": jnp.full((16, 64), 0.01), "second": jnp.full(64, 0.01)}
        self._count = 0

    def step(self) -> None:
        self._count += 1
        self._weights, value = self._step(self._weights, ramp(32 * 16, self._count).reshape(32, 16))
        assert np.isfinite(float(value))
