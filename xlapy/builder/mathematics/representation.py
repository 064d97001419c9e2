"""Functions of the representation of numbers (next_after, is_inf), and of complex numbers by their parts."""

from __future__ import annotations

import math

from xlapy.base.element_types import U8, U16, U32, U64
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.builder import elementwise as e
from xlapy.builder.core.op import XlaOp
from xlapy.builder.mathematics.polynomials import constant_like

_PATTERNS = {8: U8, 16: U16, 32: U32, 64: U64}


def next_after(x: XlaOp, y: XlaOp) -> XlaOp:
    """The next representable number after x toward y, of the type of both; y if they are equal, NaN if either is
    NaN."""
    kind = x.element_type
    if not kind.is_floating or kind.bits not in _PATTERNS:
        raise ShapeError(
            shared.ELEMENT_TYPE, f"next_after takes real numbers of 8 to 64 bits, given {x.shape.to_text(layout=False)}"
        )
    patterns = _PATTERNS[kind.bits]
    sign_bit = 1 << (kind.bits - 1)
    from_bits, to_bits = (e.bitcast_convert_type(each, patterns) for each in (x, y))
    from_magnitude, to_magnitude = from_bits & (sign_bit - 1), to_bits & (sign_bit - 1)
    inward = (from_magnitude > to_magnitude) | ((from_bits ^ to_bits) >= sign_bit)
    moved = e.select(inward, from_bits - 1, from_bits + 1)
    leaving_zero = (to_bits & sign_bit) | 1
    moved = e.select(from_magnitude == 0, leaving_zero, moved)
    result = e.select(x == y, y, e.bitcast_convert_type(moved, kind))
    return e.select((x != x) | (y != y), constant_like(x, math.nan), result)


def is_inf(x: XlaOp) -> XlaOp:
    """Whether each element is infinite."""
    return abs(x) == math.inf


def is_pos_inf(x: XlaOp) -> XlaOp:
    return x == math.inf


def is_neg_inf(x: XlaOp) -> XlaOp:
    return x == -math.inf


def square(x: XlaOp) -> XlaOp:
    """x * x. For complex numbers by parts, (a - b)(a + b) + 2abi, which overflows later."""
    if not x.element_type.is_complex:
        return x * x
    real, imaginary = e.real(x), e.imag(x)
    product = real * imaginary
    return e.complex((real - imaginary) * (real + imaginary), product + product)


def conjugate(x: XlaOp) -> XlaOp:
    """The complex conjugate. Real numbers become complex."""
    return e.conj(x) if x.element_type.is_complex else x
