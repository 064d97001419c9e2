"""Programs of the corpus from machine learning: layers, losses, training steps and their gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from program import bf16, f32, program, s32, spec, u32

Array = Any
ATTENTION = {"query": f32(16, 16), "key": f32(16, 16), "value": f32(16, 16), "out": f32(16, 16)}
BLOCK = ATTENTION | {"up": f32(16, 32), "down": f32(32, 16), "scale": f32(16), "shift": f32(16)}
MLP = [(f32(6, 8), f32(8)), (f32(8, 8), f32(8)), (f32(8, 3), f32(3))]
CONVNET = {"kernel": f32(3, 3, 1, 4), "bias": f32(4), "kernel2": f32(3, 3, 4, 8), "dense": f32(32, 10)}
LSTM = {"input": f32(4, 32), "hidden": f32(8, 32), "bias": f32(32)}


def layer_norm(x: Array, scale: Array, shift: Array) -> Array:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def attention(parameters: Any, x: Array, heads: int) -> Array:
    batch, time, width = x.shape

    def split(weights: Array) -> Array:
        return (x @ weights).reshape(batch, time, heads, width // heads)

    query, key, value = split(parameters["query"]), split(parameters["key"]), split(parameters["value"])
    scores = jnp.einsum("bthd,bshd->bhts", query, key) / jnp.sqrt(width / heads)
    mask = jnp.tril(jnp.ones((time, time), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bhts,bshd->bthd", weights, value).reshape(batch, time, width) @ parameters["out"]


def block(parameters: Any, x: Array) -> Array:
    x = x + attention(parameters, layer_norm(x, parameters["scale"], parameters["shift"]), 4)
    hidden = jax.nn.gelu(layer_norm(x, parameters["scale"], parameters["shift"]) @ parameters["up"])
    return x + hidden @ parameters["down"]


def mlp(layers: Any, x: Array) -> Array:
    for weights, bias in layers[:-1]:
        x = jnp.tanh(x @ weights + bias)
    weights, bias = layers[-1]
    return x @ weights + bias


def mlp_loss(layers: Any, x: Array, labels: Array) -> Array:
    logits = jax.nn.log_softmax(mlp(layers, x))
    return -jnp.take_along_axis(logits, labels[:, None], axis=1).mean()


@program("causal multi-head attention", ATTENTION, f32(2, 6, 16))
def causal_attention(parameters: Any, x: Array) -> Array:
    return attention(parameters, x, 4)


@program("transformer block: attention, layer norms, GELU", BLOCK, f32(2, 6, 16), optimized=True)
def transformer_block(parameters: Any, x: Array) -> Array:
    return block(parameters, x)


@program("gradient of a transformer block's loss", BLOCK, f32(2, 6, 16), f32(2, 6, 16), optimized=True)
def transformer_gradient(parameters: Any, x: Array, target: Array) -> Any:
    return jax.value_and_grad(lambda p: ((block(p, x) - target) ** 2).mean())(parameters)


@program("transformer gradient with rematerialization (opt-barrier)", BLOCK, f32(1, 4, 16))
def transformer_checkpoint(parameters: Any, x: Array) -> Any:
    return jax.grad(lambda p: jax.checkpoint(block)(p, x).sum())(parameters)


@program(
    "four transformer blocks by scan over stacked weights",
    {k: spec(v.dtype, 4, *v.shape) for k, v in BLOCK.items()},
    f32(1, 4, 16),
)
def transformer_stack(parameters: Any, x: Array) -> Array:
    return lax.scan(lambda carry, layer: (block(layer, carry), None), x, parameters)[0]


@program("one Adam step of a three-layer network", MLP, MLP, MLP, f32(), f32(16, 6), s32(16), optimized=True)
def mlp_adam_step(layers: Any, mean: Any, variance: Any, step: Array, x: Array, labels: Array) -> Any:
    loss, gradient = jax.value_and_grad(mlp_loss)(layers, x, labels)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    variance = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, variance, gradient)
    rate = 1e-3 * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    layers = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), layers, mean, variance)
    return loss, layers, mean, variance


@program("SGD over mini-batches by scan", MLP, f32(5, 4, 6), s32(5, 4))
def mlp_training_loop(layers: Any, batches: Array, labels: Array) -> Any:
    def step(carry: Any, batch: Any) -> Any:
        loss, gradient = jax.value_and_grad(mlp_loss)(carry, *batch)
        return jax.tree.map(lambda p, g: p - 0.1 * g, carry, gradient), loss

    return lax.scan(step, layers, (batches, labels))


def convnet_loss(parameters: Any, images: Array, labels: Array) -> Array:
    numbers = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(images, parameters["kernel"], (1, 1), "SAME", dimension_numbers=numbers)
    x = jax.nn.relu(x + parameters["bias"])
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(lax.conv_general_dilated(x, parameters["kernel2"], (2, 2), "SAME", dimension_numbers=numbers))
    logits = x.reshape(x.shape[0], -1) @ parameters["dense"]
    return -(jax.nn.one_hot(labels, 10) * jax.nn.log_softmax(logits)).sum(-1).mean()


@program("loss of a convolutional network", CONVNET, f32(2, 8, 8, 1), s32(2))
def convnet_forward(parameters: Any, images: Array, labels: Array) -> Array:
    return convnet_loss(parameters, images, labels)


@program(
    "gradient of a convolutional network (select-and-scatter, backward convolutions)",
    CONVNET,
    f32(2, 8, 8, 1),
    s32(2),
    optimized=True,
)
def convnet_gradient(parameters: Any, images: Array, labels: Array) -> Any:
    return jax.value_and_grad(convnet_loss)(parameters, images, labels)


@program(
    "residual block in bfloat16 with f32 normalization",
    bf16(2, 8, 8, 8),
    bf16(3, 3, 8, 8),
    bf16(3, 3, 8, 8),
    f32(8),
)
def resnet_block_bfloat16(x: Array, first: Array, second: Array, scale: Array) -> Array:
    def conv(y: Array, kernel: Array) -> Array:
        return lax.conv_general_dilated(y, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def normalise(y: Array) -> Array:
        y = y.astype(jnp.float32)
        y = (y - y.mean((0, 1, 2))) * lax.rsqrt(y.var((0, 1, 2)) + 1e-5) * scale
        return y.astype(jnp.bfloat16)

    y = jax.nn.relu(normalise(conv(x, first)))
    return jax.nn.relu(x + normalise(conv(y, second)))


def rnn_loss(parameters: Any, xs: Array, hidden: Array) -> Array:
    def step(carry: Array, x: Array) -> Any:
        carry = jnp.tanh(carry @ parameters["hidden"] + x @ parameters["input"] + parameters["bias"])
        return carry, carry @ parameters["out"]

    last, outputs = lax.scan(step, hidden, xs)
    return (outputs**2).sum() + last.sum()


RNN = {"hidden": f32(8, 8), "input": f32(4, 8), "bias": f32(8), "out": f32(8, 2)}


@program("recurrent network by scan", RNN, f32(10, 3, 4), f32(3, 8))
def rnn_forward(parameters: Any, xs: Array, hidden: Array) -> Array:
    return rnn_loss(parameters, xs, hidden)


@program("gradient through a scan", RNN, f32(10, 3, 4), f32(3, 8), optimized=True)
def rnn_gradient(parameters: Any, xs: Array, hidden: Array) -> Any:
    return jax.value_and_grad(rnn_loss)(parameters, xs, hidden)


def lstm(parameters: Any, xs: Array) -> Any:
    def step(state: Any, x: Array) -> Any:
        cell, hidden = state
        gates = x @ parameters["input"] + hidden @ parameters["hidden"] + parameters["bias"]
        read, forget, candidate, write = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(forget + 1) * cell + jax.nn.sigmoid(read) * jnp.tanh(candidate)
        hidden = jax.nn.sigmoid(write) * jnp.tanh(cell)
        return (cell, hidden), hidden

    zero = jnp.zeros((xs.shape[1], 8))
    return lax.scan(step, (zero, zero), xs)


@program("LSTM by scan", LSTM, f32(7, 2, 4), optimized=True)
def lstm_forward(parameters: Any, xs: Array) -> Any:
    return lstm(parameters, xs)


@program("gradient of an LSTM", LSTM, f32(7, 2, 4))
def lstm_gradient(parameters: Any, xs: Array) -> Any:
    return jax.grad(lambda p: lstm(p, xs)[1].mean())(parameters)


@program("layer norm and softmax", f32(5, 16), f32(16), f32(16), optimized=True)
def layer_norm_softmax(x: Array, scale: Array, shift: Array) -> Array:
    return jax.nn.softmax(layer_norm(x, scale, shift), axis=-1)


@program(
    "batch normalization by hand, with running statistics and gradient",
    f32(4, 5, 5, 3),
    f32(3),
    f32(3),
    f32(3),
    f32(3),
)
def batch_norm_by_hand(x: Array, scale: Array, shift: Array, mean: Array, variance: Array) -> Any:
    def normalise(x: Array, scale: Array, shift: Array) -> Any:
        m, v = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return ((x - m) / jnp.sqrt(v + 1e-3) * scale + shift), m, v

    y, m, v = normalise(x, scale, shift)
    gradient = jax.grad(lambda *a: (normalise(*a)[0] ** 3).sum(), argnums=(0, 1, 2))(x, scale, shift)
    return y, 0.9 * mean + 0.1 * m, 0.9 * variance + 0.1 * v, gradient


@program(
    "mixture of experts: top-2 routing, gather, weighted sum",
    f32(6, 8),
    f32(8, 4),
    f32(4, 8, 8),
    optimized=True,
)
def mixture_of_experts(x: Array, router: Array, experts: Array) -> Array:
    weights, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    weights = weights / weights.sum(-1, keepdims=True)
    outputs = jnp.einsum("td,tkdf->tkf", x, experts[chosen])
    return jnp.einsum("tk,tkf->tf", weights, jax.nn.silu(outputs))


@program("every activation of jax.nn", f32(4, 8))
def activations(x: Array) -> Any:
    n = jax.nn
    return (
        n.relu(x),
        n.relu6(x),
        n.sigmoid(x),
        n.softplus(x),
        n.soft_sign(x),
        n.silu(x),
        n.log_sigmoid(x),
        n.leaky_relu(x),
        n.hard_sigmoid(x),
        n.hard_silu(x),
        n.hard_tanh(x),
        n.elu(x),
        n.celu(x),
        n.selu(x),
        n.gelu(x),
        n.gelu(x, approximate=False),
        n.glu(x),
        n.squareplus(x),
        n.mish(x),
        n.log_softmax(x),
        n.standardize(x),
    )


@program("gradients of activations", f32(16))
def activations_gradient(x: Array) -> Any:
    functions = (
        jax.nn.softplus,
        jax.nn.selu,
        jax.nn.gelu,
        jax.nn.silu,
        jax.nn.mish,
        jax.nn.log_sigmoid,
        jnp.tanh,
    )
    return tuple(jax.vmap(jax.grad(function))(x) for function in functions)


@program("network with dropout and weight noise drawn from a key", MLP, f32(4, 6), u32(2))
def dropout_network(layers: Any, x: Array, key: Array) -> Array:
    for index, (weights, bias) in enumerate(layers):
        mask = jax.random.bernoulli(jax.random.fold_in(key, index), 0.8, x.shape)
        x = jax.nn.relu(jnp.where(mask, x / 0.8, 0) @ weights + bias)
    return x


@program("variational autoencoder's loss and gradient", f32(4, 12), f32(12, 6), f32(3, 12), u32(2), optimized=True)
def variational_autoencoder(x: Array, encoder: Array, decoder: Array, key: Array) -> Any:
    def loss(weights: Any) -> Array:
        mean, log_variance = jnp.split(x @ weights[0], 2, axis=-1)
        sample = mean + jnp.exp(0.5 * log_variance) * jax.random.normal(key, mean.shape)
        divergence = -0.5 * (1 + log_variance - mean**2 - jnp.exp(log_variance)).sum(-1)
        return (((sample @ weights[1] - x) ** 2).sum(-1) + divergence).mean()

    return jax.value_and_grad(loss)((encoder, decoder))


@program("embedding lookup and its gradient (gather, scatter-add)", f32(20, 6), s32(3, 7), f32(6))
def embedding_gradient(table: Array, tokens: Array, weights: Array) -> Any:
    return jax.value_and_grad(lambda t: jnp.tanh(t[tokens] @ weights).sum())(table)


@program("graph convolution by segment sums", f32(10, 4), f32(4, 6), s32(25), s32(25))
def graph_convolution(nodes: Array, weights: Array, senders: Array, receivers: Array) -> Array:
    messages = (nodes @ weights)[senders]
    total = jax.ops.segment_sum(messages, receivers, num_segments=10)
    degree = jax.ops.segment_sum(jnp.ones(25), receivers, num_segments=10)
    return jax.nn.relu(total / jnp.maximum(degree, 1)[:, None])


@program(
    "linear layer in int8 with s32 accumulation and rescaling",
    spec("int8", 5, 16),
    spec("int8", 16, 7),
    f32(7),
)
def quantized_linear(x: Array, weights: Array, scale: Array) -> Any:
    total = lax.dot(x, weights, preferred_element_type=jnp.int32)
    real = total.astype(jnp.float32) * scale
    return total, jnp.clip(jnp.round(real), -128, 127).astype(jnp.int8)


@program(
    "RMS norm, rotary embedding and SwiGLU in bfloat16",
    bf16(2, 6, 16),
    bf16(16),
    bf16(16, 32),
    bf16(16, 32),
    bf16(32, 16),
)
def llama_block_bfloat16(x: Array, scale: Array, gate: Array, up: Array, down: Array) -> Array:
    wide = x.astype(jnp.float32)
    norm = (wide * lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-6)).astype(jnp.bfloat16) * scale
    angles = jnp.arange(6)[:, None] / 10000 ** (jnp.arange(8) / 8)
    left, right = jnp.split(norm.astype(jnp.float32), 2, axis=-1)
    turned = jnp.concatenate(
        [left * jnp.cos(angles) - right * jnp.sin(angles), left * jnp.sin(angles) + right * jnp.cos(angles)], -1
    )
    norm = turned.astype(jnp.bfloat16)
    return x + (jax.nn.silu(norm @ gate) * (norm @ up)) @ down


@program(
    "cross entropy with smoothed labels, its gradient and Hessian-vector product",
    f32(4, 5),
    s32(4),
    f32(4, 5),
)
def cross_entropy_derivatives(logits: Array, labels: Array, direction: Array) -> Any:
    def loss(z: Array) -> Array:
        target = jax.nn.one_hot(labels, 5) * 0.9 + 0.02
        return -(target * jax.nn.log_softmax(z)).sum(-1).mean()

    return loss(logits), jax.grad(loss)(logits), jax.jvp(jax.grad(loss), (logits,), (direction,))[1]


@program(
    "one generator and discriminator step",
    MLP,
    [(f32(3, 8), f32(8)), (f32(8, 1), f32(1))],
    f32(8, 3),
    f32(8, 6),
)
def adversarial_step(generator: Any, critic: Any, real: Array, noise: Array) -> Any:
    def critic_loss(c: Any) -> Array:
        return jax.nn.softplus(-mlp(c, real)).mean() + jax.nn.softplus(mlp(c, mlp(generator, noise))).mean()

    def generator_loss(g: Any) -> Array:
        return jax.nn.softplus(-mlp(critic, mlp(g, noise))).mean()

    step = lambda p, g: p - 0.01 * g  # noqa: E731
    return (
        jax.tree.map(step, critic, jax.grad(critic_loss)(critic)),
        jax.tree.map(step, generator, jax.grad(generator_loss)(generator)),
    )


@program(
    "beam search step: log probabilities, top-k over beams, reordering",
    f32(2, 3),
    f32(2, 3, 10),
    s32(2, 3, 5),
)
def beam_search_step(scores: Array, logits: Array, tokens: Array) -> Any:
    total = scores[..., None] + jax.nn.log_softmax(logits)
    best, flat = lax.top_k(total.reshape(2, -1), 3)
    beam, token = flat // 10, flat % 10
    history = jnp.take_along_axis(tokens, beam[..., None], axis=1)
    return best, jnp.concatenate([history[..., 1:], token[..., None]], axis=-1)
