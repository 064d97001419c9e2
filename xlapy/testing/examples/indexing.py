"""Worked examples and refusals of gather and scatter."""

from __future__ import annotations

from xlapy.base.error_codes.operations import indexing as codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as reduction_codes
from xlapy.testing.examples.example import Example, Refusal, Violation

EXAMPLES = [
    Example(
        "gather",
        """
        table = f32[3,2] {{1, 2}, {3, 4}, {5, 6}}
        rows = s32[4] {2, 0, 1, 9}
        y = f32[4,2] gather(table, rows), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,2}
        => f32[4,2] {{5, 6}, {1, 2}, {3, 4}, {5, 6}}
        """,
    ),
    Example(
        "gather",
        """
        x = f32[3,4] {{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}}
        corners = s32[2,2] {{0, 1}, {1, 2}}
        y = f32[2,2,2] gather(x, corners), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0,1}, \
index_vector_dim=1, slice_sizes={2,2}
        => f32[2,2,2] {{{1, 2}, {5, 6}}, {{6, 7}, {10, 11}}}
        """,
    ),
    Example(
        "scatter",
        """
        sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
        table = f32[3,2] {{1, 2}, {3, 4}, {5, 6}}
        rows = s32[3] {0, 0, 9}
        updates = f32[3,2] {{10, 20}, {100, 200}, {7, 7}}
        y = f32[3,2] scatter(table, rows, updates), update_window_dims={1}, inserted_window_dims={0}, \
scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum
        => f32[3,2] {{111, 222}, {3, 4}, {5, 6}}
        """,
    ),
]


def _gather(
    constraint: int,
    violation: Violation,
    operands: str = "f32[3,2], s32[4]",
    offset: str = "1",
    collapsed: str = "0",
    index_map: str = "0",
    vector: int = 1,
    sizes: str = "1,2",
    more: str = "",
) -> Refusal:
    numbers = f"offset_dims={{{offset}}}, collapsed_slice_dims={{{collapsed}}}, start_index_map={{{index_map}}}"
    text = f"f32[4,2] gather({operands}), {numbers}, index_vector_dim={vector}, slice_sizes={{{sizes}}}{more}"
    return Refusal("gather", constraint, text, violation)


def _scatter(
    constraint: int,
    violation: Violation,
    operands: str = "f32[3,2], s32[4], f32[4,2]",
    window: str = "1",
    inserted: str = "0",
    index_map: str = "0",
    vector: int = 1,
    more: str = "",
    program: str = "f32[], f32[] -> f32[]",
) -> Refusal:
    numbers = (
        f"update_window_dims={{{window}}}, inserted_window_dims={{{inserted}}}, "
        f"scatter_dims_to_operand_dims={{{index_map}}}"
    )
    text = f"f32[3,2] scatter({operands}), {numbers}, index_vector_dim={vector}{more}, to_apply=({program})"
    return Refusal("scatter", constraint, text, violation)


def _batching(of_operand: str, of_indices: str) -> str:
    return f", operand_batching_dims={{{of_operand}}}, start_indices_batching_dims={{{of_indices}}}"


def _scatter_batching(of_operand: str, of_indices: str) -> str:
    return f", input_batching_dims={{{of_operand}}}, scatter_indices_batching_dims={{{of_indices}}}"


REFUSALS = [
    _gather(1, (shared.ARRAY_OPERAND, "operand 1", "token[]"), "f32[3,2], token[]"),
    _gather(1, (codes.INDEX_TYPE, "f32[4]"), "f32[3,2], f32[4]"),
    _gather(2, (codes.INDEX_VECTOR_DIMENSION, "index_vector_dim 2", "[0, 1]"), vector=2),
    _gather(3, (shared.DIMENSION_NUMBER, "offset_dims", "[2]"), offset="2"),
    _gather(4, (codes.INDEX_COMPONENTS, "start_index_map", "[0, 1]"), index_map="0,1"),
    _gather(4, (shared.DIMENSION_NUMBER, "start_index_map", "[2]"), index_map="2"),
    _gather(5, (codes.ASCENDING_DIMENSIONS, "collapsed_slice_dims", "[1, 0]"), offset="", collapsed="1,0"),
    _gather(
        5,
        (codes.DISJOINT_DIMENSIONS, "operand_batching_dims", "[0]", "dimension 0"),
        "f32[4,2], s32[4]",
        more=_batching("0", "0"),
    ),
    _gather(
        6,
        (codes.BATCHING_DIMENSIONS, "operand_batching_dims", "[0]", "start_indices_batching_dims"),
        collapsed="",
        more=_batching("0", ""),
    ),
    _gather(
        6,
        (codes.BATCHING_DIMENSIONS, "index_vector_dim 1"),
        "f32[4,2], s32[4,1]",
        collapsed="",
        index_map="1",
        more=_batching("0", "1"),
    ),
    _gather(7, (shared.ENTRY_PER_DIMENSION, "f32[3,2]", "[1]"), sizes="1"),
    _gather(7, (movement_codes.SLICE_SIZES, "size 3", "dimension 1", "operand's"), sizes="1,3"),
    _gather(7, (codes.DROPPED_SLICE_SIZE, "2"), sizes="2,2"),
    _gather(8, (codes.DIMENSION_KINDS, "offset_dims", "[1]", "collapsed_slice_dims"), offset="1", collapsed=""),
    _scatter(1, (shared.ARRAY_OPERAND, "operand 0", "token[]"), "token[], s32[4], f32[4,2]"),
    _scatter(1, (codes.INDEX_TYPE, "f32[4]"), "f32[3,2], f32[4], f32[4,2]"),
    _scatter(2, (codes.INDEX_VECTOR_DIMENSION, "index_vector_dim 2", "[0, 1]"), vector=2),
    _scatter(3, (codes.SCATTER_OPERANDS, "4"), "f32[3,2], f32[3,2], s32[4], f32[4,2]"),
    _scatter(
        3,
        (shared.SAME_DIMENSIONS, "operand 0", "f32[3,2]", "operand 1", "f32[3,3]"),
        "f32[3,2], f32[3,3], s32[4], f32[4,2], f32[4,2]",
    ),
    _scatter(4, (codes.UPDATES_RANK, "rank 2"), "f32[3,2], s32[4], f32[4,2,1]"),
    _scatter(5, (shared.DIMENSION_NUMBER, "update_window_dims", "[2]"), window="2"),
    _scatter(6, (shared.DIMENSION_NUMBER, "inserted_window_dims", "[2]"), inserted="2"),
    _scatter(
        6,
        (codes.DISJOINT_DIMENSIONS, "dimension 0"),
        "f32[4,2], s32[4], f32[4]",
        window="",
        more=_scatter_batching("0", "0"),
    ),
    _scatter(7, (codes.DIMENSION_KINDS, "update_window_dims", "[1]", "inserted_window_dims"), inserted=""),
    _scatter(8, (codes.INDEX_COMPONENTS, "2", "1"), index_map="0,1"),
    _scatter(8, (shared.DIMENSION_NUMBER, "scatter_dims_to_operand_dims", "[2]"), index_map="2"),
    _scatter(
        9,
        (codes.BATCHING_DIMENSIONS, "input_batching_dims", "[0]", "scatter_indices_batching_dims"),
        inserted="",
        more=_scatter_batching("0", ""),
    ),
    _scatter(10, (codes.UPDATE_WINDOW, "size 3", "dimension 1"), "f32[3,2], s32[4], f32[4,3]"),
    _scatter(10, (codes.UPDATES_PER_INDEX, "dimension 0", "f32[5,2]", "size 5"), "f32[3,2], s32[4], f32[5,2]"),
    _scatter(11, (reduction_codes.REDUCER_COUNT, "2"), program="f32[] -> f32[]"),
    _scatter(11, (shared.SAME_ELEMENT_TYPE, "updates 0"), "f32[3,2], s32[4], s32[4,2]"),
    _scatter(
        11,
        (reduction_codes.REDUCER_TYPES, "parameter 1", "s32[]", "operand 0", "f32[3,2]"),
        program="f32[], s32[] -> f32[]",
    ),
]
