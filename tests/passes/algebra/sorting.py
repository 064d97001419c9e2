"""Cases of the rewrites in `passes/algebra/sorting.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import Fires, Rests

FIRES = [
    Fires(
        "sort_at_most_one",
        """
        x = f32[3,1] parameter(0)
        ROOT r = f32[3,1] sort(x), dimensions={1}, to_apply=less
        """,
        """
        ROOT x = f32[3,1] parameter(0)
        """,
    ),
    Fires(
        "sort_at_most_one",
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

RESTS = [
    Rests(
        "sort_at_most_one",
        """
        x = f32[1,3] parameter(0)
        ROOT r = f32[1,3] sort(x), dimensions={1}, to_apply=less
        """,
    ),
]
