"""Sorts of many instances: of rows, of which there are more.

Must not know: how rows are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import LIFTED, instance_count, lift, ordinary, spread_all
from xlapy.interpreter.core import Context, Value

LIFTED.rule(opcodes.TOPK)(ordinary)


@LIFTED.rule(opcodes.SORT)
def sort(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    count = instance_count(instruction, values)
    operands = spread_all(instruction, values, count)
    return lift(context, instruction, operands, count, dimension=instruction.attributes.dimension + 1)
