"""Evaluates single elementwise operations on the interpreter, and many as one module on XLA:CPU.

Responsible for evaluating (op, arrays); does not contain expected values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.interpreter.runners import instruction
from tests.interpreter.runners.instruction import Array
from xlapy.base.element_types import PrimitiveType
from xlapy.base.shape import Shape
from xlapy.interpreter import Context, evaluate_computation
from xlapy.opcodes.attributes.codecs import NO_ATTRIBUTES, Attributes
from xlapy.opcodes.registry import OpDef, lookup


@dataclass(frozen=True)
class Case:
    """One operation on given arrays; `target` is the element type of a conversion's result."""

    op: str
    operands: tuple[Array, ...]
    attributes: Attributes = NO_ATTRIBUTES
    target: PrimitiveType | None = None

    @property
    def result_shape(self) -> Shape:
        shapes = [Shape.of(operand) for operand in self.operands]
        if self.target is not None:
            return shapes[0].with_element_type(self.target)
        return lookup(self.op).result_shape(shapes, self.attributes)

    @property
    def spelled(self) -> instruction.Case:
        """Returns the case as text."""
        values = [(f, getattr(self.attributes, f.name)) for f in self.attributes.fields]
        written = ", ".join(f"{f.key}={f.codec.write(value)}" for f, value in values if f.is_printed(value))
        return instruction.Case(self.op, self.operands, str(self.result_shape), written)


def evaluate(op: OpDef, *operands: Any, attributes: Attributes = NO_ATTRIBUTES, shape: Shape | None = None) -> Array:
    """Returns the interpreter's value of one operation."""
    arrays = [np.asarray(operand) for operand in operands]
    computation = instruction.one_instruction(op, [Shape.of(array) for array in arrays], attributes, shape)
    root = computation.root_instruction
    result = evaluate_computation(Context(), computation, arrays)
    assert isinstance(result, np.ndarray)
    assert result.dtype == root.shape.dtype and result.shape == root.shape.dimensions
    return result


def evaluate_case(case: Case) -> Array:
    return evaluate(lookup(case.op), *case.operands, attributes=case.attributes, shape=case.result_shape)


def run_on_xla(cases: Sequence[Case], fast: bool = True) -> list[Array]:
    """Returns XLA:CPU's value of every case, computed by one module."""
    return list(instruction.evaluate_on_xla([case.spelled for case in cases], fast=fast))
