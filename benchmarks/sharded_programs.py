"""Programs for eight devices that `benchmarks.partitioner` partitions: JAX functions with shardings of their arguments.

Each program is a function of a mesh-independent kind: `build()` returns the jitted function and its arguments as
shapes with shardings. Sizes are small, because only the collectives of the partitioned program are of interest, but
large enough that their proportions are those of real programs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

PROGRAMS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {}


def program(name: str) -> Callable[[Callable[[], tuple[Any, tuple[Any, ...]]]], Any]:
    def register(build: Callable[[], tuple[Any, tuple[Any, ...]]]) -> Any:
        PROGRAMS[name] = build
        return build

    return register


def mesh(**axes: int) -> Mesh:
    return Mesh(np.array(jax.devices("cpu")[:8]).reshape(tuple(axes.values())), tuple(axes))


def array(over: Mesh, shape: tuple[int, ...], *spec: Any, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(over, P(*spec)))


def outputs(over: Mesh, *specs: Any) -> Any:
    found = [NamedSharding(over, spec) for spec in specs]
    return found[0] if len(found) == 1 else tuple(found)


# -- transformers

BATCH, LENGTH, MODEL, HEADS, HIDDEN, VOCABULARY = 16, 64, 256, 8, 1024, 2048


def layer_norm(x: Any, scale: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered * lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5) * scale


def attention(x: Any, wqkv: Any, wo: Any) -> Any:
    """wqkv: [model, 3, heads, head]; wo: [heads, head, model]."""
    q, k, v = jnp.einsum("bld,dchk->cbhlk", x, wqkv)
    scores = jnp.einsum("bhlk,bhmk->bhlm", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
    return jnp.einsum("bhlm,bhmk,hkd->bld", weights, v, wo)


def block(x: Any, weights: dict[str, Any], constrain: Callable[[Any], Any] = lambda x: x) -> Any:
    x = x + constrain(attention(layer_norm(x, weights["s1"]), weights["qkv"], weights["o"]))
    h = jax.nn.gelu(layer_norm(x, weights["s2"]) @ weights["up"])
    return x + constrain(h @ weights["down"])


def block_weights(over: Mesh, data: str | None, model: str | None, layers: int = 0) -> dict[str, Any]:
    head, lead = MODEL // HEADS, (layers,) if layers else ()
    stacked = (None,) if layers else ()
    return {
        "s1": array(over, (*lead, MODEL)), "s2": array(over, (*lead, MODEL)),
        "qkv": array(over, (*lead, MODEL, 3, HEADS, head), *stacked, data, None, model),
        "o": array(over, (*lead, HEADS, head, MODEL), *stacked, model, None, data),
        "up": array(over, (*lead, MODEL, HIDDEN), *stacked, data, model),
        "down": array(over, (*lead, HIDDEN, MODEL), *stacked, model, data),
    }  # fmt: skip


def shardings_of(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.sharding, tree)


def transformer_step(over: Mesh, data: str | None, model: str | None, weights_data: str | None = None, *,
                     sequence: bool = False, layers: int = 2) -> tuple[Any, tuple[Any, ...]]:  # fmt: skip
    blocks = [block_weights(over, weights_data, model) for _ in range(layers)]
    embedding = array(over, (VOCABULARY, MODEL), model, weights_data)
    tokens = array(over, (BATCH, LENGTH), data, dtype=jnp.int32)
    between = NamedSharding(over, P(data, model, None))

    def loss(weights: Any, tokens: Any) -> Any:
        table, layers = weights
        x = table[tokens]
        for layer in layers:
            x = block(x, layer, (lambda y: lax.with_sharding_constraint(y, between)) if sequence else lambda y: y)
        logits = x @ table.T
        wanted = jnp.take_along_axis(logits, jnp.roll(tokens, -1, 1)[..., None], -1)[..., 0]
        return (jax.nn.logsumexp(logits, -1) - wanted).mean()

    def step(weights: Any, tokens: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, tokens)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    weights = (embedding, blocks)
    results = (NamedSharding(over, P()), shardings_of(weights))
    return jax.jit(step, out_shardings=results), (weights, tokens)


@program("transformer forward, data 2 x model 4")
def _transformer_forward() -> Any:
    over = mesh(data=2, model=4)
    blocks = [block_weights(over, None, "model") for _ in range(2)]

    def forward(x: Any, blocks: Any) -> Any:
        for layer in blocks:
            x = block(x, layer)
        return x

    x = array(over, (BATCH, LENGTH, MODEL), "data")
    return jax.jit(forward, out_shardings=outputs(over, P("data"))), (x, blocks)


@program("transformer step, data 8")
def _data_parallel() -> Any:
    return transformer_step(mesh(data=8), "data", None)


@program("transformer step, model 8")
def _model_parallel() -> Any:
    return transformer_step(mesh(model=8), None, "model")


@program("transformer step, data 2 x model 4")
def _both_parallel() -> Any:
    return transformer_step(mesh(data=2, model=4), "data", "model")


@program("transformer step, data 4 x model 2, weights cut over both")
def _fully_sharded() -> Any:
    return transformer_step(mesh(data=4, model=2), "data", "model", "data")


@program("transformer step, data 2 x model 4, sequence cut between blocks")
def _sequence_parallel() -> Any:
    return transformer_step(mesh(data=2, model=4), "data", "model", sequence=True)


@program("transformer step, data 8, weights cut (FSDP)")
def _fsdp() -> Any:
    return transformer_step(mesh(data=8), "data", None, "data")


@program("loop over stacked layers, data 2 x model 4")
def _scan() -> Any:
    over = mesh(data=2, model=4)
    layers = block_weights(over, None, "model", 4)

    def forward(x: Any, layers: Any) -> Any:
        return lax.scan(lambda x, layer: (block(x, layer), None), x, layers)[0]

    x = array(over, (BATCH, LENGTH, MODEL), "data")
    return jax.jit(forward, out_shardings=outputs(over, P("data"))), (x, layers)


@program("gradient of a loop over stacked layers, data 2 x model 4")
def _scan_gradient() -> Any:
    over = mesh(data=2, model=4)
    layers = block_weights(over, None, "model", 4)

    def loss(layers: Any, x: Any) -> Any:
        return (lax.scan(lambda x, layer: (block(x, layer), None), x, layers)[0] ** 2).mean()

    x = array(over, (BATCH, LENGTH, MODEL), "data")
    return jax.jit(jax.grad(loss), out_shardings=shardings_of(layers)), (layers, x)


@program("attention, heads cut")
def _attention_heads() -> Any:
    over = mesh(model=8)
    weights = block_weights(over, None, "model")
    x = array(over, (BATCH, LENGTH, MODEL))
    return jax.jit(attention, out_shardings=outputs(over, P())), (x, weights["qkv"], weights["o"])


@program("attention, sequence cut")
def _attention_sequence() -> Any:
    over = mesh(seq=8)
    weights = block_weights(over, None, None)
    x = array(over, (2, 512, MODEL), None, "seq")
    return jax.jit(attention, out_shardings=outputs(over, P(None, "seq"))), (x, weights["qkv"], weights["o"])


@program("decoding with a cache cut over heads and batch")
def _decoding() -> Any:
    over = mesh(data=2, model=4)
    cache = array(over, (BATCH, HEADS, 512, 32), "data", "model")
    weights = block_weights(over, None, "model")

    def step(x: Any, keys: Any, values: Any, position: Any, wqkv: Any, wo: Any) -> Any:
        q, k, v = jnp.einsum("bd,dchk->cbhk", x, wqkv)
        keys = lax.dynamic_update_slice(keys, k[:, :, None], (0, 0, position, 0))
        values = lax.dynamic_update_slice(values, v[:, :, None], (0, 0, position, 0))
        scores = jnp.einsum("bhk,bhmk->bhm", q, keys)
        weights = jax.nn.softmax(jnp.where(jnp.arange(512) <= position, scores, -1e9), -1)
        return jnp.einsum("bhm,bhmk,hkd->bd", weights, values, wo), keys, values

    x, position = array(over, (BATCH, MODEL), "data"), array(over, (), dtype=jnp.int32)
    results = outputs(over, P("data"), P("data", "model"), P("data", "model"))
    return jax.jit(step, out_shardings=results), (x, cache, cache, position, weights["qkv"], weights["o"])


# -- mixtures of experts, embeddings, losses


@program("mixture of experts, dispatch by products")
def _moe_products() -> Any:
    over = mesh(expert=8)

    def layer(x: Any, gate: Any, up: Any, down: Any) -> Any:
        scores = jax.nn.softmax(x @ gate, -1)
        chosen = jax.nn.one_hot(jnp.argmax(scores, -1), 8)
        place = (jnp.cumsum(chosen, 1) - 1) * chosen
        dispatch = chosen[..., None] * jax.nn.one_hot(place.sum(-1).astype(jnp.int32), 16)[:, :, None]
        inside = jnp.einsum("gsec,gsd->egcd", dispatch, x)
        inside = lax.with_sharding_constraint(inside, NamedSharding(over, P("expert")))
        hidden = jax.nn.relu(jnp.einsum("egcd,edh->egch", inside, up))
        out = jnp.einsum("egch,ehd->egcd", hidden, down)
        out = lax.with_sharding_constraint(out, NamedSharding(over, P("expert")))
        return jnp.einsum("gsec,egcd->gsd", dispatch * scores[..., None], out)

    x, gate = array(over, (8, 64, MODEL), "expert"), array(over, (MODEL, 8))
    up, down = array(over, (8, MODEL, 512), "expert"), array(over, (8, 512, MODEL), "expert")
    return jax.jit(layer, out_shardings=outputs(over, P("expert"))), (x, gate, up, down)


@program("mixture of experts, dispatch by gather")
def _moe_gather() -> Any:
    over = mesh(expert=8)

    def layer(x: Any, gate: Any, up: Any, down: Any) -> Any:
        scores = jax.nn.softmax(x @ gate, -1)
        weights, tokens = lax.top_k(scores.T, 64)
        inside = lax.with_sharding_constraint(x[tokens], NamedSharding(over, P("expert")))
        out = jnp.einsum("ech,ehd->ecd", jax.nn.relu(jnp.einsum("ecd,edh->ech", inside, up)), down)
        return jnp.zeros_like(x).at[tokens.reshape(-1)].add((out * weights[..., None]).reshape(-1, MODEL))

    x, gate = array(over, (512, MODEL), "expert"), array(over, (MODEL, 8))
    up, down = array(over, (8, MODEL, 512), "expert"), array(over, (8, 512, MODEL), "expert")
    return jax.jit(layer, out_shardings=outputs(over, P("expert"))), (x, gate, up, down)


@program("embedding step, vocabulary cut, batch cut")
def _embedding() -> Any:
    over = mesh(data=2, model=4)

    def loss(table: Any, tokens: Any, wanted: Any) -> Any:
        return ((table[tokens] - wanted) ** 2).mean()

    table, tokens = array(over, (8192, MODEL), "model"), array(over, (256,), "data", dtype=jnp.int32)
    wanted = array(over, (256, MODEL), "data")
    return jax.jit(jax.grad(loss), out_shardings=table.sharding), (table, tokens, wanted)


@program("embedding step, features cut")
def _embedding_features() -> Any:
    over = mesh(data=8)

    def loss(table: Any, tokens: Any, wanted: Any) -> Any:
        return ((table[tokens] - wanted) ** 2).mean()

    table, tokens = array(over, (8192, MODEL), None, "data"), array(over, (1024,), "data", dtype=jnp.int32)
    wanted = array(over, (1024, MODEL), "data")
    return jax.jit(jax.grad(loss), out_shardings=table.sharding), (table, tokens, wanted)


@program("layer norm over cut features, with gradient")
def _layer_norm() -> Any:
    over = mesh(model=8)

    def loss(x: Any, scale: Any) -> Any:
        return (layer_norm(x, scale) ** 2).sum()

    x, scale = array(over, (256, 1024), None, "model"), array(over, (1024,), "model")
    results = outputs(over, P(None, "model"), P("model"))
    return jax.jit(jax.grad(loss, (0, 1)), out_shardings=results), (x, scale)


@program("loss over a cut vocabulary, with gradient")
def _loss() -> Any:
    over = mesh(data=2, model=4)

    def loss(x: Any, table: Any, labels: Any) -> Any:
        logits = x @ table
        wanted = jnp.take_along_axis(logits, labels[:, None], -1)[:, 0]
        return (jax.nn.logsumexp(logits, -1) - wanted).mean()

    x, table = array(over, (512, MODEL), "data"), array(over, (MODEL, 4096), None, "model")
    labels = array(over, (512,), "data", dtype=jnp.int32)
    results = outputs(over, P("data"), P(None, "model"))
    return jax.jit(jax.grad(loss, (0, 1)), out_shardings=results), (x, table, labels)


@program("optimizer step with sharded state (ZeRO)")
def _zero() -> Any:
    over = mesh(data=8)
    weights = [array(over, (512, 512)) for _ in range(3)]
    moments = [array(over, (512, 512), "data") for _ in range(3)]

    def loss(weights: Any, x: Any, y: Any) -> Any:
        for w in weights:
            x = jnp.tanh(x @ w)
        return ((x - y) ** 2).mean()

    def step(weights: Any, first: Any, second: Any, x: Any, y: Any) -> Any:
        gradients = jax.grad(loss)(weights, x, y)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g * g, second, gradients)
        first, second = lax.with_sharding_constraint((first, second), shardings_of((moments, moments)))
        weights = jax.tree.map(lambda w, m, v: w - 0.01 * m * lax.rsqrt(v + 1e-8), weights, first, second)
        return weights, first, second

    x = array(over, (256, 512), "data")
    results = shardings_of((weights, moments, moments))
    return jax.jit(step, out_shardings=results), (weights, moments, moments, x, x)


# -- signals, stencils, sorting


@program("convolution step, cut in space")
def _convolution() -> Any:
    over = mesh(space=8)

    def loss(kernels: Any, x: Any, y: Any) -> Any:
        for kernel in kernels:
            x = jnp.tanh(
                lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            )
        return ((x - y) ** 2).mean()

    kernels = [array(over, (3, 3, 16, 16)) for _ in range(3)]
    x = array(over, (2, 64, 64, 16), None, "space")
    return jax.jit(jax.grad(loss), out_shardings=shardings_of(kernels)), (kernels, x, x)


@program("convolutional network with batch norm, data 8")
def _batch_norm() -> Any:
    over = mesh(data=8)

    def loss(kernels: Any, x: Any, y: Any) -> Any:
        for kernel in kernels:
            x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.relu((x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5))
        return ((x - y) ** 2).mean()

    kernels = [array(over, (3, 3, 16, 16)) for _ in range(3)]
    x = array(over, (32, 16, 16, 16), "data")
    return jax.jit(jax.grad(loss), out_shardings=shardings_of(kernels)), (kernels, x, x)


@program("Fourier transform of rows and columns, rows cut")
def _fourier() -> Any:
    over = mesh(rows=8)

    def step(x: Any) -> Any:
        spectrum = jnp.fft.fft2(x)
        k = jnp.fft.fftfreq(256)
        return jnp.fft.ifft2(spectrum * jnp.exp(-(k[:, None] ** 2 + k[None] ** 2))).real

    return jax.jit(step, out_shardings=outputs(over, P("rows"))), (array(over, (256, 256), "rows"),)


@program("sort along the cut dimension")
def _sort() -> Any:
    over = mesh(x=8)
    return jax.jit(jnp.sort, out_shardings=outputs(over, P("x"))), (array(over, (65536,), "x"),)


@program("argsort of a short row, cut, and of one that devices divide unevenly")
def _sort_uneven() -> Any:
    over = mesh(x=8)

    def orders(x: Any) -> Any:
        return jnp.argsort(x[1:]).sum(), jnp.argsort(x[:64])

    x = array(over, (1 << 18,), "x")
    return jax.jit(orders, out_shardings=outputs(over, P(), P("x"))), (x,)


@program("largest 400 of cut rows, and the largest half of a cut row")
def _top_k() -> Any:
    over = mesh(x=8)

    def largest(rows: Any, row: Any) -> Any:
        return *lax.top_k(rows, 400), *lax.top_k(row, 1 << 17)

    rows, row = array(over, (16, 4096), None, "x"), array(over, (1 << 18,), "x")
    return jax.jit(largest, out_shardings=outputs(over, P(), P(), P("x"), P("x"))), (rows, row)


@program("convolution of cut rows by Fourier transforms of real numbers")
def _real_fourier() -> Any:
    over = mesh(x=8)

    def convolve(x: Any, kernel: Any) -> Any:
        return jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(kernel), x.shape[-1])

    given = [array(over, (16, 4096), None, "x")] * 2
    return jax.jit(convolve, out_shardings=outputs(over, P(None, "x"))), given


@program("convolution of long cut rows by Fourier transforms of real numbers")
def _real_fourier_row() -> Any:
    over = mesh(x=8)

    def convolve(x: Any, kernel: Any) -> Any:
        return jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(kernel))

    given = [array(over, (1 << 20,), "x")] * 2
    return jax.jit(convolve, out_shardings=outputs(over, P("x"))), given


@program("cumulative sum along the cut dimension")
def _cumulative() -> Any:
    over = mesh(x=8)
    x = array(over, (65536,), "x")
    return jax.jit(jnp.cumsum, out_shardings=outputs(over, P("x"))), (x,)


@program("heat equation by rolls of a cut array")
def _rolls() -> Any:
    over = mesh(x=4, y=2)

    def step(x: Any) -> Any:
        neighbors = jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1)
        return x + 0.1 * (neighbors - 4 * x)

    return jax.jit(step, out_shardings=outputs(over, P("x", "y"))), (array(over, (512, 512), "x", "y"),)


@program("stencil by slices and pads of a cut array")
def _stencil() -> Any:
    over = mesh(x=8)

    def step(x: Any) -> Any:
        inner = x[1:-1] + 0.1 * (x[2:] + x[:-2] - 2 * x[1:-1])
        return jnp.pad(inner, ((1, 1), (0, 0)))

    return jax.jit(step, out_shardings=outputs(over, P("x"))), (array(over, (512, 256), "x"),)


@program("largest element and top 8 of cut rows")
def _top_k() -> Any:
    over = mesh(x=8)

    def step(x: Any) -> Any:
        return jnp.argmax(x, -1), lax.top_k(x, 8)

    x = array(over, (64, 4096), None, "x")
    return jax.jit(step, out_shardings=NamedSharding(over, P())), (x,)


# -- movement


@program("reshapes and transposes of a cut array")
def _reshapes() -> Any:
    over = mesh(a=4, b=2)

    def step(x: Any) -> Any:
        y = x.reshape(16, 32, 8, 32).transpose(0, 2, 1, 3)
        y = jnp.tanh(y).reshape(128, 32 * 32).T
        return (y * 2).reshape(32, 32, 128).transpose(2, 0, 1).reshape(512, 256)

    return jax.jit(step, out_shardings=outputs(over, P("a", "b"))), (array(over, (512, 256), "a", "b"),)


@program("rotary embedding of cut features")
def _rotary() -> Any:
    over = mesh(data=2, model=4)

    def step(x: Any, angles: Any) -> Any:
        left, right = jnp.split(x, 2, -1)
        cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
        return jnp.concatenate([left * cos - right * sin, left * sin + right * cos], -1)

    x, angles = array(over, (BATCH, LENGTH, HEADS, 32), "data", None, "model"), array(over, (LENGTH, 16))
    return jax.jit(step, out_shardings=outputs(over, P("data", None, "model"))), (x, angles)


@program("product of matrices cut in rows and columns")
def _summa() -> Any:
    over = mesh(x=2, y=4)
    a, b = array(over, (512, 512), "x", "y"), array(over, (512, 512), "x", "y")
    return jax.jit(jnp.matmul, out_shardings=outputs(over, P("x", "y"))), (a, b)


@program("transposed shardings of a product's operands")
def _transposed() -> Any:
    over = mesh(x=2, y=4)
    a, b = array(over, (512, 512), "y", "x"), array(over, (512, 512), "y", "x")
    return jax.jit(lambda a, b: jnp.tanh(a @ b.T), out_shardings=outputs(over, P("x", "y"))), (a, b)


@program("change of the sharding between phases")
def _phases() -> Any:
    over = mesh(x=8)

    def step(x: Any) -> Any:
        x = jnp.tanh(lax.with_sharding_constraint(x, NamedSharding(over, P("x"))))
        x = jnp.sin(lax.with_sharding_constraint(x, NamedSharding(over, P(None, "x"))))
        x = lax.with_sharding_constraint(x, NamedSharding(over, P("x")))
        return x.astype(jnp.bfloat16)

    return jax.jit(step, out_shardings=outputs(over, P())), (array(over, (512, 512), "x"),)


@program("random dropout of a cut array")
def _dropout() -> Any:
    over = mesh(data=8)

    def step(x: Any, key: Any) -> Any:
        keep = jax.random.bernoulli(jax.random.wrap_key_data(key), 0.9, x.shape)
        return jnp.where(keep, x / 0.9, 0)

    x, key = array(over, (512, 512), "data"), array(over, (2,), dtype=jnp.uint32)
    return jax.jit(step, out_shardings=outputs(over, P("data"))), (x, key)


@program("singular values of cut batches")
def _linear_algebra() -> Any:
    over = mesh(data=8)
    x = array(over, (64, 16, 16), "data")
    return jax.jit(
        lambda x: jnp.linalg.cholesky(x @ x.transpose(0, 2, 1) + jnp.eye(16)), out_shardings=outputs(over, P("data"))
    ), (x,)
