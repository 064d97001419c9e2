"""What one element of an operation costs, in about the time of an addition: rough figures for the decisions of fusion.

Must not know: who decides.
"""

from __future__ import annotations

from typing import Final

from xlapy import opcodes
from xlapy.base.element_types import BF16, F16, F32, F64
from xlapy.hlo.instruction import Instruction

CHEAP: Final = 4
"""What may be computed again rather than kept in memory costs no more."""

_FREE = frozenset(
    {
        opcodes.BROADCAST,
        opcodes.IOTA,
        opcodes.CONSTANT,
        opcodes.RESHAPE,
        opcodes.BITCAST,
        opcodes.COPY,
        opcodes.PARAMETER,
        opcodes.TUPLE,
    }
)
_SINGLE = frozenset({
    opcodes.ABS, opcodes.ADD, opcodes.AND, opcodes.BITCAST_CONVERT, opcodes.CEIL, opcodes.CLAMP, opcodes.COMPARE,
    opcodes.COMPLEX, opcodes.CONVERT, opcodes.FLOOR, opcodes.IMAG, opcodes.IS_FINITE, opcodes.MAXIMUM, opcodes.MINIMUM,
    opcodes.MULTIPLY, opcodes.NEGATE, opcodes.NOT, opcodes.OR, opcodes.REAL, opcodes.ROUND_NEAREST_EVEN, opcodes.SELECT,
    opcodes.SHIFT_LEFT, opcodes.SHIFT_RIGHT_ARITHMETIC, opcodes.SHIFT_RIGHT_LOGICAL, opcodes.SIGN, opcodes.SUBTRACT,
    opcodes.XOR,
})  # fmt: skip
_MOVES = frozenset({
    opcodes.CONCATENATE, opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE, opcodes.PAD, opcodes.REVERSE,
    opcodes.SLICE, opcodes.TRANSPOSE,
})  # fmt: skip
_DIVISIONS = frozenset({opcodes.DIVIDE, opcodes.SQRT, opcodes.RSQRT})
_LONG = frozenset({opcodes.POWER, opcodes.ATAN2})


def cost(instruction: Instruction) -> int:
    """Of one element, its operands' elements aside."""
    op, shape = instruction.op, instruction.shape
    if op in _FREE or not shape.is_array:
        return 0
    t = shape.element_type
    rounding = 0 if t in (F32, F64) or not t.is_floating else 2 if t is F16 else 6 if t is BF16 else 20
    if op in _SINGLE:
        return rounding + (4 if t.is_complex else 1)
    if op in _MOVES:
        return 4
    if op in _DIVISIONS and t.is_floating:
        return rounding + 8
    return rounding + (64 if op in _LONG else 16)
