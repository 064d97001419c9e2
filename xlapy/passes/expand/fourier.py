"""Fourier transforms along the last dimension, as products with small matrices of roots of unity.

Responsible for how a length is factored. Does not depend on the types of the op fft or on its dimensions.
Source: Cooley and Tukey (1965) for lengths with small factors, Bluestein (1970) for those with large prime factors.

A length n = p q is p transforms of length q after q transforms of length p: with j = j1 q + j2 and k = k1 + p k2 the
root exp(-2 pi i j k / n) is that of j1 k1 / p, times that of j2 k1 / n, times that of j2 k2 / q. Example: 6 = 3 * 2.

Which results of infinities and NaN are NaN depends on the split.
"""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Precision
from xlapy.opcodes.contraction import DotAttributes
from xlapy.passes.expand.blocks import array_constant, concatenate, slice_dimension
from xlapy.passes.rewrite import Writer

_MAX_MATRIX_LENGTH = 32
"""Transforms of at most this length are one product with a matrix."""
_MAX_PRIME_MATRIX_LENGTH = 128
"""The same for prime lengths and factors, for which the alternative is a convolution."""


def transformed(write: Writer, operand: Instruction, inverse: bool = False) -> Instruction:
    """Writes the transform of complex elements along the last dimension; an inverse one is divided by the length."""
    length = operand.shape.dimensions[-1]
    result = _transform(write, operand, 1 if inverse else -1)
    return times(write, result, np.asarray(1 / length)) if inverse else result


def _transform(write: Writer, operand: Instruction, sign: int) -> Instruction:
    """Writes the sums over j of element j times exp(sign 2 pi i j k / n)."""
    length = operand.shape.dimensions[-1]
    if length == 1:
        return operand
    factor = _factor(length)
    if factor == length:
        return _matrix(write, operand, operand.shape.rank - 1, sign)
    return _convolution(write, operand, sign) if factor == 0 else _split(write, operand, factor, sign)


def _factor(length: int) -> int:
    """Returns the length of the first matrices: the length itself if it is short, 0 if it has a large prime factor."""
    if length <= _MAX_MATRIX_LENGTH:
        return length
    for factor in range(_MAX_MATRIX_LENGTH, 1, -1):
        if length % factor == 0:
            return factor
    return next((f for f in range(_MAX_MATRIX_LENGTH + 1, _MAX_PRIME_MATRIX_LENGTH + 1) if length % f == 0), 0)


def _roots(numerators: Array, denominator: int, sign: int) -> Array:
    """exp(sign 2 pi i m / n)"""
    return np.exp(sign * 2j * np.pi * (numerators % denominator) / denominator)


def _constant(write: Writer, operand: Instruction, values: Array) -> Instruction:
    """Writes a constant with the element type of the operand."""
    return array_constant(write, values.astype(operand.shape.dtype))


def times(write: Writer, operand: Instruction, factors: Array) -> Instruction:
    """Writes the operand times constant factors along its last dimensions."""
    rank = operand.shape.rank
    constant = _constant(write, operand, factors)
    spread = write.broadcast(constant, operand.shape, range(rank - factors.ndim, rank))
    return write.add(opcodes.MULTIPLY, operand, spread)


def _matrix(write: Writer, operand: Instruction, dimension: int, sign: int) -> Instruction:
    """Writes the transform of a dimension as a product with a matrix; the dimension becomes the last one."""
    length = operand.shape.dimensions[dimension]
    places = np.arange(length)
    roots = _constant(write, operand, _roots(np.outer(places, places), length, sign))
    attributes = DotAttributes.make(
        lhs_contracting_dims=(dimension,),
        rhs_contracting_dims=(0,),
        operand_precision=(Precision.HIGHEST, Precision.HIGHEST),
    )
    return write.add(opcodes.DOT, operand, roots, attributes=attributes)


def _split(write: Writer, operand: Instruction, factor: int, sign: int) -> Instruction:
    """Writes transforms of length `factor`, twiddle factors, and transforms of the remaining length."""
    *leading, length = operand.shape.dimensions
    rank, rest = len(leading), length // factor
    table = write.reshape(operand, operand.shape.with_dimensions((*leading, factor, rest)))
    first = _matrix(write, table, rank, sign)  # [..., j2, k1]
    joined = times(write, first, _roots(np.outer(np.arange(rest), np.arange(factor)), length, sign))
    order = [*range(rank), rank + 1, rank]
    second = _transform(write, write.transpose(joined, order), sign)  # [..., k1, k2]
    return write.reshape(write.transpose(second, order), operand.shape)


def _convolution(write: Writer, operand: Instruction, sign: int) -> Instruction:
    """Writes a transform as a convolution of a power-of-two length, as j k = (j^2 + k^2 - (k - j)^2) / 2."""
    *leading, length = operand.shape.dimensions
    size = 1 << (2 * length - 2).bit_length()
    chirp, kernel = chirp_of(length, size, sign)
    zeros = write.splat(0, operand.shape.with_dimensions((*leading, size - length)))
    padded = concatenate(write, [times(write, operand, chirp), zeros], len(leading))
    product = times(write, _transform(write, padded, -1), np.fft.fft(kernel) / size)
    convolved = slice_dimension(write, _transform(write, product, 1), len(leading), 0, length)
    return times(write, convolved, chirp)


def chirp_of(length: int, size: int, sign: int) -> tuple[Array, Array]:
    """Returns the chirp exp(sign pi i j^2 / length), and its conjugates at both ends of an array of `size` numbers."""
    squares = np.arange(length, dtype=np.int64) ** 2
    chirp = _roots(squares, 2 * length, sign)
    kernel = np.zeros(size, np.complex128)
    kernel[:length] = chirp.conj()
    kernel[size - length + 1 :] = chirp[:0:-1].conj()
    return chirp, kernel
