"""The cost of single elements: bytes and arithmetic, from shapes and opcodes alone.

The unit of arithmetic is an addition of one element in a vectorized kernel. The estimates are coarse: they steer fusion
and the profitability of recomputing values, and weigh transcendental functions against other operations.

Responsible for these figures, which every estimate of time is composed of. Does not depend on machines.
"""

from __future__ import annotations

from typing import Final

from xlapy import opcodes
from xlapy.base.element_types import BF16, F16, F32, F64
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction

TRANSCENDENTAL_COST: Final = 16
"""The cost of an element of a transcendental function: 13 cycles for a vector of 16, where an addition takes half a
cycle to one (an exponential of f32 with AVX-512)."""

STORED_ELEMENT_COST: Final = 6
"""The cost of storing an element and loading it again from a cache: eight bytes of f32 take a quarter of a cycle at
`CACHED_BYTES_PER_CYCLE`, in which vectors of 16 lanes add 8 elements; part of it overlaps with arithmetic."""

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
_DIVISIONS = frozenset({
    opcodes.DIVIDE, opcodes.RSQRT, opcodes.SQRT,
})  # fmt: skip
TRANSCENDENTAL = frozenset({
    opcodes.ACOS, opcodes.ACOSH, opcodes.ASIN, opcodes.ASINH, opcodes.ATAN, opcodes.ATAN2, opcodes.ATANH, opcodes.CBRT,
    opcodes.COSH, opcodes.COSINE, opcodes.ERF, opcodes.EXPONENTIAL, opcodes.EXPONENTIAL_MINUS_ONE, opcodes.LOG,
    opcodes.LOGISTIC, opcodes.LOG_PLUS_ONE, opcodes.POWER, opcodes.RSQRT, opcodes.SINE, opcodes.SINH, opcodes.SQRT,
    opcodes.TAN, opcodes.TANH,
})  # fmt: skip
"""The opcodes whose elements XLA counts as transcendental functions."""

_OTHER_FUNCTIONS = frozenset({
    opcodes.COUNT_LEADING_ZEROS, opcodes.MULHI, opcodes.POPCNT, opcodes.REDUCE_PRECISION, opcodes.REMAINDER,
    opcodes.ROUND_NEAREST_AFZ, opcodes.STOCHASTIC_CONVERT,
})  # fmt: skip
_LONG_FUNCTIONS = frozenset({opcodes.POWER, opcodes.ATAN2})

CLASSIFIED = _NO_ARITHMETIC | _ONE_INSTRUCTION | _DATA_MOVEMENT | _DIVISIONS | TRANSCENDENTAL | _OTHER_FUNCTIONS
"""The opcodes whose cost is chosen. Every other opcode costs as much as a transcendental function."""


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
    return rounding + TRANSCENDENTAL_COST * (4 if op in _LONG_FUNCTIONS else 1)


def element_count(shape: Shape) -> int:
    """Returns the number of elements of all arrays in a shape, with dynamic dimensions at their bounds."""
    return sum(leaf.size for _, leaf in shape.leaves() if leaf.is_array)


def array_bytes(shape: Shape) -> int:
    """Returns the number of bytes of all arrays in a shape."""
    return sum(leaf.size * leaf.element_type.byte_size for _, leaf in shape.leaves() if leaf.is_array)
