"""Export rules of elementwise opcodes. Those that StableHLO lacks become CHLO operations."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ReducePrecisionAttributes
from xlapy.stablehlo.export.core.attributes import integer32
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.value_tree import ValueTree

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
def stablehlo_elementwise(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for(_name(instruction, "stablehlo"), instruction)


@RULES.rule(*_CHLO)
def chlo_elementwise(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for(_name(instruction, "chlo"), instruction)


@RULES.rule(opcodes.COMPARE)
def compare(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(CompareAttributes)
    attributes = {"comparison_direction": given.direction.name}
    if given.type is not None:
        attributes["compare_type"] = given.type.name
    return builder.emit_for("stablehlo.compare", instruction, attributes)


@RULES.rule(opcodes.REDUCE_PRECISION)
def reduce_precision(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(ReducePrecisionAttributes)
    attributes = {
        "exponent_bits": integer32(given.exponent_bits),
        "mantissa_bits": integer32(given.mantissa_bits),
    }
    return builder.emit_for("stablehlo.reduce_precision", instruction, attributes)
