"""Roots other than the square root, which is an operation of loop IR."""

from __future__ import annotations

from xlapy.loops.mathematics.expression import Expression, copysign, fma, square_root, where


def reciprocal_square_root(x: Expression) -> Expression:
    return 1 / square_root(x)


def cube_root(x: Expression) -> Expression:
    """Computes y = x^(-1/3), which needs no division; the error of x y^2 is then computed exactly and subtracted."""
    size = abs(x)
    small = size < 2.0**-60
    steps = x.precision.digits - 2
    size = where(small, size * 8.0**steps, size)
    y = _inverse_cube_root(_inverse_cube_root(_first_guess(size), size), size)
    square = y * y
    root = size * square
    high = root * root
    low = fma(root, root, -high)
    error = fma(-high, root, size) - low * root
    root = fma(error * square, 1 / 3, root)
    root = where(small, root * 2.0**-steps, root)
    return where((size > 0) & size.is_finite, copysign(root, x), x)


def _first_guess(size: Expression) -> Expression:
    """size^(-1/3) within 4%: treats the bits as a logarithm, and subtracts a third of them from the bits of 1."""
    precision = size.precision
    top = precision.type.bits - 16
    third = ((size.bits >> top) * 21845) << (top - 16)
    origin = round((precision.bias * 4 / 3 - 0.06) * 2**precision.fraction)
    return (third.like(origin) - third).as_bits_of(precision)


def _inverse_cube_root(y: Expression, x: Expression) -> Expression:
    """Improves y by the first terms of (1 - error)^(-1/3)."""
    error = fma(-(x * y), y * y, 1)
    correction = fma(fma(error, 14 / 81, 2 / 9), error, 1 / 3)
    return fma(y * error, correction, y)
