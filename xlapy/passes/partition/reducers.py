"""Which reductions may be computed in parts that are combined afterwards.

Owns: that decision. Must not know: how arrays lie on devices.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.hlo.instruction import Instruction

_REPEATABLE = frozenset({ops.MAXIMUM, ops.MINIMUM, ops.AND, ops.OR})
"""The initial value may be taken in by every part."""

_NEUTRAL = {ops.ADD: 0, ops.MULTIPLY: 1}


def adds_up(reduce: Instruction) -> bool:
    """Whether a reduce of parts, the results of which are reduced again, gives the result of the whole."""
    if len(reduce.operands) != 2:
        return False
    root = reduce.computations[0].root_instruction
    if len(root.operands) != 2 or {operand.op for operand in root.operands} != {ops.PARAMETER}:
        return False
    if root.operands[0] is root.operands[1]:
        return False
    initial = reduce.operands[1]
    if root.op in _NEUTRAL:
        return initial.op is ops.CONSTANT and bool(initial.attributes.literal.array == _NEUTRAL[root.op])
    return root.op in _REPEATABLE
