"""How elements of HLO types are represented in memory and in registers.

| element type | in memory | in a register |
|---|---|---|
| PRED | I8, 0 or 1 | I1 |
| integers of 8 to 64 bits | the same type | the same type |
| integers of 1, 2, 4 bits | the low bits of I8 | I8, sign or zero extended |
| F32, F64 | the same type | the same type |
| F16, BF16, floats of 8 bits and less | 16 or 8 bits | F32 that the type can represent: operations round to it |
| F8E8M0FNU, whose smallest number is a denormal F32 | 8 bits | F64, likewise |
| C64, C128 | real part, imaginary part | two values |

Responsible for loads, stores and rounding of single elements. Does not depend on operations.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.base.element_types import BF16, F8E8M0FNU, PRED, PrimitiveType
from xlapy.base.element_types import F16 as HALF
from xlapy.base.element_types import F32 as SINGLE
from xlapy.base.element_types import F64 as DOUBLE
from xlapy.loops import F16, F32, F64, I1, I8, I16, I32, Affine, Buffer, Builder, ScalarType, Value
from xlapy.loops.types import integer_type
from xlapy.lower.narrow_floats import decode, encode, is_narrow


@dataclass(frozen=True, slots=True)
class ComplexElement:
    """A complex number as two values of one type."""

    real: Value
    imaginary: Value


Element = Value | ComplexElement

_FLOATS = {SINGLE: F32, DOUBLE: F64}


def components(t: PrimitiveType) -> int:
    """The number of values of an element in memory: 2 for complex types, else 1."""
    return 2 if t.is_complex else 1


def storage_type(t: PrimitiveType) -> ScalarType:
    """The scalar type of an element in memory, or of the parts of a complex element."""
    if t.is_complex:
        return _FLOATS[t.component_type]
    if t in _FLOATS:
        return _FLOATS[t]
    return F16 if t is HALF else integer_type(8 * t.byte_size)


def register_type(t: PrimitiveType) -> ScalarType:
    """The scalar type of an element in a register, or of the parts of a complex element."""
    if t is PRED:
        return I1
    if t.is_integral:
        return integer_type(max(t.bits, 8))
    if t.is_floating and t not in _FLOATS:
        return F64 if t is F8E8M0FNU else F32
    return storage_type(t)


def load_element(
    builder: Builder, buffer: Buffer, offset: Affine, t: PrimitiveType, mask: Value | None = None
) -> Element:
    """Loads the element at an offset, counted in elements; unspecified where the mask is false."""
    if t.is_complex:
        return ComplexElement(builder.load(buffer, offset * 2, mask), builder.load(buffer, offset * 2 + 1, mask))
    return to_register(builder, builder.load(buffer, offset, mask), t)


def to_register(builder: Builder, stored: Value, t: PrimitiveType) -> Value:
    """Converts a value from its representation in memory to that in a register."""
    target = register_type(t)
    if t is PRED:
        return builder.compare("ne", stored, builder.zero(I8))
    if t is BF16:
        wide = builder.convert("zext", stored, I32)
        return builder.bitcast(builder.binary("shl", wide, builder.constant(I32, 16)), F32)
    if t.is_integral and t.bits < 8:
        return _wrapped(builder, stored, t)
    if is_narrow(t):
        return decode(builder, stored, t)
    return builder.convert("fpext", stored, target)


def store_element(
    builder: Builder, buffer: Buffer, offset: Affine, element: Element, t: PrimitiveType, mask: Value | None = None
) -> None:
    """Stores an element at an offset, counted in elements, where the mask is true."""
    if isinstance(element, ComplexElement):
        builder.store(buffer, offset * 2, element.real, mask)
        builder.store(buffer, offset * 2 + 1, element.imaginary, mask)
    else:
        builder.store(buffer, offset, to_memory(builder, element, t), mask)


def to_memory(builder: Builder, element: Value, t: PrimitiveType) -> Value:
    """Converts a value from its representation in a register to that in memory."""
    if t is PRED:
        return builder.convert("zext", element, I8)
    if t is BF16:
        bits = builder.bitcast(element, I32)
        return builder.convert("trunc", builder.binary("lshr", bits, builder.constant(I32, 16)), I16)
    if t.is_integral and t.bits < 8:
        return builder.binary("and", element, builder.constant(I8, 2**t.bits - 1))
    if is_narrow(t):
        return encode(builder, element, t)
    return builder.convert("fptrunc", element, storage_type(t))


def rounded(builder: Builder, value: Value, t: PrimitiveType) -> Value:
    """Rounds a result to its type: floats to nearest even; narrow integers are wrapped."""
    if t is HALF:
        return builder.convert("fpext", builder.convert("fptrunc", value, F16), F32)
    if t is BF16:
        return builder.unary("round_bf16", value)
    if t.is_integral and t.bits < 8:
        return _wrapped(builder, value, t)
    if is_narrow(t):
        return decode(builder, encode(builder, value, t), t)
    return value


def _wrapped(builder: Builder, value: Value, t: PrimitiveType) -> Value:
    spare = builder.constant(I8, 8 - t.bits)
    top = builder.binary("shl", value, spare)
    return builder.binary("ashr" if t.is_signed else "lshr", top, spare)
