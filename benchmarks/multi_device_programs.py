"""The programs of `benchmarks/multi_device.py`: what people run on several devices, with arguments and shardings.

Programs of `jit` leave the choice of collectives to the partitioner. Those of `shard_map` name them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from benchmarks.programs import integers
from benchmarks.workloads import normal

LINE = (("x", 8),)
GRID = (("data", 2), ("model", 4))
MEGA = 1 << 20

Specification = Any
"""A pytree of partition specifications, as `jax.jit` takes them for arguments or results."""


@dataclass(frozen=True)
class MeshProgram:
    """A function over a mesh of eight devices. The arguments are those of one device times their number.

    make: returns the function for a mesh. inputs, outputs: partition specifications. tolerance: the largest difference
    of two compilers' results, relative to the largest element; None if the results are random.
    """

    group: str
    make: Callable[[Mesh], Callable[..., Any]]
    arguments: Callable[[], Sequence[Any]]
    inputs: Specification
    outputs: Specification
    axes: Sequence[tuple[str, int]] = LINE
    tolerance: float | None = 1e-3


def _jit(
    group: str,
    function: Callable[..., Any],
    arguments: Callable[[], Sequence[Any]],
    inputs: Specification,
    outputs: Specification,
    axes: Sequence[tuple[str, int]] = LINE,
    tolerance: float | None = 1e-3,
) -> MeshProgram:
    """A program whose collectives the partitioner chooses."""
    return MeshProgram(group, lambda _: function, arguments, inputs, outputs, axes, tolerance)


def _local(
    group: str,
    function: Callable[..., Any],
    arguments: Callable[[], Sequence[Any]],
    inputs: Specification,
    outputs: Specification,
    axes: Sequence[tuple[str, int]] = LINE,
    tolerance: float = 1e-3,
) -> MeshProgram:
    """A program of `shard_map`, each device of which runs the function on its part."""

    def make(mesh: Mesh) -> Callable[..., Any]:
        return jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=outputs, check_vma=False)

    return MeshProgram(group, make, arguments, inputs, outputs, axes, tolerance)


def _keys() -> Sequence[Any]:
    return [np.asarray(jax.random.key_data(jax.random.key(1)))]


# -- windows


def _convolved(x: Any, kernel: Any, stride: int = 1, groups: int = 1) -> Any:
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
    )


def _image_step(kernels: Any, images: Any, targets: Any) -> Any:
    """A step of gradient descent for two convolutions."""

    def loss(kernels: Any) -> Any:
        h = jax.nn.relu(_convolved(images, kernels[0]))
        return jnp.mean((_convolved(h, kernels[1]) - targets) ** 2)

    return jax.tree.map(lambda k, g: k - 0.1 * g, kernels, jax.grad(loss)(kernels))


def _heat(x: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
        return u + 0.1 * (around - 4 * u)

    return lax.fori_loop(0, 20, step, x)


WINDOWS = {
    "convolution, rows cut": _jit(
        "windows", _convolved, lambda: [normal(4, 128, 128, 32), normal(3, 3, 32, 32)], (P(None, "x"), P()),
        P(None, "x")),
    "convolution, stride 2": _jit(
        "windows", lambda x, k: _convolved(x, k, 2), lambda: [normal(4, 128, 128, 32), normal(3, 3, 32, 64)],
        (P(None, "x"), P()), P(None, "x")),
    "depthwise convolution": _jit(
        "windows", lambda x, k: _convolved(x, k, 1, 64), lambda: [normal(4, 128, 128, 64), normal(7, 7, 1, 64)],
        (P(None, "x"), P()), P(None, "x")),
    "convolutions, training step": _jit(
        "windows", _image_step,
        lambda: [[normal(3, 3, 16, 32) / 12, normal(3, 3, 32, 16) / 17], normal(4, 64, 64, 16), normal(4, 64, 64, 16)],
        (P(), P(None, "x"), P(None, "x")), P()),
    "max-pooling": _jit(
        "windows", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        lambda: [normal(4, 256, 256, 32)], (P(None, "x"),), P(None, "x")),
    "heat equation, 20 steps": _jit("windows", _heat, lambda: [normal(1024, 1024)], (P("x"),), P("x")),
    "roll": _jit("windows", lambda x: jnp.roll(x, 3), lambda: [normal(4 * MEGA)], (P("x"),), P("x")),
    "roll of both dimensions": _jit(
        "windows", lambda x: jnp.roll(x, (5, -7), (0, 1)), lambda: [normal(2048, 2048)], (P("x"),), P("x")),
    "shifted pad": _jit(
        "windows", lambda x: x - jnp.pad(x, ((1, 0), (0, 0)))[:-1], lambda: [normal(4096, 512)], (P("x"),), P("x")),
}  # fmt: skip


# -- operations along the dimension that is cut

ALONG = {
    "sort": _jit("along", jnp.sort, lambda: [normal(MEGA)], (P("x"),), P("x"), tolerance=0),
    "sort of rows": _jit(
        "along", lambda x: jnp.sort(x, -1), lambda: [normal(64, 16384)], (P(None, "x"),), P(None, "x"), tolerance=0),
    "argsort": _jit("along", jnp.argsort, lambda: [normal(MEGA // 2)], (P("x"),), P("x"), tolerance=0),
    "largest half of a cut row": _jit(
        "along", lambda x: lax.top_k(x, MEGA // 4), lambda: [normal(MEGA // 2)], (P("x"),), P("x"), tolerance=0),
    "top 64 of rows": _jit(
        "along", lambda x: lax.top_k(x, 64), lambda: [normal(32, 65536)], (P(None, "x"),), P(), tolerance=0),
    "argmax of rows": _jit(
        "along", lambda x: jnp.argmax(x, -1), lambda: [normal(256, 32768)], (P(None, "x"),), P(), tolerance=0),
    "cumulative sum": _jit("along", jnp.cumsum, lambda: [normal(MEGA // 32)], (P("x"),), P("x"), tolerance=1e-2),
    "associative scan": _jit(
        "along", lambda x: lax.associative_scan(jnp.maximum, x), lambda: [normal(MEGA)], (P("x"),), P("x")),
    "cumulative sums of rows": _jit(
        "along", lambda x: jnp.cumsum(x, 1), lambda: [normal(256, 4096)], (P(None, "x"),), P(None, "x")),
    "cumulative maximum": _jit("along", lambda x: lax.cummax(x, 0), lambda: [normal(1024, 64)], (P("x"),), P("x")),
    "softmax": _jit(
        "along", lambda x: jax.nn.softmax(x, -1), lambda: [normal(512, 8192)], (P(None, "x"),), P(None, "x")),
    "rows of a cut table": _jit(
        "along", lambda table, ids: table[ids], lambda: [normal(65536, 128), integers(65536, 8192)], (P("x"), P()),
        P()),
    "sums into a cut table": _jit(
        "along", lambda table, ids, rows: table.at[ids].add(rows),
        lambda: [normal(65536, 64), integers(65536, 8192), normal(8192, 64)], (P("x"), P(), P()), P("x")),
    "normal draws": _jit(
        "along", lambda key: jax.random.normal(jax.random.wrap_key_data(key), (2 * MEGA,)), _keys, (P(),), P("x")),
}  # fmt: skip

TRANSFORMS = {
    "fft, rows cut": _jit(
        "transforms", jnp.fft.fft, lambda: [normal(1024, 1024).astype(np.complex64)], (P("x"),), P("x")),
    "fft2": _jit(
        "transforms", jnp.fft.fft2, lambda: [normal(1024, 1024).astype(np.complex64)], (P("x"),), P("x")),
    "rfft and irfft of a cut row": _jit(
        "transforms", lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2), lambda: [normal(MEGA)], (P("x"),), P("x")),
    "rfft, batch cut": _jit("transforms", jnp.fft.rfft, lambda: [normal(512, 4096)], (P("x"),), P("x")),
    "fft filter, 3-D": _jit(
        "transforms", lambda x, f: jnp.fft.irfftn(jnp.fft.rfftn(x) * f, x.shape),
        lambda: [normal(64, 128, 128), normal(64, 128, 65)], (P("x"), P("x")), P("x")),
}  # fmt: skip


# -- steps of models


def _layers(parameters: Any, x: Any) -> Any:
    for w in parameters:
        x = jnp.tanh(x @ w)
    return x


def _step(parameters: Any, x: Any, y: Any) -> Any:
    def loss(parameters: Any) -> Any:
        return jnp.mean((_layers(parameters, x) - y) ** 2)

    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, jax.grad(loss)(parameters))


def _step_arguments(batch: int, width: int, layers: int = 3) -> Callable[[], Sequence[Any]]:
    def make() -> Sequence[Any]:
        parameters = [normal(width, width) / width**0.5 for _ in range(layers)]
        return [parameters, normal(batch, width), normal(batch, width)]

    return make


def _network_step(kernels: Any, images: Any, labels: Any) -> Any:
    def loss(kernels: Any) -> Any:
        h = jax.nn.relu(_convolved(images, kernels[0], 2))
        h = jax.nn.relu(_convolved(h, kernels[1], 2))
        scores = h.mean((1, 2)) @ kernels[2]
        return -jnp.take_along_axis(jax.nn.log_softmax(scores), labels[:, None], -1).mean()

    return jax.tree.map(lambda k, g: k - 0.1 * g, kernels, jax.grad(loss)(kernels))


def _block(parameters: Any, x: Any) -> Any:
    """A block of a transformer; the projections have the dimension of heads."""
    q, k, v, o, up, down = parameters
    h = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    queries, keys, values = (jnp.einsum("bld,dhe->blhe", h, w) for w in (q, k, v))
    weights = jax.nn.softmax(jnp.einsum("blhe,bmhe->bhlm", queries, keys) / 8, -1)
    x = x + jnp.einsum("bhlm,bmhe,hed->bld", weights, values, o)
    h = x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    return x + jax.nn.silu(h @ up) @ down


def _block_step(parameters: Any, x: Any) -> Any:
    gradient = jax.grad(lambda p: jnp.mean(_block(p, x) ** 2))(parameters)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradient)


def _block_arguments() -> Sequence[Any]:
    width, heads, size = 256, 8, 64
    projections = [normal(width, heads, size) / 16 for _ in range(3)]
    return [[*projections, normal(heads, size, width) / 23, normal(width, 1024) / 16, normal(1024, width) / 32],
            normal(4, 128, width)]  # fmt: skip


_BLOCK_SPECIFICATION = [
    P(None, "model"), P(None, "model"), P(None, "model"), P("model"), P(None, "model"), P("model")]  # fmt: skip


def _experts(x: Any, gates: Any, up: Any, down: Any) -> Any:
    """Sends each token to one expert with a bound on the tokens of each (Switch Transformer)."""
    tokens, experts = x.shape[0], gates.shape[1]
    capacity = 2 * tokens // experts
    weights = jax.nn.softmax(x @ gates, -1)
    chosen = jax.nn.one_hot(jnp.argmax(weights, -1), experts)
    places = jnp.cumsum(chosen, 0) * chosen - 1
    dispatch = chosen[:, :, None] * jax.nn.one_hot(places.astype(jnp.int32), capacity)
    inputs = jnp.einsum("tec,td->ecd", dispatch, x)
    outputs = jnp.einsum("ecf,efd->ecd", jax.nn.relu(jnp.einsum("ecd,edf->ecf", inputs, up)), down)
    return jnp.einsum("tec,te,ecd->td", dispatch, weights, outputs)


def _sent_experts(x: Any, up: Any, down: Any) -> Any:
    """Tokens in blocks for each expert; each device has one expert."""
    blocks = lax.all_to_all(x.reshape(8, -1, x.shape[-1]), "x", 0, 0)
    h = jax.nn.relu(blocks.reshape(-1, x.shape[-1]) @ up[0]) @ down[0]
    return lax.all_to_all(h.reshape(blocks.shape), "x", 0, 0).reshape(x.shape)


def _ring_attention(q: Any, k: Any, v: Any) -> Any:
    """Queries stay, keys and values go around the ring; the softmax is corrected at each step."""
    pairs = [(device, (device + 1) % 8) for device in range(8)]

    def step(_: Any, carry: Any) -> Any:
        k, v, top, total, result = carry
        scores = jnp.einsum("qhd,khd->hqk", q, k) / 8
        new = jnp.maximum(top, scores.max(-1))
        weights, old = jnp.exp(scores - new[..., None]), jnp.exp(top - new)
        result = result * old[..., None] + jnp.einsum("hqk,khd->hqd", weights, v)
        k, v = (lax.ppermute(one, "x", pairs) for one in (k, v))
        return k, v, new, total * old + weights.sum(-1), result

    length, heads, size = q.shape
    first = jnp.full((heads, length), -jnp.inf), jnp.zeros((heads, length)), jnp.zeros((heads, length, size))
    _, _, _, total, result = lax.fori_loop(0, 8, step, (k, v, *first))
    return (result / total[..., None]).swapaxes(0, 1)


MODELS = {
    "data-parallel step": _jit(
        "models", _step, _step_arguments(512, 512), (P(), P("x"), P("x")), P()),
    "data-parallel step, narrow": _jit("models", _step, _step_arguments(64, 64), (P(), P("x"), P("x")), P()),
    "data-parallel network": _jit(
        "models", _network_step,
        lambda: [[normal(3, 3, 3, 32) / 5, normal(3, 3, 32, 64) / 17, normal(64, 10) / 8], normal(64, 32, 32, 3),
                 integers(10, 64)], (P(), P("x"), P("x")), P()),
    "tensor-parallel step": _jit(
        "models", _step, _step_arguments(256, 512, 2), ([P(None, "x"), P("x")], P(), P()), [P(None, "x"), P("x")]),
    "transformer step, data and tensor": _jit(
        "models", _block_step, _block_arguments, (_BLOCK_SPECIFICATION, P("data")), _BLOCK_SPECIFICATION, GRID),
    "transformer forward, tensor": _jit(
        "models", _block, _block_arguments, (_BLOCK_SPECIFICATION, P("data")), P("data"), GRID),
    "fully sharded step": _jit("models", _step, _step_arguments(256, 512), (P("x"), P("x"), P("x")), P("x")),
    "experts, einsum dispatch": _jit(
        "models", _experts, lambda: [normal(1024, 128), normal(128, 8), normal(8, 128, 512) / 11,
                                     normal(8, 512, 128) / 22], (P("x"), P(), P("x"), P("x")), P("x"), tolerance=1e-2),
    "experts, all-to-all": _local(
        "models", _sent_experts, lambda: [normal(4096, 128), normal(8, 128, 512) / 11, normal(8, 512, 128) / 22],
        (P("x"), P("x"), P("x")), P("x")),
    "ring attention": _local(
        "models", _ring_attention, lambda: [normal(1024, 4, 64) for _ in range(3)], (P("x"),) * 3, P("x")),
}  # fmt: skip


# -- collectives


def _sum(x: Any) -> Any:
    return lax.psum(x, "x")


def _vector(megabytes: float, dtype: Any = np.float32) -> Callable[[], Sequence[Any]]:
    count = round(megabytes * MEGA) // np.dtype(dtype).itemsize
    return lambda: [normal(8, count).astype(dtype)]


def _loop(step: Callable[[Any], Any], times: int = 100) -> Callable[[Any], Any]:
    return lambda x: lax.fori_loop(0, times, lambda _, value: step(value), x)


def _next(x: Any) -> Any:
    return lax.ppermute(x, "x", [(device, (device + 1) % 8) for device in range(8)]) + 1


COLLECTIVES = {
    **{
        f"all-reduce, {size} MB": _local("collectives", _sum, _vector(size), P("x"), P("x"))
        for size in (4, 16, 64)
    },
    "all-reduce, 16 MB of bf16": _local("collectives", _sum, _vector(16, jnp.bfloat16), P("x"), P("x"), tolerance=0.03),
    "all-reduce, 64 kB": _local("collectives", _sum, _vector(1 / 16), P("x"), P("x")),
    "all-reduce in pairs of rows": _local(
        "collectives", lambda x: lax.psum(x, "model"), _vector(4), P(("data", "model")), P(("data", "model")), GRID),
    "maximum, 4 MB": _local("collectives", lambda x: lax.pmax(x, "x"), _vector(4), P("x"), P("x")),
    "all-gather, 512 kB": _local(
        "collectives", lambda x: lax.all_gather(x, "x", tiled=True), lambda: [normal(8 * 131072)], P("x"), P()),
    "all-gather, 8 kB": _local(
        "collectives", lambda x: lax.all_gather(x, "x", tiled=True), lambda: [normal(8 * 2048)], P("x"), P()),
    "reduce-scatter, 4 MB": _local(
        "collectives", lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True), _vector(4), P("x"),
        P(None, "x")),
    "reduce-scatter, 64 kB": _local(
        "collectives", lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True), _vector(1 / 16), P("x"),
        P(None, "x")),
    "all-to-all, 4 MB": _local(
        "collectives", lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), _vector(4), P("x"), P(None, "x")),
    "all-to-all, 64 kB": _local(
        "collectives", lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), _vector(1 / 16), P("x"), P(None, "x")),
    "permute, 4 MB": _local("collectives", _next, _vector(4), P("x"), P("x")),
    "100 all-reduces of 1 kB": _local(
        "collectives", _loop(lambda x: _sum(x) / 8), lambda: [normal(8, 256)], P("x"), P("x")),
    "100 permutes of 1 kB": _local("collectives", _loop(_next), lambda: [normal(8, 256)], P("x"), P("x")),
    "100 all-gathers of 1 kB": _local(
        "collectives", _loop(lambda x: lax.all_gather(x, "x").mean(0)), lambda: [normal(8, 256)], P("x"), P("x")),
    "one addition": _local("collectives", lambda x: x + 1, lambda: [normal(8, 256)], P("x"), P("x")),
}  # fmt: skip

PROGRAMS = {**ALONG, **WINDOWS, **TRANSFORMS, **MODELS, **COLLECTIVES}
