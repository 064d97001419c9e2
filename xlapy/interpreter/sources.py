"""Operations without operands: parameter, constant and iota.

Source: ConstantLiteral, Iota of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, TOKEN, Context, Value
from xlapy.opcodes.sources import IotaAttributes


@RULES.rule(opcodes.PARAMETER)
def parameter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Never called: `evaluate_computation` binds the arguments before the first step."""
    raise AssertionError(f"{instruction.name}: evaluation binds parameters")


@RULES.rule(opcodes.CONSTANT)
def constant(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the literal's array, which is read-only."""
    return _value(instruction.literal)


def _value(literal: Literal) -> Value:
    if literal.shape.is_tuple:
        return tuple(_value(element) for element in literal.elements)
    return TOKEN if literal.shape.is_token else literal.array


@RULES.rule(opcodes.IOTA)
def iota(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Counts 0, 1, 2 ... along `iota_dimension`, repeated in the other dimensions; integers wrap at their width."""
    shape, dimension = instruction.shape, instruction.attributes_as(IotaAttributes).iota_dimension
    if 0 in shape.dimensions:
        return np.zeros(shape.dimensions, shape.dtype)  # however long the other dimensions are
    counts = np.arange(shape.dimensions[dimension]).astype(shape.dtype)
    column = counts.reshape([-1 if d == dimension else 1 for d in range(shape.rank)])
    return np.broadcast_to(column, shape.dimensions)
