"""Cases of the rewrites in `passes/algebra/general.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites

REWRITE_CASES = [
    Rewrites(
        "result_without_elements",
        """
        x = f32[0,3] parameter(0)
        ROOT r = f32[0,3] exponential(x)
        """,
        """
        x = f32[0,3] parameter(0)
        constant = f32[] constant(0)
        ROOT broadcast = f32[0,3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "result_without_elements",
        """
        x = f32[2] parameter(0)
        ROOT r = f32[0] slice(x), slice={[1:1]}
        """,
        """
        x = f32[2] parameter(0)
        constant = f32[] constant(0)
        ROOT broadcast = f32[0] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "elementwise_of_broadcasts",
        """
        x = f32[] parameter(0)
        y = f32[] parameter(1)
        a = f32[4] broadcast(x), dimensions={}
        b = f32[4] broadcast(y), dimensions={}
        ROOT r = pred[4] compare(a, b), direction=LT
        """,
        """
        x = f32[] parameter(0)
        y = f32[] parameter(1)
        compare = pred[] compare(x, y), direction=LT
        ROOT broadcast = pred[4] broadcast(compare), dimensions={}
        """,
    ),
    Rewrites(
        "elementwise_of_broadcasts",
        """
        x = f32[3] parameter(0)
        a = f32[4,3] broadcast(x), dimensions={1}
        ROOT r = f32[4,3] exponential(a)
        """,
        """
        x = f32[3] parameter(0)
        exponential = f32[3] exponential(x)
        ROOT broadcast = f32[4,3] broadcast(exponential), dimensions={1}
        """,
    ),
]

NO_MATCH_CASES = [
    NoMatch(
        "result_without_elements",
        """
        x = f32[3] parameter(0)
        ROOT r = f32[3] exponential(x)
        """,
    ),
    NoMatch(
        "elementwise_of_broadcasts",
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        a = f32[3,3] broadcast(x), dimensions={0}
        b = f32[3,3] broadcast(y), dimensions={1}
        ROOT r = f32[3,3] add(a, b)
        """,
    ),
]
