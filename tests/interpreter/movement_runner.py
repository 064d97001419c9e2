"""Evaluates one instruction on the interpreter, without text: for the tests of sources and movement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xlapy.interpreter.movement
import xlapy.interpreter.sources
import xlapy.interpreter.tuples  # noqa: F401  (registers the rules)
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.module import Module
from xlapy.interpreter.core import Context, evaluate_computation
from xlapy.ops import sources
from xlapy.ops.registry import OpDef


def one_instruction(op: OpDef, operands: Sequence[Shape], result: Shape | None, values: dict[str, Any]) -> Computation:
    """A computation of parameters and one instruction on them."""
    computation = edit.add_computation(Module("m"), "main", entry=True)
    parameters = [
        edit.create(computation, sources.PARAMETER, (), sources.ParameterAttributes.make(number=number), shape=shape)
        for number, shape in enumerate(operands)
    ]
    root = edit.create(computation, op, parameters, op.attributes.make(**values), shape=result)
    op.verify(root.shape, operands, root.attributes)
    edit.set_root(computation, root)
    return computation


def evaluate(
    op: OpDef,
    *operands: Any,
    result: str | None = None,
    operand_shapes: Sequence[str] | None = None,
    **values: Any,
) -> Any:
    """The value of `op` on arrays (or lists: s32, f32); `result` and `operand_shapes` in HLO text where needed."""
    arrays = [_array(operand) for operand in operands]
    shapes = [Shape.of(a) for a in arrays] if operand_shapes is None else [Shape.parse(s) for s in operand_shapes]
    declared = None if result is None else Shape.parse(result)
    computation = one_instruction(op, shapes, declared, values)
    value = evaluate_computation(Context(), computation, arrays)
    shape = computation.root_instruction.shape
    if shape.is_array:
        assert isinstance(value, np.ndarray)
        assert (value.shape, value.dtype) == (shape.dimensions, shape.dtype)
    return value


def _array(value: Any) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    array = np.asarray(value)
    return array.astype(np.int32 if array.dtype.kind == "i" else np.float32)
