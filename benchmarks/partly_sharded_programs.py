"""Programs for eight devices of which only some arguments, or some values inside, have a sharding.

Shardings of all other values, results included, are those that the compiler finds. Programs of this module are in
`PROGRAMS` of `benchmarks.sharded_programs`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks.sharded_programs import (
    BATCH,
    LENGTH,
    MODEL,
    array,
    block,
    block_weights,
    layer_norm,
    mesh,
    outputs,
    program,
    shardings_of,
)


def perceptron_step(weights: Any, x: Any, y: Any) -> Any:
    def loss(weights: Any) -> Any:
        hidden = x
        for up, down in weights:
            hidden = hidden + jax.nn.relu(hidden @ up) @ down
        return ((hidden - y) ** 2).mean()

    value, gradients = jax.value_and_grad(loss)(weights)
    return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)


def perceptron(over: Any, data: str | None, model: str | None) -> Any:
    pair = array(over, (512, 1024), None, model), array(over, (1024, 512), model)
    x = array(over, (256, 512), data)
    return jax.jit(perceptron_step), ([pair, pair], x, x)


@program("perceptron step, only the batch cut")
def _batch_only() -> Any:
    return perceptron(mesh(data=8), "data", None)


@program("perceptron step, only the weights cut")
def _weights_only() -> Any:
    return perceptron(mesh(model=8), None, "model")


@program("perceptron step, batch and weights cut, results open")
def _both() -> Any:
    return perceptron(mesh(data=2, model=4), "data", "model")


@program("transformer block, only the weights cut, results open")
def _block_weights_only() -> Any:
    over = mesh(data=2, model=4)
    x = array(over, (BATCH, LENGTH, MODEL))

    def loss(weights: Any, x: Any) -> Any:
        return (block(x, weights) ** 2).mean()

    return jax.jit(jax.grad(loss)), (block_weights(over, None, "model"), x)


@program("transformer block, constraint on the hidden values only")
def _constraint_only() -> Any:
    over = mesh(data=2, model=4)
    hidden = NamedSharding(over, P("data", None, "model"))

    def loss(weights: Any, x: Any) -> Any:
        h = jax.nn.gelu(layer_norm(x, weights["s2"]) @ weights["up"])
        return ((lax.with_sharding_constraint(h, hidden) @ weights["down"]) ** 2).mean()

    x = array(over, (BATCH, LENGTH, MODEL))
    return jax.jit(jax.grad(loss)), (block_weights(over, None, None), x)


@program("step of a loop over stacked layers, layers cut over data")
def _stacked_layers() -> Any:
    over = mesh(data=2, model=4)

    def loss(layers: Any, x: Any) -> Any:
        def layer(x: Any, weights: Any) -> Any:
            return x + jax.nn.relu(x @ weights[0]) @ weights[1], None

        return (lax.scan(layer, x, layers)[0] ** 2).mean()

    layers = array(over, (8, 256, 512), None, "data", "model"), array(over, (8, 512, 256), None, "model", "data")
    return jax.jit(jax.grad(loss), out_shardings=shardings_of(layers)), (layers, array(over, (64, 256), "data"))


@program("loop over stacked layers that are recomputed, only the weights cut")
def _recomputed_layers() -> Any:
    over = mesh(data=2, model=4)

    def loss(layers: Any, x: Any) -> Any:
        layer = jax.checkpoint(lambda x, weights: block(x, weights))
        return (lax.scan(lambda x, weights: (layer(x, weights), None), x, layers)[0] ** 2).mean()

    return jax.jit(jax.grad(loss)), (block_weights(over, None, "model", 4), array(over, (BATCH, LENGTH, MODEL)))


@program("mixture of experts step, only the experts cut")
def _experts_only() -> Any:
    over = mesh(expert=8)

    def loss(weights: Any, x: Any) -> Any:
        gate, up, down = weights
        scores = jax.nn.softmax(x @ gate, -1)
        hidden = jax.nn.relu(jnp.einsum("sd,edh->seh", x, up))
        return (jnp.einsum("seh,ehd,se->sd", hidden, down, scores) ** 2).mean()

    weights = (
        array(over, (MODEL, 8)), array(over, (8, MODEL, 512), "expert"), array(over, (8, 512, MODEL), "expert"),
    )  # fmt: skip
    return jax.jit(jax.grad(loss)), (weights, array(over, (256, MODEL)))


@program("gradients of each example, only the batch cut")
def _each_example() -> Any:
    over = mesh(data=8)

    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((jnp.tanh(x @ w) - y) ** 2).mean()

    def step(w: Any, x: Any, y: Any) -> Any:
        gradients = jax.vmap(jax.grad(loss), (None, 0, 0))(w, x, y)
        norms = jnp.sqrt((gradients**2).sum((1, 2), keepdims=True))
        return w - (gradients / jnp.maximum(norms, 1)).mean(0)

    x = array(over, (64, 128), "data")
    return jax.jit(step), (array(over, (128, 128)), x, x)


@program("mapped solves and products, only the right sides cut")
def _mapped() -> Any:
    over = mesh(data=8)

    def solve(a: Any, b: Any) -> Any:
        factor = jnp.linalg.cholesky(a @ a.T + jnp.eye(32))
        return jax.scipy.linalg.solve_triangular(factor, b, lower=True)

    return jax.jit(jax.vmap(solve)), (array(over, (64, 32, 32)), array(over, (64, 32), "data"))


@program("shard_map of a product inside of a step, results open")
def _manual_inside() -> Any:
    over = mesh(data=2, model=4)

    def product(x: Any, w: Any) -> Any:
        return lax.psum(x @ w, "model")

    mapped = jax.shard_map(
        product, mesh=over, in_specs=(P("data", "model"), P("model", None)), out_specs=P("data", None)
    )

    def loss(weights: Any, x: Any) -> Any:
        return (mapped(jax.nn.relu(x @ weights[0]), weights[1]) ** 2).mean()

    weights = array(over, (256, 1024), None, "model"), array(over, (1024, 256), "model")
    return jax.jit(jax.grad(loss)), (weights, array(over, (128, 256), "data"))


@program("patches of an image by reshapes, rows cut")
def _patches() -> Any:
    over = mesh(x=8)

    def step(x: Any, w: Any) -> Any:
        patches = x.reshape(4, 32, 8, 32, 8, 3).transpose(0, 1, 3, 2, 4, 5).reshape(4, 1024, 192)
        return jnp.tanh(patches @ w).reshape(4, 32 * 32 * 64)

    arguments = array(over, (4, 256, 256, 3), None, "x"), array(over, (192, 64))
    return jax.jit(step, out_shardings=outputs(over, P(None, "x"))), arguments


@program("rows of which columns are cut, as one long row")
def _flattened() -> Any:
    over = mesh(x=8)

    def step(x: Any) -> Any:
        return jnp.sin(jnp.tanh(x).reshape(64 * 512))

    return jax.jit(step, out_shardings=outputs(over, P("x"))), (array(over, (64, 512), None, "x"),)
