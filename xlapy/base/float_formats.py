"""Floating-point formats: how the bits of a number encode its value.

`FloatFormat` describes a format by the widths of its fields, its bias and its special values; everything else (codes of
infinity and NaN, ranges, digits) is derived from these. The element types hold their formats
(`PrimitiveType.float_format`): the row of a floating-point type in the table of `element_types` contains its format.
Does not depend on NumPy or ml_dtypes.

Sources: IEEE 754; the OCP formats for 8 bits and less; the type names of LLVM's APFloat, which XLA uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum


class SpecialValues(Enum):
    """Which codes of a format are not finite numbers. Apart from FNU, the formats have a sign bit."""

    IEEE = "IEEE 754"
    """The largest exponent encodes infinities (mantissa 0) and NaN (every other mantissa)."""
    FN = "finite, NaN"
    """There are no infinities. NaN has all bits set, apart from the sign."""
    FNUZ = "finite, NaN, unsigned zero"
    """There are no infinities and no -0. The bits of -0 are the only NaN."""
    FINITE = "finite only"
    """There are neither infinities nor NaN."""
    FNU = "finite, NaN, unsigned"
    """There is no sign bit and no infinity. NaN has all bits set. Without mantissa bits, there is no zero either."""


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary floating-point format, its fields in the order sign, exponent, mantissa.

    exponent_bits, mantissa_bits: widths of the fields; the mantissa excludes the implicit leading bit. bias: what the
    exponent field exceeds the exponent by. A code is the bits of a number as an unsigned integer.

    Worked example: F8E4M3FN is `FloatFormat(4, 3, 7, FN)`. Its code 0x7F is NaN, so its largest number has the code
    0x7E = 0b1111_110 and the value 2**(15 - 7) * 1.75 = 448.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    special_values: SpecialValues = SpecialValues.IEEE

    # -- fields

    @property
    def is_signed(self) -> bool:
        """Whether the format has a sign bit."""
        return self.special_values is not SpecialValues.FNU

    @property
    def bits(self) -> int:
        """Width of the format."""
        return self.is_signed + self.exponent_bits + self.mantissa_bits

    @property
    def sign_mask(self) -> int:
        """The code in which only the sign bit is set; 0 if there is none."""
        return 1 << (self.exponent_bits + self.mantissa_bits) if self.is_signed else 0

    @property
    def magnitude_mask(self) -> int:
        """The code in which all bits are set, apart from the sign."""
        return (1 << (self.exponent_bits + self.mantissa_bits)) - 1

    @property
    def precision(self) -> int:
        """Bits of the significand: the mantissa and the implicit leading bit. XLA's `SignificandWidth`."""
        return self.mantissa_bits + 1

    # -- special values

    @property
    def has_infinity(self) -> bool:
        """Whether the format has infinities."""
        return self.special_values is SpecialValues.IEEE

    @property
    def has_nan(self) -> bool:
        """Whether the format has a NaN."""
        return self.special_values is not SpecialValues.FINITE

    @property
    def has_negative_zero(self) -> bool:
        """Whether the format has a zero for each sign."""
        return self.special_values not in (SpecialValues.FNUZ, SpecialValues.FNU)

    @property
    def has_zero(self) -> bool:
        """Whether the format has a zero, and with it subnormal numbers."""
        return self.is_signed or self.mantissa_bits > 0

    @property
    def nan_payload_bits(self) -> int:
        """Bits that tell NaNs of one sign apart; 0 if there is at most one NaN of each sign."""
        return self.mantissa_bits if self.special_values is SpecialValues.IEEE else 0

    @property
    def quiet_nan_payload(self) -> int:
        """The payload of the plain quiet NaN: of the payload's bits, only the highest is set."""
        return (1 << self.nan_payload_bits) >> 1

    @property
    def infinity_code(self) -> int | None:
        """The code of positive infinity; None if there is none."""
        return self.magnitude_mask - ((1 << self.mantissa_bits) - 1) if self.has_infinity else None

    @property
    def nan_code(self) -> int | None:
        """The code of the positive quiet NaN, or of the only NaN; None if there is none."""
        if self.infinity_code is not None:
            return self.infinity_code | self.quiet_nan_payload
        if self.special_values is SpecialValues.FNUZ:
            return self.sign_mask
        return self.magnitude_mask if self.has_nan else None

    @property
    def largest_code(self) -> int:
        """The code of the largest finite number."""
        if self.infinity_code is not None:
            return self.infinity_code - 1
        takes_all_ones = self.special_values in (SpecialValues.FN, SpecialValues.FNU)
        return self.magnitude_mask - takes_all_ones

    @property
    def overflow_code(self) -> int:
        """The code that a number above the range rounds to: infinity, else NaN, else the largest number."""
        if self.infinity_code is not None:
            return self.infinity_code
        return self.largest_code if self.nan_code is None else self.nan_code

    # -- ranges

    @property
    def min_exponent(self) -> int:
        """The exponent e of the smallest normal number 2**e."""
        return 1 - self.bias if self.has_zero else -self.bias

    @property
    def max_exponent(self) -> int:
        """The exponent e of the largest number, which is at least 2**e and below 2**(e + 1)."""
        return (self.largest_code >> self.mantissa_bits) - self.bias

    @property
    def overflow_exponent(self) -> int:
        """The smallest e for which 2**e is out of range. XLA's `OverflowExponent`."""
        return self.max_exponent + 1

    @property
    def largest(self) -> float:
        """The largest finite number."""
        mantissa = self.largest_code & ((1 << self.mantissa_bits) - 1)
        return math.ldexp((1 << self.mantissa_bits) + mantissa, self.max_exponent - self.mantissa_bits)

    @property
    def lowest(self) -> float:
        """The least finite number: the negative of the largest, or without a sign, zero or the smallest number."""
        if self.is_signed:
            return -self.largest
        return 0.0 if self.has_zero else self.smallest_normal

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number of full precision."""
        return math.ldexp(1.0, self.min_exponent)

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive number; the smallest normal one if the format has no subnormal numbers."""
        return math.ldexp(1.0, self.min_exponent - self.mantissa_bits)

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next larger number."""
        return math.ldexp(1.0, -self.mantissa_bits)

    # -- decimal digits

    @property
    def max_digits(self) -> int:
        """Decimal digits that identify every number of the format: C++'s `max_digits10`."""
        return math.ceil(1 + self.precision * math.log10(2))

    @property
    def kept_digits(self) -> int:
        """Decimal digits that every number within range keeps through the format: C++'s `digits10`."""
        return math.floor((self.precision - 1) * math.log10(2))


HALF = FloatFormat(5, 10, 15)
"""IEEE 754's binary16."""
SINGLE = FloatFormat(8, 23, 127)
"""IEEE 754's binary32."""
DOUBLE = FloatFormat(11, 52, 1023)
"""IEEE 754's binary64."""
