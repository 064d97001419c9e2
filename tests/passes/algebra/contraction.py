"""Cases of the rewrites in `passes/algebra/contraction.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites

REWRITE_CASES = [
    Rewrites(
        "dot_over_at_most_one_element",
        """
        x = f32[3,0] parameter(0)
        y = f32[0,2] parameter(1)
        ROOT r = f32[3,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        """,
        """
        x = f32[3,0] parameter(0)
        y = f32[0,2] parameter(1)
        constant = f32[] constant(0)
        ROOT broadcast = f32[3,2] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "dot_over_at_most_one_element",
        """
        x = f32[1,3] parameter(0)
        y = f32[2,1] parameter(1)
        ROOT r = f32[3,2] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}
        """,
        """
        x = f32[1,3] parameter(0)
        reshape = f32[3] reshape(x)
        broadcast = f32[3,2] broadcast(reshape), dimensions={0}
        y = f32[2,1] parameter(1)
        reshape.1 = f32[2] reshape(y)
        broadcast.1 = f32[3,2] broadcast(reshape.1), dimensions={1}
        multiply = f32[3,2] multiply(broadcast, broadcast.1)
        constant = f32[] constant(0)
        broadcast.2 = f32[3,2] broadcast(constant), dimensions={}
        ROOT add = f32[3,2] add(multiply, broadcast.2)
        """,
    ),
    Rewrites(
        "dot_over_at_most_one_element",
        """
        x = s32[4,3,5] parameter(0)
        y = s32[5,4,2] parameter(1)
        ROOT r = s32[5,4,3,2] dot(x, y), lhs_batch_dims={2,0}, rhs_batch_dims={0,1},
          lhs_contracting_dims={}, rhs_contracting_dims={}
        """,
        """
        x = s32[4,3,5] parameter(0)
        broadcast = s32[5,4,3,2] broadcast(x), dimensions={1,2,0}
        y = s32[5,4,2] parameter(1)
        broadcast.1 = s32[5,4,3,2] broadcast(y), dimensions={0,1,3}
        ROOT multiply = s32[5,4,3,2] multiply(broadcast, broadcast.1)
        """,
    ),
]

NO_MATCH_CASES = [
    NoMatch(
        "dot_over_at_most_one_element",
        """
        x = f32[3,2] parameter(0)
        y = f32[2,2] parameter(1)
        ROOT r = f32[3,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        """,
    ),
    NoMatch(
        "dot_over_at_most_one_element",
        """
        x = f32[3,1] parameter(0)
        y = f32[1,2] parameter(1)
        ROOT r = f32[3,2] dot(x, y),
          lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_bf16_bf16_f32
        """,
    ),
    NoMatch(
        "dot_over_at_most_one_element",
        """
        x = c64[3,1] parameter(0)
        y = c64[1,2] parameter(1)
        ROOT r = c64[3,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        """,
    ),
]
