"""The programs of `benchmarks/jax_programs.py`: what people write in JAX, with arguments.

Sizes are those that people run on a CPU. No program was chosen because a compiler does well on it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.workloads import normal

Function = Callable[..., Any]


@dataclass(frozen=True)
class Program:
    """A function with its arguments. `tolerance` bounds how far the results of two compilers may differ, relative to
    the largest element.
    """

    group: str
    function: Function
    arguments: Callable[[], Sequence[Any]]
    tolerance: float = 1e-3


def integers(high: int, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, shape).astype(np.int32)


def _descent(loss: Function) -> Function:
    """Returns a function that performs one step of gradient descent with momentum."""

    def step(parameters: Any, momentum: Any, *batch: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(parameters, *batch)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradient)
        return jax.tree.map(lambda p, m: p - 1e-3 * m, parameters, momentum), momentum, value

    return step


def _zeros_like(parameters: Any) -> Any:
    return jax.tree.map(np.zeros_like, parameters)


def _cross_entropy(scores: Any, labels: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], -1).mean()


# -- networks


def _mlp_loss(parameters: Any, images: Any, labels: Any) -> Any:
    x = images
    for w, b in parameters[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = parameters[-1]
    return _cross_entropy(x @ w + b, labels)


def _mlp_arguments() -> Sequence[Any]:
    sizes = [784, 512, 512, 10]
    parameters = [(normal(m, n) / m**0.5, np.zeros(n, np.float32)) for m, n in itertools.pairwise(sizes)]
    return [parameters, _zeros_like(parameters), normal(128, 784), integers(10, 128)]


def _convolved(x: Any, kernel: Any, stride: int = 1) -> Any:
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _pooled(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def _convnet_loss(parameters: Any, images: Any, labels: Any) -> Any:
    (first, bias1), (second, bias2), (w1, b1), (w2, b2) = parameters
    x = _pooled(jax.nn.relu(_convolved(images, first) + bias1))
    x = _pooled(jax.nn.relu(_convolved(x, second) + bias2))
    x = jax.nn.relu(x.reshape(x.shape[0], -1) @ w1 + b1)
    return _cross_entropy(x @ w2 + b2, labels)


def _convnet_arguments() -> Sequence[Any]:
    shapes = [(3, 3, 1, 32), (3, 3, 32, 64), (7 * 7 * 64, 256), (256, 10)]
    parameters = [(normal(*s) / np.prod(s[:-1]) ** 0.5, np.zeros(s[-1], np.float32)) for s in shapes]
    return [parameters, _zeros_like(parameters), normal(32, 28, 28, 1), integers(10, 32)]


def _batch_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


def _resnet_loss(parameters: Any, images: Any, labels: Any) -> Any:
    stem, blocks, head = parameters
    x = _convolved(images, stem)
    for number, (first, norm1, second, norm2, shortcut) in enumerate(blocks):
        stride = 1 if number == 0 else 2
        y = jax.nn.relu(_batch_norm(_convolved(x, first, stride), *norm1))
        x = jax.nn.relu(_batch_norm(_convolved(y, second), *norm2) + _convolved(x, shortcut, stride))
    return _cross_entropy(x.mean((1, 2)) @ head, labels)


def _resnet_arguments() -> Sequence[Any]:
    widths = [16, 16, 32, 64]
    blocks = []
    for before, after in itertools.pairwise(widths):
        norm = (np.ones(after, np.float32), np.zeros(after, np.float32))
        kernels = [normal(3, 3, n, after) / (9 * n) ** 0.5 for n in (before, after)]
        blocks.append((kernels[0], norm, kernels[1], norm, normal(1, 1, before, after) / before**0.5))
    parameters = (normal(3, 3, 3, 16) / 27**0.5, blocks, normal(64, 10) / 8)
    return [parameters, _zeros_like(parameters), normal(16, 32, 32, 3), integers(10, 16)]


HEADS = 8


def _layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    return jax.nn.standardize(x, epsilon=1e-5) * scale + shift


def _attention(layer: Any, x: Any) -> Any:
    batch, length, width = x.shape
    parts = (x @ layer["qkv"]).reshape(batch, length, 3, HEADS, width // HEADS)
    query, key, value = (parts[:, :, n] for n in range(3))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / (width // HEADS) ** 0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
    return mixed.reshape(batch, length, width) @ layer["mix"]


def _transformer(layers: Any, x: Any) -> Any:
    for layer in layers:
        x = x + _attention(layer, _layer_norm(x, layer["scale1"], layer["shift1"]))
        inner = jax.nn.gelu(_layer_norm(x, layer["scale2"], layer["shift2"]) @ layer["up"] + layer["bias"])
        x = x + inner @ layer["down"]
    return x


def _transformer_loss(parameters: Any, tokens: Any) -> Any:
    layers, embedding = parameters
    scores = _transformer(layers, embedding[tokens]) @ embedding.T
    return _cross_entropy(scores[:, :-1].reshape(-1, embedding.shape[0]), tokens[:, 1:].reshape(-1))


def _layers(count: int, width: int) -> list[dict[str, np.ndarray]]:
    matrices = {"qkv": (width, 3 * width), "mix": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    vectors = {"scale1": width, "shift1": width, "scale2": width, "shift2": width, "bias": 4 * width}
    made = [{name: normal(*shape, seed=n) / shape[0] ** 0.5 for name, shape in matrices.items()} for n in range(count)]
    return [layer | {name: np.full(n, "scale" in name, np.float32) for name, n in vectors.items()} for layer in made]


def _language_model(count: int, width: int, vocabulary: int) -> Any:
    return _layers(count, width), normal(vocabulary, width) / width**0.5


def _transformer_arguments() -> Sequence[Any]:
    parameters = _language_model(2, 256, 1000)
    return [parameters, _zeros_like(parameters), integers(1000, 4, 128)]


def _decoded(layers: Any, cache: Any, x: Any, position: Any) -> Any:
    """Passes one token through all layers, with the cached keys and values of earlier tokens."""
    width = x.shape[-1]
    for number, layer in enumerate(layers):
        parts = (_layer_norm(x, layer["scale1"], layer["shift1"]) @ layer["qkv"]).reshape(3, HEADS, width // HEADS)
        cache = lax.dynamic_update_slice(cache, parts[None, 1:, None], (number, 0, position, 0, 0))
        scores = jnp.einsum("hd,khd->hk", parts[0], cache[number, 0]) / (width // HEADS) ** 0.5
        scores = jnp.where(jnp.arange(cache.shape[2]) <= position, scores, -1e9)
        x = x + jnp.einsum("hk,khd->hd", jax.nn.softmax(scores), cache[number, 1]).reshape(width) @ layer["mix"]
        x = x + jax.nn.gelu(_layer_norm(x, layer["scale2"], layer["shift2"]) @ layer["up"]) @ layer["down"]
    return cache, x


def _generate(parameters: Any, token: Any) -> Any:
    layers, embedding = parameters
    width, length = embedding.shape[1], 64

    def step(state: Any, position: Any) -> Any:
        cache, token = state
        cache, x = _decoded(layers, cache, embedding[token], position)
        token = jnp.argmax(embedding @ x).astype(jnp.int32)
        return (cache, token), token

    cache = jnp.zeros((len(layers), 2, length, HEADS, width // HEADS), jnp.float32)
    return lax.scan(step, (cache, token), jnp.arange(length))[1]


def _lstm_loss(parameters: Any, sequence: Any, target: Any) -> Any:
    inputs, recurrent, bias, head = parameters

    def step(state: Any, x: Any) -> Any:
        hidden, cell = state
        gates = x @ inputs + hidden @ recurrent + bias
        i, f, g, o = jnp.split(gates, 4, -1)
        cell = jax.nn.sigmoid(f + 1) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), None

    zero = jnp.zeros((sequence.shape[1], recurrent.shape[0]))
    (hidden, _), _ = lax.scan(step, (zero, zero), sequence)
    return ((hidden @ head - target) ** 2).mean()


def _lstm_arguments() -> Sequence[Any]:
    width = 128
    parameters = (normal(32, 4 * width) / 6, normal(width, 4 * width) / 11, np.zeros(4 * width, np.float32))
    parameters = (*parameters, normal(width, 1) / 11)
    return [parameters, _zeros_like(parameters), normal(64, 32, 32), normal(32, 1)]


NETWORKS = {
    "MLP training step": Program("networks", _descent(_mlp_loss), _mlp_arguments),
    "convnet training step": Program("networks", _descent(_convnet_loss), _convnet_arguments),
    "resnet training step": Program("networks", _descent(_resnet_loss), _resnet_arguments, 1e-2),
    "transformer forward": Program("networks", _transformer, lambda: [_layers(4, 256), normal(2, 128, 256)]),
    "transformer training step": Program("networks", _descent(_transformer_loss), _transformer_arguments),
    "generation of 64 tokens": Program("networks", _generate, lambda: [_language_model(2, 128, 512), np.int32(7)]),
    "LSTM training step": Program("networks", _descent(_lstm_loss), _lstm_arguments),
}

# -- loops: differential equations, sampling, optimization


def _lorenz(start: Any) -> Any:
    def slope(p: Any) -> Any:
        x, y, z = p[..., 0], p[..., 1], p[..., 2]
        return jnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)

    def step(p: Any, _: Any) -> Any:
        h = 1e-3
        a = slope(p)
        b = slope(p + h / 2 * a)
        c = slope(p + h / 2 * b)
        d = slope(p + h * c)
        return p + h / 6 * (a + 2 * b + 2 * c + d), p[0]

    return lax.scan(step, start, length=1000)


def _hamiltonian(key: Any, x: Any, y: Any, start: Any) -> Any:
    """Draws samples of a Bayesian logistic regression by Hamiltonian Monte Carlo."""

    def energy(w: Any) -> Any:
        scores = x @ w
        return jnp.sum(jax.nn.softplus(scores) - y * scores) + 0.5 * jnp.sum(w * w)

    force = jax.grad(energy)

    def leap(state: Any, _: Any) -> Any:
        w, p, g = state
        p = p - 0.01 * g
        w = w + 0.02 * p
        g = force(w)
        return (w, p - 0.01 * g, g), None

    def sample(w: Any, key: Any) -> Any:
        first, second = jax.random.split(key)
        p = jax.random.normal(first, w.shape)
        (proposal, q, _), _ = lax.scan(leap, (w, p, force(w)), length=8)
        change = energy(w) + 0.5 * p @ p - energy(proposal) - 0.5 * q @ q
        w = jnp.where(jnp.log(jax.random.uniform(second)) < change, proposal, w)
        return w, w

    return lax.scan(sample, start, jax.random.split(key, 50))[1].mean(0)


def _hamiltonian_arguments() -> Sequence[Any]:
    x, w = normal(500, 20), normal(20, seed=1)
    return [np.asarray(jax.random.PRNGKey(0)), x, (x @ w > 0).astype(np.float32), w * 0]


def _logistic_regression(x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        scores = x @ w
        return jnp.mean(jax.nn.softplus(scores) - y * scores) + 1e-3 * w @ w

    def should_continue(state: Any) -> Any:
        count, _, gradient = state
        return (count < 200) & (jnp.abs(gradient).max() > 1e-6)

    def step(state: Any) -> Any:
        count, w, gradient = state
        w = w - 0.5 * gradient
        return count + 1, w, jax.grad(loss)(w)

    start = jnp.zeros(x.shape[1])
    return lax.while_loop(should_continue, step, (0, start, jax.grad(loss)(start)))[1]


def _regression_arguments() -> Sequence[Any]:
    x = normal(2000, 50)
    return [x, (x @ normal(50, seed=1) > 0).astype(np.float32)]


def _k_means(points: Any) -> Any:
    def step(centers: Any, _: Any) -> Any:
        distances = ((points**2).sum(1)[:, None] - 2 * points @ centers.T) + (centers**2).sum(1)
        nearest = distances.argmin(1)
        sums = jax.ops.segment_sum(points, nearest, len(centers))
        counts = jax.ops.segment_sum(jnp.ones(len(points)), nearest, len(centers))
        return sums / jnp.maximum(counts, 1)[:, None], None

    return lax.scan(step, points[:32], length=10)[0]


def _page_rank(sources: Any, targets: Any) -> Any:
    count = 20_000
    degrees = jnp.maximum(jax.ops.segment_sum(jnp.ones(len(sources)), sources, count), 1)

    def step(_: Any, rank: Any) -> Any:
        received = jax.ops.segment_sum((rank / degrees)[sources], targets, count)
        return 0.15 / count + 0.85 * received

    return lax.fori_loop(0, 20, step, jnp.full(count, 1 / count))


def _molecules(position: Any, velocity: Any, pairs: Any) -> Any:
    """Simulates particles that attract and repel their neighbors, which are given by lists of pairs."""
    side = 10.0

    def force(position: Any) -> Any:
        difference = position[pairs[0]] - position[pairs[1]]
        difference = difference - side * jnp.round(difference / side)
        inverse = 1 / ((difference**2).sum(-1) + 0.5)
        strength = 24 * (2 * inverse**7 - inverse**4)
        each = strength[:, None] * difference
        return jnp.zeros_like(position).at[pairs[0]].add(each).at[pairs[1]].add(-each)

    def step(state: Any, _: Any) -> Any:
        position, velocity = state
        velocity = velocity + 1e-4 * force(position)
        position = position + 1e-4 * velocity
        return (position % side, velocity), (velocity**2).sum()

    return lax.scan(step, (position, velocity), length=50)


def _molecule_arguments() -> Sequence[Any]:
    pairs = integers(1000, 2, 20_000)
    return [normal(1000, 3) * 3 + 5, normal(1000, 3, seed=1), pairs]


def _heat(grid: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        padded = jnp.pad(u, 1, mode="edge")
        around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
        return u + 0.2 * (around - 4 * u)

    return lax.fori_loop(0, 100, step, grid)


def _gaussian_process(x: Any, y: Any) -> Any:
    """Computes the mean and the likelihood of a Gaussian process regression by a Cholesky decomposition."""
    distances = ((x[:, None] - x[None]) ** 2).sum(-1)
    kernel = jnp.exp(-0.5 * distances) + 0.1 * jnp.eye(len(x))
    factor = jax.scipy.linalg.cho_factor(kernel, lower=True)
    weights = jax.scipy.linalg.cho_solve(factor, y)
    return weights, 0.5 * y @ weights + jnp.log(jnp.diag(factor[0])).sum()


LOOPS = {
    "Lorenz, RK4": Program("loops", _lorenz, lambda: [normal(256, 3)]),
    "Hamiltonian Monte Carlo": Program("loops", _hamiltonian, _hamiltonian_arguments, 3e-2),
    "logistic regression": Program("loops", _logistic_regression, _regression_arguments),
    "k-means": Program("loops", _k_means, lambda: [normal(10_000, 16)]),
    "PageRank": Program("loops", _page_rank, lambda: [integers(20_000, 200_000), integers(20_000, 200_000, seed=1)]),
    "molecular dynamics": Program("loops", _molecules, _molecule_arguments, 1e-2),
    "heat equation": Program("loops", _heat, lambda: [normal(256, 256)]),
}

# -- arrays: linear algebra, random numbers, sorting, images


def _solve(a: Any, b: Any) -> Any:
    x = jnp.linalg.solve(a @ a.T + 10 * jnp.eye(len(a)), b)
    return x, jnp.linalg.norm(a @ x)


def _option_price(key: Any) -> Any:
    """Prices an Asian option by Monte Carlo simulation."""

    def step(state: Any, key: Any) -> Any:
        price, total = state
        price = price * jnp.exp(0.0002 + 0.01 * jax.random.normal(key, price.shape))
        return (price, total + price), None

    start = jnp.full(50_000, 100.0)
    (_, total), _ = lax.scan(step, (start, start * 0), jax.random.split(key, 50))
    payoff = jnp.maximum(total / 50 - 100, 0)
    return payoff.mean(), payoff.std()


def _random_draws(key: Any) -> Any:
    a, b, c, d = jax.random.split(key, 4)
    uniform = jax.random.uniform(a, (500_000,))
    chosen = jax.random.categorical(b, jnp.log(jnp.arange(1, 11.0)), shape=(100_000,))
    gamma = jax.random.gamma(c, 2.5, (20_000,))
    return uniform.mean(), jnp.bincount(chosen, length=10), gamma.mean(), jax.random.permutation(d, 50_000)[:10]


def _ranking(scores: Any, edges: Any) -> Any:
    best, where = lax.top_k(scores, 20)
    order = jnp.argsort(scores, -1)
    bins = jnp.searchsorted(edges, scores.reshape(-1))
    return best, where, order, jnp.bincount(bins, length=len(edges) + 1), jnp.median(scores, -1)


def _scans(x: Any, a: Any) -> Any:
    def combine(left: Any, right: Any) -> Any:
        return left[0] * right[0], right[0] * left[1] + right[1]

    _, linear = lax.associative_scan(combine, (a, x), axis=1)
    return jnp.cumsum(x, 1), jnp.cumsum(x, 0), lax.cummax(x, axis=1), linear


def _filtered(signal: Any, kernel: Any) -> Any:
    size = signal.shape[-1] + kernel.shape[-1] - 1
    return jnp.fft.irfft(jnp.fft.rfft(signal, size) * jnp.fft.rfft(kernel, size), size)


def _augmented(images: Any, angles: Any, flips: Any) -> Any:
    """Rotates, mirrors and normalizes images."""
    side = images.shape[1]
    grid = jnp.stack(jnp.meshgrid(*[jnp.arange(side) - side / 2] * 2, indexing="ij"))

    def one(image: Any, angle: Any, flip: Any) -> Any:
        c, s = jnp.cos(angle), jnp.sin(angle)
        positions = jnp.stack([c * grid[0] - s * grid[1], s * grid[0] + c * grid[1]]) + side / 2
        sample = lambda channel: jax.scipy.ndimage.map_coordinates(channel, positions, 1, mode="nearest")  # noqa: E731
        image = jax.vmap(sample, -1, -1)(image)
        return jnp.where(flip, image[:, ::-1], image)

    rotated = jax.vmap(one)(images, angles, flips)
    return (rotated - rotated.mean((1, 2), keepdims=True)) / (rotated.std((1, 2), keepdims=True) + 1e-5)


def _blurred(image: Any) -> Any:
    """Blurs an image and computes the magnitude of its gradient, which shows its edges."""
    kernel = jnp.exp(-0.5 * (jnp.arange(-4, 5) / 2.0) ** 2)
    kernel = kernel / kernel.sum()
    rows = jax.vmap(lambda row: jnp.convolve(row, kernel, mode="same"))(image)
    both = jax.vmap(lambda row: jnp.convolve(row, kernel, mode="same"), 1, 1)(rows)
    down, across = jnp.gradient(both)
    return jnp.sqrt(down**2 + across**2)


def _graph_layer(x: Any, sources: Any, targets: Any, weights: Any) -> Any:
    messages = jax.nn.relu(x @ weights)[sources]
    return jax.ops.segment_max(messages, targets, len(x)) + jax.ops.segment_sum(messages, targets, len(x))


def _graph_arguments() -> Sequence[Any]:
    return [normal(5000, 64), integers(5000, 40_000), integers(5000, 40_000, seed=1), normal(64, 64) / 8]


def _principal_components(x: Any) -> Any:
    centered = x - x.mean(0)
    values, vectors = jnp.linalg.eigh(centered.T @ centered / len(x))
    return values[::-1], centered @ jnp.abs(vectors[:, -8:])


ARRAYS = {
    "Gaussian process": Program("arrays", _gaussian_process, lambda: [normal(500, 4), normal(500)]),
    "solve and norm": Program("arrays", _solve, lambda: [normal(300, 300), normal(300, 10)]),
    "option price, Monte Carlo": Program("arrays", _option_price, lambda: [np.asarray(jax.random.PRNGKey(0))]),
    "random draws": Program("arrays", _random_draws, lambda: [np.asarray(jax.random.PRNGKey(0))]),
    "ranking": Program("arrays", _ranking, lambda: [normal(64, 4096), np.sort(normal(1000, seed=1))]),
    "scans": Program("arrays", _scans, lambda: [normal(256, 2048), np.abs(normal(256, 2048)) / 2]),
    "convolution by FFT": Program("arrays", _filtered, lambda: [normal(64, 8000), normal(64, 193, seed=1)]),
    "image augmentation": Program(
        "arrays", _augmented, lambda: [normal(16, 64, 64, 3), normal(16), integers(2, 16).astype(bool)]
    ),
    "blur and edges": Program("arrays", _blurred, lambda: [normal(512, 512)]),
    "graph layer": Program("arrays", _graph_layer, _graph_arguments),
    "principal components": Program("arrays", _principal_components, lambda: [normal(2000, 64)], 1e-2),
}

PROGRAMS = {**NETWORKS, **LOOPS, **ARRAYS}
