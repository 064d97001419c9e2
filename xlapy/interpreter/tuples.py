"""Operations that create tuples and read their elements.

Source: Tuple, GetTupleElement of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Context, Value


@RULES.rule(opcodes.TUPLE)
def tuple_(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the tuple of the operands."""
    return tuple(values)


@RULES.rule(opcodes.GET_TUPLE_ELEMENT)
def get_tuple_element(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the element at `index`."""
    return values[0][instruction.tuple_index]
