"""Meaning of the operations that make tuples and take them apart.

Must not know: what the elements are.
Source: Tuple, GetTupleElement of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Context, Value


@RULES.rule(opcodes.TUPLE)
def tuple_(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The operands, in order."""
    return tuple(values)


@RULES.rule(opcodes.GET_TUPLE_ELEMENT)
def get_tuple_element(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The element at `index`."""
    return values[0][instruction.tuple_index]
