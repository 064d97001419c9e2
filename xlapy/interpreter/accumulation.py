"""Sums of products: in which numbers they are accumulated, and how a sum becomes an element of the result.

Owns: batched matrix products of every element type, and correct rounding to it. Must not know: instructions, dimension
numbers.

Sums with a floating-point operand or result are accumulated in float64 (complex ones in complex128) and rounded once.
Sums of integers are exact modulo 2^64, so they wrap in any integer type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.interpreter.core import Array
from xlapy.ops.contraction import higher_precision_type

_LIMB_BITS = 16
_EXACT_TERMS = 1 << (53 - 2 * _LIMB_BITS)
"""How many products of two 16-bit limbs float64 adds without rounding."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The arithmetic of one sum of products, for its operand and result types.

    dtype: of the numbers worked with: float64, complex128, or uint64 for integers modulo 2^64. limbs: how many 16-bit
    digits of those integers reach the result. element_type: of the result. sum_type: what an integer sum wraps in.
    """

    dtype: np.dtype[Any]
    limbs: int
    sum_type: PrimitiveType
    element_type: PrimitiveType

    @staticmethod
    def of(lhs: PrimitiveType, rhs: PrimitiveType, result: PrimitiveType) -> Accumulator:
        """For lhs and rhs elements, and results of element type `result`."""
        types = (lhs, rhs, result)
        if any(t.is_complex for t in types):
            return Accumulator(np.dtype(np.complex128), 0, result, result)
        if any(t.is_floating for t in types) or all(t is PRED for t in types):
            return Accumulator(np.dtype(np.float64), 0, result, result)
        sum_type = higher_precision_type(lhs, rhs) if result is PRED else result
        return Accumulator(np.dtype(np.uint64), -(-sum_type.bits // _LIMB_BITS), sum_type, result)

    def widen(self, operand: Array) -> Array:
        """The elements of an operand as numbers to work with; negative integers as their residues."""
        if self.dtype != np.uint64 or operand.dtype == np.bool_:
            return operand.astype(self.dtype)
        return operand.astype(np.int64 if operand.dtype != np.uint64 else np.uint64).view(np.uint64)

    def matmul(self, lhs: Array, rhs: Array) -> Array:
        """`[batch, m, k]` times `[batch, k, n]`, both widened; `[batch, m, n]`, not yet narrowed."""
        if self.dtype != np.uint64:
            return np.matmul(lhs, rhs)
        total = np.zeros((*lhs.shape[:-1], rhs.shape[-1]), np.uint64)
        for start in range(0, lhs.shape[-1], _EXACT_TERMS):
            terms = slice(start, start + _EXACT_TERMS)
            total += self._integer_matmul(lhs[..., terms], rhs[..., terms, :])
        return total

    def _integer_matmul(self, lhs: Array, rhs: Array) -> Array:
        """Schoolbook multiplication in base 2^16: each product of digits is an exact float64 matrix product."""
        left, right = _digits(lhs, self.limbs), _digits(rhs, self.limbs)
        total = np.zeros((*lhs.shape[:-1], rhs.shape[-1]), np.uint64)
        for place in range(self.limbs):
            for i in range(place + 1):
                total += np.matmul(left[i], right[place - i]).astype(np.uint64) << np.uint64(_LIMB_BITS * place)
        return total

    def narrow(self, sums: Array) -> Array:
        """Sums as elements of the result: integers wrap, floating-point numbers are rounded once."""
        if self.dtype != np.uint64:
            return narrow(sums, self.element_type)
        return sums.astype(self.sum_type.dtype).astype(self.element_type.dtype)


def _digits(values: Array, count: int) -> list[Array]:
    """The lowest `count` digits in base 2^16 of uint64 values, lowest first, as float64."""
    mask = np.uint64((1 << _LIMB_BITS) - 1)
    return [((values >> np.uint64(_LIMB_BITS * place)) & mask).astype(np.float64) for place in range(count)]


def narrow(values: Array, element_type: PrimitiveType) -> Array:
    """float64 or complex128 values as elements of a type.

    Floating-point types round to nearest even. Integers truncate and saturate, NaN gives 0. PRED asks for "not zero".
    """
    dtype = element_type.dtype
    if element_type is PRED or element_type.is_complex:
        return values.astype(dtype)
    if element_type.is_floating:
        return round_once(values, np.dtype(dtype))
    return saturate(values, element_type)


def saturate(values: Array, element_type: PrimitiveType) -> Array:
    """float64 values truncated to an integer type; those beyond its range become its nearest end, NaN becomes 0."""
    bits = element_type.bits - element_type.is_signed
    high = float(1 << bits)  # exclusive, and exact in float64
    low = -high if element_type.is_signed else 0.0
    truncated = np.trunc(np.nan_to_num(values, nan=0.0, posinf=high, neginf=low))
    inside = (truncated >= low) & (truncated < high)
    wide = np.uint64 if element_type.is_unsigned else np.int64
    ends = np.where(truncated < low, wide(int(low)), wide((1 << bits) - 1))
    return np.where(inside, np.where(inside, truncated, 0.0).astype(wide), ends).astype(element_type.dtype)


def round_once(values: Array, dtype: np.dtype[Any]) -> Array:
    """float64 values rounded to nearest even in any floating-point type.

    Types beyond NumPy's own are converted by way of float32, which would round twice. A float32 rounded to odd (its
    last bit set whenever it is inexact) keeps enough of the value for the second rounding to be the right one.
    """
    if values.dtype != np.float64 or dtype in (np.float64, np.float32, np.float16):
        return values.astype(dtype)
    near = np.array(values, np.float32)
    inexact = near.astype(np.float64) != values
    bits = near.view(np.int32)
    beyond = inexact & (np.abs(near) > np.abs(values))
    odd = np.where(inexact & ~np.isnan(values), (bits - beyond) | 1, bits)
    return odd.astype(np.int32).view(np.float32).astype(dtype)
