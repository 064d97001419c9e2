"""Batched elementwise ops: their ordinary rules broadcast, so that only the ranks of scalars must be aligned.

Does not depend on what the ops compute.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import BATCHING_RULES, align_scalar, apply_ordinary_rule
from xlapy.interpreter.core import Context, Value
from xlapy.opcodes.registry import REGISTRY


def elementwise(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Aligns scalar operands (predicate of select, limits of clamp) with arrays: one scalar per batch element."""
    rank = instruction.shape.rank
    pairs = zip(values, instruction.operands, strict=True)
    return apply_ordinary_rule(
        context, instruction, [align_scalar(value, operand.shape, rank) for value, operand in pairs]
    )


BATCHING_RULES.rule(*(op for op in REGISTRY.values() if op.elementwise))(elementwise)
BATCHING_RULES.rule(opcodes.BITCAST_CONVERT)(apply_ordinary_rule)
