"""Hyperbolic functions.

Must not know: HLO, LLVM.
"""

from __future__ import annotations

from typing import Final

from xlapy.loops.mathematics.exponential import exponential, exponential_minus_one
from xlapy.loops.mathematics.expression import Expression, at_most, copysign, fma, polynomial, where

# (tanh(x) / x - 1) / x^2 as a polynomial in x^2
_TANH_SINGLE: Final = (
    -0.33333319425582886, 0.13332636654376984, -0.05385684221982956, 0.021088235080242157, -0.006295486353337765,
)  # fmt: skip


def tanh(x: Expression) -> Expression:
    """A polynomial near 0, 1 - 2 / (e^2x + 1) beyond; in double precision (e^2x - 1) / (e^2x + 1)."""
    size = at_most(abs(x), 20)
    if not x.is_single:
        growth = exponential_minus_one(size + size)
        return copysign(growth / (growth + 2), x)
    square = x * x
    near = fma(x * square, polynomial(square, _TANH_SINGLE), x)
    far = 1 - 2 / (exponential(size + size) + 1)
    return where(size < 0.55, near, copysign(far, x))
