"""Evaluates reductions on the interpreter and on XLA:CPU, with the computations that they call.

Responsible for the scalar computations that cases call by name (`add.f32`, `argmax`). Does not contain expected values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.interpreter.runners.instruction import Case, as_array, evaluate_all, evaluate_on_xla

NAMED = {
    "argmax": """
        a = f32[] parameter(0)
        i = s32[] parameter(1)
        b = f32[] parameter(2)
        j = s32[] parameter(3)
        greater = pred[] compare(a, b), direction=GT
        unordered = pred[] compare(a, a), direction=NE
        wins = pred[] or(greater, unordered)
        equal = pred[] compare(a, b), direction=EQ
        before = pred[] compare(i, j), direction=LT
        first = pred[] and(equal, before)
        takes = pred[] or(wins, first)
        value = f32[] select(wins, a, b)
        index = s32[] select(takes, i, j)
        ROOT r = (f32[], s32[]) tuple(value, index)""",
    "last_max": """
        max = f32[] parameter(0)
        argmax = s32[] parameter(1)
        value = f32[] parameter(2)
        index = s32[] parameter(3)
        wins = pred[] compare(value, max), direction=GE
        v = f32[] select(wins, value, max)
        i = s32[] select(wins, index, argmax)
        ROOT r = (f32[], s32[]) tuple(v, i)""",
    "earlier": """
        ROOT a = s32[] parameter(0)
        b = s32[] parameter(1)""",
    "later": """
        a = s32[] parameter(0)
        ROOT b = s32[] parameter(1)""",
    "affine": """
        a = s32[] parameter(0)
        b = s32[] parameter(1)
        c = s32[] parameter(2)
        d = s32[] parameter(3)
        p = s32[] multiply(a, c)
        q = s32[] multiply(b, c)
        s = s32[] add(q, d)
        ROOT r = (s32[], s32[]) tuple(p, s)""",
    "sum_and_count": """
        a = f32[] parameter(0)
        n = s32[] parameter(1)
        b = f32[] parameter(2)
        m = s32[] parameter(3)
        s = f32[] add(a, b)
        k = s32[] add(n, m)
        ROOT r = (f32[], s32[]) tuple(s, k)""",
    "boxed_add": """
        a = f32[] parameter(0)
        b = f32[] parameter(1)
        s = f32[] add(a, b)
        ROOT r = (f32[]) tuple(s)""",
    "larger_magnitude": """
        a = f32[] parameter(0)
        b = f32[] parameter(1)
        x = f32[] abs(a)
        y = f32[] abs(b)
        ROOT r = pred[] compare(x, y), direction=GE""",
}
"""Computations by name; all others are written `<op>.<element type>` or `<direction>.<element type>`."""


_CALLED = re.compile(r"(?:to_apply|select|scatter)=([\w.-]+)")
_DIRECTIONS = ("GE", "GT", "LE", "LT")


def _computation(name: str) -> str:
    if name in NAMED:
        lines = [line.strip() for line in NAMED[name].strip().splitlines()]
    else:
        op, t = name.split(".")
        root = f"pred[] compare(a, b), direction={op}" if op in _DIRECTIONS else f"{t}[] {op}(a, b)"
        lines = [f"a = {t}[] parameter(0)", f"b = {t}[] parameter(1)", f"ROOT r = {root}"]
    return "\n".join([f"{name} {{", *[f"  {line}" for line in lines], "}", ""])


def _called(cases: Sequence[Case]) -> list[str]:
    """Returns the texts of the computations that the cases call."""
    return [_computation(name) for name in sorted({n for case in cases for n in _CALLED.findall(case.attributes)})]


def evaluate(op: str, operands: Sequence[Any], shape: str, attributes: str) -> Any:
    """Returns the interpreter's value of one instruction; lists of integers are s32, of other numbers f32."""
    cases = [Case(op, tuple(map(as_array, operands)), shape, attributes)]
    return evaluate_all(cases, computations=_called(cases))[0]


def on_both_sides(cases: Sequence[Case]) -> list[tuple[Case, Any, Any]]:
    """Returns each case with the interpreter's value and XLA:CPU's."""
    called = _called(cases)
    ours = evaluate_all(cases, computations=called)
    return list(zip(cases, ours, evaluate_on_xla(cases, called), strict=True))
