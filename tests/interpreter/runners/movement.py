"""Evaluates one instruction on the interpreter without parsing text, for the tests of sources and data movement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.interpreter.runners.instruction import as_array, one_instruction
from xlapy.base.shape import Shape
from xlapy.interpreter import Context, evaluate_computation
from xlapy.opcodes.registry import OpDef


def evaluate(
    op: OpDef,
    *operands: Any,
    result: str | None = None,
    operand_shapes: Sequence[str] | None = None,
    **values: Any,
) -> Any:
    """Returns the value of `op` on arrays (or lists: s32, f32). `result` and `operand_shapes` are HLO text, where
    needed.
    """
    arrays = [as_array(operand) for operand in operands]
    shapes = [Shape.of(a) for a in arrays] if operand_shapes is None else [Shape.parse(s) for s in operand_shapes]
    declared = None if result is None else Shape.parse(result)
    computation = one_instruction(op, shapes, op.attributes.make(**values), declared)
    value = evaluate_computation(Context(), computation, arrays)
    shape = computation.root_instruction.shape
    if shape.is_array:
        assert isinstance(value, np.ndarray)
        assert (value.shape, value.dtype) == (shape.dimensions, shape.dtype)
    return value
