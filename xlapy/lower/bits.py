"""Lowers bitcast-convert: elements as the bits that memory holds, combined from or split into other widths.

Does not depend on floating-point formats.
"""

from __future__ import annotations

from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.loops import F16, F32, F64, I32, I64, Affine, Builder, ScalarType, Value
from xlapy.loops.types import integer_type
from xlapy.lower.core import LOWERINGS, ComplexElement, Element, Index, Lowering
from xlapy.lower.element_types import to_memory, to_register
from xlapy.opcodes.elementwise import BITCAST_CONVERT


@LOWERINGS.rule(BITCAST_CONVERT)
def bitcast_convert(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """The same bits as another type; if the widths differ, a last dimension is added or removed, lowest bits first."""
    (operand,) = instruction.operands
    source, target = operand.shape.element_type, instruction.shape.element_type
    if source.is_complex:
        return _recast_parts(lowering, operand, index, source, target)
    builder = lowering.builder
    if source.bits == target.bits:
        bits = bits_of(builder, lowering.value(operand, index), source)
    elif source.bits > target.bits:
        *rest, number = index
        bits = _part(builder, bits_of(builder, lowering.value(operand, tuple(rest)), source), number, target.bits)
    else:
        bits = _joined(lowering, operand, index, source, target)
    return of_bits(builder, bits, target)


def _part(builder: Builder, bits: Value, position: Affine, width: int) -> Value:
    """The bits of element number `position`, shifted to the lowest bits."""
    amount = builder.convert("trunc", builder.value_of(position * width), bits.type)
    return builder.binary("lshr", bits, amount)


def _joined(
    lowering: Lowering, operand: Instruction, index: Index, source: PrimitiveType, target: PrimitiveType
) -> Value:
    """The bits of all elements along the last dimension of the operand, the first in the lowest bits."""
    builder, kind = lowering.builder, _width(target)
    total = builder.zero(kind)
    for number in range(target.bits // source.bits):
        bits = bits_of(builder, lowering.value(operand, (*index, Affine((), number))), source)
        wide = _resized(builder, bits, kind)
        total = builder.binary("or", total, builder.binary("shl", wide, builder.constant(kind, number * source.bits)))
    return total


def _recast_parts(
    lowering: Lowering, operand: Instruction, index: Index, source: PrimitiveType, target: PrimitiveType
) -> Element:
    """Bitcasts complex numbers: one of 128 bits is two of 64 bits, the first of which has the bits of the real part."""
    builder = lowering.builder
    if source is target:
        return lowering.element(operand, index)
    if source.bits < target.bits:
        parts = [lowering.element(operand, (*index, Affine((), number))) for number in range(2)]
        return ComplexElement(*(_joined_parts(builder, part) for part in parts))
    *rest, number = index
    whole = lowering.element(operand, tuple(rest))
    assert isinstance(whole, ComplexElement)
    is_first = builder.compare("eq", builder.value_of(number), builder.zero(I64))
    bits = builder.bitcast(builder.select(is_first, whole.real, whole.imaginary), I64)
    high = builder.binary("lshr", bits, builder.constant(I64, 32))
    return ComplexElement(*(builder.bitcast(builder.convert("trunc", part, I32), F32) for part in (bits, high)))


def _joined_parts(builder: Builder, element: Element) -> Value:
    """An F64 with the bits of both parts, those of the real part lowest."""
    assert isinstance(element, ComplexElement)
    low, high = (builder.convert("zext", builder.bitcast(part, I32), I64) for part in (element.real, element.imaginary))
    return builder.bitcast(builder.binary("or", low, builder.binary("shl", high, builder.constant(I64, 32))), F64)


def bits_of(builder: Builder, value: Value, t: PrimitiveType) -> Value:
    """The bits that memory holds for a register value, as an integer."""
    stored = to_memory(builder, value, t)
    return builder.bitcast(stored, integer_type(stored.type.bits)) if stored.type.is_float else stored


def of_bits(builder: Builder, bits: Value, t: PrimitiveType) -> Value:
    """The register value for the lowest bits of an integer."""
    kind = _width(t)
    stored = _resized(builder, bits, kind)
    if t.is_floating and t.bits >= 16 and t.name != "BF16":
        stored = builder.bitcast(stored, {16: F16, 32: F32, 64: F64}[t.bits])
    elif t.bits < 8:
        stored = builder.binary("and", stored, builder.constant(kind, 2**t.bits - 1))
    return to_register(builder, stored, t)


def _width(t: PrimitiveType) -> ScalarType:
    return integer_type(8 if t is PRED else max(8, t.bits))


def _resized(builder: Builder, bits: Value, kind: ScalarType) -> Value:
    return builder.convert("zext" if kind.bits > bits.type.bits else "trunc", bits, kind)
