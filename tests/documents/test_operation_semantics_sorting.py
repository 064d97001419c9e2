"""Examples and rules of "Operation semantics": Sort and TopK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.documents.examples import built, check, counted, evaluate, f32, function, s32, shape
from tests.raising import Wanted, raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as codes
from xlapy.builder import XlaComputation, XlaOp

Build = Callable[..., XlaOp]

LT = function(ops.lt, "f32[]", "f32[]")
GT = function(ops.gt, "f32[]", "f32[]")
LT_TOTAL = function(ops.lt_total_order, "f32[]", "f32[]")


def is_sorted(comparator: XlaComputation = LT, **options: Any) -> Build:
    return lambda *operands: ops.sort(operands, comparator, **options)


class TestSort:
    def test_ascending(self) -> None:
        check(is_sorted(), (f32([3, 1, 2, 5, 4]),), f32([1, 2, 3, 4, 5]))

    def test_descending(self) -> None:
        check(is_sorted(GT), (f32([3, 1, 2, 5, 4]),), f32([5, 4, 3, 2, 1]))

    matrix = f32([[3, 9, 1], [2, 8, 7], [6, 0, 5]])

    def test_dimension_0_sorts_every_column(self) -> None:
        check(is_sorted(dimension=0), (self.matrix,), np.sort(self.matrix, axis=0))

    def test_dimension_1_sorts_each_row(self) -> None:
        check(is_sorted(dimension=1), (self.matrix,), np.sort(self.matrix, axis=1))

    def test_default_dimension_is_the_last(self) -> None:
        check(is_sorted(), (self.matrix,), np.sort(self.matrix, axis=1))
        check(is_sorted(dimension=-1), (counted(2, 3, 4),), counted(2, 3, 4))

    def test_is_not_stable_by_default(self) -> None:
        assert not attributes_of(is_sorted()).is_stable
        assert attributes_of(is_sorted(is_stable=True)).is_stable

    def test_three_operands_by_the_first(self) -> None:
        f = function(lambda a, b, *rest: ops.lt(a, b), "s32[]", "s32[]", "s32[]", "s32[]", "f32[]", "f32[]")
        operands = (s32([3, 1]), s32([42, 50]), f32([-3.0, 1.1]))
        check(is_sorted(f), operands, (s32([1, 3]), s32([50, 42]), f32([1.1, -3.0])))

    def test_parameters_2k_and_2k_plus_1_belong_to_operand_k(self) -> None:
        """Sorts by the second operand, and by the first if those are equal."""

        def before(a: XlaOp, b: XlaOp, c: XlaOp, d: XlaOp) -> XlaOp:
            return ops.or_(ops.lt(c, d), ops.and_(ops.eq(c, d), ops.lt(a, b)))

        f = function(before, "s32[]", "s32[]", "f32[]", "f32[]")
        check(is_sorted(f), (s32([4, 3, 2, 1]), f32([1, 0, 1, 0])), (s32([1, 3, 2, 4]), f32([0, 0, 1, 1])))

    def test_stable(self) -> None:
        f = function(lambda a, b, c, d: ops.lt(a, b), "s32[]", "s32[]", "s32[]", "s32[]")
        keys, places = s32([1, 0, 1, 0, 1, 0] * 20), np.arange(120, dtype=np.int32)
        order = np.argsort(keys, kind="stable")
        check(is_sorted(f, is_stable=True), (keys, places), (keys[order], places[order]))

    def test_total_order_of_nan_and_zeros(self) -> None:
        values = f32([np.nan, 1, -0.0, 0.0, -np.inf, np.inf])
        check(is_sorted(LT_TOTAL), (values,), f32([-np.inf, -0.0, 0.0, 1, np.inf, np.nan]))

    def test_the_formal_rule(self) -> None:
        values = np.random.default_rng(0).integers(-5, 5, 50).astype(np.float32)
        result = evaluate(is_sorted(GT), values)
        for i in range(len(values)):
            for j in range(i + 1, len(values)):
                assert result[i] > result[j] or not (result[i] > result[j] or result[j] > result[i])

    @pytest.mark.parametrize(
        ("build", "shapes", "wanted"),
        [
            (
                is_sorted(function(lambda a, b, c, d: ops.lt(a, b), *["f32[]"] * 4)),
                ("f32[3]", "f32[4]"),
                (shared.SAME_DIMENSIONS, "operand 1", "f32[4]", "operand 0", "f32[3]"),
            ),
            (is_sorted(dimension=1), ("f32[3]",), (shared.DIMENSION_NUMBER, "dimension 1", "f32[3]", "rank 1")),
            (is_sorted(), ("s32[3]",), (codes.COMPARATOR_PARAMETERS, "parameter 0", "f32[]", "operand 0", "s32[3]")),
            (
                is_sorted(function(ops.add, "f32[]", "f32[]")),
                ("f32[3]",),
                (codes.COMPARATOR_RESULT, "pred[]", "->", "f32[]"),
            ),
        ],
    )
    def test_refusals(self, build: Build, shapes: tuple[str, ...], wanted: Wanted) -> None:
        with raises(ShapeError, *wanted):
            shape(build, *shapes)


def attributes_of(build: Build) -> Any:
    return built(build, "f32[3]").instruction.attributes


class TestTopK:
    def test_largest(self) -> None:
        check(lambda x: ops.top_k(x, 2), (f32([3, 9, 4, 1]),), (f32([9, 4]), s32([1, 2])))

    def test_smallest(self) -> None:
        check(lambda x: ops.top_k(x, k=3, largest=False), (f32([3, 9, 4, 1]),), (f32([1, 3, 4]), s32([3, 0, 2])))

    def test_leading_dimensions_are_preserved(self) -> None:
        assert shape(lambda x: ops.top_k(x, 3), "f32[2,5,7]") == "(f32[2,5,3], s32[2,5,3])"
        x = np.random.default_rng(1).permutation(24).astype(np.float32).reshape(2, 3, 4)
        order = np.argsort(-x, axis=-1)[..., :2].astype(np.int32)
        check(lambda x: ops.top_k(x, 2), (x,), (np.take_along_axis(x, order, -1), order))

    def test_equal_elements_are_ordered_by_index(self) -> None:
        check(lambda x: ops.top_k(x, 3), (s32([5, 7, 5, 7, 7]),), (s32([7, 7, 7]), s32([1, 3, 4])))
        check(lambda x: ops.top_k(x, 3, False), (s32([7, 5, 7, 5, 5]),), (s32([5, 5, 5]), s32([1, 3, 4])))

    def test_nan_is_the_largest(self) -> None:
        x = f32([1, np.nan, np.inf, np.nan, -1])
        check(lambda x: ops.top_k(x, 3), (x,), (f32([np.nan, np.nan, np.inf]), s32([1, 3, 2])))
        check(lambda x: ops.top_k(x, 4, False), (x,), (f32([-1, 1, np.inf, np.nan]), s32([4, 0, 2, 1])))

    def test_all_elements(self) -> None:
        check(lambda x: ops.top_k(x, 3), (f32([1, 3, 2]),), (f32([3, 2, 1]), s32([1, 2, 0])))

    @pytest.mark.parametrize(
        ("operand", "k", "wanted"),
        [
            ("f32[]", 1, (shared.MINIMUM_RANK, "rank 1", "f32[]")),
            ("f32[2,3]", 4, (codes.TOP_COUNT, "k 4", "f32[2,3]")),
            ("f32[3]", -1, (codes.TOP_COUNT, "k -1")),
        ],
    )
    def test_refusals(self, operand: str, k: int, wanted: Wanted) -> None:
        with raises(ShapeError, *wanted):
            shape(lambda x: ops.top_k(x, k), operand)
