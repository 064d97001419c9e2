"""Weights of loops with contiguous terms: which are transposed before the loop, and that results are the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.transforms.transpose_loop_weights import TransposeLoopWeights
from xlapy.hlo.verify import verify

INTERPRETER = xla.Client("interpreter")
CPU = xla.Client("cpu")

STATE = "(s32[], {t}[{rows},72], {t}[72,72], {t}[{rows},72])"


def program(
    *, rows: int = 8, count: int = 16, kind: str = "f32", weights: str = "w", number: int = 1, extra: str = "w"
) -> str:
    """A loop that multiplies by weights in each iteration, `extra` being the weights of the next one."""
    state = STATE.format(t=kind, rows=rows)
    return f"""HloModule m
less {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant({count})
  ROOT c = pred[] compare(i, n), direction=LT }}
step {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) j = s32[] add(i, one)
  h = {kind}[{rows},72] get-tuple-element(s), index=1 w = {kind}[72,72] get-tuple-element(s), index=2
  t = {kind}[72,72] transpose(w), dimensions={{1,0}} n = {kind}[72,72] negate(w)
  d = {kind}[{rows},72] dot(h, {weights}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{number}}}
  x = {kind}[{rows},72] get-tuple-element(s), index=3 y = {kind}[{rows},72] add(d, x)
  ROOT r = {state} tuple(j, y, {extra}, x) }}
ENTRY e {{ h = {kind}[{rows},72] parameter(0) w = {kind}[72,72] parameter(1) x = {kind}[{rows},72] parameter(2)
  i = s32[] constant(0) s = {state} tuple(i, h, w, x)
  l = {state} while(s), condition=less, body=step ROOT r = {kind}[{rows},72] get-tuple-element(l), index=1 }}
"""


def arguments(rows: int, kind: str) -> list[np.ndarray]:
    random, dtype = np.random.default_rng(0), {"f32": np.float32, "f64": np.float64}[kind]
    shapes = ((rows, 72), (72, 72), (rows, 72))
    return [(random.standard_normal(shape) / 9).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(("weights", "number"), [("w", 1), ("t", 0)])
@pytest.mark.parametrize("rows", [8, 13, 64])
def test_weights_are_transposed_before_the_loop(kind: str, weights: str, number: int, rows: int) -> None:
    module = xla.parse_hlo(program(rows=rows, kind=kind, weights=weights, number=number))
    given = arguments(rows, kind)
    before = np.asarray(INTERPRETER.compile(module)(*given))
    assert TransposeLoopWeights().run(module)
    verify(module)
    assert [i.op.name for i in module.entry_computation].count("transpose") == 1
    (loop,) = (i for i in module.entry_computation if i.op is xla.opcodes.WHILE)
    (dot,) = (i for i in loop.computations[1] if i.op is xla.opcodes.DOT)
    assert dot.operands[1].op is xla.opcodes.GET_TUPLE_ELEMENT
    np.testing.assert_allclose(np.asarray(INTERPRETER.compile(module)(*given)), before, rtol=1e-5, atol=1e-6)
    text = program(rows=rows, kind=kind, weights=weights, number=number)
    np.testing.assert_allclose(np.asarray(CPU.compile(text)(*given)), before, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [8, 13, 32])
def test_bf16(rows: int) -> None:
    """Weights with one element that is not zero in each row give exact results."""
    random, dtype = np.random.default_rng(0), ml_dtypes.bfloat16
    hidden, inputs = (random.integers(-1, 2, (rows, 72)).astype(dtype) for _ in range(2))
    weights = np.eye(72)[random.permutation(72)] * random.choice([-1, 1], 72)
    given = hidden, weights.astype(dtype), inputs
    text = program(rows=rows, kind="bf16")
    module = xla.parse_hlo(text)
    assert TransposeLoopWeights().run(module)
    verify(module)
    expected, inputs = hidden.astype(float), inputs.astype(float)
    for _ in range(16):
        expected = expected @ weights.T + inputs
    for client, program_ in ((INTERPRETER, module), (CPU, text)):
        assert np.asarray(client.compile(program_)(*given)).astype(float).tolist() == expected.tolist()


def test_dots_that_share_weights_share_the_transpose() -> None:
    text = program().replace(
        "x = f32[8,72] get-tuple-element(s), index=3 y",
        "x0 = f32[8,72] get-tuple-element(s), index=3 x = f32[8,72] dot(x0, w), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={1} y",
        1,
    )
    module = xla.parse_hlo(text)
    given = arguments(8, "f32")
    before = np.asarray(INTERPRETER.compile(module)(*given))
    assert TransposeLoopWeights().run(module)
    verify(module)
    assert [i.op.name for i in module.entry_computation].count("transpose") == 1
    np.testing.assert_allclose(np.asarray(INTERPRETER.compile(module)(*given)), before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        program(rows=7),  # too few rows
        program(rows=65),  # products of so many rows pack
        program(count=15),  # too few iterations
        program(number=0),  # the columns are contiguous
        program(weights="t", number=1),  # of the transpose, too
        program(extra="n"),  # the weights change
        program(kind="bf16", rows=33),  # products of so many rows pack
        program(kind="f16"),  # not measured
    ],
)
def test_others_stay(text: str) -> None:
    assert not TransposeLoopWeights().run(xla.parse_hlo(text))


def test_loops_without_a_bound_count_as_long() -> None:
    module = xla.parse_hlo(program().replace("n = s32[] constant(16)", "n = s32[] get-tuple-element(s), index=0"))
    assert TransposeLoopWeights().run(module)
    verify(module)


@pytest.mark.parametrize("rows", [8, 13])
def test_special_numbers_stay_in_their_rows(rows: int) -> None:
    """A NaN or an infinity in a row of the left operand reaches no other row."""
    given = arguments(rows, "f32")
    given[0][2, 5], given[0][3, 7] = np.nan, np.inf
    result = np.asarray(CPU.compile(program(rows=rows))(*given))
    is_finite = np.isfinite(result).all(axis=1)
    assert list(np.flatnonzero(~is_finite)) == [2, 3]


def test_the_compiler_transposes_weights() -> None:
    compiled = compile_module(xla.parse_hlo(program()))
    assert [i.op.name for i in compiled.module.entry_computation].count("transpose") == 1
