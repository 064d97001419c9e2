"""Sums of products: batched matrix products of every element type, for dot and convolution.

Responsible for the type that sums are accumulated in, and for their conversion to the result type. Does not depend on
instructions or dimension numbers.

Small matrix products are added term by term, in the type of the result, or in f32 for bf16 and f16; the result is
bitwise equal to XLA:CPU's. Other sums with a floating-point operand or result are accumulated in float64 (complex ones
in complex128) and rounded once. Sums of integers are exact modulo 2^64, so that they wrap in any integer type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from xlapy.base.element_types import BF16, C64, C128, F16, F32, F64, PRED, PrimitiveType
from xlapy.interpreter.core import Array
from xlapy.interpreter.kernels.conversion import convert_array
from xlapy.opcodes.contraction import higher_precision_type

_DIGIT_BITS = 16
_EXACT_TERMS = 1 << (53 - 2 * _DIGIT_BITS)
"""The number of products of two digits that float64 adds without rounding."""
_FMA_MIN_TERMS = 8
"""XLA:CPU rounds each product in shorter sums; longer sums use fused multiply-add if they accumulate in f32."""
_MAX_IN_ORDER_PRODUCTS = 1 << 18
"""Matrix products with more multiplications are not added term by term, but by NumPy in float64."""
_IN_ORDER_TYPES = {F16: F32, BF16: F32, F32: F32, F64: F64, C64: C64, C128: C128}
"""The type in which elements of each type are added term by term."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The arithmetic of a sum of products, for its operand and result types.

    dtype: the type of the computation: float64, complex128, or uint64 for integers modulo 2^64. digits: the number of
    digits in base 2^16 of those integers that affect the result; 1 if the operands are single digits, including the
    sign. sum_type: the type that a finished sum is rounded to or wraps in; the operands' type if the result is PRED, or
    integer with floating-point operands. element_type: the type of the result. carried: the type in which small
    products are added term by term, None if they are not.
    """

    dtype: np.dtype[Any]
    digits: int
    sum_type: PrimitiveType
    element_type: PrimitiveType
    carried: PrimitiveType | None = None

    @staticmethod
    def of(operands: Sequence[PrimitiveType], result: PrimitiveType) -> Accumulator:
        """Returns the accumulator for products of elements of these types, with a result of type `result`."""
        types = (*operands, result)
        if any(t.is_complex for t in types):
            return Accumulator(np.dtype(np.complex128), 0, result, result, _carried(operands, result))
        floating = any(t.is_floating for t in types)
        by_operands = not result.is_floating and (floating or result is PRED)
        sum_type = reduce(higher_precision_type, operands) if by_operands else result
        if floating or sum_type is PRED:
            return Accumulator(np.dtype(np.float64), 0, sum_type, result, _carried(operands, result))
        single = all(t.bits <= _DIGIT_BITS for t in operands)
        digits = 1 if single else max(2, -(-sum_type.bits // _DIGIT_BITS))
        return Accumulator(np.dtype(np.uint64), digits, sum_type, result)

    def widen(self, operand: Array) -> Array:
        """Converts an operand to the type of the computation; negative integers become their residues."""
        if self.dtype != np.uint64 or operand.dtype == np.bool_:
            return operand.astype(self.dtype)
        return operand.astype(np.int64 if operand.dtype != np.uint64 else np.uint64).view(np.uint64)

    def matmul(self, lhs: Array, rhs: Array) -> Array:
        """Multiplies `[batch, m, k]` by `[batch, k, n]`, both widened; the result `[batch, m, n]` is not narrowed."""
        if self.dtype != np.uint64:
            is_small = lhs.size * rhs.shape[-1] <= _MAX_IN_ORDER_PRODUCTS
            if self.carried is None or not is_small or (self.carried is not F32 and lhs.shape[-1] >= _FMA_MIN_TERMS):
                return _matmul(lhs, rhs)
            return self._matmul_in_order(lhs, rhs, self.carried)
        total = np.zeros((*lhs.shape[:-1], rhs.shape[-1]), np.uint64)
        for start in range(0, lhs.shape[-1], _EXACT_TERMS):
            terms = slice(start, start + _EXACT_TERMS)
            total += self._integer_matmul(lhs[..., terms], rhs[..., terms, :])
        return total

    def _matmul_in_order(self, lhs: Array, rhs: Array, carried: PrimitiveType) -> Array:
        """Adds one rank-1 product after the other; rounds each sum, and each product unless the sum is long."""
        products = np.dtype(np.float64) if lhs.shape[-1] >= _FMA_MIN_TERMS else carried.dtype
        left, right = (convert_array(side, self.sum_type).astype(products) for side in (lhs, rhs))
        total = np.zeros((*lhs.shape[:-1], rhs.shape[-1]), carried.dtype)
        for k in range(lhs.shape[-1]):
            total = (total + left[..., k : k + 1] * right[..., k : k + 1, :]).astype(carried.dtype, copy=False)
        return total

    def _integer_matmul(self, lhs: Array, rhs: Array) -> Array:
        """Multiplies digit by digit in base 2^16: each product of digits is an exact float64 matrix product."""
        left, right = _digits(lhs, self.digits), _digits(rhs, self.digits)
        total = np.zeros((*lhs.shape[:-1], rhs.shape[-1]), np.uint64)
        for place in range(self.digits):
            for i in range(place + 1):
                exact = np.matmul(left[i], right[place - i]).astype(np.int64).view(np.uint64)
                total += exact << np.uint64(_DIGIT_BITS * place)
        return total

    def narrow(self, sums: Array) -> Array:
        """Converts sums to the result type: integers wrap, floating-point numbers are rounded once."""
        return convert_array(convert_array(sums, self.sum_type), self.element_type)


def _matmul(lhs: Array, rhs: Array) -> Array:
    """Multiplies in one type. Infinite complex numbers are multiplied by parts: BLAS multiplies complex sums by 1 + 0i,
    which turns infinite parts into NaN."""
    if lhs.dtype.kind != "c" or (np.isfinite(lhs).all() and np.isfinite(rhs).all()):
        return np.matmul(lhs, rhs)
    result = np.empty((*lhs.shape[:-1], rhs.shape[-1]), lhs.dtype)
    result.real = np.matmul(lhs.real, rhs.real) - np.matmul(lhs.imag, rhs.imag)
    result.imag = np.matmul(lhs.real, rhs.imag) + np.matmul(lhs.imag, rhs.real)
    return result


def _carried(operands: Sequence[PrimitiveType], result: PrimitiveType) -> PrimitiveType | None:
    """Returns the type for sums that are added term by term, or None if operands would be rounded to that type."""
    if any(t.bits > result.bits and not t.is_integral for t in operands):
        return None
    return _IN_ORDER_TYPES.get(result)


def _digits(values: Array, count: int) -> list[Array]:
    """Returns the lowest `count` digits in base 2^16 of uint64 values as float64, lowest first.

    A single digit keeps its sign.
    """
    if count == 1:
        return [values.view(np.int64).astype(np.float64)]
    mask = np.uint64((1 << _DIGIT_BITS) - 1)
    return [((values >> np.uint64(_DIGIT_BITS * place)) & mask).astype(np.float64) for place in range(count)]
