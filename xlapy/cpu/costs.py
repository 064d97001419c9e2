"""What one element of an operation costs, in about the time of an addition: rough figures for the decisions of fusion.

Must not know: who decides.
"""

from __future__ import annotations

from typing import Final

from xlapy import ops
from xlapy.base.element_types import BF16, F16, F32, F64
from xlapy.hlo.instruction import Instruction

CHEAP: Final = 4
"""What may be computed again rather than kept in memory costs no more."""

_FREE = frozenset({ops.BROADCAST, ops.IOTA, ops.CONSTANT, ops.RESHAPE, ops.BITCAST, ops.COPY, ops.PARAMETER, ops.TUPLE})
_SINGLE = frozenset({
    ops.ABS, ops.ADD, ops.AND, ops.BITCAST_CONVERT, ops.CEIL, ops.CLAMP, ops.COMPARE, ops.COMPLEX, ops.CONVERT,
    ops.FLOOR, ops.IMAG, ops.IS_FINITE, ops.MAXIMUM, ops.MINIMUM, ops.MULTIPLY, ops.NEGATE, ops.NOT, ops.OR, ops.REAL,
    ops.ROUND_NEAREST_EVEN, ops.SELECT, ops.SHIFT_LEFT, ops.SHIFT_RIGHT_ARITHMETIC, ops.SHIFT_RIGHT_LOGICAL, ops.SIGN,
    ops.SUBTRACT, ops.XOR,
})  # fmt: skip
_MOVES = frozenset({
    ops.CONCATENATE, ops.DYNAMIC_SLICE, ops.DYNAMIC_UPDATE_SLICE, ops.PAD, ops.REVERSE, ops.SLICE, ops.TRANSPOSE,
})  # fmt: skip
_DIVISIONS = frozenset({ops.DIVIDE, ops.SQRT, ops.RSQRT})
_LONG = frozenset({ops.POWER, ops.ATAN2})


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
