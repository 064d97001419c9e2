"""Elementwise ops on many instances: their ordinary rules broadcast, so that only ranks must be aligned.

Must not know: what the ops compute.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import LIFTED, aligned, ordinary
from xlapy.interpreter.core import Context, Value
from xlapy.opcodes.registry import REGISTRY


def elementwise(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """A scalar beside arrays (the predicate of select, the limits of clamp) is one scalar an instance."""
    rank = instruction.shape.rank
    pairs = zip(values, instruction.operands, strict=True)
    return ordinary(context, instruction, [aligned(value, operand.shape, rank) for value, operand in pairs])


LIFTED.rule(*(op for op in REGISTRY.values() if op.elementwise))(elementwise)
LIFTED.rule(opcodes.BITCAST_CONVERT)(ordinary)
