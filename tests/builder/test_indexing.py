"""The builder functions gather and scatter: instructions, values, errors."""

from __future__ import annotations

import numpy as np

from tests.builder.programs import evaluate, listing, parameters
from tests.raising import raises
from xlapy import ops
from xlapy.base import Shape, ShapeError
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.building import python_calls as python_calls_codes
from xlapy.base.error_codes.operations import indexing as codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import reduction as reduction_codes
from xlapy.base.errors import ArgumentTypeError, BuilderError
from xlapy.builder import XlaBuilder, XlaComputation
from xlapy.builder.indexing import GatherDimensionNumbers, ScatterDimensionNumbers

ROWS = GatherDimensionNumbers(offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1)
INTO_ROWS = ScatterDimensionNumbers(
    update_window_dims=[1], inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1
)


def sums(*types: str) -> XlaComputation:
    """Builds an update computation that adds N current values and N updates."""
    builder = XlaBuilder("sums")
    values = [ops.parameter(builder, i, Shape.parse(f"{t}[]"), f"x{i}") for i, t in enumerate((*types, *types))]
    added = [values[i] + values[len(types) + i] for i in range(len(types))]
    return builder.build(added[0] if len(types) == 1 else ops.tuple(builder, added))


class TestGather:
    def test_rows(self) -> None:
        x, i = parameters("f32[3,5]", "s32[3]")
        rows = ops.gather(x, i, ROWS, [1, 5])
        assert rows.shape.to_text(layout=False) == "f32[3,5]"
        assert rows.instruction.slice_sizes == (1, 5)
        values = np.arange(15, dtype=np.float32).reshape(3, 5)
        np.testing.assert_array_equal(evaluate(rows, values, np.int32([2, 0, 2])), values[[2, 0, 2]])

    def test_batching_and_promises(self) -> None:
        x, i = parameters("f32[7,5]", "s32[3,7,1]")
        numbers = GatherDimensionNumbers(
            offset_dims=[2],
            start_index_map=[1],
            index_vector_dim=2,
            operand_batching_dims=[0],
            start_indices_batching_dims=[1],
        )
        result = ops.gather(x, i, numbers, np.array([1, 2]), indices_are_sorted=True)
        assert listing(x.builder.build(result)).splitlines()[-2] == (
            "  ROOT gather = f32[3,7,2] gather(p0, p1), offset_dims={2}, collapsed_slice_dims={}, start_index_map={1}, "
            "operand_batching_dims={0}, start_indices_batching_dims={1}, index_vector_dim=2, slice_sizes={1,2}, "
            "indices_are_sorted=true"
        )

    def test_refused(self) -> None:
        x, i = parameters("f32[3,5]", "s32[3]")
        with raises(ShapeError, movement_codes.SLICE_SIZES, "test_indexing.py", "size 6", "dimension 1"):
            ops.gather(x, i, ROWS, [1, 6])
        with raises(BuilderError, builder_codes.LIST_OF_INTEGERS, "slice_sizes"):
            ops.gather(x, i, ROWS, 5)  # type: ignore[arg-type]
        with raises(BuilderError, codes.INDEX_TYPE):
            ops.gather(x, x, ROWS, [1, 5])
        with raises(BuilderError, builder_codes.OPERAND_KIND):
            ops.gather(x, 3, ROWS, [1, 5])  # type: ignore[arg-type]


class TestScatter:
    def test_sums_into_rows(self) -> None:
        x, i, u = parameters("f32[3,2]", "s32[4]", "f32[4,2]")
        result = ops.scatter(x, i, u, sums("f32"), INTO_ROWS)
        assert result.shape.to_text(layout=False) == "f32[3,2]"
        updates = np.float32([[1, 2], [3, 4], [5, 6], [7, 8]])
        value = evaluate(result, np.zeros((3, 2), np.float32), np.int32([0, 2, 0, 3]), updates)
        assert value.tolist() == [[6, 8], [0, 0], [3, 4]]

    def test_several_operands(self) -> None:
        x, y, i, u, v = parameters("f32[3,2]", "s8[3,2]", "s32[1]", "f32[1,2]", "s8[1,2]")
        result = ops.scatter([x, y], i, [u, v], sums("f32", "s8"), INTO_ROWS, unique_indices=True)
        assert result.shape.to_text(layout=False) == "(f32[3,2], s8[3,2])"
        assert (result.instruction.unique_indices, result.instruction.indices_are_sorted) == (True, False)
        zeros, ones = np.zeros((3, 2)), np.ones((1, 2))
        first, second = evaluate(
            result,
            zeros.astype(np.float32),
            zeros.astype(np.int8),
            np.int32([1]),
            ones.astype(np.float32),
            3 * ones.astype(np.int8),
        )
        assert first.tolist() == [[0, 0], [1, 1], [0, 0]]
        assert second.tolist() == [[0, 0], [3, 3], [0, 0]]

    def test_refused(self) -> None:
        x, i, u = parameters("f32[3,2]", "s32[4]", "f32[4,2]")
        with raises(BuilderError, codes.SCATTER_OPERANDS, "2"):
            ops.scatter([x, x], i, u, sums("f32"), INTO_ROWS)
        with raises(BuilderError, codes.SCATTER_OPERANDS, "0"):
            ops.scatter([], i, [], sums("f32"), INTO_ROWS)
        with raises(ShapeError, reduction_codes.REDUCER_TYPES, "parameter 0", "s32[]", "operand 0", "f32"):
            ops.scatter(x, i, u, sums("s32"), INTO_ROWS)
        with raises(ArgumentTypeError, python_calls_codes.ARGUMENT_TYPE, "inserted_window_dims"):
            ops.scatter(x, i, u, sums("f32"), ScatterDimensionNumbers(inserted_window_dims=0))  # type: ignore[arg-type]
