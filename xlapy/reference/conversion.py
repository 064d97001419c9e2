"""Definitions of convert, bitcast-convert, reduce-precision and stochastic-convert: changes of the element type."""

from __future__ import annotations

import math
from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import PRED, Array, PrimitiveType
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.opcodes.elementwise import ReducePrecisionAttributes, reduce_precision_format
from xlapy.reference.core import defines
from xlapy.reference.elements import (
    array_of_shape,
    bits_of,
    element,
    element_of_bits,
    greatest,
    least,
    number,
    type_of,
)


@defines(opcodes.CONVERT)
def convert(instruction: Instruction, operand: Array) -> Array:
    """The same numbers in another type, as `converted` says."""
    return array_of_shape(instruction.shape, lambda index: converted(operand[index], instruction.shape.element_type))


def converted(x: Any, target: PrimitiveType) -> Any:
    """Returns an element as an element of another type.

    A complex number loses its imaginary part, unless the target is complex. PRED is true for numbers other than 0, NaN
    among them. Floats become integers by truncation; NaN becomes 0, and numbers out of range the nearest number of the
    type. All others become what `element` says: integers wrap, floats are rounded once.
    """
    value, source = number(x), type_of(x)
    if source.is_complex and not target.is_complex:
        value = value.real
    if target is PRED:
        return value != 0
    if target.is_integral and not (source.is_integral or source is PRED):
        if math.isnan(value):
            return element(0, target)
        low, high = least(target), greatest(target)
        return element(low if value <= low else high if value >= high else int(value), target)
    return element(value, target)


@defines(opcodes.BITCAST_CONVERT)
def bitcast_convert(instruction: Instruction, operand: Array) -> Array:
    """The same bits as another type; a change of width adds or removes a last dimension, lowest bits first."""
    target, width = instruction.shape.element_type, type_of(operand).bits
    if width == target.bits:
        return array_of_shape(instruction.shape, lambda index: element_of_bits(bits_of(operand[index]), target))
    if width > target.bits:
        return array_of_shape(
            instruction.shape,
            lambda index: element_of_bits(bits_of(operand[index[:-1]]) >> (index[-1] * target.bits), target),
        )

    def joined(index: tuple[int, ...]) -> Any:
        parts = (bits_of(operand[(*index, k)]) << (k * width) for k in range(target.bits // width))
        return element_of_bits(sum(parts), target)

    return array_of_shape(instruction.shape, joined)


@defines(opcodes.REDUCE_PRECISION)
def reduce_precision(instruction: Instruction, operand: Array) -> Array:
    """Rounds to a format of fewer bits and returns the result in the operand's type, as `reduced` says."""
    attributes = instruction.attributes_as(ReducePrecisionAttributes)
    own, t = reduce_precision_format(type_of(operand)), type_of(operand)

    def element_at(index: tuple[int, ...]) -> Any:
        value = float(number(operand[index]))
        if math.isnan(value) or math.isinf(value):
            return operand[index]
        if attributes.mantissa_bits < own.mantissa_bits:
            value = _round_mantissa(value, attributes.mantissa_bits, own.min_exponent)
        if attributes.exponent_bits < own.exponent_bits:
            value = _limit_exponent(value, attributes.exponent_bits)
        return element(value, t)

    return array_of_shape(instruction.shape, element_at)


def _round_mantissa(value: float, bits: int, min_exponent: int) -> float:
    """Rounds to a multiple of 2^(exponent - bits), halves to the even one; denormal numbers share one exponent.

    Without mantissa bits, the last bit is the exponent's: 1.5 * 2^e rounds to the neighbor whose biased exponent is
    even.
    """
    quantum = max(math.frexp(value)[1] - 1, min_exponent) - bits
    scaled = math.ldexp(value, -quantum)
    whole = math.copysign(round(abs(scaled)), value)
    if bits == 0 and abs(scaled) == 1.5 and quantum % 2:
        whole = math.copysign(1.0, value)
    try:
        return math.ldexp(whole, quantum)
    except OverflowError:
        return math.copysign(math.inf, value)


def _limit_exponent(value: float, bits: int) -> float:
    """Numbers above the range become infinities, and those below the smallest normal number zeros."""
    bias = 2 ** (bits - 1) - 1
    if abs(value) < 2.0 ** (1 - bias):
        return math.copysign(0.0, value)
    return math.copysign(math.inf, value) if abs(value) >= 2.0 ** (bias + 1) else value


@defines(opcodes.STOCHASTIC_CONVERT)
def stochastic_convert(instruction: Instruction, operand: Array, random: Array) -> Array:
    """Converts floats to integers; rounds away from zero if the n-bit random number is below the fraction times 2^n."""
    target = instruction.shape.element_type
    if not target.is_signed:
        shape = instruction.shape.to_text(layout=False)
        raise UnsupportedError(
            shared.ELEMENT_TYPE, f"{describe_instruction(instruction)} converts to signed integers, declared {shape}"
        )

    def element_at(index: tuple[int, ...]) -> Any:
        value = float(number(operand[index]))
        if math.isnan(value) or not least(target) < value < greatest(target):
            return converted(operand[index], target)
        whole = math.floor(abs(value))
        is_up = number(random[index]) < int((abs(value) - whole) * 2.0 ** type_of(random).bits)
        return element(int(math.copysign(whole + is_up, value)), target)

    return array_of_shape(instruction.shape, element_at)
