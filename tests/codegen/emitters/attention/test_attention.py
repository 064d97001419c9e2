"""Attention as JAX writes it is one kernel, and its results agree with the interpreter's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import ISAS, limited_to
from tests.raising import raises
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.codegen.region import region_of
from xlapy.codegen.strategies import choose_plan, emit_kernels
from xlapy.codegen.target import Target
from xlapy.cpu.compiler import compile_module
from xlapy.loops import evaluate
from xlapy.testing.program_tolerance import program_tolerance

CPU = xla.Client("cpu")
Attention = Callable[..., Any]


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def lowered(function: Attention, arguments: list[np.ndarray]) -> str:
    return jax.jit(function).lower(*arguments).compiler_ir("hlo").as_hlo_text(print_large_constants=True)


def kernels(text: str) -> list[str]:
    """Returns the opcode, or the name, of each kernel after optimization."""
    return kernels_of(compile_module(xla.parse_hlo(text)).module)


def kernels_of(optimized: xla.Module) -> list[str]:
    """Returns the opcode, or the name, of each kernel of an optimized module."""
    entry = optimized.entry_computation
    return [i.name if i.op is xla.opcodes.FUSION else i.op.name for i in entry if i.op is not xla.opcodes.PARAMETER]


def assert_attention(function: Attention, *arguments: np.ndarray, fused: bool = True) -> np.ndarray:
    text = lowered(function, list(arguments))
    run = CPU.compile(text)
    optimized = xla.parse_hlo(run.as_hlo_text(optimized=True))
    assert any(name.startswith("attention") for name in kernels_of(optimized)) is fused
    tolerance = program_tolerance(xla.parse_hlo(text), arguments, flush_denormals=True)
    result = np.asarray(run(*arguments))
    tolerance.assert_close(result)
    return result


def inputs(batch: int, queries: int, keys: int, heads: int, key_heads: int, width: int, **options: Any) -> list[Any]:
    shapes = (queries, heads), (keys, key_heads), (keys, key_heads)
    return [normal(batch, length, h, width, seed=n, **options) for n, (length, h) in enumerate(shapes)]


def causal(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


SHAPES = [
    (2, 16, 16, 1, 1, 16), (1, 33, 70, 3, 3, 5), (2, 41, 17, 4, 2, 24), (1, 150, 150, 2, 2, 64), (1, 17, 300, 6, 2, 33),
]  # fmt: skip


@pytest.mark.parametrize("function", [jax.nn.dot_product_attention, causal], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...], function: Attention):
    assert_attention(function, *inputs(*shape))


@pytest.mark.parametrize("shape", SHAPES[1:4], ids=str)
def test_bf16(shape: tuple[int, ...]):
    assert_attention(causal, *inputs(*shape, dtype=ml_dtypes.bfloat16))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_types_on_each_instruction_set(dtype: Any, isa: str):
    """Odd numbers of keys and terms: the last pair of a dot instruction has one element."""
    with limited_to(isa):
        assert_attention(causal, *inputs(1, 75, 133, 2, 2, 21, dtype=dtype))
        assert_attention(jax.nn.dot_product_attention, *inputs(1, 75, 133, 2, 2, 21, dtype=dtype))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_blocks_of_a_task_do_not_change_bits(dtype: Any):
    """With one block per task, each block packs its keys; with several, the first that needs them packs them."""
    given = inputs(1, 150, 331, 2, 2, 21, dtype=dtype)
    text = CPU.compile(lowered(causal, given)).as_hlo_text(optimized=True)

    def result(queries: int, blocks: int) -> np.ndarray:
        plan = f'"block_queries":{queries},"blocks_per_task":{blocks}'
        changed, count = re.subn(r'"block_queries":\d+,"blocks_per_task":\d+', plan, text)
        assert count == 1
        return np.asarray(CPU.compile(changed)(*given))

    wanted = result(64, 1)
    for queries, blocks in ((16, 1), (16, 4), (24, 100), (150, 1)):
        np.testing.assert_array_equal(result(queries, blocks), wanted, strict=True)
    with raises(xla.XlaError, codes.KERNEL_PLAN, "blocks_per_task"):
        result(16, 0)


def heads_first(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / 4
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_an_einsum_with_the_heads_first(dtype: Any):
    given = inputs(2, 40, 50, 3, 3, 20, dtype=dtype)
    assert_attention(heads_first, *(np.ascontiguousarray(x.transpose(0, 2, 1, 3)) for x in given))


def test_a_projection_follows():
    def attend(q: Any, k: Any, v: Any, w: Any) -> Any:
        return causal(q, k, v).reshape(q.shape[0], q.shape[1], -1) @ w

    assert_attention(attend, *inputs(2, 40, 40, 3, 3, 16), normal(48, 30))


def test_a_bias_and_a_mask_of_lengths():
    def attend(q: Any, k: Any, v: Any, bias: Any, lengths: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, bias=bias, key_value_seq_lengths=lengths)

    lengths = np.array([50, 3], np.int32)
    assert_attention(attend, *inputs(2, 33, 50, 3, 3, 16), normal(2, 3, 33, 50, seed=5), lengths)


def masked(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = jnp.einsum("qd,kd->qk", q, k)
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ v


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_row_without_keys_is_nan(dtype: Any):
    mask = np.random.default_rng(3).random((40, 60)) < 0.3
    mask[7] = False
    given = normal(40, 16, dtype=dtype), normal(60, 16, seed=1, dtype=dtype), normal(60, 24, seed=2, dtype=dtype)
    result = assert_attention(masked, *given, mask)
    assert np.isnan(result[7]).all()
    assert not np.isnan(np.delete(result, 7, 0)).any()


LOWEST = {"-inf": -np.inf, "lowest": np.finfo(np.float32).min, "-1e30": -1e30, "zero": 0.0}


@pytest.mark.parametrize("lowest", LOWEST)
@pytest.mark.parametrize("isa", ISAS)
def test_rows_of_which_the_last_keys_are_masked(lowest: str, isa: str):
    """Keys that all queries of a block hide are not swept over, unless their weights are not zero."""

    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return jax.nn.softmax(jnp.where(mask, q @ k.T, LOWEST[lowest])) @ v

    mask = np.random.default_rng(3).random((150, 301)) < 0.7
    mask[:64, 90:] = mask[64:128, 200:] = False  # 128 of 301 keys, and 256 of them
    mask[7] = mask[130] = False  # no keys at all
    mask[9, 64:] = False
    given = normal(150, 16), normal(301, 16, seed=1), normal(301, 24, seed=2)
    with limited_to(isa):
        result = assert_attention(attend, *given, mask)
    nan = [7, 130] if lowest == "-inf" else []
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(result).any(1)), nan)


def test_sweeps_end_at_a_multiple_of_an_iteration():
    """The evaluation of loops checks it: vector loops that carry sums have no mask for the rest of a vector."""
    given = normal(16, 2), normal(48, 2, seed=1), normal(48, 3, seed=2), np.tile(np.arange(48) < 17, (16, 1))
    entry = compile_module(xla.parse_hlo(lowered(masked, list(given)))).module.entry_computation
    region = region_of(entry.root_instruction, Target(vector_bytes=16, vector_registers=16))
    (kernel,) = emit_kernels(choose_plan(region).plan, region)
    result = np.zeros((16, 3), np.float32)
    names = [operand.name.partition(".")[0] for operand in entry.root_instruction.operands]
    ordered = [dict(zip("qkvm", given, strict=True))[name[0]] for name in names]
    arrays = zip(kernel.buffers, (*ordered, result), strict=True)
    evaluate(kernel, {buffer.name: array.reshape(-1).view(buffer.type.dtype) for buffer, array in arrays})
    np.testing.assert_allclose(result, CPU.compile(lowered(masked, list(given)))(*given), rtol=1e-5)


@pytest.mark.parametrize("differing", ["bias", "weights"])
def test_masked_keys_that_differ(differing: str):
    """What the mask selects instead of scores, or what multiplies the weights, may differ from key to key."""

    def attend(q: Any, k: Any, v: Any, mask: Any, factors: Any) -> Any:
        if differing == "bias":
            return jax.nn.softmax(jnp.where(mask, q @ k.T, factors)) @ v
        weights = jnp.exp(jnp.where(mask, q @ k.T, -jnp.inf)) + factors
        return (weights / weights.sum(1, keepdims=True)) @ v

    mask = np.tril(np.ones((150, 301), bool))
    given = normal(150, 16), normal(301, 16, seed=1), normal(301, 24, seed=2)
    assert_attention(attend, *given, mask, np.abs(normal(301, seed=4)))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_masked_values_that_are_not_finite(value: float, dtype: Any):
    """A weight of zero times infinity is NaN, so that blocks of keys without weights may not be left out."""
    q, k, v = (normal(n, width, seed=n, dtype=dtype) for n, width in ((200, 16), (400, 16), (401, 24)))
    v, mask = v[:400], np.zeros((200, 400), bool)
    mask[:, :40] = True
    v[390, 3] = value
    result = assert_attention(masked, q, k, v, mask)
    assert np.isnan(result[:, 3]).all()
    assert not np.isnan(np.delete(result, 3, 1)).any()


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_masked_keys_that_are_not_finite(value: float):
    q, k, v, mask = normal(40, 16), normal(80, 16, seed=1), normal(80, 24, seed=2), np.ones((40, 80), bool)
    mask[:, 64:] = False
    k[70] = value
    assert not np.isnan(assert_attention(masked, q, k, v, mask)).any()


def test_an_empty_batch():
    text = lowered(causal, inputs(0, 20, 20, 2, 2, 16))
    assert np.asarray(CPU.compile(text)(*inputs(0, 20, 20, 2, 2, 16))).shape == (0, 20, 2, 16)


@pytest.mark.parametrize("keys", [129, 257])
def test_keys_that_do_not_divide_into_equal_blocks(keys: int):
    q, k, v = normal(1, 100, 2, 31), normal(1, keys, 2, 31, seed=1), normal(1, keys, 2, 31, seed=2)
    assert_attention(jax.nn.dot_product_attention, q, k, v)
    assert_attention(causal, q, k, v)


@pytest.mark.parametrize("equation", ["qk,qkd->qd", "abk,abkd->abd"])
def test_values_of_each_query_stay_two_dots(equation: str):
    """As for relative positions: one kernel would take the values of the first query for a block of queries."""
    q, k, v = normal(32, 16), normal(48, 16, seed=1), normal(32, 48, 24, seed=2)

    def relative(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(q @ k.T)
        if equation.startswith("a"):
            weights, v = weights.reshape(4, 8, 48), v.reshape(4, 8, 48, 24)
        return jnp.einsum(equation, weights, v)

    assert_attention(relative, q, k, v, fused=False)


def test_few_queries_stay_two_dots():
    assert_attention(causal, *inputs(2, 3, 70, 2, 2, 16), fused=False)


def test_weights_that_others_need_are_stored():
    def attend(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(q @ k.T)
        return weights @ v, weights

    arguments = [normal(40, 16), normal(60, 16, seed=1), normal(60, 24, seed=2)]
    text = lowered(attend, arguments)
    assert not any(name.startswith("attention") for name in kernels(text))
    tolerance = program_tolerance(xla.parse_hlo(text), arguments, flush_denormals=True)
    tolerance.assert_close(tuple(map(np.asarray, CPU.compile(text)(*arguments))))


def test_the_gradient():
    def gradient(q: Any, k: Any, v: Any) -> Any:
        return jax.grad(lambda *given: (causal(*given) ** 2).sum(), (0, 1, 2))(q, k, v)

    arguments = inputs(1, 33, 33, 2, 2, 16)
    text = lowered(gradient, arguments)
    tolerance = program_tolerance(xla.parse_hlo(text), arguments, flush_denormals=True)
    tolerance.assert_close(tuple(map(np.asarray, CPU.compile(text)(*arguments))))


def test_fusion_says_what_became_attention():
    text = lowered(causal, inputs(1, 33, 33, 2, 2, 16))
    decisions = compile_module(xla.parse_hlo(text)).record.decisions
    assert any("become attention" in decision.text for decision in decisions)
