"""The gradient of attention as JAX writes it is one kernel, and its results agree with the interpreter's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.codegen.emitters.attention.test_attention import causal, inputs, kernels, kernels_of, lowered, masked, normal
from tests.cpu.instruction_sets import ISAS, limited_to
from tests.raising import raises
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.codegen.emitters.attention import gradient_strategy
from xlapy.cpu.compiler import compile_module
from xlapy.testing.program_tolerance import program_tolerance

CPU = xla.Client("cpu")
Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def _any_size() -> Iterator[None]:
    """Gradients become one kernel whatever their size."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MIN_TASKS", "MIN_SCORES", "MIN_KEYS", "MIN_MASKED_KEYS"):
            patch.setattr(gradient_strategy, name, 0)
        yield


def gradient(function: Function, count: int = 3) -> Function:
    """The gradient of a sum of squares with respect to the first arguments."""

    def square(*given: Any) -> Any:
        return (function(*given).astype(jnp.float32) ** 2).sum()

    return lambda *given: jax.grad(square, tuple(range(count)))(*given)


def is_fused(text: str) -> bool:
    return any(name.startswith("attention_gradient") for name in kernels(text))


def decisions(text: str) -> str:
    return "\n".join(str(decision) for decision in compile_module(xla.parse_hlo(text)).record.decisions)


def assert_gradient(function: Function, *arguments: Any, fused: bool = True) -> tuple[np.ndarray, ...]:
    text = lowered(function, list(arguments))
    run = CPU.compile(text)
    names = kernels_of(xla.parse_hlo(run.as_hlo_text(optimized=True)))
    assert any(name.startswith("attention_gradient") for name in names) is fused, decisions(text)
    tolerance = program_tolerance(xla.parse_hlo(text), arguments, flush_denormals=True)
    result = run(*arguments)
    found = tuple(map(np.asarray, result if isinstance(result, tuple | list) else (result,)))
    tolerance.assert_close(found if len(found) > 1 else found[0])
    return found


SHAPES = [(1, 33, 70, 3, 3, 5), (2, 41, 17, 4, 2, 24), (1, 17, 200, 6, 2, 33)]
"""Batch, queries, keys, heads, heads of keys, width."""


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...]):
    function = causal if shape[1] < shape[2] else jax.nn.dot_product_attention
    assert_gradient(gradient(function), *inputs(*shape))


@pytest.mark.parametrize("isa", ISAS)
def test_types_on_each_instruction_set(isa: str):
    """Odd numbers of queries, keys and terms: the last pair of a dot instruction has one element."""
    dtype = ml_dtypes.bfloat16 if isa == "AVX512" else np.float32
    with limited_to(isa):
        assert_gradient(gradient(causal), *inputs(1, 75, 133, 2, 2, 21, dtype=dtype))


def test_f64_of_numpy():
    """The gradient from its definition, in f64."""
    given = inputs(1, 90, 90, 2, 2, 16)
    text = lowered(gradient(causal), given)
    assert is_fused(text)
    results = CPU.compile(text)(*given)
    for head in range(2):
        q, k, v = (x[0, :, head].astype(np.float64) for x in given)
        scores = np.where(np.tril(np.ones((90, 90))), q @ k.T / 4, -np.inf)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        weights /= weights.sum(1, keepdims=True)
        upper = 2 * (weights @ v)
        d_weights = upper @ v.T
        d_scores = weights * (d_weights - (weights * d_weights).sum(1, keepdims=True)) / 4
        for got, wanted in zip(results, (d_scores @ k, d_scores.T @ q, weights.T @ upper), strict=True):
            np.testing.assert_allclose(np.asarray(got)[0, :, head], wanted, rtol=2e-5, atol=2e-5)


def hand_written(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax(jnp.einsum("...qd,...kd->...qk", q, k)) @ v


def test_several_batch_dimensions_of_f16():
    shapes = (2, 1, 3, 20, 8), (2, 1, 3, 35, 8), (2, 1, 3, 35, 9)
    given = (normal(*shape, seed=n, dtype=np.float16) for n, shape in enumerate(shapes))
    assert_gradient(gradient(hand_written), *given)


def test_segments_of_queries():
    """With few heads, tasks compute a part of the queries each; what they add to keys and values is added up."""
    given = inputs(1, 256, 140, 4, 2, 5)
    assert_gradient(gradient(causal), *given)
    assert "f32[2,1,140,2,5]{4,3,2,1,0}" in CPU.compile(lowered(gradient(causal), given)).as_hlo_text(optimized=True)


@pytest.mark.parametrize("keys", [1, 2, 3, 5, 9])
def test_few_keys_and_many_columns(keys: int):
    """Tiles of keys have few rows, but the columns of those of queries."""
    given = normal(2, 70, 8), normal(2, keys, 8, seed=1), normal(2, keys, 83, seed=2)
    assert_gradient(gradient(hand_written), *given, fused=keys > 1)


def test_no_batch_dimension():
    assert_gradient(gradient(hand_written), normal(70, 8), normal(35, 8, seed=1), normal(35, 9, seed=2))


def test_one_query_stays_separate_kernels():
    assert_gradient(gradient(causal), *inputs(2, 1, 70, 2, 2, 16), fused=False)


@pytest.mark.parametrize("wanted", [(0,), (1, 2)])
def test_gradients_of_some_arguments(wanted: tuple[int, ...]):
    def some(*given: Any) -> Any:
        return jax.grad(lambda *given: (causal(*given) ** 2).sum(), wanted)(*given)

    assert_gradient(some, *inputs(1, 70, 70, 2, 2, 8))


def test_a_training_step_keeps_no_scores():
    """Value and gradient: the forward pass is attention, and no array has an element for each query and key."""

    def step(q: Any, k: Any, v: Any) -> Any:
        value, grads = jax.value_and_grad(lambda *g: (causal(*g) ** 2).sum(), (0, 1, 2))(q, k, v)
        return value, *(x - 0.1 * g for x, g in zip((q, k, v), grads, strict=True))

    given = inputs(1, 130, 130, 3, 3, 8)
    assert_gradient(step, *given)
    entry = compile_module(xla.parse_hlo(lowered(step, given))).module.entry_computation
    shapes = [shape for i in entry for _, shape in i.shape.leaves()]
    assert max(shape.size for shape in shapes) == 130 * 3 * 8
    assert any(i.name.startswith("attention.fusion") for i in entry)


def test_blocks_of_queries_may_be_demanded():
    given = inputs(1, 150, 170, 2, 2, 21)
    run = CPU.compile(lowered(gradient(causal), given))
    wanted, text = run(*given), run.as_hlo_text(optimized=True)
    plan = '"strategy":"attention-gradient","block_queries":'
    for block in (16, 32):
        changed = text.replace(f"{plan}64", f"{plan}{block}")
        assert changed != text
        for got, want in zip(CPU.compile(changed)(*given), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4, atol=2e-5)
    with raises(xla.XlaError, codes.KERNEL_PLAN, "block_queries"):
        CPU.compile(text.replace(f"{plan}64", f"{plan}65"))


# -- masks


def masked_gradient(lowest: float) -> Function:
    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return jax.nn.softmax(jnp.where(mask, q @ k.T / 4, lowest)) @ v

    return gradient(attend)


LOWEST = {"-inf": -np.inf, "-1e30": -1e30, "zero": 0.0}


@pytest.mark.parametrize("lowest", LOWEST)
def test_rows_of_which_the_last_keys_are_masked(lowest: str):
    """Keys that all queries of a block hide are left out, unless their weights are not zero."""
    mask = np.random.default_rng(3).random((150, 301)) < 0.7
    mask[:64, 90:] = mask[64:128, 200:] = False
    mask[7] = mask[130] = False  # no keys at all: uniform weights, or NaN
    mask[9, 64:] = False
    given = normal(150, 16), normal(301, 16, seed=1), normal(301, 24, seed=2)
    found = assert_gradient(masked_gradient(LOWEST[lowest]), *given, mask)
    assert np.isnan(found[2]).all() == (lowest == "-inf")


def test_leaving_out_masked_keys_does_not_change_bits():
    """A key that products with zero weights make large, but not infinite, makes the kernel compute all keys."""
    q, k, v, mask = normal(150, 16), normal(300, 16, seed=1), normal(300, 16, seed=2), np.zeros((150, 300), bool)
    mask[:, :70] = True
    run = CPU.compile(lowered(masked_gradient(-1e30), [q, k, v, mask]))
    wanted = [np.asarray(x) for x in run(q, k, v, mask)]
    v[299] = 1e37  # of a masked key: the bound of the other dot is infinite, but the dot is not
    for got, want in zip(run(q, k, v, mask), wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


NOT_FINITE = {"query": np.inf, "key": np.nan, "value": np.nan, "masked key": np.inf, "masked value": np.inf}


@pytest.mark.parametrize("where", NOT_FINITE)
def test_numbers_that_are_not_finite(where: str):
    value, dtype = NOT_FINITE[where], ml_dtypes.bfloat16 if where == "masked value" else np.float32
    q, k, v = (normal(n, 16, seed=n, dtype=dtype) for n in (100, 200, 201))
    mask = np.zeros((100, 200), bool)
    mask[:, :40] = True
    array = {"query": q, "key": k, "value": v}[where.rsplit(" ", 1)[-1]]
    array[190 if where.startswith("masked") else 9, 3] = value
    assert_gradient(gradient(masked), q, k, v[:200], mask)


def gradient_of_causal(q: Any, k: Any, v: Any, g: Any) -> Any:
    """Multiplies the gradient of the weights by the weights before anything else."""
    mask = jnp.tril(jnp.ones((q.shape[1], k.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, q @ k.mT, -jnp.inf))
    d_weights = g @ v.mT
    d_scores = jnp.where(mask, weights * (d_weights - (d_weights * weights).sum(-1, keepdims=True)), 0)
    return d_scores @ k, d_scores.mT @ q, weights.mT @ g


@pytest.mark.parametrize("large", [1, 300])
def test_a_dot_of_f16_that_overflows_at_a_masked_key(large: int):
    """Its element is infinite and its weight zero, so that their product is NaN."""
    q, k, v, g = (normal(2, 130, 8, seed=n, dtype=np.float16) for n in range(4))
    g[:, 0] = v[:, 129] = large
    found = assert_gradient(gradient_of_causal, q, k, v, g)
    assert np.isnan(found[0][:, 0]).any() == (large == 300)


def test_a_mask_of_lengths_and_a_bias():
    def attend(q: Any, k: Any, v: Any, bias: Any, lengths: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, bias=bias, key_value_seq_lengths=lengths)

    lengths = np.array([50, 3], np.int32)
    assert_gradient(gradient(attend), *inputs(2, 33, 50, 3, 3, 16), normal(2, 3, 33, 50, seed=5), lengths)


def test_dropout_reads_its_mask():
    def attend(q: Any, k: Any, v: Any, kept: Any) -> Any:
        weights = jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k))
        return jnp.where(kept, weights * 1.25, 0) @ v

    kept = np.random.default_rng(1).random((2, 40, 50)) < 0.8
    assert_gradient(gradient(attend), normal(2, 40, 8), normal(2, 50, 8, seed=1), normal(2, 50, 9, seed=2), kept)


@pytest.mark.parametrize("count", [30, 300])
def test_a_bias_of_many_instructions_is_read_from_memory(count: int):
    def attend(q: Any, k: Any, v: Any, bias: Any) -> Any:
        for _ in range(count // 2):
            bias = bias * 0.99 - 0.01
        return jax.nn.softmax(q @ k.T + bias) @ v

    assert_gradient(gradient(attend), normal(40, 8), normal(50, 8, seed=1), normal(50, 9, seed=2), normal(50, seed=3))


# -- what stays as it is


@pytest.mark.parametrize("what", ["transpose", "statistic of keys"])
def test_scores_that_meet_their_transpose(what: str):
    def attend(q: Any, v: Any) -> Any:
        scores = q @ q.mT / 4
        other = scores.mT if what == "transpose" else jax.lax.stop_gradient(scores.max(-1))[:, None, :]
        return jax.nn.softmax(scores + other) @ v

    assert_gradient(gradient(attend, 2), normal(3, 70, 8), normal(3, 70, 9, seed=1), fused=False)


def test_many_values_between_the_dots():
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.T
        for _ in range(200):
            scores = scores * 0.99 - 0.01
        return jax.nn.softmax(scores) @ v

    given = normal(20, 8), normal(30, 8, seed=1), normal(30, 9, seed=2)
    assert_gradient(gradient(attend), *given, fused=False)


def test_the_gradient_of_a_bias_stores_the_scores():
    def attend(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, bias=bias)

    given = *inputs(1, 33, 50, 3, 3, 16), normal(1, 3, 33, 50, seed=5)
    assert_gradient(gradient(attend, 4), *given, fused=False)
    assert "in memory" in decisions(lowered(gradient(attend, 4), list(given)))


@pytest.mark.parametrize("is_capped_first", [True, False])
def test_scores_with_a_soft_cap_and_a_mask(is_capped_first: bool):
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores, mask = q @ k.mT / 4, jnp.tril(jnp.ones((q.shape[-2], k.shape[-2]), bool))
        scores = 30 * jnp.tanh(scores / 30) if is_capped_first else scores
        scores = jnp.where(mask, scores, -1e30)
        return jax.nn.softmax(scores if is_capped_first else 30 * jnp.tanh(scores / 30)) @ v

    assert_gradient(gradient(attend), normal(3, 41, 8), normal(3, 70, 8, seed=1), normal(3, 70, 8, seed=2))


def test_weights_that_others_need():
    def attend(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(q @ k.T)
        return jnp.concatenate([weights @ v, weights], 1)

    given = [normal(40, 16), normal(60, 16, seed=1), normal(60, 24, seed=2)]
    assert_gradient(gradient(attend), *given, fused=False)


def test_small_gradients_stay_separate_kernels():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient_strategy, "MIN_MASKED_KEYS", 128)
        patch.setattr(gradient_strategy, "MIN_SCORES", 1 << 20)
        assert "70 keys are less than 128" in decisions(lowered(gradient(causal), inputs(1, 70, 70, 8, 8, 16)))
        assert "are few" in decisions(lowered(gradient(jax.nn.dot_product_attention), inputs(1, 70, 70, 8, 8, 16)))


def test_an_empty_batch():
    text = lowered(gradient(causal), inputs(0, 20, 20, 2, 2, 16))
    assert np.asarray(CPU.compile(text)(*inputs(0, 20, 20, 2, 2, 16))[1]).shape == (0, 20, 2, 16)
