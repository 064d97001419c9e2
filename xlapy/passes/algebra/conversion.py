"""Rewrites of conversions intermediate element types."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.element_types import C64, C128, F32, F64, PRED, PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.passes.algebra.core import IEEE_TYPES, REWRITES
from xlapy.passes.rewrite import Writer


def holds(wide: PrimitiveType, narrow: PrimitiveType) -> bool:
    """Returns whether the type `wide` has every value of `narrow`, including NaN, infinities and -0."""
    if wide is narrow:
        return True
    if (narrow, wide) == (C64, C128):
        return True
    if narrow is PRED:
        return (wide.is_integral and wide.bits > 1) or wide in IEEE_TYPES
    if narrow.is_integral and wide.is_integral:
        return wide.bits - wide.is_signed >= narrow.bits - narrow.is_signed and wide.is_signed >= narrow.is_signed
    if narrow.is_integral and wide in IEEE_TYPES:
        return narrow.bits <= wide.float_format.precision and narrow.bits < wide.float_format.overflow_exponent
    if narrow in IEEE_TYPES and wide in IEEE_TYPES:
        to, of = wide.float_format, narrow.float_format
        return to.precision >= of.precision and to.exponent_bits >= of.exponent_bits
    return False


@REWRITES.rule(opcodes.CONVERT)
def convert_to_same_type(write: Writer, instruction: Instruction) -> Instruction | None:
    """A conversion to the same type -> its operand."""
    (operand,) = instruction.operands
    return operand if operand.shape.element_type is instruction.shape.element_type else None


@REWRITES.rule(opcodes.CONVERT)
def convert_of_convert(write: Writer, instruction: Instruction) -> Instruction | None:
    """convert(convert(x)) -> convert(x), if the intermediate type holds every value of the type of x."""
    (intermediate,) = instruction.operands
    if intermediate.op is not opcodes.CONVERT:
        return None
    (source,) = intermediate.operands
    types = [one.shape.element_type for one in (source, intermediate, instruction)]
    if not holds(types[1], types[0]) or _is_clamped(*types):
        return None
    if types[0] is types[2]:
        return source
    return write.add(opcodes.CONVERT, source, shape=instruction.shape)


def _is_clamped(source: PrimitiveType, intermediate: PrimitiveType, result: PrimitiveType) -> bool:
    """Returns whether a conversion of integers through a floating-point type differs from the direct conversion.

    Through a floating-point type, values out of range are clamped to the limits of the type; the direct conversion
    keeps their low bits.
    """
    return source.is_integral and intermediate.is_floating and result.is_integral and not holds(result, source)


@REWRITES.rule(opcodes.BITCAST_CONVERT)
def bitcast_convert_to_same_type_or_of_bitcast_convert(write: Writer, instruction: Instruction) -> Instruction | None:
    """A bitcast-convert of a bitcast-convert -> one, if all types are equally wide; to the same type -> the operand."""
    (operand,) = instruction.operands
    target = instruction.shape.element_type
    if operand.shape.element_type is target:
        return operand
    if operand.op is not opcodes.BITCAST_CONVERT:
        return None
    (source,) = operand.operands
    if source.shape.element_type is target and source.shape.dimensions == instruction.shape.dimensions:
        return source
    if len({source.shape.element_type.bits, operand.shape.element_type.bits, target.bits}) > 1:
        return None
    if source.shape.element_type.is_complex != target.is_complex or PRED in (source.shape.element_type, target):
        return None
    return write.add(opcodes.BITCAST_CONVERT, source, shape=instruction.shape)


@REWRITES.rule(opcodes.REAL, opcodes.IMAG)
def real_of_convert(write: Writer, instruction: Instruction) -> Instruction | None:
    """real(convert(x)) -> convert(x) of a real x, if the type of the result holds every value of the type of x."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.CONVERT or instruction.op is not opcodes.REAL:
        return None
    (source,) = operand.operands
    if source.shape.element_type not in (F32, F64) or not holds(
        instruction.shape.element_type, source.shape.element_type
    ):
        return None
    return write.convert(source, instruction.shape.element_type)
