"""Cases of the rewrites in `passes/algebra/tuples.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites

REWRITE_CASES = [
    Rewrites(
        "get_element_of_tuple",
        """
        x = f32[3] parameter(0)
        y = s32[] parameter(1)
        t = (f32[3], s32[]) tuple(x, y)
        ROOT r = s32[] get-tuple-element(t), index=1
        """,
        """
        x = f32[3] parameter(0)
        ROOT y = s32[] parameter(1)
        """,
    ),
    Rewrites(
        "get_element_of_constant",
        """
        t = (f32[2], s32[]) constant(({1, 2}, 7))
        ROOT r = f32[2] get-tuple-element(t), index=0
        """,
        """
        ROOT constant = f32[2] constant({1, 2})
        """,
    ),
    Rewrites(
        "tuple_of_all_elements",
        """
        t = (f32[3], s32[]) parameter(0)
        x = f32[3] get-tuple-element(t), index=0
        y = s32[] get-tuple-element(t), index=1
        ROOT r = (f32[3], s32[]) tuple(x, y)
        """,
        """
        ROOT t = (f32[3], s32[]) parameter(0)
        """,
    ),
]

NO_MATCH_CASES = [
    NoMatch(
        "get_element_of_tuple",
        """
        t = (f32[3], s32[]) parameter(0)
        ROOT r = s32[] get-tuple-element(t), index=1
        """,
    ),
    NoMatch(
        "get_element_of_constant",
        """
        t = (f32[3], s32[]) parameter(0)
        ROOT r = s32[] get-tuple-element(t), index=1
        """,
    ),
    NoMatch(
        "tuple_of_all_elements",
        """
        t = (f32[3], f32[3]) parameter(0)
        x = f32[3] get-tuple-element(t), index=0
        y = f32[3] get-tuple-element(t), index=1
        ROOT r = (f32[3], f32[3]) tuple(y, x)
        """,
    ),
    NoMatch(
        "tuple_of_all_elements",
        """
        t = (f32[3], s32[]) parameter(0)
        x = f32[3] get-tuple-element(t), index=0
        ROOT r = (f32[3]) tuple(x)
        """,
    ),
]
