"""Natural logarithms.

log x = e ln(2) + log(1 + f) with x = 2^e (1 + f) and 1 + f between sqrt(1/2) and sqrt(2), so that f is exact and the
sum does not cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xlapy.loops.mathematics.expression import DOUBLE, SINGLE, Expression, fma, polynomial, where

_LOG2_HIGH: Final = {SINGLE: 0.6931471824645996, DOUBLE: 0.6931471803691238}
_LOG2_LOW: Final = {SINGLE: -1.9046542121259336e-09, DOUBLE: 1.9082149292705877e-10}

# (log(1 + f) - f + f^2 / 2) / f^3
_SINGLE: Final = (
    0.3333333134651184, -0.2500082552433014, 0.20001250505447388, -0.1662319153547287, 0.14201180636882782,
    -0.13161449134349823, 0.12766148149967194, -0.07636405527591705,
)  # fmt: skip
# (log((1 + s) / (1 - s)) - 2 s) / s^3 as a polynomial in s^2
_DOUBLE: Final = (
    0.6666666666666735, 0.3999999999940748, 0.2857142874414207, 0.22222198378429786, 0.1818357516696646,
    0.153137557434204, 0.14799066082514833,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Split:
    """x = 2^exponent (1 + fraction)"""

    exponent: Expression
    """An integer as a float."""
    fraction: Expression


def split(x: Expression) -> Split:
    """Splits a positive number; denormal numbers are scaled first."""
    precision = x.precision
    tiny = x < precision.smallest_normal
    bits = where(tiny, x * 2.0**precision.digits, x).bits
    half_root = x.like(0.5**0.5).bits
    steps = (bits - half_root) >> precision.fraction
    fraction = (bits - (steps << precision.fraction)).as_bits_of(precision) - 1
    return Split(steps.as_float(precision) - where(tiny, x.like(precision.digits), 0), fraction)


def assemble(parts: Split, correction: Expression | None = None) -> Expression:
    """exponent * ln(2) + log(1 + fraction) + correction, for a small correction."""
    e, f = parts.exponent, parts.fraction
    low = e * _LOG2_LOW[e.precision] if correction is None else fma(e, _LOG2_LOW[e.precision], correction)
    if f.is_single:
        tail = fma(f * f, fma(polynomial(f, _SINGLE), f, -0.5), low)
        return fma(e, _LOG2_HIGH[SINGLE], f + tail)
    s = f / (f + 2)
    square = s * s
    half = f * f * 0.5
    tail = fma(s, fma(square, polynomial(square, _DOUBLE), half), low)
    return fma(e, _LOG2_HIGH[DOUBLE], f - (half - tail))


def at_edges(x: Expression, logarithm: Expression) -> Expression:
    """Corrects a logarithm for the arguments 0, infinity, NaN and negative numbers."""
    infinity = float("inf")
    result = where(x < infinity, logarithm, x)
    result = where(x.equals(0), -infinity, result)
    return where(x < 0, float("nan"), result)


def log(x: Expression) -> Expression:
    return at_edges(x, assemble(split(x)))


def log_plus_one(x: Expression) -> Expression:
    """log(1 + x): the rounding error of 1 + x is added as a correction; if 1 + x has exponent 0, x itself is exact."""
    total = x + 1
    parts = split(total)
    lost = where(x < 1, x - (total - 1), 1 - (total - x))
    near = parts.exponent.equals(0)
    correction = where(near, 0, lost / total)
    result = assemble(Split(parts.exponent, where(near, x, parts.fraction)), correction)
    return where(x.equals(0), x, at_edges(total, result))
