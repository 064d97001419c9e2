"""Cases of the rewrites in `passes/algebra/integer_division.py`."""

from __future__ import annotations

from tests.passes.algebra.rules import NoMatch, Rewrites


def floor_divide(divisor: int, t: str = "s32", sign: int = 1, quotient: str = "q") -> str:
    return f"""
        y = {t}[5] parameter(1)
        x = {t}[5] parameter(0)
        n = {t}[] constant({divisor})
        b = {t}[5] broadcast(n), dimensions={{}}
        q = {t}[5] divide(x, b)
        o = {t}[] constant({sign})
        os = {t}[5] broadcast(o), dimensions={{}}
        s = {t}[5] sign(x)
        c = pred[5] compare(s, os), direction=NE
        r = {t}[5] remainder(x, b)
        z = {t}[] constant(0)
        zs = {t}[5] broadcast(z), dimensions={{}}
        d = pred[5] compare(r, zs), direction=NE
        p = pred[5] and(d, c)
        u = {t}[] constant(1)
        us = {t}[5] broadcast(u), dimensions={{}}
        l = {t}[5] subtract({quotient}, us)
        ROOT f = {t}[5] select(p, l, q)
        """


def floor_remainder(divisor: int, condition: str, value: str = "r", direction: str = "LT") -> str:
    t = "s64"
    return f"""
        x = {t}[5] parameter(0)
        n = {t}[] constant({divisor})
        b = {t}[5] broadcast(n), dimensions={{}}
        r = {t}[5] remainder(x, b)
        z = {t}[] constant(0)
        zs = {t}[5] broadcast(z), dimensions={{}}
        c = pred[5] compare(r, zs), direction={direction}
        d = pred[5] compare(r, zs), direction=NE
        {condition}
        l = {t}[5] add(b, {value})
        ROOT f = {t}[5] select(p, l, r)
        """


REWRITE_CASES = [
    *(
        Rewrites(
            "floor_divide_by_power_of_two",
            floor_divide(1 << power, t),
            f"""
            y = {t}[5] parameter(1)
            x = {t}[5] parameter(0)
            constant = {t}[] constant({power})
            broadcast = {t}[5] broadcast(constant), dimensions={{}}
            ROOT shift-right-arithmetic = {t}[5] shift-right-arithmetic(x, broadcast)
            """,
        )
        for power, t in ((1, "s32"), (6, "s8"), (30, "s64"))
    ),
    *(
        Rewrites(
            "floor_remainder_by_power_of_two",
            floor_remainder(16, condition),
            """
            x = s64[5] parameter(0)
            constant = s64[] constant(15)
            broadcast = s64[5] broadcast(constant), dimensions={}
            ROOT and = s64[5] and(x, broadcast)
            """,
        )
        for condition in ("p = pred[5] and(c, d)", "p = pred[5] and(d, c)")
    ),
]

NO_MATCH_CASES = [
    NoMatch("floor_divide_by_power_of_two", floor_divide(3)),
    NoMatch("floor_divide_by_power_of_two", floor_divide(-4)),
    NoMatch("floor_divide_by_power_of_two", floor_divide(4, sign=-1)),
    NoMatch("floor_divide_by_power_of_two", floor_divide(4, quotient="y")),
    NoMatch("floor_remainder_by_power_of_two", floor_remainder(12, "p = pred[5] and(c, d)")),
    NoMatch("floor_remainder_by_power_of_two", floor_remainder(16, "p = pred[5] and(c, d)", direction="GT")),
    NoMatch("floor_remainder_by_power_of_two", floor_remainder(16, "p = pred[5] and(c, d)", value="x")),
]
