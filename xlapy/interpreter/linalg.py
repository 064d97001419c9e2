"""Linear algebra and Fourier transforms: not evaluated yet; each says what it waits for.

Owns: nothing but these refusals. Must not know: text, builders.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.interpreter.core import RULES

RULES.refuse(
    "needs matrix decompositions and transforms",
    ops.CHOLESKY,
    ops.FFT,
    ops.TRIANGULAR_SOLVE,
)
