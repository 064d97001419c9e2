"""Compares sums of products on the interpreter and on XLA:CPU.

Responsible for the bound of their rounding errors; does not contain expected values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.interpreter.runners import instruction
from tests.interpreter.runners.instruction import Array, as_array, evaluate_all, evaluate_on_xla
from xlapy.base.element_types import F64
from xlapy.base.shape import Shape
from xlapy.testing.comparison import assert_close


@dataclass(frozen=True)
class Case(instruction.Case):
    """One sum of products; `terms` is the number of products per sum."""

    terms: int = 1


def evaluate(op: str, operands: Sequence[Any], shape: str, attributes: str) -> Array:
    """Returns the interpreter's value of one instruction; lists of integers are s32, of other numbers f32."""
    return evaluate_all([Case(op, tuple(map(as_array, operands)), shape, attributes)])[0]


def assert_like_xla(cases: Sequence[Case]) -> None:
    """Checks that integers are equal and that other numbers agree within the rounding errors of their sums."""
    expected = evaluate_on_xla(cases)
    magnitudes = evaluate_all([_absolute(case) for case in cases])
    for case, ours, theirs, magnitude in zip(cases, evaluate_all(cases), expected, magnitudes, strict=True):
        assert_close(
            ours,
            theirs,
            rule="accumulation",
            terms=case.terms,
            magnitude=magnitude,
            flush_denormals=True,
            where=case.title,
        )


def _finite(values: Array) -> Array:
    wide = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    return np.where(np.isfinite(wide), wide, 0.0)


def _absolute(case: Case) -> Case:
    """Returns the case that sums the absolute values of the products."""
    operands = tuple(np.abs(_finite(operand)) for operand in case.operands)
    shape = Shape.parse(case.shape)
    return replace(case, operands=operands, shape=shape.with_element_type(F64).to_text())
