"""Evaluates single elementwise operations on both sides: by the interpreter, and as one module on XLA:CPU.

Owns the way from (op, arrays) to results; knows no expected values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests import peer
from xlapy.base.element_types import PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.module import Module
from xlapy.interpreter import Context, evaluate_computation
from xlapy.ops.attributes import NO_ATTRIBUTES, Attributes
from xlapy.ops.registry import OpDef, lookup
from xlapy.ops.sources import PARAMETER, ParameterAttributes

Array = np.ndarray[Any, Any]

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

    def text(self, name: str, operands: Sequence[str]) -> str:
        written = [
            f", {f.key}={f.kind.write(getattr(self.attributes, f.name))}"
            for f in self.attributes.fields
            if f.written(getattr(self.attributes, f.name))
        ]
        return f"{name} = {self.result_shape} {self.op}({', '.join(operands)}){''.join(written)}"


def evaluate(
    op: OpDef, *operands: Any, attributes: Attributes = NO_ATTRIBUTES, shape: Shape | None = None
) -> Array:
    """The interpreter's value of one operation."""
    arrays = [np.asarray(operand) for operand in operands]
    computation = edit.add_computation(Module("m"), "e", entry=True)
    parameters = [
        edit.create(computation, PARAMETER, attributes=ParameterAttributes.make(number=n), shape=Shape.of(array))
        for n, array in enumerate(arrays)
    ]
    root = edit.create(computation, op, parameters, attributes, shape=shape)
    edit.set_root(computation, root)
    result = evaluate_computation(Context(), computation, arrays)
    assert isinstance(result, np.ndarray)
    assert result.dtype == root.shape.dtype and result.shape == root.shape.dimensions
    return result


def evaluate_case(case: Case) -> Array:
    return evaluate(lookup(case.op), *case.operands, attributes=case.attributes, shape=case.result_shape)


def run_on_peer(cases: Sequence[Case], fast: bool = True) -> list[Array]:
    """The peer's value of every case, computed by one module."""
    lines: list[str] = []
    arguments: list[Array] = []
    for number, case in enumerate(cases):
        names = [f"p{len(arguments) + i}" for i in range(len(case.operands))]
        for name, array in zip(names, case.operands, strict=True):
            lines.append(f"{name} = {Shape.of(array)} parameter({len(arguments)})")
            arguments.append(array)
        lines.append(case.text(f"r{number}", names))
    results = ", ".join(f"r{number}" for number in range(len(cases)))
    shapes = ", ".join(str(case.result_shape) for case in cases)
    body = "\n  ".join([*lines, f"ROOT result = ({shapes}) tuple({results})"])
    return list(peer.run_hlo(f"HloModule m\n\nENTRY e {{\n  {body}\n}}", arguments, fast=fast))
