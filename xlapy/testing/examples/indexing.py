"""Worked examples and refusals of gather and scatter."""

from __future__ import annotations

from xlapy.testing.examples.example import Example, Refusal

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
    message: str,
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
    return Refusal("gather", constraint, text, message)


def _scatter(
    constraint: int,
    message: str,
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
    return Refusal("scatter", constraint, text, message)


def _batching(of_operand: str, of_indices: str) -> str:
    return f", operand_batching_dims={{{of_operand}}}, start_indices_batching_dims={{{of_indices}}}"


def _scatter_batching(of_operand: str, of_indices: str) -> str:
    return f", input_batching_dims={{{of_operand}}}, scatter_indices_batching_dims={{{of_indices}}}"


REFUSALS = [
    _gather(1, "gather takes arrays, operand 1 is token[]", "f32[3,2], token[]"),
    _gather(1, "gather takes integer indices, given f32[4]", "f32[3,2], f32[4]"),
    _gather(2, "index_vector_dim 2 must be in [0, 1]", vector=2),
    _gather(3, "offset_dims [2] must be in [0, 2)", offset="2"),
    _gather(4, "start_index_map [0, 1] has 2 entries, the index vectors have 1", index_map="0,1"),
    _gather(4, "start_index_map [2] must be in [0, 2), the dimensions of the operand", index_map="2"),
    _gather(5, "collapsed_slice_dims [1, 0] must be ascending", offset="", collapsed="1,0"),
    _gather(5, "operand_batching_dims [0] share dimension 0", "f32[4,2], s32[4]", more=_batching("0", "0")),
    _gather(6, "must have the same number of entries", collapsed="", more=_batching("0", "")),
    _gather(
        6, "contains index_vector_dim 1", "f32[4,2], s32[4,1]", collapsed="", index_map="1", more=_batching("0", "1")
    ),
    _gather(7, "takes one slice size per dimension of f32[3,2], given [1]", sizes="1"),
    _gather(7, "slice size 3 of dimension 1 is not between 0 and the operand's 2", sizes="1,3"),
    _gather(7, "so its slice size must be 0 or 1, given 2", sizes="2,2"),
    _gather(8, "must have one entry per dimension of the operand", offset="1", collapsed=""),
    _scatter(1, "scatter takes arrays, operand 0 is token[]", "token[], s32[4], f32[4,2]"),
    _scatter(1, "scatter takes integer indices, given f32[4]", "f32[3,2], f32[4], f32[4,2]"),
    _scatter(2, "index_vector_dim 2 must be in [0, 1]", vector=2),
    _scatter(3, "an odd number, given 4", "f32[3,2], f32[3,2], s32[4], f32[4,2]"),
    _scatter(3, "operand 0 is f32[3,2], operand 1 is f32[3,3]", "f32[3,2], f32[3,3], s32[4], f32[4,2], f32[4,2]"),
    _scatter(4, "updates must have rank 2", "f32[3,2], s32[4], f32[4,2,1]"),
    _scatter(5, "update_window_dims [2] must be in [0, 2)", window="2"),
    _scatter(6, "inserted_window_dims [2] must be in [0, 2)", inserted="2"),
    _scatter(6, "share dimension 0", "f32[4,2], s32[4], f32[4]", window="", more=_scatter_batching("0", "0")),
    _scatter(7, "must have one entry per dimension of the operand", inserted=""),
    _scatter(8, "has 2 entries, the index vectors have 1", index_map="0,1"),
    _scatter(8, "scatter_dims_to_operand_dims [2] must be in [0, 2)", index_map="2"),
    _scatter(9, "must have the same number of entries", inserted="", more=_scatter_batching("0", "")),
    _scatter(10, "has size 3, more than the 2 of dimension 1", "f32[3,2], s32[4], f32[4,3]"),
    _scatter(10, "dimension 0 of the updates f32[5,2] has size 5", "f32[3,2], s32[4], f32[5,2]"),
    _scatter(11, "takes 2 parameters and returns 1 scalars for 1 operands", program="f32[] -> f32[]"),
    _scatter(11, "updates 0 have another type", "f32[3,2], s32[4], s32[4,2]"),
    _scatter(
        11, "parameter 1 of the update computation is s32[], operand 0 is f32[3,2]", program="f32[], s32[] -> f32[]"
    ),
]
