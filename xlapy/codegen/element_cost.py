"""Estimates the cost of one element of an instruction's result, in units of one addition.

The estimates are coarse: they only steer fusion and the profitability of recomputing values.
"""

from __future__ import annotations

from typing import Final

from xlapy import opcodes
from xlapy.base.element_types import BF16, F16, F32, F64
from xlapy.hlo.instruction import Instruction

MAX_RECOMPUTED_COST: Final = 4
"""The largest cost of an element that is computed again rather than stored to memory and loaded."""

_NO_ARITHMETIC = frozenset(
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
_ONE_INSTRUCTION = frozenset({
    opcodes.ABS, opcodes.ADD, opcodes.AND, opcodes.BITCAST_CONVERT, opcodes.CEIL, opcodes.CLAMP, opcodes.COMPARE,
    opcodes.COMPLEX, opcodes.CONVERT, opcodes.FLOOR, opcodes.IMAG, opcodes.IS_FINITE, opcodes.MAXIMUM, opcodes.MINIMUM,
    opcodes.MULTIPLY, opcodes.NEGATE, opcodes.NOT, opcodes.OR, opcodes.REAL, opcodes.ROUND_NEAREST_EVEN, opcodes.SELECT,
    opcodes.SHIFT_LEFT, opcodes.SHIFT_RIGHT_ARITHMETIC, opcodes.SHIFT_RIGHT_LOGICAL, opcodes.SIGN, opcodes.SUBTRACT,
    opcodes.XOR,
})  # fmt: skip
_DATA_MOVEMENT = frozenset({
    opcodes.CONCATENATE, opcodes.DYNAMIC_SLICE, opcodes.DYNAMIC_UPDATE_SLICE, opcodes.PAD, opcodes.REVERSE,
    opcodes.SLICE, opcodes.TRANSPOSE,
})  # fmt: skip
_DIVISIONS = frozenset({opcodes.DIVIDE, opcodes.SQRT, opcodes.RSQRT})
_LONG_FUNCTIONS = frozenset({opcodes.POWER, opcodes.ATAN2})


def element_cost(instruction: Instruction) -> int:
    """The cost of one element of the result, given the elements of the operands."""
    op, shape = instruction.op, instruction.shape
    if op in _NO_ARITHMETIC or not shape.is_array:
        return 0
    t = shape.element_type
    rounding = 0 if t in (F32, F64) or not t.is_floating else 2 if t is F16 else 6 if t is BF16 else 20
    if op in _ONE_INSTRUCTION:
        return rounding + (4 if t.is_complex else 1)
    if op in _DATA_MOVEMENT:
        return 4
    if op in _DIVISIONS and t.is_floating:
        return rounding + 8
    return rounding + (64 if op in _LONG_FUNCTIONS else 16)
