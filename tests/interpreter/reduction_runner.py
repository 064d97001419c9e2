"""Evaluates reductions on both sides: many cases as one module, by the interpreter and on XLA:CPU.

Owns the scalar computations that cases call by name (`add.f32`, `argmax`), and the way from cases to results; knows no
expected values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tests import peer
from xlapy.base.element_types import PrimitiveType
from xlapy.base.shape import Shape
from xlapy.interpreter import Context, evaluate_computation
from xlapy.text import parse_hlo

for _family in ("contraction", "control", "elementwise", "elementwise_conversion", "movement", "reduction", "sources",
                "tuples"):  # fmt: skip
    import_module(f"xlapy.interpreter.{_family}")  # registers the rules

Array = np.ndarray[Any, Any]

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
"""Computations by name; others are written `<op>.<element type>` or `<direction>.<element type>`."""


@dataclass(frozen=True)
class Case:
    """One instruction on given arrays; its shape and attributes as in HLO text, called computations by name."""

    op: str
    operands: tuple[Array, ...]
    shape: str
    attributes: str

    def text(self, name: str, operands: Sequence[str]) -> str:
        return f"{name} = {self.shape} {self.op}({', '.join(operands)}), {self.attributes}"

    @property
    def title(self) -> str:
        return self.text("", [str(Shape.of(operand).brief) for operand in self.operands])


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


def module_text(cases: Sequence[Case]) -> str:
    """A module of one parameter an operand of a case, and one instruction a case; their tuple is the result."""
    parameters: list[str] = []
    instructions: list[str] = []
    for number, case in enumerate(cases):
        names = [f"p{len(parameters) + i}" for i in range(len(case.operands))]
        parameters += [
            f"{name} = {Shape.of(operand)} parameter({len(parameters) + i})"
            for i, (name, operand) in enumerate(zip(names, case.operands, strict=True))
        ]
        instructions.append(case.text(f"r{number}", names))
    shapes, results = ", ".join(case.shape for case in cases), ", ".join(f"r{i}" for i in range(len(cases)))
    lines = [*parameters, *instructions, f"ROOT all = ({shapes}) tuple({results})"]
    called = sorted({name for case in cases for name in _CALLED.findall(case.attributes)})
    entry = ["ENTRY main {", *[f"  {line}" for line in lines], "}", ""]
    return "\n".join(["HloModule reductions", "", *map(_computation, called), *entry])


def run_text(text: str, *arguments: Any) -> Any:
    """The interpreter's value of a module."""
    module = parse_hlo(text)
    return evaluate_computation(Context(), module.entry_computation, [np.asarray(a) for a in arguments])


def evaluate_all(cases: Sequence[Case]) -> tuple[Any, ...]:
    """The interpreter's values."""
    values = run_text(module_text(cases), *[operand for case in cases for operand in case.operands])
    for value, case in zip(values, cases, strict=True):
        _check(value, Shape.parse(case.shape), case)
    return values


def _check(value: Any, shape: Shape, case: Case) -> None:
    if shape.is_tuple:
        for element, element_shape in zip(value, shape.tuple_shapes, strict=True):
            _check(element, element_shape, case)
        return
    assert isinstance(value, np.ndarray), case.title
    assert (value.dtype, value.shape) == (shape.dtype, shape.dimensions), case.title


def evaluate(op: str, operands: Sequence[Any], shape: str, attributes: str) -> Any:
    """The interpreter's value of one instruction; lists of integers are s32, of other numbers f32."""
    return evaluate_all([Case(op, tuple(map(as_array, operands)), shape, attributes)])[0]


def as_array(value: Any) -> Array:
    array = np.asarray(value)
    if isinstance(value, np.ndarray | np.generic):
        return array
    return array.astype(np.int32 if array.dtype.kind == "i" else np.float32)


def on_both_sides(cases: Sequence[Case]) -> list[tuple[Case, Any, Any]]:
    """Each case with the interpreter's value and that of XLA:CPU."""
    arguments = [operand for case in cases for operand in case.operands]
    expected = peer.run_hlo(module_text(cases), arguments, fast=True)
    return list(zip(cases, evaluate_all(cases), expected, strict=True))


def typed(element_type: str, values: Any) -> Array:
    """An array of an element type given by its text."""
    return np.asarray(values).astype(PrimitiveType.from_text(element_type).dtype)
