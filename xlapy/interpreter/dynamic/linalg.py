"""Linear algebra and transforms on dynamic dimensions: of the matrices that are there, at their actual sizes.

A transform takes its length from the instruction: a dimension that it transforms must be there in full.
Must not know: numerics.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.interpreter.core import DYNAMIC
from xlapy.interpreter.dynamic.core import at_actual_sizes

DYNAMIC.rule(ops.CHOLESKY, ops.FFT, ops.TRIANGULAR_SOLVE)(at_actual_sizes)
