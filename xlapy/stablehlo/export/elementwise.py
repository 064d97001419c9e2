"""Export rules: operations on each element.

Owns: the elementwise ops; those that StableHLO lacks are CHLO's. Must not know: how they are computed.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo.export.core.attributes import small
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope

_CHLO = (
    opcodes.ACOS,
    opcodes.ACOSH,
    opcodes.ASIN,
    opcodes.ASINH,
    opcodes.ATAN,
    opcodes.ATANH,
    opcodes.COSH,
    opcodes.ERF,
    opcodes.MULHI,
    opcodes.SINH,
)
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


def _name(instruction: Instruction, dialect: str) -> str:
    return f"{dialect}.{instruction.op.name.replace('-', '_')}"


@RULES.rule(*_STABLEHLO)
def plain(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all(_name(instruction, "stablehlo"), instruction)


@RULES.rule(*_CHLO)
def chlo(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all(_name(instruction, "chlo"), instruction)


@RULES.rule(opcodes.COMPARE)
def compare(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {"comparison_direction": instruction.direction.name}
    if instruction.type is not None:
        attributes["compare_type"] = instruction.type.name
    return scope.all("stablehlo.compare", instruction, attributes)


@RULES.rule(opcodes.REDUCE_PRECISION)
def reduce_precision(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {
        "exponent_bits": small(instruction.exponent_bits),
        "mantissa_bits": small(instruction.mantissa_bits),
    }
    return scope.all("stablehlo.reduce_precision", instruction, attributes)
