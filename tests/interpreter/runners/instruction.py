"""Evaluates single instructions on the interpreter and on XLA:CPU, many cases as one module.

Responsible for evaluating cases; does not contain expected values or tolerances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests import xla_reference
from xlapy.base.element_types import PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.module import Module
from xlapy.interpreter import Context, evaluate_computation
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import PARAMETER, ParameterAttributes
from xlapy.text import parse_hlo

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """One instruction on given arrays, with its shape and attributes as in HLO text."""

    op: str
    operands: tuple[Array, ...]
    shape: str
    attributes: str = ""

    def text(self, name: str, operands: Sequence[str]) -> str:
        attributes = f", {self.attributes}" if self.attributes else ""
        return f"{name} = {self.shape} {self.op}({', '.join(operands)}){attributes}"

    @property
    def title(self) -> str:
        return self.text("", [Shape.of(operand).to_text(layout=False) for operand in self.operands])


def module_text(cases: Sequence[Case], computations: Sequence[str] = ()) -> str:
    """Returns a module with one parameter per operand and one instruction per case; the root is the tuple of their
    results.

    `computations`: the texts of the called computations.
    """
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
    entry = ["ENTRY main {", *[f"  {line}" for line in lines], "}", ""]
    return "\n".join(["HloModule instructions", "", *computations, *entry])


def run_text(text: str, *arguments: Any, context: Context | None = None) -> Any:
    """Returns the interpreter's value of a module."""
    entry = parse_hlo(text).entry_computation
    return evaluate_computation(context or Context(), entry, [np.asarray(argument) for argument in arguments])


def evaluate_all(
    cases: Sequence[Case], context: Context | None = None, computations: Sequence[str] = ()
) -> tuple[Any, ...]:
    """Returns the interpreter's values, after checking that each has its declared shape."""
    values = run_text(module_text(cases, computations), *_arguments(cases), context=context)
    for value, case in zip(values, cases, strict=True):
        assert_conforms(value, Shape.parse(case.shape), case.title)
    return values


def assert_conforms(value: Any, shape: Shape, title: str) -> None:
    """Checks that a value is an array of the element type and sizes of `shape`, or a tuple of such values."""
    if shape.is_tuple:
        assert isinstance(value, tuple), title
        for part, part_shape in zip(value, shape.tuple_shapes, strict=True):
            assert_conforms(part, part_shape, title)
        return
    assert isinstance(value, np.ndarray), title
    assert (value.dtype, value.shape) == (shape.dtype, shape.dimensions), title


def evaluate(op: str, operands: Sequence[Any], shape: str, attributes: str = "", context: Context | None = None) -> Any:
    """Returns the interpreter's value of one instruction; lists of numbers are f32."""
    arrays = tuple(np.asarray(o, None if isinstance(o, np.ndarray | np.generic) else np.float32) for o in operands)
    return evaluate_all([Case(op, arrays, shape, attributes)], context)[0]


def _arguments(cases: Sequence[Case]) -> list[Array]:
    return [operand for case in cases for operand in case.operands]


def evaluate_on_xla(cases: Sequence[Case], computations: Sequence[str] = (), fast: bool = True) -> tuple[Any, ...]:
    """Returns XLA:CPU's values."""
    return xla_reference.run_hlo(module_text(cases, computations), _arguments(cases), fast=fast)


def one_instruction(
    op: OpDef, operands: Sequence[Shape], attributes: Attributes, result: Shape | None = None
) -> Computation:
    """Builds a computation of parameters and one instruction on them, without parsing text."""
    computation = edit.add_computation(Module("m"), "main", entry=True)
    parameters = [
        edit.create(computation, PARAMETER, (), ParameterAttributes.make(number=number), shape=shape)
        for number, shape in enumerate(operands)
    ]
    root = edit.create(computation, op, parameters, attributes, shape=result)
    op.verify(root.shape, operands, root.attributes)
    edit.set_root(computation, root)
    return computation


def as_array(value: Any) -> Array:
    """Converts a list to an array: integers to s32, other numbers to f32; arrays are returned as they are."""
    array = np.asarray(value)
    if isinstance(value, np.ndarray | np.generic):
        return array
    return array.astype(np.int32 if array.dtype.kind == "i" else np.float32)


def typed(element_type: str, values: Any) -> Array:
    """Makes an array of the element type that the text names."""
    return np.asarray(values).astype(PrimitiveType.from_text(element_type).dtype)
