"""JAX functions on meshes of 2, 4 and 8 devices for `benchmarks/simulation.py`: programs that were held out.

The simulator's model was developed on the sets of `simulation_programs` and checked on these afterwards. The causes of
some misses were mended then. The set `fresh` was measured after that.
"""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks.multi_device_programs import PROGRAMS, MeshProgram
from xlapy.hlo.module import Module
from xlapy.spmd.partitioner import partition
from xlapy.tools.files import parse_program

Program = Callable[[], Module]
"""Returns the program of each device, not optimized."""

Shapes = tuple[tuple[Any, ...], ...]
"""For each argument: its shape, the partition of its dimensions, and optionally its type."""


@dataclass(frozen=True)
class MeshFunction:
    """local: whether the function is that of one device, which names its collectives; otherwise the partitioner adds
    them. output: the partition of the result."""

    name: str
    devices: int
    function: Callable[..., Any]
    arguments: Shapes
    output: Any
    local: bool = False


def module_of(one: MeshFunction) -> Module:
    """Returns the program of each device, not optimized."""
    mesh = Mesh(np.array(jax.devices("cpu")[: one.devices]), ("d",))
    specs = [P(*given[1]) for given in one.arguments]
    arguments = [
        jax.ShapeDtypeStruct(given[0], given[2] if len(given) > 2 else jnp.float32, sharding=NamedSharding(mesh, spec))
        for given, spec in zip(one.arguments, specs, strict=True)
    ]
    function = one.function
    if one.local:
        function = jax.shard_map(function, mesh=mesh, in_specs=tuple(specs), out_specs=one.output, check_vma=False)
    shardings = jax.tree.map(lambda spec: NamedSharding(mesh, spec), one.output, is_leaf=lambda x: isinstance(x, P))
    return _partitioned(jax.jit(function, out_shardings=shardings).lower(*arguments).as_text(), one.devices)


def _partitioned(text: str, devices: int) -> Module:
    module = parse_program("program.mlir", text.encode())
    module.config.num_partitions = devices
    partition(module, devices)
    return module


def _of_multi_device(program: MeshProgram) -> Module:
    """Returns the program of each of eight devices."""
    axes = dict(program.axes)
    devices = np.array(jax.devices("cpu")[:8]).reshape(tuple(axes.values()))
    mesh = Mesh(devices, tuple(axes))

    def shardings(specs: Any) -> Any:
        return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda x: isinstance(x, P))

    jitted = jax.jit(
        program.make(mesh), in_shardings=shardings(program.inputs), out_shardings=shardings(program.outputs)
    )
    return _partitioned(jitted.lower(*program.arguments()).as_text(), 8)


# -- functions


def _norm(x: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered * lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5)


def _block(x: Any, qkv: Any, out: Any, up: Any, down: Any) -> Any:
    """A transformer block. x: [batch, length, model]; qkv: [model, 3, heads, head]; out: [heads, head, model]."""
    q, k, v = jnp.einsum("bld,dchk->cbhlk", _norm(x), qkv)
    scores = jnp.einsum("bhlk,bhmk->bhlm", q, k) / np.sqrt(q.shape[-1])
    x = x + jnp.einsum("bhlm,bhmk,hkd->bld", jax.nn.softmax(scores, -1), v, out)
    return x + jax.nn.gelu(_norm(x) @ up) @ down


def _block_step(x: Any, *weights: Any) -> Any:
    def loss(weights: Any) -> Any:
        return jnp.mean(_block(x, *weights) ** 2)

    return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights))


def _mlp_step(x: Any, v: Any, w: Any) -> Any:
    def loss(v: Any, w: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ v) @ w) ** 2)

    dv, dw = jax.grad(loss, (0, 1))(v, w)
    return v - 0.1 * dv, w - 0.1 * dw


def _convolved(x: Any, k: Any) -> Any:
    return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _network(x: Any, k: Any, j: Any) -> Any:
    h = jax.nn.relu(_convolved(x, k))
    return jax.nn.relu(_convolved(h, j)).mean((1, 2))


def _experts(x: Any, up: Any, down: Any) -> Any:
    """x: [experts, tokens, model] of one device; up, down: weights of the experts of this device."""
    x = lax.all_to_all(x, "d", 0, 1, tiled=True)
    h = jax.nn.gelu(jnp.einsum("etd,edh->eth", x, up))
    return lax.all_to_all(jnp.einsum("eth,ehd->etd", h, down), "d", 1, 0, tiled=True)


def _chain(x: Any) -> Any:
    for _ in range(3):
        x = jnp.sin(x) * jnp.exp(-x * x) + jnp.log1p(jnp.abs(x)) / (1 + jnp.sqrt(jnp.abs(x)))
    return x


def _lookup(table: Any, tokens: Any) -> Any:
    return _norm(table[tokens]).sum(1)


def _heat(x: Any) -> Any:
    """Ten steps of a stencil over rows that are divided among the devices."""

    def step(x: Any, _: Any) -> Any:
        count = lax.axis_size("d")
        above = lax.ppermute(x[-1:], "d", [(n, (n + 1) % count) for n in range(count)])
        below = lax.ppermute(x[:1], "d", [(n, (n - 1) % count) for n in range(count)])
        e = jnp.concatenate([above, x, below])
        return 0.25 * (e[:-2] + 2 * x + e[2:]), None

    return lax.scan(step, x, None, length=10)[0]


def _reduced(x: Any) -> Any:
    return lax.psum(x, "d") * 2.0


def _gathered(x: Any) -> Any:
    return lax.all_gather(x, "d", tiled=True) + 1.0


def _exchanged(x: Any) -> Any:
    return lax.all_to_all(x, "d", 0, 0, tiled=True) * 0.5


def _shifted(x: Any) -> Any:
    count = lax.axis_size("d")
    return lax.ppermute(x, "d", [(n, (n + 1) % count) for n in range(count)]) + x


def _ring(x: Any, w: Any) -> Any:
    """A product whose right side travels around the devices."""

    def step(n: Any, state: Any) -> Any:
        w, total = state
        count = lax.axis_size("d")
        return lax.ppermute(w, "d", [(n, (n + 1) % count) for n in range(count)]), total + x @ w

    return lax.fori_loop(0, 4, step, (w, jnp.zeros_like(x)))[1]


def _k_means(points: Any, centers: Any) -> Any:
    distances = ((points[:, None] - centers[None]) ** 2).sum(-1)
    nearest = jax.nn.one_hot(distances.argmin(-1), centers.shape[0])
    return lax.psum(nearest.T @ points, "d") / (1 + lax.psum(nearest.sum(0), "d"))[:, None]


MODEL, HEADS = 256, 4
_BLOCK: Shapes = (
    ((8, 128, MODEL), ("d",)), ((MODEL, 3, HEADS, 64), ()), ((HEADS, 64, MODEL), ()), ((MODEL, 4 * MODEL), ()),
    ((4 * MODEL, MODEL), ()),
)  # fmt: skip
_WEIGHTS = (P(), P(), P(), P())


def held_out() -> Iterator[MeshFunction]:
    """Yields the programs."""
    yield MeshFunction("transformer block", 4, _block, _BLOCK, P("d"))
    yield MeshFunction("transformer block, training step", 4, _block_step, _BLOCK, _WEIGHTS)
    yield MeshFunction("transformer block, training step", 8, _block_step, _BLOCK, _WEIGHTS)
    mlp: Shapes = (((512, 512), ("d",)), ((512, 1024), ()), ((1024, 512), ()))
    yield MeshFunction("MLP step, data-parallel", 2, _mlp_step, mlp, (P(), P()))
    split: Shapes = (((256, 512), ()), ((512, 1024), (None, "d")), ((1024, 512), ("d",)))
    yield MeshFunction("MLP step, model-parallel", 8, _mlp_step, split, (P(None, "d"), P("d")))
    images: Shapes = (((8, 32, 32, 32), ("d",)), ((3, 3, 32, 64), ()), ((3, 3, 64, 64), ()))
    yield MeshFunction("convolutional network", 4, _network, images, P("d"))
    halo: Shapes = (((2, 128, 64, 32), (None, "d")), ((3, 3, 32, 32), ()))
    yield MeshFunction("convolution of divided rows", 4, _convolved, halo, P(None, "d"))
    experts: Shapes = (((32, 128, 128), ("d",)), ((8, 128, 512), ("d",)), ((8, 512, 128), ("d",)))
    yield MeshFunction("mixture of experts", 4, _experts, experts, P("d"), local=True)
    yield MeshFunction("sort of rows", 2, lambda x: jnp.sort(x, -1), (((256, 1000), ("d",)),), P("d"))
    yield MeshFunction("arguments that sort rows", 8, lambda x: jnp.argsort(x, -1), (((256, 512), ("d",)),), P("d"))
    signal: Shapes = (((256, 4096), ("d",)),)
    yield MeshFunction("real Fourier transform", 2, lambda x: jnp.abs(jnp.fft.rfft(x)), signal, P("d"))
    yield MeshFunction("running sums of rows", 4, lambda x: jnp.cumsum(x, 1), (((512, 3000), ("d",)),), P("d"))
    yield MeshFunction("running sums of columns", 2, lambda x: jnp.cumsum(x, 0), (((2048, 512), (None, "d")),),
                       P(None, "d"))  # fmt: skip
    yield MeshFunction("random normal numbers", 4, lambda k: jax.random.normal(jax.random.wrap_key_data(k[0]),
                       (300_000,)), (((4, 2), ("d",), jnp.uint32),), P(), local=True)  # fmt: skip
    yield MeshFunction("transposed images", 4, lambda x: x.transpose(0, 3, 1, 2) + 1, (((16, 64, 64, 48), ("d",)),),
                       P("d"))  # fmt: skip
    yield MeshFunction("chain of functions", 4, _chain, (((1 << 19,), ("d",)),), P("d"))
    yield MeshFunction("softmax of rows", 8, lambda x: jax.nn.softmax(x, -1), (((4096, 500), ("d",)),), P("d"))
    yield MeshFunction("embeddings", 4, _lookup, (((20_000, 128), ()), ((512, 16), ("d",), jnp.int32)), P("d"))
    yield MeshFunction("histogram", 2, lambda i: jnp.zeros(4096).at[i].add(1.0), (((200_000,), (), jnp.int32),), P(),
                       local=True)  # fmt: skip
    yield MeshFunction("stencil in a loop", 4, _heat, (((1024, 700), ("d",)),), P("d"), local=True)
    yield MeshFunction("ring of products", 2, _ring, (((512, 256), ("d",)), ((512, 256), ("d",))), P("d"), local=True)
    yield MeshFunction("k-means", 4, _k_means, (((16_384, 32), ("d",)), ((64, 32), ())), P(), local=True)
    yield MeshFunction("sum of 8 bytes", 8, _reduced, (((16,), ("d",)),), P(), local=True)
    yield MeshFunction("sum of 200 kB", 4, _reduced, (((200_000,), ("d",)),), P(), local=True)
    yield MeshFunction("sum of 16 MB", 4, _reduced, (((1 << 24,), ("d",)),), P(), local=True)
    yield MeshFunction("gather of 64 MB", 2, _gathered, (((1 << 24,), ("d",)),), P(), local=True)
    yield MeshFunction("all-to-all of 2 MB", 8, _exchanged, (((1 << 22,), ("d",)),), P("d"), local=True)
    yield MeshFunction("permute of 1 MB", 4, _shifted, (((1 << 20,), ("d",)),), P("d"), local=True)


EVERY = 3
"""Of the programs of `multi_device`, the first of so many is taken."""


def held_out_set() -> Iterator[tuple[str, int, Program]]:
    for one in held_out():
        yield one.name, one.devices, partial(module_of, one)


def fresh_set() -> Iterator[tuple[str, int, Program]]:
    """Programs that were written for another benchmark, and run only once the model was final."""
    for name in list(PROGRAMS)[::EVERY]:
        yield name, 8, partial(_of_multi_device, PROGRAMS[name])


FUNCTION_SETS: dict[str, Callable[[], Iterator[tuple[str, int, Program]]]] = {
    "held-out": held_out_set, "fresh": fresh_set,
}  # fmt: skip
