"""Scalar computations with arrays inside, evaluated on batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interpreter.batching.batch_elements import assert_batched_equals_one_by_one, assert_close
from tests.interpreter.batching.batching_bodies import BODIES, X, Y, applied_by_map, named, run
from tests.raising import raises
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.hlo.computation import Computation
from xlapy.interpreter import Context, evaluate_computation
from xlapy.interpreter.batching import evaluate_batch, scalar_computations
from xlapy.interpreter.batching.core import merge_batch, split_batch
from xlapy.text import parse_hlo


def one_by_one(computation: Computation, *arrays: Any) -> Any:
    rows = zip(*(array.reshape(-1) for array in arrays), strict=True)
    return np.array([evaluate_computation(Context(), computation, [np.asarray(v) for v in row]) for row in rows])


@pytest.mark.parametrize("lines", BODIES.values(), ids=BODIES)
def test_a_map_body_with(lines: str):
    module = applied_by_map(lines)
    expected = one_by_one(named(module, "body"), X, Y)
    assert len(set(expected.tolist())) > 2
    assert_close(run(module, X, Y), expected)


@pytest.mark.parametrize("lines", BODIES.values(), ids=BODIES)
def test_small_batches_agree(lines: str, monkeypatch: pytest.MonkeyPatch):
    module = applied_by_map(lines)
    counts: list[set[int]] = []
    evaluate = scalar_computations.evaluate_batch

    def counting(context: Context, computation: Computation, arguments: Any) -> Any:
        counts.append({len(argument) for argument in arguments})
        return evaluate(context, computation, arguments)

    monkeypatch.setattr(scalar_computations, "evaluate_batch", counting)
    whole = run(module, X, Y)
    assert counts[0] == {6}
    counts.clear()
    monkeypatch.setattr(scalar_computations, "_MAX_BATCH_ELEMENTS", 4 * largest(named(module, "body")))
    assert_close(run(module, X, Y), whole)
    assert counts[0] == {4} and {2} in counts


def largest(computation: Computation) -> int:
    """Returns the size of the largest array that a computation, or one that it calls, creates."""
    called = [largest(c) for i in computation for c in i.computations]
    return max([leaf.size for i in computation for _, leaf in i.shape.leaves() if leaf.is_array] + called)


class TestWhoApplies:
    def test_a_reducer_with_arrays_inside(self):
        module = parse_hlo("""HloModule m
sum { p = s32[] parameter(0) q = s32[] parameter(1) ROOT r = s32[] add(p, q) }
reducer { a = s32[] parameter(0) b = s32[] parameter(1) x = s32[1] reshape(a) y = s32[1] reshape(b)
  c = s32[2] concatenate(x, y), dimensions={0} z = s32[] constant(0)
  ROOT r = s32[] reduce(c, z), dimensions={0}, to_apply=sum }
ENTRY main { x = s32[5,7] parameter(0) i = s32[] parameter(1)
  ROOT r = s32[7] reduce(x, i), dimensions={0}, to_apply=reducer }
""")
        x = np.arange(35, dtype=np.int32).reshape(5, 7)
        assert run(module, x, np.array(100, np.int32)).tolist() == (x.sum(0) + 100).tolist()

    def test_a_comparator_with_arrays_inside(self):
        module = parse_hlo("""HloModule m
comparator { a = s32[] parameter(0) b = s32[] parameter(1) t = s32[4] constant({2, 0, 3, 1})
  x = s32[1] dynamic-slice(t, a), dynamic_slice_sizes={1} y = s32[1] dynamic-slice(t, b), dynamic_slice_sizes={1}
  c = pred[1] compare(x, y), direction=LT ROOT r = pred[] reshape(c) }
ENTRY main { x = s32[2,4] parameter(0) ROOT r = s32[2,4] sort(x), dimensions={1}, to_apply=comparator }
""")
        x = np.array([[0, 1, 2, 3], [3, 3, 1, 0]], np.int32)
        assert run(module, x).tolist() == [[1, 3, 0, 2], [1, 3, 3, 0]]

    def test_an_update_of_scatter_with_arrays_inside(self):
        module = parse_hlo("""HloModule m
update { a = s32[] parameter(0) b = s32[] parameter(1) x = s32[2] broadcast(a), dimensions={}
  y = s32[2] iota(), iota_dimension=0 z = s32[2] multiply(x, y) l = s32[1] slice(z), slice={[1:2]}
  t = s32[] reshape(l) d = s32[] add(t, t) ROOT r = s32[] add(d, b) }
ENTRY main { x = s32[3] parameter(0) i = s32[3] parameter(1) u = s32[3] parameter(2)
  ROOT r = s32[3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=1, to_apply=update }
""")
        arrays = ([1, 2, 3], [2, 0, 2], [10, 20, 30])
        assert run(module, *(np.array(a, np.int32) for a in arrays)).tolist() == [22, 2, 62]

    def test_arguments_of_one_element_are_the_same_for_all(self):
        module = applied_by_map(BODIES["gather"])
        body = named(module, "body")
        result = scalar_computations.apply_scalar_computation(
            Context(), body, [X.reshape(2, 3), np.array([[2]], np.int32)]
        )
        assert_close(result, one_by_one(body, X, np.full(6, 2)).reshape(2, 3))

    def test_a_tuple_of_results(self):
        module = parse_hlo("""HloModule m
pair { a = s32[] parameter(0) b = s32[2] broadcast(a), dimensions={} c = s32[1] slice(b), slice={[1:2]}
  d = s32[] reshape(c) n = s32[] constant(4) ROOT t = (s32[], s32[]) tuple(d, n) }
ENTRY main { ROOT x = s32[] parameter(0) }
""")
        first, second = scalar_computations.apply_scalar_computation(
            Context(), named(module, "pair"), [np.array([[5, 6]], np.int32)]
        )
        assert (first.tolist(), second.tolist(), second.dtype) == ([[5, 6]], [[4, 4]], np.int32)

    def test_empty_batch(self):
        body = named(applied_by_map(BODIES["while"]), "body")
        result = scalar_computations.apply_scalar_computation(Context(), body, [X[:0], Y[:0]])
        assert (result.shape, result.dtype) == ((0,), np.float32)

    def test_a_map_inside_a_map_over_an_empty_array(self):
        module = parse_hlo("""HloModule m
sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
mirrored { p = f32[] parameter(0) b = f32[3] broadcast(p), dimensions={}
  z = f32[] constant(0) ROOT r = f32[] reduce(b, z), dimensions={0}, to_apply=sum }
body { a = f32[] parameter(0) d = f32[4] broadcast(a), dimensions={} n = f32[0] slice(d), slice={[4:4]}
  k = f32[0] map(n), dimensions={0}, to_apply=mirrored ROOT s = f32[] reduce(k, a), dimensions={0}, to_apply=sum }
ENTRY main { x = f32[6] parameter(0) ROOT r = f32[6] map(x), dimensions={0}, to_apply=body }
""")
        assert run(module, X).tolist() == X.tolist()


class TestLoopsAndBranches:
    NESTED = """HloModule m
sum { p = s32[] parameter(0) q = s32[] parameter(1) ROOT r = s32[] add(p, q) }
inner_on { t = (s32[], s32[3], s32[3]) parameter(0) n = s32[] get-tuple-element(t), index=0 z = s32[] constant(0)
  ROOT r = pred[] compare(n, z), direction=GT }
inner { t = (s32[], s32[3], s32[3]) parameter(0) n = s32[] get-tuple-element(t), index=0
  v = s32[3] get-tuple-element(t), index=1 k = s32[3] get-tuple-element(t), index=2 one = s32[] constant(1)
  m = s32[] subtract(n, one) w = s32[3] add(v, k) ROOT r = (s32[], s32[3], s32[3]) tuple(m, w, k) }
looped { v = s32[3] parameter(0) i = s32[3] iota(), iota_dimension=0 z = s32[] constant(0) two = s32[] constant(2)
  s = s32[] reduce(v, z), dimensions={0}, to_apply=sum n = s32[] and(s, two)
  t = (s32[], s32[3], s32[3]) tuple(n, v, i) u = (s32[], s32[3], s32[3]) while(t), condition=inner_on, body=inner
  ROOT r = s32[3] get-tuple-element(u), index=1 }
turned { v = s32[3] parameter(0) ROOT r = s32[3] reverse(v), dimensions={0} }
outer_on { t = (s32[], s32[3]) parameter(0) v = s32[3] get-tuple-element(t), index=1
  n = s32[] get-tuple-element(t), index=0
  z = s32[] constant(0) s = s32[] reduce(v, z), dimensions={0}, to_apply=sum b = s32[] constant(60)
  small = pred[] compare(s, b), direction=LT few = s32[] constant(9) c = pred[] compare(n, few), direction=LT
  ROOT r = pred[] and(small, c) }
outer { t = (s32[], s32[3]) parameter(0) n = s32[] get-tuple-element(t), index=0
  v = s32[3] get-tuple-element(t), index=1
  one = s32[] constant(1) m = s32[] add(n, one) s = s32[1] slice(v), slice={[0:1]} h = s32[] reshape(s)
  odd = s32[] and(h, one) p = pred[] convert(odd)
  w = s32[3] conditional(p, v, v), true_computation=looped, false_computation=turned
  k = s32[3] constant({1, 2, 4}) x = s32[3] add(w, k) ROOT r = (s32[], s32[3]) tuple(m, x) }
body { a = s32[] parameter(0) v = s32[3] broadcast(a), dimensions={} z = s32[] constant(0)
  t = (s32[], s32[3]) tuple(z, v) u = (s32[], s32[3]) while(t), condition=outer_on, body=outer
  w = s32[3] get-tuple-element(u), index=1 n = s32[] get-tuple-element(u), index=0 k = s32[3] constant({1, 100, 10000})
  x = s32[3] multiply(w, k) s = s32[] reduce(x, n), dimensions={0}, to_apply=sum ROOT r = s32[] add(s, n) }
ENTRY main { x = s32[40] parameter(0) ROOT r = s32[40] map(x), dimensions={0}, to_apply=body }
"""

    def test_nested_ones_with_arrays_inside(self):
        module = parse_hlo(self.NESTED)
        x = np.arange(-10, 30, dtype=np.int32)
        expected = one_by_one(named(module, "body"), x)
        assert len(set(expected.tolist())) > 20
        assert run(module, x).tolist() == expected.tolist()

    def test_a_loop_that_no_batch_element_enters(self):
        module = applied_by_map(BODIES["while"])
        none = np.full(6, -3, np.int32)
        assert_close(run(module, X, none), one_by_one(named(module, "body"), X, none))

    def test_values_that_depend_on_no_argument_stay_one(self):
        body = named(applied_by_map("v = f32[4] reverse(c), dimensions={0}"), "body")
        assert evaluate_batch(Context(), body, [X, Y]).shape == ()

    def test_cancellation(self):
        context = Context()
        context.canceled.set()
        body = named(applied_by_map(BODIES["while"]), "body")
        with raises(ExecutionError, codes.CANCELED, "body"):
            scalar_computations.apply_scalar_computation(context, body, [X, Y])


class TestArraysAsArguments:
    """Operand forms that the samples do not cover, with every combination of batched operands."""

    def check(self, entry: str, *rows: Any, called: str = "") -> None:
        module = parse_hlo(f"HloModule m\n{called}\nENTRY main {{\n{entry}\n}}\n")
        parameters = module.entry_computation.parameters
        arrays = [[np.asarray(v, p.shape.dtype) for v, p in zip(row, parameters, strict=True)] for row in rows]
        for pattern in np.ndindex(*[2] * len(parameters)):
            if any(pattern):
                assert_batched_equals_one_by_one(module.entry_computation, arrays, [bool(p) for p in pattern])

    @pytest.mark.parametrize("index_type", ["s8", "u8", "s64", "u64", "s4"])
    def test_start_indices_of_any_type_are_clamped(self, index_type: str):
        largest = {"s8": 127, "u8": 255, "s64": 2**63 - 1, "u64": 2**64 - 1, "s4": 7}[index_type]
        self.check(
            f"""x = s32[300,2] parameter(0)
            i = {index_type}[] parameter(1)
            z = {index_type}[] constant(1)
            s = s32[2,1] dynamic-slice(x, i, z), dynamic_slice_sizes={{2,1}}
            u = s32[300,2] dynamic-update-slice(x, s, i, z)
            ROOT t = (s32[2,1], s32[300,2]) tuple(s, u)""",
            *[[np.arange(600).reshape(300, 2) + 1000 * n, index] for n, index in enumerate([0, 3, largest])],
        )

    def test_bitcasts_of_batch_elements_that_end_within_a_byte(self):
        self.check(
            "x = s4[3]{0:E(4)} parameter(0)\nROOT y = u8[2]{0} bitcast(x)",
            *[[np.array([n, -n, 3])] for n in (1, 2, 7)],
        )
        self.check(
            "x = s4[2,2]{0,1:E(4)} parameter(0)\nROOT y = u8[2]{0} bitcast(x)",
            *[[np.array([[n, -n], [3, 0]])] for n in (1, 2, 7)],
        )

    def test_dummy_scales(self):
        entry = """
          x = bf16[2,4] parameter(0)
          y = bf16[4,2] parameter(1)
          s = bf16[1,1] parameter(2)
          t = bf16[2,1] parameter(3)
          ROOT r = f32[2,2] scaled-dot(x, y, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""
        rng = np.random.default_rng(0)
        shapes = ((2, 4), (4, 2), (1, 1), (2, 1))
        self.check(entry, *[[rng.integers(-4, 5, shape) for shape in shapes] for _ in range(3)])

    @pytest.mark.parametrize("sizes", ["s32[2]", "s32[3,2]"])
    def test_group_sizes_of_a_ragged_dot_with_batches(self, sizes: str):
        rng = np.random.default_rng(0)
        shape = (2,) if sizes == "s32[2]" else (3, 2)
        shapes = ((3, 5, 4), (2, 3, 4, 2))
        rows = [[*(rng.integers(-9, 9, s) for s in shapes), rng.integers(0, 4, shape)] for _ in range(3)]
        self.check(
            f"""x = f32[3,5,4] parameter(0)
            y = f32[2,3,4,2] parameter(1)
            g = {sizes} parameter(2)
            ROOT r = f32[3,5,2] ragged-dot(x, y, g), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
              rhs_batch_dims={{1}}, rhs_contracting_dims={{2}}, lhs_ragged_dims={{1}}, rhs_group_dims={{0}}""",
            *rows,
        )
        rows = [[x, y[0], g] for x, y, g in rows]
        self.check(
            f"""x = f32[3,5,4] parameter(0)
            y = f32[3,4,2] parameter(1)
            g = {sizes} parameter(2)
            ROOT r = f32[2,3,5,2] ragged-dot(x, y, g), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}},
              rhs_batch_dims={{0}}, rhs_contracting_dims={{1}}, lhs_ragged_dims={{2}}, rhs_group_dims={{}}""",
            *rows,
        )

    @pytest.mark.parametrize("groups", ["feature_group_count=2", "batch_group_count=2"])
    def test_convolutions_in_groups(self, groups: str):
        rng = np.random.default_rng(0)
        inputs, outputs = (2, 4) if groups.startswith("feature") else (4, 2)
        rows = [[rng.integers(-9, 9, (4, 5, 4)), rng.integers(-9, 9, (3, inputs, 6))] for _ in range(3)]
        self.check(
            f"""x = f32[4,5,4] parameter(0)
            k = f32[3,{inputs},6] parameter(1)
            ROOT r = f32[{outputs},5,6] convolution(x, k), window={{size=3 pad=1_1 rhs_reversal=1}},
              dim_labels=b0f_0io->b0f, {groups}""",
            *rows,
        )

    def test_arrays_of_the_largest_rank_are_evaluated_one_by_one(self):
        ones = ",".join(["1"] * 64)
        module = parse_hlo(f"""HloModule m
deep {{ a = f32[] parameter(0) b = f32[{ones}] reshape(a) c = f32[{ones}] negate(b) ROOT r = f32[] reshape(c) }}
ENTRY main {{ x = f32[6] parameter(0) ROOT r = f32[6] map(x), dimensions={{0}}, to_apply=deep }}
""")
        assert run(module, X).tolist() == (-X).tolist()


class TestInstanceByInstance:
    def test_random_numbers_of_the_run_are_drawn_in_order(self):
        module = parse_hlo("""HloModule m
noisy { a = f32[] parameter(0) z = f32[] constant(0) one = f32[] constant(1)
  n = f32[2] rng(z, one), distribution=rng_uniform s = f32[1] slice(n), slice={[0:1]} t = f32[] reshape(s)
  ROOT r = f32[] add(a, t) }
ENTRY main { x = f32[6] parameter(0) ROOT r = f32[6] map(x), dimensions={0}, to_apply=noisy }
""")
        context = Context(seed=3)
        expected = [float(evaluate_computation(context, named(module, "noisy"), [np.asarray(x)])) for x in X]
        assert evaluate_computation(Context(seed=3), module.entry_computation, [X]).tolist() == expected
        assert len(set((np.array(expected) - X).tolist())) == 6


def test_ten_thousand_products_of_matrices():
    module = parse_hlo("""HloModule m
sum { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] add(p, q) }
body { a = f32[] parameter(0) x = f32[8,8] broadcast(a), dimensions={} i = f32[8,8] iota(), iota_dimension=0
  y = f32[8,8] add(x, i) z = f32[8,8] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  o = f32[] constant(0) ROOT s = f32[] reduce(z, o), dimensions={0,1}, to_apply=sum }
ENTRY main { x = f32[10000] parameter(0) ROOT r = f32[10000] map(x), dimensions={0}, to_apply=body }
""")
    x = np.arange(10000, dtype=np.float32) / 10000
    result = run(module, x)
    np.testing.assert_allclose(result, 512 * x * (x + 3.5), rtol=1e-5)


class TestMergedInstances:
    def test_merge_batch_makes_the_batch_the_outer_part_of_each_group(self):
        array = np.array([["ax", "ay"], ["bx", "by"]])
        assert merge_batch(array, 0).tolist() == ["ax", "ay", "bx", "by"]
        assert merge_batch(array, 0, 2).tolist() == ["ax", "bx", "ay", "by"]

    @pytest.mark.parametrize("dimension", [0, 1, 2])
    def test_split_batch_undoes_merge_batch(self, dimension: int):
        array = np.arange(5 * 2 * 3 * 4).reshape(5, 2, 3, 4)
        merged = merge_batch(array, dimension)
        assert merged.shape[dimension] == 5 * array.shape[dimension + 1]
        assert split_batch(merged, dimension, 5).tolist() == array.tolist()
