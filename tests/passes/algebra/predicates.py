"""Cases of the rewrites in `passes/algebra/predicates.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites

REWRITE_CASES = [
    Rewrites(
        "compare_of_known_integers",
        """
        x = s32[3] parameter(0)
        c = s32[3] constant({7, 7, 7})
        m = s32[3] and(x, c)
        n = s32[3] constant({8, 8, 8})
        ROOT r = pred[3] compare(m, n), direction=LT
        """,
        """
        x = s32[3] parameter(0)
        constant = pred[] constant(true)
        ROOT broadcast = pred[3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "not_of_compare",
        """
        x = s32[3] parameter(0)
        y = s32[3] parameter(1)
        c = pred[3] compare(x, y), direction=LT
        ROOT r = pred[3] not(c)
        """,
        """
        x = s32[3] parameter(0)
        y = s32[3] parameter(1)
        ROOT compare = pred[3] compare(x, y), direction=GE
        """,
    ),
    Rewrites(
        "not_of_compare",
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        c = pred[3] compare(x, y), direction=GE, type=TOTALORDER
        ROOT r = pred[3] not(c)
        """,
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        ROOT compare = pred[3] compare(x, y), direction=LT, type=TOTALORDER
        """,
    ),
    Rewrites(
        "compare_with_itself",
        """
        x = s32[3] parameter(0)
        ROOT r = pred[3] compare(x, x), direction=LE
        """,
        """
        x = s32[3] parameter(0)
        constant = pred[] constant(true)
        ROOT broadcast = pred[3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "compare_with_itself",
        """
        x = f32[3] parameter(0)
        ROOT r = pred[3] compare(x, x), direction=LT
        """,
        """
        x = f32[3] parameter(0)
        constant = pred[] constant(false)
        ROOT broadcast = pred[3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "compare_with_itself",
        """
        x = f32[3] parameter(0)
        ROOT r = pred[3] compare(x, x), direction=EQ, type=TOTALORDER
        """,
        """
        x = f32[3] parameter(0)
        constant = pred[] constant(true)
        ROOT broadcast = pred[3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "compare_with_type_limit",
        """
        x = u32[3] parameter(0)
        z = u32[3] constant({0, 0, 0})
        ROOT r = pred[3] compare(x, z), direction=GE
        """,
        """
        x = u32[3] parameter(0)
        constant = pred[] constant(true)
        ROOT broadcast = pred[3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "compare_with_type_limit",
        """
        x = s8[3] parameter(0)
        z = s8[3] constant({127, 127, 127})
        ROOT r = pred[3] compare(x, z), direction=GT
        """,
        """
        x = s8[3] parameter(0)
        constant = pred[] constant(false)
        ROOT broadcast = pred[3] broadcast(constant), dimensions={}
        """,
    ),
    Rewrites(
        "compare_predicate_with_constant",
        """
        x = pred[3] parameter(0)
        t = pred[3] constant({1, 1, 1})
        ROOT r = pred[3] compare(t, x), direction=EQ
        """,
        """
        ROOT x = pred[3] parameter(0)
        """,
    ),
    Rewrites(
        "compare_predicate_with_constant",
        """
        x = pred[3] parameter(0)
        t = pred[3] constant({1, 1, 1})
        ROOT r = pred[3] compare(x, t), direction=NE
        """,
        """
        x = pred[3] parameter(0)
        ROOT not = pred[3] not(x)
        """,
    ),
    Rewrites(
        "select_by_constant",
        """
        p = pred[3] constant({1, 1, 1})
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        ROOT r = f32[3] select(p, x, y)
        """,
        """
        ROOT x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        """,
    ),
    Rewrites(
        "select_of_equal_values",
        """
        p = pred[3] parameter(0)
        x = f32[3] parameter(1)
        ROOT r = f32[3] select(p, x, x)
        """,
        """
        p = pred[3] parameter(0)
        ROOT x = f32[3] parameter(1)
        """,
    ),
    Rewrites(
        "select_by_not",
        """
        p = pred[3] parameter(0)
        n = pred[3] not(p)
        x = f32[3] parameter(1)
        y = f32[3] parameter(2)
        ROOT r = f32[3] select(n, x, y)
        """,
        """
        p = pred[3] parameter(0)
        y = f32[3] parameter(2)
        x = f32[3] parameter(1)
        ROOT select = f32[3] select(p, y, x)
        """,
    ),
    Rewrites(
        "select_of_constant_predicates",
        """
        p = pred[3] parameter(0)
        t = pred[3] constant({1, 1, 1})
        f = pred[3] constant({0, 0, 0})
        ROOT r = pred[3] select(p, t, f)
        """,
        """
        ROOT p = pred[3] parameter(0)
        """,
    ),
    Rewrites(
        "select_of_constant_predicates",
        """
        p = pred[3] parameter(0)
        t = pred[3] constant({1, 1, 1})
        f = pred[3] constant({0, 0, 0})
        ROOT r = pred[3] select(p, f, t)
        """,
        """
        p = pred[3] parameter(0)
        ROOT not = pred[3] not(p)
        """,
    ),
    Rewrites(
        "select_of_select",
        """
        p = pred[] parameter(0)
        x = f32[3] parameter(1)
        y = f32[3] parameter(2)
        z = f32[3] parameter(3)
        i = f32[3] select(p, x, y)
        ROOT r = f32[3] select(p, i, z)
        """,
        """
        y = f32[3] parameter(2)
        p = pred[] parameter(0)
        x = f32[3] parameter(1)
        z = f32[3] parameter(3)
        ROOT select = f32[3] select(p, x, z)
        """,
    ),
    Rewrites(
        "select_of_select",
        """
        p = pred[3] parameter(0)
        x = f32[3] parameter(1)
        y = f32[3] parameter(2)
        z = f32[3] parameter(3)
        i = f32[3] select(p, x, y)
        ROOT r = f32[3] select(p, z, i)
        """,
        """
        x = f32[3] parameter(1)
        p = pred[3] parameter(0)
        z = f32[3] parameter(3)
        y = f32[3] parameter(2)
        ROOT select = f32[3] select(p, z, y)
        """,
    ),
]

NO_MATCH_CASES = [
    NoMatch(
        "compare_of_known_integers",
        """
        x = s32[3] parameter(0)
        c = s32[3] constant({7, 7, 7})
        m = s32[3] and(x, c)
        n = s32[3] constant({7, 7, 7})
        ROOT r = pred[3] compare(m, n), direction=LT
        """,
    ),
    NoMatch(
        "not_of_compare",
        """
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        c = pred[3] compare(x, y), direction=LT
        ROOT r = pred[3] not(c)
        """,
    ),
    NoMatch(
        "compare_with_itself",
        """
        x = f32[3] parameter(0)
        ROOT r = pred[3] compare(x, x), direction=EQ
        """,
    ),
    NoMatch(
        "compare_with_itself",
        """
        x = c64[3] parameter(0)
        ROOT r = pred[3] compare(x, x), direction=NE
        """,
    ),
    NoMatch(
        "compare_with_type_limit",
        """
        x = s32[3] parameter(0)
        z = s32[3] constant({0, 0, 0})
        ROOT r = pred[3] compare(x, z), direction=GE
        """,
    ),
    NoMatch(
        "compare_with_type_limit",
        """
        x = u32[3] parameter(0)
        z = u32[3] constant({0, 0, 0})
        ROOT r = pred[3] compare(x, z), direction=GT
        """,
    ),
    NoMatch(
        "compare_predicate_with_constant",
        """
        x = pred[3] parameter(0)
        t = pred[3] constant({1, 0, 1})
        ROOT r = pred[3] compare(x, t), direction=EQ
        """,
    ),
    NoMatch(
        "compare_predicate_with_constant",
        """
        x = pred[3] parameter(0)
        t = pred[3] constant({1, 1, 1})
        ROOT r = pred[3] compare(x, t), direction=LT
        """,
    ),
    NoMatch(
        "select_of_equal_values",
        """
        p = pred[3] constant({1, 0, 1})
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        ROOT r = f32[3] select(p, x, y)
        """,
    ),
    NoMatch(
        "select_by_constant",
        """
        p = pred[3] constant({1, 0, 1})
        x = f32[3] parameter(0)
        y = f32[3] parameter(1)
        ROOT r = f32[3] select(p, x, y)
        """,
    ),
    NoMatch(
        "select_by_not",
        """
        p = pred[3] parameter(0)
        x = f32[3] parameter(1)
        y = f32[3] parameter(2)
        ROOT r = f32[3] select(p, x, y)
        """,
    ),
    NoMatch(
        "select_of_constant_predicates",
        """
        p = pred[] parameter(0)
        t = pred[3] constant({1, 1, 1})
        f = pred[3] constant({0, 0, 0})
        ROOT r = pred[3] select(p, t, f)
        """,
    ),
    NoMatch(
        "select_of_select",
        """
        p = pred[] parameter(0)
        q = pred[] parameter(1)
        x = f32[3] parameter(2)
        y = f32[3] parameter(3)
        i = f32[3] select(q, x, y)
        ROOT r = f32[3] select(p, i, y)
        """,
    ),
]
