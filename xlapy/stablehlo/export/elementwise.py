"""Export rules: operations on each element.

Owns: the elementwise ops; those that StableHLO lacks are CHLO's. Must not know: how they are computed.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo.export.attributes import small
from xlapy.stablehlo.export.rules import RULES, Structure
from xlapy.stablehlo.export.scope import Scope

_CHLO = (ops.ACOS, ops.ACOSH, ops.ASIN, ops.ASINH, ops.ATAN, ops.ATANH, ops.COSH, ops.ERF, ops.MULHI, ops.SINH)
_STABLEHLO = (
    ops.ABS, ops.ADD, ops.AND, ops.ATAN2, ops.BITCAST_CONVERT, ops.CBRT, ops.CEIL, ops.CLAMP, ops.COMPLEX, ops.CONVERT,
    ops.COSINE, ops.COUNT_LEADING_ZEROS, ops.DIVIDE, ops.EXPONENTIAL, ops.EXPONENTIAL_MINUS_ONE, ops.FLOOR, ops.IMAG,
    ops.IS_FINITE, ops.LOG, ops.LOG_PLUS_ONE, ops.LOGISTIC, ops.MAXIMUM, ops.MINIMUM, ops.MULTIPLY, ops.NEGATE, ops.NOT,
    ops.OR, ops.POPCNT, ops.POWER, ops.REAL, ops.REMAINDER, ops.ROUND_NEAREST_AFZ, ops.ROUND_NEAREST_EVEN, ops.RSQRT,
    ops.SELECT, ops.SHIFT_LEFT, ops.SHIFT_RIGHT_ARITHMETIC, ops.SHIFT_RIGHT_LOGICAL, ops.SIGN, ops.SINE, ops.SQRT,
    ops.SUBTRACT, ops.TAN, ops.TANH, ops.XOR,
)  # fmt: skip


def _name(instruction: Instruction, dialect: str) -> str:
    return f"{dialect}.{instruction.op.name.replace('-', '_')}"


@RULES.rule(*_STABLEHLO)
def plain(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all(_name(instruction, "stablehlo"), instruction)


@RULES.rule(*_CHLO)
def chlo(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all(_name(instruction, "chlo"), instruction)


@RULES.rule(ops.COMPARE)
def compare(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {"comparison_direction": instruction.direction.name}
    if instruction.type is not None:
        attributes["compare_type"] = instruction.type.name
    return scope.all("stablehlo.compare", instruction, attributes)


@RULES.rule(ops.REDUCE_PRECISION)
def reduce_precision(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {
        "exponent_bits": small(instruction.exponent_bits),
        "mantissa_bits": small(instruction.mantissa_bits),
    }
    return scope.all("stablehlo.reduce_precision", instruction, attributes)
