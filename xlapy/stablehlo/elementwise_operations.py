"""The elementwise opcodes that StableHLO or CHLO has as operations, for the import and the export.

Responsible for the table `OPERATIONS`, and for the names of the composites that stand for opcodes in StableHLO. Does
not depend on how an operation is read or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from xlapy import opcodes
from xlapy.builder.mathematics.decompositions import DECOMPOSITIONS
from xlapy.opcodes.registry import OpDef

_STABLEHLO = (
    opcodes.ABS, opcodes.ADD, opcodes.AND, opcodes.ATAN2, opcodes.BITCAST_CONVERT, opcodes.CBRT, opcodes.CEIL,
    opcodes.CLAMP, opcodes.COMPLEX, opcodes.CONVERT, opcodes.COSINE, opcodes.COUNT_LEADING_ZEROS, opcodes.DIVIDE,
    opcodes.EXPONENTIAL, opcodes.EXPONENTIAL_MINUS_ONE, opcodes.FLOOR, opcodes.IMAG, opcodes.IS_FINITE, opcodes.LOG,
    opcodes.LOG_PLUS_ONE, opcodes.LOGISTIC, opcodes.MAXIMUM, opcodes.MINIMUM, opcodes.MULTIPLY, opcodes.NEGATE,
    opcodes.NOT, opcodes.OR, opcodes.POPCNT, opcodes.POWER, opcodes.REAL, opcodes.REMAINDER, opcodes.ROUND_NEAREST_AFZ,
    opcodes.ROUND_NEAREST_EVEN, opcodes.RSQRT, opcodes.SELECT, opcodes.SHIFT_LEFT, opcodes.SHIFT_RIGHT_ARITHMETIC,
    opcodes.SHIFT_RIGHT_LOGICAL, opcodes.SIGN, opcodes.SINE, opcodes.SQRT, opcodes.SUBTRACT, opcodes.TAN, opcodes.TANH,
    opcodes.XOR,
)  # fmt: skip
_CHLO = (
    opcodes.ACOS, opcodes.ACOSH, opcodes.ASIN, opcodes.ASINH, opcodes.ATAN, opcodes.ATANH, opcodes.COSH, opcodes.ERF,
    opcodes.MULHI, opcodes.SINH,
)  # fmt: skip


def _name(dialect: str, op: OpDef) -> str:
    return f"{dialect}.{op.name.replace('-', '_')}"


OPERATIONS: Final[Mapping[OpDef, str]] = {
    **{op: _name("stablehlo", op) for op in _STABLEHLO},
    **{op: _name("chlo", op) for op in _CHLO},
}
"""The operation of each opcode that has operands and no attributes."""

COMPOSITES: Final[Mapping[str, OpDef]] = {_name("xlapy", op): op for op in DECOMPOSITIONS if op not in OPERATIONS}
"""The opcodes that neither dialect has, by the name of the composite that stands for each.

Readers that do not know the name run the decomposition.
"""


def composite_name(op: OpDef) -> str:
    """Returns the name of the composite that stands for an opcode with a decomposition: `chlo.erf`."""
    return OPERATIONS.get(op, _name("xlapy", op))
