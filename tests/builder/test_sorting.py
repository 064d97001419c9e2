"""The builder functions sort and top_k: instructions, values, errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.builder.programs import evaluate, listing, parameters
from tests.raising import raises
from xlapy import ops
from xlapy.base import Shape, ShapeError
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as codes
from xlapy.base.errors import BuilderError
from xlapy.builder import XlaBuilder, XlaComputation, XlaOp


def comparator(compare: Callable[[XlaOp, XlaOp], XlaOp], *types: str) -> XlaComputation:
    """Builds a computation that compares the elements of the first operand."""
    builder = XlaBuilder("comparator")
    for i in range(2 * len(types)):
        ops.parameter(builder, i, Shape.parse(f"{types[i // 2]}[]"), f"p{i}")
    first, second = (XlaOp(builder, p) for p in builder._computation.parameters[:2])
    return builder.build(compare(first, second))


class TestSort:
    def test_the_last_dimension_by_default(self) -> None:
        (x,) = parameters("f32[2,3]")
        result = ops.sort([x], comparator(ops.lt, "f32"))
        assert result.shape.to_text(layout=False) == "f32[2,3]"
        assert (result.instruction.dimension, result.instruction.is_stable) == (1, False)
        assert evaluate(result, np.float32([[3, 1, 2], [0, 5, -1]])).tolist() == [[1, 2, 3], [-1, 0, 5]]

    def test_the_example_of_the_specification(self) -> None:
        x, y, z = parameters("s32[2]", "s32[2]", "f32[2]")
        result = ops.sort((x, y, z), comparator(ops.lt, "s32", "s32", "f32"), 0, is_stable=True)
        value = evaluate(result, np.int32([3, 1]), np.int32([42, 50]), np.float32([-3, 1.5]))
        assert [part.tolist() for part in value] == [[1, 3], [50, 42], [1.5, -3]]

    def test_text(self) -> None:
        (x,) = parameters("f32[4]")
        result = ops.sort(x, comparator(ops.gt_total_order, "f32"), is_stable=True)
        assert listing(x.builder.build(result)).splitlines()[-2] == (
            "  ROOT sort = f32[4] sort(p0), dimensions={0}, is_stable=true, to_apply=comparator"
        )

    def test_refused(self) -> None:
        x, s, t = parameters("f32[2,3]", "f32[]", "(f32[2])")
        less = comparator(ops.lt, "f32")
        with raises(ShapeError, shared.DIMENSION_NUMBER, "dimension 2", "f32[2,3]", "rank 2"):
            ops.sort(x, less, 2)
        with raises(ShapeError, shared.DIMENSION_NUMBER, "dimension -1", "f32[]", "rank 0"):
            ops.sort(s, less)
        with raises(ShapeError, shared.ARRAY_OPERAND, "operand 0", "(f32[2])"):
            ops.sort(t, less)
        with raises(ShapeError, codes.COMPARATOR_PARAMETERS, "4"):
            ops.sort([x, x], less)
        with raises(BuilderError, builder_codes.OPERAND_KIND):
            ops.sort([], less)


class TestTopK:
    def test_largest_and_smallest(self) -> None:
        (x,) = parameters("f32[2,4]")
        values, indices = ops.top_k(x, 2)
        low, places = ops.top_k(x, 3, largest=False)
        assert (
            values.shape.to_text(layout=False),
            indices.shape.to_text(layout=False),
            places.shape.to_text(layout=False),
        ) == ("f32[2,2]", "s32[2,2]", "s32[2,3]")
        rows = np.float32([[1, np.nan, 2, 1], [-0.0, 0.0, 5, 5]])
        results = evaluate(ops.tuple(x.builder, [values, indices, low, places]), rows)
        np.testing.assert_array_equal(results[0], np.float32([[np.nan, 2], [5, 5]]))
        assert results[1].tolist() == [[1, 2], [2, 3]]
        assert results[2].tolist() == [[1, 1, 2], [0, 0, 5]]
        assert results[3].tolist() == [[0, 3, 2], [0, 1, 2]]

    def test_text(self) -> None:
        (x,) = parameters("f32[4]")
        text = listing(x.builder.build(ops.top_k(x, 2, is_stable=False)))
        assert "ROOT topk = (f32[2], s32[2]) topk(p0), k=2, largest=true, is_stable=false" in text

    def test_refused(self) -> None:
        x, s = parameters("f32[4]", "f32[]")
        with raises(ShapeError, codes.TOP_COUNT, "k 5", "f32[4]"):
            ops.top_k(x, 5)
        with raises(ShapeError, shared.MINIMUM_RANK, "rank 1", "f32[]"):
            ops.top_k(s, 0)
