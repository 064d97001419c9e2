"""Cases of the rewrites in `passes/algebra/indexing.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites

REWRITE_CASES = [
    Rewrites(
        "scatter_of_one_window_in_bounds",
        """
        x = f32[5,4] parameter(0)
        k = s32[1] parameter(1)
        u = f32[4] parameter(2)
        c = s32[1] constant({3})
        i = s32[1] and(k, c)
        ROOT r = f32[5,4] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=plus
        """,
        """
        constant = s32[] constant(0)
        x = f32[5,4] parameter(0)
        k = s32[1] parameter(1)
        c = s32[1] constant({3})
        i = s32[1] and(k, c)
        reshape = s32[] reshape(i)
        constant.1 = s32[] constant(0)
        dynamic-slice = f32[1,4] dynamic-slice(x, reshape, constant.1), dynamic_slice_sizes={1,4}
        u = f32[4] parameter(2)
        reshape.1 = f32[1,4] reshape(u)
        add = f32[1,4] add(dynamic-slice, reshape.1)
        ROOT dynamic-update-slice = f32[5,4] dynamic-update-slice(x, add, reshape, constant.1)
        """,
    ),
    Rewrites(
        "gather_at_one_constant_index",
        """
        x = f32[5,4] parameter(0)
        i = s32[2] constant({4, 1})
        ROOT r = f32[4] gather(x, i), offset_dims={0}, collapsed_slice_dims={0},
          start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,4}
        """,
        """
        x = f32[5,4] parameter(0)
        slice = f32[1,4] slice(x), slice={[4:5], [0:4]}
        ROOT reshape = f32[4] reshape(slice)
        """,
    ),
    Rewrites(
        "gather_at_one_constant_index",
        """
        x = f32[5,4] parameter(0)
        i = s32[1,1] constant({{-3}})
        ROOT r = f32[1,2,4] gather(x, i), offset_dims={1,2}, collapsed_slice_dims={},
          start_index_map={0}, index_vector_dim=1, slice_sizes={2,4}
        """,
        """
        x = f32[5,4] parameter(0)
        slice = f32[2,4] slice(x), slice={[0:2], [0:4]}
        ROOT reshape = f32[1,2,4] reshape(slice)
        """,
    ),
    Rewrites(
        "gather_of_broadcast_scalar",
        """
        v = f32[] parameter(0)
        x = f32[5,4] broadcast(v), dimensions={}
        i = s32[3] parameter(1)
        ROOT r = f32[3,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
          start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
        """,
        """
        i = s32[3] parameter(1)
        v = f32[] parameter(0)
        ROOT broadcast = f32[3,4] broadcast(v), dimensions={}
        """,
    ),
    Rewrites(
        "scatter_without_updates",
        """
        x = f32[5] parameter(0)
        i = s32[0] parameter(1)
        u = f32[0] parameter(2)
        ROOT r = f32[5] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1,
          to_apply=plus
        """,
        """
        ROOT x = f32[5] parameter(0)
        i = s32[0] parameter(1)
        u = f32[0] parameter(2)
        """,
    ),
    Rewrites(
        "select_and_scatter_without_source",
        """
        x = f32[2] parameter(0)
        s = f32[0] parameter(1)
        v = f32[] parameter(2)
        ROOT r = f32[2] select-and-scatter(x, s, v), window={size=3}, select=less, scatter=plus
        """,
        """
        x = f32[2] parameter(0)
        s = f32[0] parameter(1)
        v = f32[] parameter(2)
        ROOT broadcast = f32[2] broadcast(v), dimensions={}
        """,
    ),
]

NO_MATCH_CASES = [
    NoMatch(
        "scatter_of_one_window_in_bounds",
        """
        x = f32[5,4] parameter(0)
        k = s32[1] parameter(1)
        u = f32[4] parameter(2)
        c = s32[1] constant({7})
        i = s32[1] and(k, c)
        ROOT r = f32[5,4] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=plus
        """,
    ),
    NoMatch(
        "gather_at_one_constant_index",
        """
        x = f32[5,4] parameter(0)
        i = s32[2] parameter(1)
        ROOT r = f32[4] gather(x, i), offset_dims={0}, collapsed_slice_dims={0},
          start_index_map={0,1}, index_vector_dim=0, slice_sizes={1,4}
        """,
    ),
    NoMatch(
        "gather_at_one_constant_index",
        """
        x = f32[5,4] parameter(0)
        i = s32[2,1] constant({{3}, {1}})
        ROOT r = f32[2,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
          start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
        """,
    ),
    NoMatch(
        "gather_of_broadcast_scalar",
        """
        v = f32[4] parameter(0)
        x = f32[5,4] broadcast(v), dimensions={1}
        i = s32[3] parameter(1)
        ROOT r = f32[3,4] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
          start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}
        """,
    ),
    NoMatch(
        "scatter_without_updates",
        """
        x = f32[5] parameter(0)
        i = s32[1] parameter(1)
        u = f32[1] parameter(2)
        ROOT r = f32[5] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1,
          to_apply=plus
        """,
    ),
    NoMatch(
        "select_and_scatter_without_source",
        """
        x = f32[4] parameter(0)
        s = f32[2] parameter(1)
        v = f32[] parameter(2)
        ROOT r = f32[4] select-and-scatter(x, s, v), window={size=3}, select=less, scatter=plus
        """,
    ),
]
