"""Reduce: the specification's examples, corner cases, and comparison with XLA:CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interpreter.runners.instruction import Case, run_text, typed
from tests.interpreter.runners.reduction import evaluate, on_both_sides
from xlapy.base.element_types import PrimitiveType
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_values import random_array

INTEGERS = ("s2", "u2", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
FLOATS = (
    "f8e5m2",
    "f8e4m3",
    "f8e4m3fn",
    "f8e4m3b11fnuz",
    "f8e5m2fnuz",
    "f8e4m3fnuz",
    "f8e3m4",
    "f16",
    "bf16",
    "f32",
    "f64",
)
CUBE = np.broadcast_to(np.arange(1, 7, dtype=np.float32).reshape(2, 3), (4, 2, 3))


def reduce(operand: Any, init: Any, shape: str, dimensions: str, computation: str) -> Any:
    return evaluate("reduce", [operand, init], shape, f"dimensions={{{dimensions}}}, to_apply={computation}")


class TestExamplesOfTheSpecification:
    def test_a_vector(self):
        assert reduce([10, 11, 12, 13], 0, "s32[]", "0", "add.s32") == 46

    def test_a_matrix(self):
        matrix = [[1, 2, 3], [4, 5, 6]]
        assert reduce(matrix, 0, "s32[3]", "0", "add.s32").tolist() == [5, 7, 9]
        assert reduce(matrix, 0, "s32[2]", "1", "add.s32").tolist() == [6, 15]

    def test_one_dimension_of_a_cube(self):
        assert reduce(CUBE, 0.0, "f32[2,3]", "0", "add.f32").tolist() == [[4, 8, 12], [16, 20, 24]]
        assert reduce(CUBE, 0.0, "f32[4,2]", "2", "add.f32").tolist() == [[6, 15]] * 4

    @pytest.mark.parametrize("dimensions", ["0,1", "1,0"])
    def test_two_dimensions_of_a_cube(self, dimensions: str):
        assert reduce(CUBE, 0.0, "f32[3]", dimensions, "add.f32").tolist() == [20, 28, 36]

    def test_all_dimensions_of_a_cube(self):
        assert reduce(CUBE, 0.0, "f32[]", "0,1,2", "add.f32") == 84

    def test_variadic_maximum_and_its_index(self):
        values, indices = [1.0, 5.0, 2.0, 5.0, 4.0], [0, 1, 2, 3, 4]
        value, index = evaluate(
            "reduce", [values, indices, float("-inf"), -1], "(f32[], s32[])", "dimensions={0}, to_apply=last_max"
        )
        assert (value, index) == (5, 3)  # `value >= max` selects the later of equal ones


class TestInitialValue:
    def test_the_initial_value_is_used_once(self):
        assert reduce([1, 10, 100], 1000, "s32[]", "0", "add.s32") == 1111
        assert reduce([[1, 10], [100, 2]], 1000, "s32[]", "0,1", "add.s32") == 1113

    def test_the_initial_value_is_the_left_operand(self):
        assert reduce([1, 2, 3], 7, "s32[]", "0", "earlier") == 7
        assert reduce([1, 2, 3], 7, "s32[]", "0", "later") == 3

    def test_a_reduction_of_no_elements_returns_the_initial_value(self):
        assert reduce(np.zeros((0, 3), np.int32), 5, "s32[3]", "0", "add.s32").tolist() == [5, 5, 5]
        values = [np.zeros((2, 0), np.float32), np.zeros((2, 0), np.int32), 1.5, 7]
        result = evaluate("reduce", values, "(f32[2], s32[2])", "dimensions={1}, to_apply=argmax")
        assert [part.tolist() for part in result] == [[1.5, 1.5], [7, 7]]

    def test_a_reduction_of_no_dimensions_returns_the_operand(self):
        assert reduce([1, 2], 5, "s32[2]", "", "add.s32").tolist() == [1, 2]
        assert reduce(3, 5, "s32[]", "", "add.s32") == 3

    def test_a_reduction_of_one_element_returns_it(self):
        assert reduce([[1, 2]], 5, "s32[2]", "0", "add.s32").tolist() == [1, 2]


class TestOrder:
    @pytest.mark.parametrize("count", [2, 3, 5, 7, 8, 13, 64, 100])
    def test_an_associative_computation_need_not_be_commutative(self, count: int):
        """Affine maps x -> p x + q, composed from left to right, each applied after the previous one."""
        rng = np.random.default_rng(count)
        scales, offsets = (rng.integers(-3, 4, count).astype(np.int32) for _ in range(2))
        scale, offset = 1, 0
        for p, q in zip(scales.tolist(), offsets.tolist(), strict=True):
            scale, offset = scale * p, offset * p + q
        result = evaluate("reduce", [scales, offsets, 1, 0], "(s32[], s32[])", "dimensions={0}, to_apply=affine")
        wrapped = np.array([scale & 0xFFFFFFFF, offset & 0xFFFFFFFF], np.uint32).astype(np.int32)
        assert [int(part) for part in result] == wrapped.tolist()

    def test_elements_come_in_row_major_order(self):
        digits = np.arange(1, 13, dtype=np.int32).reshape(3, 4)
        assert reduce(digits, 0, "s32[]", "1,0", "later") == 12
        assert reduce(digits.reshape(2, 3, 2), 0, "s32[3]", "2,0", "later").tolist() == [8, 10, 12]


class TestElementTypes:
    def test_integers_wrap(self):
        assert reduce(typed("s8", [100, 100]), typed("s8", 0), "s8[]", "0", "add.s8") == -56
        assert reduce(typed("u4", [9, 9]), typed("u4", 0), "u4[]", "0", "add.u4") == 2
        assert reduce(typed("s32", [2**30] * 4), 0, "s32[]", "0", "add.s32") == 0
        assert reduce(typed("u64", [2**63, 2**63, 5]), typed("u64", 0), "u64[]", "0", "add.u64") == 5
        assert reduce(typed("s8", [16, 8, 3]), typed("s8", 1), "s8[]", "0", "multiply.s8") == -128

    def test_maximum_and_minimum_of_nan_and_signed_zeros(self):
        low = np.float32(-np.inf)
        assert np.isnan(reduce([1.0, np.nan, 3.0], low, "f32[]", "0", "maximum.f32"))
        assert np.isnan(reduce([1.0, np.nan, 3.0], -low, "f32[]", "0", "minimum.f32"))
        assert not np.signbit(reduce([-0.0, 0.0, -0.0], low, "f32[]", "0", "maximum.f32"))
        assert np.signbit(reduce([0.0, -0.0, 0.0], -low, "f32[]", "0", "minimum.f32"))

    def test_sums_of_infinities(self):
        assert reduce([1.0, np.inf, 3.0], 0.0, "f32[]", "0", "add.f32") == np.inf
        assert np.isnan(reduce([np.inf, -np.inf], 0.0, "f32[]", "0", "add.f32"))

    def test_logical_reducers(self):
        rows = np.array([[1, 1, 0], [1, 0, 0]], np.bool_)
        true, false = np.bool_(True), np.bool_(False)
        assert reduce(rows, true, "pred[3]", "0", "and.pred").tolist() == [True, False, False]
        assert reduce(rows, false, "pred[3]", "0", "or.pred").tolist() == [True, True, False]
        assert reduce(rows, false, "pred[3]", "0", "xor.pred").tolist() == [False, True, False]
        assert reduce(rows, false, "pred[3]", "0", "add.pred").tolist() == [True, True, False]
        assert reduce(rows, true, "pred[3]", "0", "multiply.pred").tolist() == [True, False, False]

    def test_sums_are_rounded_at_every_step(self):
        values = np.array([2.0**24, 1, 1, 1, 1], np.float32)
        assert reduce(values, 0.0, "f32[]", "0", "add.f32") == 2.0**24
        assert reduce(values[::-1], 0.0, "f32[]", "0", "add.f32") == 2.0**24 + 4
        small = typed("bf16", [1, 2.0**-8, 2.0**-8])
        assert reduce(small, typed("bf16", 0), "bf16[]", "0", "add.bf16") == 1

    @pytest.mark.parametrize("t", ["bf16", "f16", "f8e4m3fn"])
    def test_long_sums_are_those_of_blocks(self, t: str):
        """If ones were added one by one, a bf16 sum would stay at 256, because adding 1 to it rounds to 256."""
        for size in (64, 1000) if t != "f8e4m3fn" else (256,):
            ones = typed(t, np.full(size, 1))
            assert float(reduce(ones, typed(t, 0), f"{t}[]", "0", f"add.{t}")) == (size if size != 256 else 128)

    def test_blocks_of_a_long_sum_are_aligned_in_the_middle(self):
        """40 elements are two blocks of 20, since SAME padding to 64 begins with 12 padding elements."""
        values = np.zeros(40, np.float32)
        values[[19, 20, 21]] = 2.0**24, 1, 1
        assert reduce(values, 0.0, "f32[]", "0", "add.f32") == 2.0**24 + 2
        values[[18, 19, 20]], values[21] = (2.0**24, 1, 1), 0
        assert reduce(values, 0.0, "f32[]", "0", "add.f32") == 2.0**24

    def test_a_long_sum_of_a_type_without_zero(self):
        """1 + 1 is 2, and 1 more rounds to 4, where it stays."""
        ones = typed("f8e8m0fnu", np.full(40, 1))
        assert float(reduce(ones, typed("f8e8m0fnu", 1), "f8e8m0fnu[]", "0", "add.f8e8m0fnu")) == 4

    def test_a_long_sum_of_many_dimensions(self):
        values = np.ones((40, *[1] * 58, 3), np.float32)
        reduced = ",".join(map(str, range(59)))
        assert reduce(values, 0.0, "f32[3]", reduced, "add.f32").tolist() == [40] * 3

    def test_a_non_associative_reducer_starts_with_the_initial_value(self):
        values, init = np.array([3, 5, 7, 11], np.float32), np.float32(100)
        assert reduce(values, init, "f32[]", "0", "subtract.f32") == 100 - 3 - 5 - 7 - 11
        assert reduce(values.reshape(2, 2), init, "f32[2]", "1", "subtract.f32").tolist() == [92, 82]

    def test_complex_sums_and_products(self):
        values = np.array([1 + 2j, 3 - 1j], np.complex64)
        assert reduce(values, np.complex64(0), "c64[]", "0", "add.c64") == 4 + 1j
        assert reduce(values, np.complex64(1), "c64[]", "0", "multiply.c64") == 5 + 5j


class TestTuples:
    def test_a_tuple_of_one(self):
        (result,) = evaluate("reduce", [[1.0, 2.0], 4.0], "(f32[])", "dimensions={0}, to_apply=boxed_add")
        assert result == 7

    def test_argmax_selects_the_first_maximum_and_prefers_nan(self):
        values = np.array([[1, 3, 3], [2, np.nan, 5], [-np.inf, -np.inf, -np.inf]], np.float32)
        indices = np.broadcast_to(np.arange(3, dtype=np.int32), (3, 3))
        operands = [values, indices, np.float32(-np.inf), 0]
        value, index = evaluate("reduce", operands, "(f32[3], s32[3])", "dimensions={1}, to_apply=argmax")
        assert index.tolist() == [1, 1, 0]
        assert value.tolist()[0] == 3
        assert np.isnan(value[1])

    def test_arrays_of_different_element_types(self):
        operands = [np.full((3, 4), 0.5, np.float32), np.ones((3, 4), np.int32), 0.0, 0]
        total, count = evaluate("reduce", operands, "(f32[4], s32[4])", "dimensions={0}, to_apply=sum_and_count")
        assert (total.tolist(), count.tolist()) == ([1.5] * 4, [3] * 4)


# Against XLA:CPU


def _reduce_cases(t: str, op: str, special: bool) -> list[Case]:
    """Returns cases of odd and empty sizes, every set of dimensions, and initial values, some of them identities."""
    rng = np.random.default_rng(len(t) + len(op))
    dtype = PrimitiveType.from_text(t).dtype
    identity = {"add": 0, "or": 0, "xor": 0, "multiply": 1}.get(op)
    cases = []
    for sizes, dimensions, kept in (
        ((7,), "0", ""),
        ((5, 3), "0", "3"),
        ((5, 3), "1", "5"),
        ((2, 3, 5), "2,0", "3"),
        ((33, 17), "0,1", ""),
        ((4, 0, 3), "1", "4,3"),
        ((0, 3), "1", "0"),
    ):
        operand = random_array(sizes, dtype, rng, special)
        init = random_array((), dtype, rng, special=False) if identity is None else typed(t, identity)
        cases.append(Case("reduce", (operand, init), f"{t}[{kept}]", f"dimensions={{{dimensions}}}, to_apply={op}.{t}"))
    return cases


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum", "and", "or", "xor"])
def test_integers_equal_those_of_xla(op: str):
    cases = [case for t in (*INTEGERS, "pred") for case in _reduce_cases(t, op, special=True)]
    for case, ours, theirs in on_both_sides(cases):
        assert_close(ours, theirs, rule="bits", where=case.title)


@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_choices_are_those_of_xla(op: str):
    cases = [case for t in FLOATS for case in _reduce_cases(t, op, special=True)]
    for case, ours, theirs in on_both_sides(cases):
        assert_close(ours, theirs, rule="bits", flush_denormals=True, where=case.title)


@pytest.mark.parametrize("t", [*FLOATS, "c64", "c128"])
def test_sums_are_those_of_xla(t: str):
    for case, ours, theirs in on_both_sides(_reduce_cases(t, "add", special=False)):
        dimensions = tuple(int(d) for d in case.attributes.split("{")[1].split("}")[0].split(","))
        operand = case.operands[0]
        wide = np.abs(operand.astype(np.complex128 if operand.dtype.kind == "c" else np.float64))
        terms = int(np.prod([wide.shape[d] for d in dimensions]))
        assert_close(
            ours,
            theirs,
            rule="accumulation",
            terms=terms,
            magnitude=wide.sum(axis=dimensions),
            flush_denormals=True,
            where=case.title,
        )


@pytest.mark.parametrize("t", ["bf16", "f16", "c64"])
def test_sums_are_those_of_xla_bit_by_bit(t: str):
    rng = np.random.default_rng(7)
    cases = []
    for sizes, dimensions, kept in (
        ((32,), "0", ""),
        ((5000,), "0", ""),
        ((33, 40), "1", "33"),
        ((40, 3, 50), "1,2", "40"),
        ((70, 90), "0,1", ""),
    ):
        operand = rng.standard_normal(sizes).astype(PrimitiveType.from_text(t).dtype)
        cases.append(
            Case("reduce", (operand, typed(t, 0)), f"{t}[{kept}]", f"dimensions={{{dimensions}}}, to_apply=add.{t}")
        )
    for case, ours, theirs in on_both_sides(cases):
        assert_close(ours, theirs, rule="bits", where=case.title)


@pytest.mark.parametrize("t", ["s32", "bf16", "f32", "f64"])
def test_reducers_that_are_not_associative_are_those_of_xla(t: str):
    rng = np.random.default_rng(8)
    cases = []
    for sizes, dimensions, kept in (((9,), "0", ""), ((5, 3), "1", "5"), ((3, 4, 5), "2,0", "4")):
        operands = rng.integers(-50, 50, sizes).astype(PrimitiveType.from_text(t).dtype), typed(t, 3)
        attributes = f"dimensions={{{dimensions}}}, to_apply=subtract.{t}"
        cases.append(Case("reduce", operands, f"{t}[{kept}]", attributes))
    for case, ours, theirs in on_both_sides(cases):
        assert_close(ours, theirs, rule="bits", where=case.title)


@pytest.mark.parametrize("t", ["bf16", "f32", "f64"])
def test_products_are_those_of_xla(t: str):
    for case, ours, theirs in on_both_sides(_reduce_cases(t, "multiply", special=False)):
        assert_close(
            ours, theirs, rule="accumulation", terms=case.operands[0].size, flush_denormals=True, where=case.title
        )


def test_variadic_reductions_are_those_of_xla():
    rng = np.random.default_rng(3)
    cases = []
    for sizes, dimensions, kept in (
        ((40,), "0", ""),
        ((9, 31), "1", "9"),
        ((9, 31), "0", "31"),
        ((3, 4, 5), "0,2", "4"),
    ):
        values = random_array(sizes, np.float32, rng)
        indices = np.arange(values.size, dtype=np.int32).reshape(sizes)
        shape, attributes = f"(f32[{kept}], s32[{kept}])", f"dimensions={{{dimensions}}}, to_apply="
        low, zero = np.array(-np.inf, np.float32), np.array(0, np.int32)
        cases.append(Case("reduce", (values, indices, low, zero), shape, attributes + "argmax"))
        finite = random_array(sizes, np.float32, rng, special=False)
        scales, offsets = (rng.integers(-3, 4, sizes).astype(np.int32) for _ in range(2))
        cases.append(Case("reduce", (finite, indices, low, zero), shape, attributes + "last_max"))
        one = np.array(1, np.int32)
        cases.append(Case("reduce", (scales, offsets, one, zero), f"(s32[{kept}], s32[{kept}])", attributes + "affine"))
    for case, ours, theirs in on_both_sides(cases):
        assert_close(ours, theirs, rule="bits", flush_denormals=True, where=case.title)


def test_a_reducer_that_calls_another_computation():
    text = """HloModule nested

inner {
  x = s32[] parameter(0)
  y = s32[] parameter(1)
  ROOT r = s32[] add(x, y)
}

outer {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] call(a, b), to_apply=inner
}

ENTRY main {
  p = s32[3,4]{1,0} parameter(0)
  i = s32[] constant(100)
  ROOT r = s32[3]{0} reduce(p, i), dimensions={1}, to_apply=outer
}
"""
    operand = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert run_text(text, operand).tolist() == [106, 122, 138]


def test_large_reductions():
    """Reduces sixteen million elements; a loop over them would take minutes."""
    operand = np.ones((4096, 4096), np.float32)
    assert reduce(operand, 0.0, "f32[]", "0,1", "add.f32") == 2.0**24
    assert reduce(operand, 0.0, "f32[4096]", "1", "maximum.f32").sum() == 4096
