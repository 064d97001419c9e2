"""Examples and rules of "Operation semantics": Gather and Scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.documents.examples import Array, check, counted, evaluate, f32, function, s32, shape
from tests.raising import Wanted, raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.operations import indexing as codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import BuilderError
from xlapy.builder import XlaComputation, XlaOp
from xlapy.builder.indexing import GatherDimensionNumbers, ScatterDimensionNumbers

Build = Callable[..., XlaOp]


def combined(group: Sequence[int], component: int, index_vector_dim: int) -> tuple[int, ...]:
    """Combine(G, i) of the sections: inserts i into G at `index_vector_dim`."""
    return (*group[:index_vector_dim], component, *group[index_vector_dim:])


def index_vector(indices: Array, group: Sequence[int], index_vector_dim: int) -> list[int]:
    """The index vector S at G. Indices without an index vector dimension get one of size 1 at the end."""
    if index_vector_dim == indices.ndim:
        indices = indices[..., None]
    count = indices.shape[index_vector_dim]
    return [int(indices[combined(group, i, index_vector_dim)]) for i in range(count)]


# -- gather


def gathered(slice_sizes: Sequence[int], indices_are_sorted: bool = False, **numbers: Any) -> Build:
    return lambda operand, start_indices: ops.gather(
        operand, start_indices, GatherDimensionNumbers(**numbers), slice_sizes, indices_are_sorted
    )


def formal_gather(operand: Array, indices: Array, slice_sizes: Sequence[int], numbers: dict[str, Any]) -> Array:
    """Computes the formal definition of the section for indices in bounds, one output element at a time."""
    offset_dims, collapsed = numbers["offset_dims"], numbers["collapsed_slice_dims"]
    vector_dim = numbers["index_vector_dim"]
    batch = [size for d, size in enumerate(indices.shape) if d != vector_dim]
    window = [size for d, size in enumerate(slice_sizes) if d not in collapsed]
    rank = len(batch) + len(offset_dims)
    batch_dims = [d for d in range(rank) if d not in offset_dims]
    remapped = [d for d in range(operand.ndim) if d not in collapsed]
    sizes = [0] * rank
    for d, size in (*zip(batch_dims, batch, strict=True), *zip(offset_dims, window, strict=True)):
        sizes[d] = size
    result = np.zeros(sizes, operand.dtype)
    for out in np.ndindex(*sizes):
        position = [0] * operand.ndim
        vector = index_vector(indices, [out[d] for d in batch_dims], vector_dim)
        for component, target in enumerate(numbers["start_index_map"]):
            position[target] += vector[component]
        for k, d in enumerate(offset_dims):
            position[remapped[k]] += out[d]
        result[out] = operand[tuple(position)]
    return result


GATHERS: list[tuple[tuple[int, ...], Any, Sequence[int], dict[str, Any]]] = [
    (
        (5, 4),
        [[0, 1], [3, 2]],
        [1, 1],
        {"offset_dims": [], "collapsed_slice_dims": [0, 1], "start_index_map": [0, 1], "index_vector_dim": 1},
    ),
    (
        (5, 4),
        [[0, 1], [2, 3]],
        [1, 1],
        {"offset_dims": [], "collapsed_slice_dims": [0, 1], "start_index_map": [1, 0], "index_vector_dim": 0},
    ),
    (
        (5, 4),
        [[0, 2, 1]],
        [3, 2],
        {"offset_dims": [0, 2], "collapsed_slice_dims": [], "start_index_map": [0], "index_vector_dim": 0},
    ),
    (
        (5, 4, 3),
        [2, 0],
        [2, 4, 1],
        {"offset_dims": [1, 2], "collapsed_slice_dims": [2], "start_index_map": [2], "index_vector_dim": 1},
    ),
    (
        (5, 4, 3),
        [1, 0, 2],
        [3, 2, 1],
        {"offset_dims": [0, 1], "collapsed_slice_dims": [2], "start_index_map": [0, 1, 2], "index_vector_dim": 0},
    ),
]


class TestGather:
    @pytest.mark.parametrize(("sizes", "indices", "slice_sizes", "numbers"), GATHERS)
    def test_formal_definition(self, sizes: Any, indices: Any, slice_sizes: Any, numbers: dict[str, Any]) -> None:
        operand = counted(*sizes)
        expected = formal_gather(operand, s32(indices), slice_sizes, numbers)
        check(gathered(slice_sizes, **numbers), (operand, s32(indices)), expected)

    def test_slices_of_a_matrix(self) -> None:
        """Gathers five 8 by 6 slices of a 16 by 11 array, at positions (X, Y)."""
        operand, indices = counted(16, 11), np.array([[0, 0], [8, 5], [3, 2], [1, 4], [7, 0]], np.int64)
        build = gathered([8, 6], offset_dims=[1, 2], start_index_map=[0, 1], index_vector_dim=1)
        check(build, (operand, indices), np.stack([operand[x : x + 8, y : y + 6] for x, y in indices]))

    def test_indices_with_several_batch_dimensions(self) -> None:
        operand = counted(16, 11)
        indices = np.stack([np.arange(20).reshape(4, 5) % 9, np.arange(20).reshape(4, 5) % 6], axis=-1)
        build = gathered([8, 6], offset_dims=[2, 3], start_index_map=[0, 1], index_vector_dim=2)
        result = evaluate(build, operand, indices)
        assert result.shape == (4, 5, 8, 6)
        for g0, g1, o0, o1 in np.ndindex(4, 5, 8, 6):
            x, y = indices[g0, g1]
            assert result[g0, g1, o0, o1] == operand[x + o0, y + o1]

    def test_whole_rows(self) -> None:
        """Selects whole rows, as tf.gather_nd does."""
        operand, indices = counted(16, 11), (np.arange(20).reshape(4, 5, 1) * 7) % 16
        build = gathered([1, 11], offset_dims=[2], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=2)
        check(build, (operand, indices), operand[indices[..., 0]])

    def test_implicit_trailing_dimension(self) -> None:
        build = gathered([1, 3], offset_dims=[2], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=2)
        assert shape(build, "f32[9,3]", "s32[6,7]") == shape(build, "f32[9,3]", "s32[6,7,1]") == "f32[6,7,3]"

    def test_result_sizes(self) -> None:
        """The page's example with offset_dims.size 4, operand.rank 6 and collapsed dimensions 0 and 2: 0>1, 1>3, 2>4,
        3>5.
        """
        build = gathered(
            [1, 2, 1, 3, 4, 5],
            offset_dims=[0, 2, 3, 5],
            collapsed_slice_dims=[0, 2],
            start_index_map=[0, 1, 5],
            index_vector_dim=1,
        )
        assert shape(build, "f32[9,9,9,9,9,9]", "s32[7,3,8]") == "f32[2,7,3,4,8,5]"

    def test_starts_out_of_bounds_are_clamped(self) -> None:
        operand = s32([0, 1, 2, 3, 4])
        build = gathered([3], offset_dims=[1], start_index_map=[0], index_vector_dim=1)
        check(build, (operand, s32([-7, 1, 3, 100])), s32([[0, 1, 2], [1, 2, 3], [2, 3, 4], [2, 3, 4]]))

    def test_indices_are_sorted_is_a_promise(self) -> None:
        numbers = {"offset_dims": [], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1}
        check(gathered([1], indices_are_sorted=True, **numbers), (s32([5, 6, 7]), s32([0, 2])), s32([5, 7]))

    @pytest.mark.parametrize(
        ("slice_sizes", "changes", "wanted"),
        [
            ([1, 4], {"collapsed_slice_dims": []}, (codes.DIMENSION_KINDS, "f32[9,4]")),
            ([1], {}, (shared.ENTRY_PER_DIMENSION, "f32[9,4]", "[1]")),
            ([2, 4], {}, (codes.DROPPED_SLICE_SIZE, "dimension 0", "collapsed_slice_dims", "[0]")),
            ([1, 5], {}, (movement_codes.SLICE_SIZES, "size 5", "dimension 1", "operand's")),
            ([1, 4], {"start_index_map": [0, 1]}, (codes.INDEX_COMPONENTS, "start_index_map", "[0, 1]")),
            ([1, 4], {"start_index_map": [2]}, (shared.DIMENSION_NUMBER, "start_index_map", "[2]")),
            ([1, 4], {"index_vector_dim": 2}, (codes.INDEX_VECTOR_DIMENSION, "index_vector_dim 2", "[0, 1]", "s32[6]")),
            ([1, 4], {"offset_dims": [2]}, (shared.DIMENSION_NUMBER, "offset_dims", "[2]")),
        ],
    )
    def test_refusals(self, slice_sizes: list[int], changes: dict[str, Any], wanted: Wanted) -> None:
        numbers = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "index_vector_dim": 1}
        with raises(ShapeError, *wanted):
            shape(gathered(slice_sizes, **{**numbers, **changes}), "f32[9,4]", "s32[6]")


# -- scatter

ADD = function(ops.add, "s32[]", "s32[]")
ADD_F32 = function(ops.add, "f32[]", "f32[]")
KEEP_UPDATE = function(lambda current, update: update, "f32[]", "f32[]")


def scattered(computation: XlaComputation = ADD_F32, **options: Any) -> Build:
    flags = {name: options.pop(name) for name in ("indices_are_sorted", "unique_indices") if name in options}
    numbers = ScatterDimensionNumbers(**options)
    return lambda operand, indices, updates: ops.scatter(operand, indices, updates, computation, numbers, **flags)


def formal_scatter(operand: Array, indices: Array, updates: Array, numbers: dict[str, Any]) -> Array:
    """Computes the definition of the section with addition, for windows inside the operand."""
    window_dims, inserted = numbers["update_window_dims"], numbers["inserted_window_dims"]
    scatter_dims = [d for d in range(updates.ndim) if d not in window_dims]
    window_to_operand = [d for d in range(operand.ndim) if d not in inserted]
    output = operand.copy()
    for update in np.ndindex(*updates.shape):
        vector = index_vector(indices, [update[d] for d in scatter_dims], numbers["index_vector_dim"])
        position = [0] * operand.ndim
        for component, target in enumerate(numbers["scatter_dims_to_operand_dims"]):
            position[target] += vector[component]
        for k, d in enumerate(window_dims):
            position[window_to_operand[k]] += update[d]
        output[tuple(position)] += updates[update]
    return output


SCATTERS: list[tuple[tuple[int, ...], Any, tuple[int, ...], dict[str, Any]]] = [
    (
        (5, 4),
        [1, 3, 1],
        (3, 4),
        {
            "update_window_dims": [1],
            "inserted_window_dims": [0],
            "scatter_dims_to_operand_dims": [0],
            "index_vector_dim": 1,
        },
    ),
    (
        (5, 4),
        [[0, 1], [2, 3]],
        (2,),
        {
            "update_window_dims": [],
            "inserted_window_dims": [0, 1],
            "scatter_dims_to_operand_dims": [1, 0],
            "index_vector_dim": 0,
        },
    ),
    (
        (5, 4),
        [[[0, 1]], [[3, 2]]],
        (2, 2, 2, 1),
        {
            "update_window_dims": [0, 2],
            "inserted_window_dims": [],
            "scatter_dims_to_operand_dims": [0, 1],
            "index_vector_dim": 2,
        },
    ),
    (
        (5, 4, 3),
        [2, 0],
        (3, 2, 4),
        {
            "update_window_dims": [0, 2],
            "inserted_window_dims": [2],
            "scatter_dims_to_operand_dims": [2],
            "index_vector_dim": 1,
        },
    ),
]

ROWS = {
    "update_window_dims": [1],
    "inserted_window_dims": [0],
    "scatter_dims_to_operand_dims": [0],
    "index_vector_dim": 1,
}


class TestScatter:
    @pytest.mark.parametrize(("sizes", "indices", "update_sizes", "numbers"), SCATTERS)
    def test_definition(self, sizes: Any, indices: Any, update_sizes: Any, numbers: dict[str, Any]) -> None:
        operand, updates = counted(*sizes), counted(*update_sizes, first=100)
        expected = formal_scatter(operand, s32(indices), updates, numbers)
        check(scattered(**numbers), (operand, s32(indices), updates), expected)

    def test_example_1(self) -> None:
        """The figure of the section: the window of the update index at (0, 9) is out of bounds and skipped."""
        operand = np.arange(1, 49, dtype=np.int32).reshape(2, 3, 4, 2)
        indices = np.array(
            [
                [[[0, 0], [1, 0], [2, 1]], [[0, 1], [1, 1], [0, 9]]],
                [[[0, 0], [2, 1], [2, 2]], [[1, 2], [0, 1], [1, 0]]],
            ]
        )
        build = scattered(
            ADD,
            update_window_dims=[3, 4],
            inserted_window_dims=[1],
            input_batching_dims=[0],
            scatter_indices_batching_dims=[1],
            scatter_dims_to_operand_dims=[2, 1],
            index_vector_dim=3,
        )
        expected = s32(
            [
                [
                    [[3, 4], [6, 7], [6, 7], [7, 8]],
                    [[9, 10], [11, 12], [15, 16], [17, 18]],
                    [[17, 18], [19, 20], [22, 23], [24, 25]],
                ],
                [
                    [[25, 26], [28, 29], [30, 31], [31, 32]],
                    [[35, 36], [38, 39], [38, 39], [39, 40]],
                    [[41, 42], [44, 45], [46, 47], [47, 48]],
                ],
            ]
        )
        check(build, (operand, indices, np.ones((2, 2, 3, 2, 2), np.int32)), expected)

    def test_current_value_is_the_first_parameter(self) -> None:
        f = function(lambda current, update: current * 10 + update, "f32[]", "f32[]")
        operand, updates = f32([[1, 2], [3, 4]]), f32([[5, 6]])
        check(scattered(f, **ROWS), (operand, s32([1]), updates), f32([[1, 2], [35, 46]]))

    def test_updates_of_one_element_apply_in_row_major_order(self) -> None:
        f = function(lambda current, update: current * 10 + update, "f32[]", "f32[]")
        updates = f32([[1], [2], [3]])
        check(scattered(f, **ROWS), (f32([[0], [0]]), s32([0, 0, 0]), updates), f32([[123], [0]]))
        check(scattered(KEEP_UPDATE, **ROWS), (f32([[0], [0]]), s32([0, 0, 0]), updates), f32([[3], [0]]))

    def test_a_partly_out_of_bounds_window_is_skipped_entirely(self) -> None:
        numbers = {
            "update_window_dims": [1],
            "inserted_window_dims": [],
            "scatter_dims_to_operand_dims": [0],
            "index_vector_dim": 1,
        }
        updates = f32([[1, 1, 1], [10, 10, 10], [100, 100, 100]])
        check(scattered(**numbers), (f32([0, 0, 0, 0, 0]), s32([3, 1, -1]), updates), f32([0, 10, 10, 10, 0]))

    def test_is_the_inverse_of_gather(self) -> None:
        operand, indices = counted(5, 4), s32([3, 0])
        rows = evaluate(
            gathered([1, 4], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1),
            operand,
            indices,
        )
        doubled = operand.copy()
        doubled[[3, 0]] *= 2
        check(scattered(**ROWS), (operand, indices, rows), doubled)

    def test_several_operands(self) -> None:
        def step(a: XlaOp, n: XlaOp, b: XlaOp, m: XlaOp) -> XlaOp:
            return ops.tuple(a.builder, [a + b, ops.max(n, m)])

        f = function(step, "f32[]", "s32[]", "f32[]", "s32[]")
        check(
            lambda x, y, i, u, v: ops.scatter([x, y], i, [u, v], f, ScatterDimensionNumbers(**ROWS)),
            (f32([[1], [2]]), s32([[1], [2]]), s32([1, 1]), f32([[10], [100]]), s32([[9], [5]])),
            (f32([[1], [112]]), s32([[1], [9]])),
        )

    def test_promises_change_nothing_if_kept(self) -> None:
        build = scattered(indices_are_sorted=True, unique_indices=True, **ROWS)
        check(build, (f32([[1], [2], [3]]), s32([0, 2]), f32([[10], [20]])), f32([[11], [2], [23]]))

    def test_scatter_dims_need_not_be_all_dimensions(self) -> None:
        build = scattered(update_window_dims=[1, 2], scatter_dims_to_operand_dims=[1], index_vector_dim=1)
        expected = np.zeros((2, 3), np.float32)
        expected[:, 2] = 1
        check(build, (np.zeros((2, 3), np.float32), s32([2]), np.ones((1, 2, 1), np.float32)), expected)

    @pytest.mark.parametrize(
        ("updates", "changes", "wanted"),
        [
            ("f32[6]", {}, (codes.UPDATES_RANK, "rank 2", "f32[6]")),
            (
                "f32[6,5]",
                {},
                (codes.UPDATE_WINDOW, "window dimension 1", "f32[6,5]", "size 5", "dimension 1"),
            ),
            ("f32[7,4]", {}, (codes.UPDATES_PER_INDEX, "dimension 0", "f32[7,4]", "size 7")),
            ("f32[6,4]", {"update_window_dims": [2]}, (shared.DIMENSION_NUMBER, "update_window_dims", "[2]")),
            (
                "f32[6,4,4]",
                {"update_window_dims": [2, 1], "inserted_window_dims": []},
                (codes.ASCENDING_DIMENSIONS, "update_window_dims"),
            ),
            (
                "f32[6,4,4]",
                {"update_window_dims": [1, 1], "inserted_window_dims": []},
                (shared.DISTINCT_DIMENSIONS, "update_window_dims"),
            ),
            (
                "f32[6]",
                {"update_window_dims": [], "inserted_window_dims": [1, 0]},
                (codes.ASCENDING_DIMENSIONS, "inserted_window_dims"),
            ),
            (
                "f32[6]",
                {"update_window_dims": [], "inserted_window_dims": [0, 0]},
                (shared.DISTINCT_DIMENSIONS, "inserted_window_dims"),
            ),
            ("f32[6,4]", {"inserted_window_dims": [2]}, (shared.DIMENSION_NUMBER, "inserted_window_dims", "[2]")),
            ("f32[6,4]", {"inserted_window_dims": []}, (codes.DIMENSION_KINDS, "f32[9,4]")),
            ("f32[6,4]", {"scatter_dims_to_operand_dims": [0, 1]}, (codes.INDEX_COMPONENTS, "2", "1")),
            (
                "f32[6,4]",
                {"scatter_dims_to_operand_dims": [2]},
                (shared.DIMENSION_NUMBER, "scatter_dims_to_operand_dims", "[2]"),
            ),
        ],
    )
    def test_constraints(self, updates: str, changes: dict[str, Any], wanted: Wanted) -> None:
        with raises(ShapeError, *wanted):
            shape(scattered(**{**ROWS, **changes}), "f32[9,4]", "s32[6]", updates)

    def test_scatter_dims_must_be_distinct(self) -> None:
        with raises(ShapeError, shared.DISTINCT_DIMENSIONS, "scatter_dims_to_operand_dims [0, 0]"):
            shape(scattered(**{**ROWS, "scatter_dims_to_operand_dims": [0, 0]}), "f32[9,4]", "s32[6,2]", "f32[6,4]")

    def test_there_must_be_one_update_array_per_operand(self) -> None:
        with raises(BuilderError, codes.SCATTER_OPERANDS, "1"):
            shape(
                lambda x, i, u: ops.scatter([x], i, [u, u], ADD_F32, ScatterDimensionNumbers(**ROWS)),
                "f32[9,4]",
                "s32[6]",
                "f32[6,4]",
            )
