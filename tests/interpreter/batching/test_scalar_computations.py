"""A scalar computation on whole arrays gives the results that it gives for each element alone."""

from __future__ import annotations

from typing import Any

import numpy as np

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.hlo.computation import Computation
from xlapy.interpreter import Context, evaluate_computation
from xlapy.interpreter.batching.scalar_computations import apply_scalar_computation
from xlapy.text import parse_hlo

HELPERS = """
half {
  a = s32[] parameter(0)
  two = s32[] constant(2)
  ROOT r = s32[] divide(a, two)
}

triple {
  a = s32[] parameter(0)
  three = s32[] constant(3)
  one = s32[] constant(1)
  b = s32[] multiply(a, three)
  ROOT r = s32[] add(b, one)
}

zero {
  a = s32[] parameter(0)
  ROOT r = s32[] constant(0)
}

sum {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b)
}

not_one {
  s = (s32[], s32[]) parameter(0)
  x = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  ROOT r = pred[] compare(x, one), direction=GT
}

collatz_step {
  s = (s32[], s32[]) parameter(0)
  x = s32[] get-tuple-element(s), index=0
  n = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  bit = s32[] and(x, one)
  y = s32[] conditional(bit, x, x), branch_computations={half, triple}
  m = s32[] add(n, one)
  ROOT t = (s32[], s32[]) tuple(y, m)
}

split {
  a = s32[] parameter(0)
  zero = s32[] constant(0)
  ROOT t = (s32[], s32[]) tuple(a, zero)
}

swap {
  a = s32[] parameter(0)
  one = s32[] constant(1)
  b = s32[] subtract(one, a)
  ROOT t = (s32[], s32[]) tuple(b, a)
}
"""


def computation(body: str) -> Computation:
    """Returns the entry computation of a module whose other computations are the helpers."""
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return parse_hlo(f"HloModule m\n{HELPERS}\nENTRY main {{\n{lines}\n}}\n").entry_computation


def one_by_one(called: Computation, *arguments: Any) -> Any:
    """Returns the same results by evaluating every batch element on its own."""
    arrays = np.broadcast_arrays(*arguments)
    rows = [
        evaluate_computation(Context(), called, [a[i : i + 1].reshape(()) for a in arrays])
        for i in range(len(arrays[0]))
    ]
    if isinstance(rows[0], tuple):
        return tuple(np.array(column) for column in zip(*rows, strict=True))
    return np.array(rows)


def assert_batched_equals_one_by_one(called: Computation, *arguments: Any) -> Any:
    whole = apply_scalar_computation(Context(), called, arguments)
    expected = one_by_one(called, *arguments)
    pairs = zip(whole, expected, strict=True) if isinstance(whole, tuple) else [(whole, expected)]
    for ours, theirs in pairs:
        assert ours.dtype == theirs.dtype
        assert ours.tolist() == theirs.tolist()
    return whole


class TestApplication:
    def test_arguments_broadcast_together(self):
        called = computation("a = s32[] parameter(0)\nb = s32[] parameter(1)\nROOT r = s32[] subtract(a, b)")
        column, row = np.array([[10], [20]], np.int32), np.array([1, 2, 3], np.int32)
        assert apply_scalar_computation(Context(), called, [column, row]).tolist() == [[9, 8, 7], [19, 18, 17]]

    def test_a_constant_result_is_broadcast_to_the_batch(self):
        called = computation("a = f32[] parameter(0)\nROOT r = s32[] constant(7)")
        result = apply_scalar_computation(Context(), called, [np.zeros((2, 2), np.float32)])
        assert (result.dtype, result.tolist()) == (np.int32, [[7, 7], [7, 7]])

    def test_tuples(self):
        called = computation(
            "a = s32[] parameter(0)\nb = s32[] add(a, a)\nc = s32[] constant(1)\nROOT t = (s32[], s32[]) tuple(b, c)"
        )
        doubled, one = apply_scalar_computation(Context(), called, [np.array([1, 2, 3], np.int32)])
        assert (doubled.tolist(), one.tolist()) == ([2, 4, 6], [1, 1, 1])

    def test_ops_that_return_a_scalar_unchanged(self):
        called = computation(
            """
            a = f32[] parameter(0)
            b = f32[] reshape(a)
            c = f32[] broadcast(b), dimensions={}
            d = f32[] transpose(c), dimensions={}
            e = f32[] copy(d)
            f = f32[] opt-barrier(e)
            ROOT g = s32[] bitcast-convert(f)
            """
        )
        values = np.array([1.0, -2.0, np.inf], np.float32)
        assert apply_scalar_computation(Context(), called, [values]).tolist() == values.view(np.int32).tolist()

    def test_calls_maps_and_fusions(self):
        called = computation(
            """
            a = s32[] parameter(0)
            b = s32[] call(a), to_apply=half
            c = s32[] map(b), dimensions={}, to_apply=triple
            ROOT d = s32[] fusion(c, a), kind=kLoop, calls=sum
            """
        )
        values = np.array([5, -7, 100], np.int32)
        assert assert_batched_equals_one_by_one(called, values).tolist() == [12, -15, 251]

    def test_empty_batch(self):
        called = computation("s = s32[] parameter(0)\nROOT r = s32[] call(s), to_apply=triple")
        assert apply_scalar_computation(Context(), called, [np.zeros((0, 3), np.int32)]).shape == (0, 3)


class TestBranches:
    def test_each_batch_element_runs_its_branch(self):
        called = computation(
            """
            n = s32[] parameter(0)
            a = s32[] parameter(1)
            ROOT r = s32[] conditional(n, a, a, a), branch_computations={half, triple, zero}
            """
        )
        number, value = np.array([0, 1, 2, 3, -1, 1], np.int32), np.array([8, 8, 8, 8, 8, -1], np.int32)
        result = assert_batched_equals_one_by_one(called, number, value)
        assert result.tolist() == [4, 25, 0, 0, 0, -2]

    def test_predicates(self):
        called = computation(
            """
            p = pred[] parameter(0)
            a = s32[] parameter(1)
            ROOT r = s32[] conditional(p, a, a), true_computation=half, false_computation=triple
            """
        )
        result = assert_batched_equals_one_by_one(called, np.array([True, False]), np.array([10, 10], np.int32))
        assert result.tolist() == [5, 31]

    def test_tuples(self):
        called = computation(
            """
            p = pred[] parameter(0)
            a = s32[] parameter(1)
            ROOT r = (s32[], s32[]) conditional(p, a, a), true_computation=split, false_computation=swap
            """
        )
        result = assert_batched_equals_one_by_one(called, np.array([True, False]), np.array([10, 20], np.int32))
        assert [part.tolist() for part in result] == [[10, -19], [0, 20]]

    def test_empty_batch(self):
        called = computation(
            """
            p = pred[] parameter(0)
            a = s32[] parameter(1)
            ROOT r = s32[] conditional(p, a, a), true_computation=half, false_computation=triple
            """
        )
        result = apply_scalar_computation(Context(), called, [np.zeros(0, np.bool_), np.zeros(0, np.int32)])
        assert (result.shape, result.dtype) == ((0,), np.int32)


class TestLoops:
    COLLATZ = """
        x = s32[] parameter(0)
        zero = s32[] constant(0)
        s = (s32[], s32[]) tuple(x, zero)
        w = (s32[], s32[]) while(s), condition=not_one, body=collatz_step
        ROOT n = s32[] get-tuple-element(w), index=1
        """

    def test_each_batch_element_leaves_the_loop_on_its_own(self):
        result = assert_batched_equals_one_by_one(computation(self.COLLATZ), np.arange(1, 28, dtype=np.int32))
        assert result[26] == 111
        assert result[0] == 0

    def test_empty_batch(self):
        assert apply_scalar_computation(Context(), computation(self.COLLATZ), [np.zeros(0, np.int32)]).shape == (0,)

    def test_the_arguments_are_not_modified(self):
        values = np.array([6, 7], np.int32)
        apply_scalar_computation(Context(), computation(self.COLLATZ), [values])
        assert values.tolist() == [6, 7]

    def test_a_canceled_run_stops(self):
        context = Context()
        context.canceled.set()
        with raises(ExecutionError, codes.CANCELED, "main"):
            apply_scalar_computation(context, computation(self.COLLATZ), [np.array([27], np.int32)])


def test_calls_with_arrays_inside_run_for_one_element_at_a_time():
    called = computation(
        """
        x = s32[] parameter(0)
        y = s32[] parameter(1)
        a = s32[2]{0} broadcast(x), dimensions={}
        i = s32[2]{0} iota(), iota_dimension=0
        b = s32[2]{0} add(a, i)
        c = s32[1]{0} slice(b), slice={[1:2]}
        d = s32[] reshape(c)
        ROOT r = (s32[], s32[]) tuple(d, y)
        """
    )
    first, second = apply_scalar_computation(
        Context(), called, [np.array([[1], [2]], np.int32), np.array([10, 20], np.int32)]
    )
    assert first.tolist() == [[2, 2], [3, 3]]
    assert second.tolist() == [[10, 20], [10, 20]]


def test_a_reducer_that_branches_folds_element_by_element():
    """A branch on single elements gives NumPy scalars, which are joined like arrays."""
    text = """HloModule m
        negated { p = f32[] parameter(0)
          ROOT r = f32[] negate(p) }
        same { p = f32[] parameter(0)
          ROOT r = f32[] copy(p) }
        larger { a = f32[] parameter(0)
          b = f32[] parameter(1)
          c = pred[] compare(a, b), direction=GT
          ROOT r = f32[] conditional(c, a, b), true_computation=negated, false_computation=same }
        ENTRY e { x = f32[33] parameter(0)
          z = f32[] constant(0.5)
          ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=larger }"""
    values = np.sin(np.arange(33)).astype(np.float32)
    expected = np.float32(0.5)
    for value in values:
        expected = -expected if expected > value else value
    for platform in ("interpreter", "cpu"):
        assert np.asarray(xla.Client(platform).compile(text)(values)) == expected
