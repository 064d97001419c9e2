"""Evaluates sums of products on both sides: many cases as one module, by the interpreter and on XLA:CPU.

Owns the way from cases to results, and the bound of their rounding errors; knows no expected values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np

from tests import peer
from xlapy.base.element_types import F64, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.interpreter import Context, evaluate_computation
from xlapy.testing.comparison import assert_close
from xlapy.text import parse_hlo

for _family in ("contraction", "convolution", "sources", "tuples"):
    import_module(f"xlapy.interpreter.{_family}")  # registers the rules

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One instruction on given arrays, its shape and attributes as in HLO text. terms: how many products are summed."""

    op: str
    operands: tuple[Array, ...]
    shape: str
    attributes: str
    terms: int = 1

    def text(self, name: str, operands: Sequence[str]) -> str:
        return f"{name} = {self.shape} {self.op}({', '.join(operands)}), {self.attributes}"

    @property
    def title(self) -> str:
        return self.text("", [str(Shape.of(operand).brief) for operand in self.operands])


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
    return "\n".join(["HloModule products", "", "ENTRY main {", *[f"  {line}" for line in lines], "}", ""])


def evaluate_all(cases: Sequence[Case]) -> tuple[Array, ...]:
    """The interpreter's values."""
    module = parse_hlo(module_text(cases))
    arguments = [operand for case in cases for operand in case.operands]
    values = evaluate_computation(Context(), module.entry_computation, arguments)
    for value, case in zip(values, cases, strict=True):
        shape = Shape.parse(case.shape)
        assert (value.dtype, value.shape) == (shape.dtype, shape.dimensions), case.title
    return values


def evaluate(op: str, operands: Sequence[Any], shape: str, attributes: str) -> Array:
    """The interpreter's value of one instruction; lists of integers are s32, of other numbers f32."""
    return evaluate_all([Case(op, tuple(map(_array, operands)), shape, attributes)])[0]


def _array(value: Any) -> Array:
    array = np.asarray(value)
    if isinstance(value, np.ndarray | np.generic):
        return array
    return array.astype(np.int32 if array.dtype.kind == "i" else np.float32)


def assert_like_peer(cases: Sequence[Case]) -> None:
    """Both sides agree: integers exactly, others within the rounding errors of their sums."""
    arguments = [operand for case in cases for operand in case.operands]
    expected = peer.run_hlo(module_text(cases), arguments, fast=True)
    magnitudes = evaluate_all([_absolute(case) for case in cases])
    for case, ours, theirs, magnitude in zip(cases, evaluate_all(cases), expected, magnitudes, strict=True):
        assert_close(
            ours, theirs, rule="accumulation", terms=case.terms, magnitude=magnitude, flush_denormals=True,
            where=case.title,
        )  # fmt: skip


def _finite(values: Array) -> Array:
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    return np.where(np.isfinite(wide), wide, 0.0)


def _absolute(case: Case) -> Case:
    """The case that sums the absolute values of the products."""
    operands = tuple(np.abs(_finite(operand)) for operand in case.operands)
    shape = Shape.parse(case.shape)
    return replace(case, operands=operands, shape=shape.with_element_type(F64).to_text())


def typed(element_type: str, values: Any) -> Array:
    """An array of an element type given by its text."""
    return np.asarray(values).astype(PrimitiveType.from_text(element_type).dtype)
