"""Cases of the rewrites in `passes/algebra/sorting.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites

REWRITE_CASES = [
    Rewrites(
        "sort_of_at_most_one_element",
        """
        x = f32[3,1] parameter(0)
        ROOT r = f32[3,1] sort(x), dimensions={1}, to_apply=less
        """,
        """
        ROOT x = f32[3,1] parameter(0)
        """,
    ),
    Rewrites(
        "sort_of_at_most_one_element",
        """
        x = f32[1] parameter(0)
        y = s32[1] parameter(1)
        ROOT r = (f32[1], s32[1]) sort(x, y), dimensions={0}, to_apply=less_of_pairs
        """,
        """
        x = f32[1] parameter(0)
        y = s32[1] parameter(1)
        ROOT tuple = (f32[1], s32[1]) tuple(x, y)
        """,
    ),
]

NO_MATCH_CASES = [
    NoMatch(
        "sort_of_at_most_one_element",
        """
        x = f32[1,3] parameter(0)
        ROOT r = f32[1,3] sort(x), dimensions={1}, to_apply=less
        """,
    ),
]
