"""The programs of `benchmarks/transformers.py`: parts of language models in JAX, and the same in torch and ONNX.

Shapes are those of small models as they run on a CPU: GPT-2's width of 768, heads of 64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from benchmarks.recurrent_programs import gru, lstm, lstm_gradient, torch_layer, torch_lstm_gradient, weights
from benchmarks.transformer_graphs import onnx_attention, onnx_block
from benchmarks.workloads import normal

Function = Callable[..., Any]

WIDTH, HEADS, LENGTH, BATCH = 768, 12, 256, 2
CACHE = 512
"""The length of the cache of keys and values in decoding."""
VOCABULARY = 16_384


@dataclass(frozen=True)
class Program:
    """A function with its arguments. `tolerance` bounds how far results may differ, relative to the largest element.

    `torch(module, tensors)` returns a call of the same function in torch; `onnx(arrays)` one in ONNX Runtime.
    """

    function: Function
    arguments: Callable[[], Sequence[Any]]
    tolerance: float = 1e-3
    torch: Callable[[Any, Any], Callable[[], Any]] | None = None
    onnx: Callable[[Any], Callable[[], Any]] | None = None


def bf16(*shape: int, seed: int = 0) -> np.ndarray:
    return normal(*shape, seed=seed).astype(ml_dtypes.bfloat16)


def integers(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, high, shape).astype(np.int32)


# -- a block of GPT


def block_parameters() -> dict[str, np.ndarray]:
    """The parameters of a block; biases and shifts are not zero, so that nothing can leave them out."""
    matrices = {"qkv": (WIDTH, 3 * WIDTH), "mix": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    made = {name: normal(*shape, seed=n) / shape[0] ** 0.5 for n, (name, shape) in enumerate(matrices.items())}
    for name, (_, columns) in matrices.items():
        made[f"{name}_bias"] = normal(columns, seed=columns) / 8
    for name in ("scale1", "shift1", "scale2", "shift2"):
        made[name] = normal(WIDTH, seed=len(made)) / 8 + name.startswith("scale")
    return made


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    wide = x.astype(jnp.float32)
    mean = wide.mean(-1, keepdims=True)
    variance = ((wide - mean) ** 2).mean(-1, keepdims=True)
    return ((wide - mean) * lax.rsqrt(variance + 1e-5)).astype(x.dtype) * scale + shift


def block(p: Any, x: Any) -> Any:
    batch, length, _ = x.shape
    parts = (layer_norm(x, p["scale1"], p["shift1"]) @ p["qkv"] + p["qkv_bias"]).reshape(batch, length, 3, HEADS, -1)
    mixed = jax.nn.dot_product_attention(parts[:, :, 0], parts[:, :, 1], parts[:, :, 2], is_causal=True)
    x = x + mixed.reshape(x.shape) @ p["mix"] + p["mix_bias"]
    inner = jax.nn.gelu(layer_norm(x, p["scale2"], p["shift2"]) @ p["up"] + p["up_bias"])
    return x + inner @ p["down"] + p["down_bias"]


def block_step(p: Any, m: Any, x: Any) -> Any:
    """A step of gradient descent with momentum on the mean square of the block's result."""
    value, gradient = jax.value_and_grad(lambda p: (block(p, x) ** 2).mean())(p)
    m = jax.tree.map(lambda m, g: 0.9 * m + g, m, gradient)
    return jax.tree.map(lambda p, m: p - 1e-3 * m, p, m), m, value


def torch_block(torch: Any, p: Any, x: Any) -> Any:
    f = torch.nn.functional
    batch, length, _ = x.shape
    parts = f.layer_norm(x, (WIDTH,), p["scale1"], p["shift1"]) @ p["qkv"] + p["qkv_bias"]
    query, key, value = (y.transpose(1, 2) for y in parts.view(batch, length, 3, HEADS, -1).unbind(2))
    mixed = f.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).reshape(x.shape)
    x = x + mixed @ p["mix"] + p["mix_bias"]
    inner = f.gelu(f.layer_norm(x, (WIDTH,), p["scale2"], p["shift2"]) @ p["up"] + p["up_bias"], approximate="tanh")
    return x + inner @ p["down"] + p["down_bias"]


def torch_forward(torch: Any, given: Any) -> Callable[[], Any]:
    return lambda: torch_block(torch, *given)


def torch_step(torch: Any, given: Any) -> Callable[[], Any]:
    parameters, momentum, x = given

    def step() -> Any:
        leaves = {name: leaf.detach().requires_grad_() for name, leaf in parameters.items()}
        value = (torch_block(torch, leaves, x) ** 2).mean()
        value.backward()
        with torch.no_grad():
            after = {name: 0.9 * m + leaves[name].grad for name, m in momentum.items()}
            return {name: leaf - 1e-3 * after[name] for name, leaf in leaves.items()}, after, value

    return step


# -- attention alone


def attention_arguments(make: Function, heads: int, key_heads: int, length: int = 1024) -> Callable[[], Sequence[Any]]:
    """Queries, keys and values [batch, length, heads, 64] for one sequence."""
    return lambda: [make(1, length, count, 64, seed=n) for n, count in enumerate((heads, key_heads, key_heads))]


def torch_attention(is_causal: bool) -> Callable[[Any, Any], Callable[[], Any]]:
    def make(torch: Any, given: Any) -> Callable[[], Any]:
        attend = torch.nn.functional.scaled_dot_product_attention
        query, key, value = (x.transpose(1, 2) for x in given)
        return lambda: attend(query, key, value, is_causal=is_causal, enable_gqa=key.shape[1] != query.shape[1])

    return make


def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v)


def causal_attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def attention_gradient(q: Any, k: Any, v: Any) -> Any:
    return jax.grad(lambda *given: causal_attention(*given).sum(), (0, 1, 2))(q, k, v)


def unmasked_attention_gradient(q: Any, k: Any, v: Any) -> Any:
    return jax.grad(lambda *given: attention(*given).sum(), (0, 1, 2))(q, k, v)


def torch_attention_gradient(torch: Any, given: Any, is_causal: bool = True) -> Callable[[], Any]:
    attend = torch.nn.functional.scaled_dot_product_attention

    def gradient() -> Any:
        leaves = [x.detach().requires_grad_() for x in given]
        query, key, value = (x.transpose(1, 2) for x in leaves)
        is_grouped = key.shape[1] != query.shape[1]
        attend(query, key, value, is_causal=is_causal, enable_gqa=is_grouped).sum().backward()
        return [leaf.grad for leaf in leaves]

    return gradient


# -- one token, with a cache of keys and values


def decode(p: Any, keys: Any, values: Any, x: Any, position: Any) -> Any:
    """One token through a block: x[WIDTH] at a position, with the keys and values of all earlier ones."""
    parts = (layer_norm(x, p["scale1"], p["shift1"]) @ p["qkv"] + p["qkv_bias"]).reshape(3, HEADS, -1)
    keys = lax.dynamic_update_slice(keys, parts[None, 1], (position, 0, 0))
    values = lax.dynamic_update_slice(values, parts[None, 2], (position, 0, 0))
    scores = jnp.einsum("hd,khd->hk", parts[0], keys) / math.sqrt(WIDTH // HEADS)
    scores = jnp.where(jnp.arange(len(keys)) <= position, scores, -jnp.inf)
    x = x + jnp.einsum("hk,khd->hd", jax.nn.softmax(scores), values).reshape(-1) @ p["mix"] + p["mix_bias"]
    inner = jax.nn.gelu(layer_norm(x, p["scale2"], p["shift2"]) @ p["up"] + p["up_bias"])
    return keys, values, x + inner @ p["down"] + p["down_bias"]


def decode_tokens(p: Any, keys: Any, values: Any, x: Any) -> Any:
    """Eight tokens, one after the other; the cache is the state of a loop, as in a program that generates text."""

    def step(state: Any, position: Any) -> Any:
        keys, values, x = decode(p, *state, position)
        return (keys, values, x), x

    return lax.scan(step, (keys, values, x), CACHE // 2 + jnp.arange(8))


def decode_arguments() -> Sequence[Any]:
    cache = [normal(CACHE, HEADS, WIDTH // HEADS, seed=n) for n in range(2)]
    return [block_parameters(), *cache, normal(WIDTH)]


def torch_decode(torch: Any, given: Any) -> Callable[[], Any]:
    p, keys, values, start = given
    f = torch.nn.functional

    def step(x: Any, position: int) -> Any:
        parts = torch.addmv(p["qkv_bias"], p["qkv"].T, f.layer_norm(x, (WIDTH,), p["scale1"], p["shift1"]))
        query, keys[position], values[position] = parts.view(3, HEADS, -1)
        seen = (y[: position + 1].transpose(0, 1) for y in (keys, values))
        mixed = f.scaled_dot_product_attention(query[:, None], *seen).reshape(-1)
        x = x + torch.addmv(p["mix_bias"], p["mix"].T, mixed)
        inner = torch.addmv(p["up_bias"], p["up"].T, f.layer_norm(x, (WIDTH,), p["scale2"], p["shift2"]))
        return x + torch.addmv(p["down_bias"], p["down"].T, f.gelu(inner, approximate="tanh"))

    def tokens() -> Any:
        x = start
        for position in range(CACHE // 2, CACHE // 2 + 8):
            x = step(x, position)
        return x

    return tokens


# -- smaller parts


def gated_mlp(x: Any, gate: Any, up: Any, down: Any) -> Any:
    return (jax.nn.silu(x @ gate) * (x @ up)) @ down


def gated_arguments(make: Function) -> Callable[[], Sequence[Any]]:
    return lambda: [
        make(512, WIDTH),
        *[make(WIDTH, 2048, seed=n) / np.float32(27).astype(make(1).dtype) for n in (1, 2)],
        make(2048, WIDTH, seed=3) / np.float32(45).astype(make(1).dtype),
    ]


def torch_gated(torch: Any, given: Any) -> Callable[[], Any]:
    x, gate, up, down = given
    return lambda: (torch.nn.functional.silu(x @ gate) * (x @ up)) @ down


def torch_layer_norm(torch: Any, given: Any) -> Callable[[], Any]:
    x, scale, shift = given
    return lambda: torch.nn.functional.layer_norm(x, (WIDTH,), scale, shift)


def softmax(x: Any) -> Any:
    return jax.nn.softmax(x, -1)


def torch_softmax(torch: Any, given: Any) -> Callable[[], Any]:
    return lambda: torch.softmax(given[0], -1)


def embedding_gradient(table: Any, tokens: Any, weights: Any) -> Any:
    return jax.grad(lambda table: (table[tokens] * weights).sum())(table)


def torch_embedding_gradient(torch: Any, given: Any) -> Callable[[], Any]:
    table, tokens, weights = given

    def gradient() -> Any:
        leaf = table.detach().requires_grad_()
        (torch.nn.functional.embedding(tokens, leaf) * weights).sum().backward()
        return leaf.grad

    return gradient


def adam(parameters: Any, gradients: Any, first: Any, second: Any) -> Any:
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 1e-3 * g * g, second, gradients)
    return jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), parameters, first, second), first, second


def adam_arguments() -> Sequence[Any]:
    """Parameters of 48 layers with a small matrix and a bias each; second moments are not negative."""
    made = [[{"w": normal(64, 96, seed=n), "b": normal(96, seed=n)} for n in range(48)] for _ in range(3)]
    return [*made, jax.tree.map(np.abs, made[0])]


def _block_arguments() -> Sequence[Any]:
    return [block_parameters(), normal(BATCH, LENGTH, WIDTH)]


def _in_bf16(arguments: Callable[[], Sequence[Any]]) -> Callable[[], Sequence[Any]]:
    return lambda: jax.tree.map(lambda leaf: leaf.astype(ml_dtypes.bfloat16), arguments())


def _step_arguments() -> Sequence[Any]:
    p = block_parameters()
    return [p, {name: np.zeros_like(leaf) for name, leaf in p.items()}, normal(BATCH, LENGTH, WIDTH)]


def _norm_arguments(make: Function) -> Callable[[], Sequence[Any]]:
    return lambda: [make(4096, WIDTH), make(WIDTH, seed=1), make(WIDTH, seed=2)]


PROGRAMS = {
    "block": Program(block, _block_arguments, 1e-3, torch_forward, onnx_block),
    "block bf16": Program(block, _in_bf16(_block_arguments), 4e-2, torch_forward),
    "block training step": Program(block_step, _step_arguments, 1e-3, torch_step),
    "block training step bf16": Program(block_step, _in_bf16(_step_arguments), 1e-1, torch_step),
    "attention": Program(attention, attention_arguments(normal, 12, 12), 1e-4, torch_attention(False), onnx_attention),
    "attention causal": Program(causal_attention, attention_arguments(normal, 12, 12), 1e-4, torch_attention(True)),
    "attention grouped": Program(causal_attention, attention_arguments(normal, 16, 4), 1e-4, torch_attention(True)),
    "attention bf16": Program(causal_attention, attention_arguments(bf16, 12, 12), 4e-2, torch_attention(True)),
    "attention gradient": Program(
        attention_gradient, attention_arguments(normal, 12, 12, 512), 1e-3, torch_attention_gradient
    ),
    **{
        f"attention gradient {name}": Program(
            attention_gradient, attention_arguments(make, heads, key_heads, length), tolerance, torch_attention_gradient
        )
        for name, make, heads, key_heads, length, tolerance in (
            ("1024", normal, 12, 12, 1024, 1e-3),
            ("2048", normal, 12, 12, 2048, 1e-3),
            ("grouped", normal, 16, 4, 1024, 1e-3),
            ("bf16", bf16, 12, 12, 1024, 4e-2),
        )
    },
    "attention gradient unmasked": Program(
        unmasked_attention_gradient,
        attention_arguments(normal, 12, 12),
        1e-3,
        lambda torch, given: torch_attention_gradient(torch, given, is_causal=False),
    ),
    "decode": Program(decode_tokens, decode_arguments, 1e-3, torch_decode),
    "decode bf16": Program(decode_tokens, _in_bf16(decode_arguments), 4e-2, torch_decode),
    "layer norm": Program(layer_norm, _norm_arguments(normal), 1e-4, torch_layer_norm),
    "layer norm bf16": Program(layer_norm, _norm_arguments(bf16), 2e-2, torch_layer_norm),
    "softmax": Program(softmax, lambda: [normal(4096, WIDTH)], 1e-4, torch_softmax),
    "softmax bf16": Program(softmax, lambda: [bf16(4096, WIDTH)], 2e-2, torch_softmax),
    "softmax of short rows": Program(softmax, lambda: [normal(100_000, 64)], 1e-4, torch_softmax),
    "gated MLP": Program(gated_mlp, gated_arguments(normal), 1e-3, torch_gated),
    "gated MLP bf16": Program(gated_mlp, gated_arguments(bf16), 4e-2, torch_gated),
    "embedding": Program(
        lambda table, tokens: table[tokens],
        lambda: [normal(VOCABULARY, WIDTH), integers(VOCABULARY, 8, 512)],
        torch=lambda torch, given: lambda: torch.nn.functional.embedding(given[1], given[0]),
    ),
    "embedding gradient": Program(
        embedding_gradient,
        lambda: [normal(VOCABULARY, WIDTH), integers(VOCABULARY, 8, 512), normal(8, 512, WIDTH)],
        torch=torch_embedding_gradient,
    ),
    "LSTM": Program(lstm, weights(4, 64, 32, 128, 256), 1e-3, torch_layer("LSTM")),
    "LSTM bf16": Program(lstm, _in_bf16(weights(4, 64, 32, 128, 256)), 4e-2, torch_layer("LSTM")),
    "LSTM of one sequence": Program(lstm, weights(4, 128, 1, 256, 256), 1e-3, torch_layer("LSTM")),
    "LSTM wide": Program(lstm, weights(4, 64, 16, 512, 1024), 1e-3, torch_layer("LSTM")),
    "LSTM gradient": Program(lstm_gradient, weights(4, 64, 32, 128, 256), 1e-3, torch_lstm_gradient),
    "GRU": Program(gru, weights(3, 128, 64, 128, 128), 1e-3, torch_layer("GRU")),
    "optimizer": Program(adam, adam_arguments, 1e-3),
}
