"""Linear algebra and transforms on dynamic dimensions: of the matrices that are there, at their actual sizes.

A transform takes its length from the instruction: a dimension that it transforms must be there in full.
Must not know: numerics.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.interpreter.dynamic.core import apply_at_actual_sizes

DYNAMIC_RULES.rule(opcodes.CHOLESKY, opcodes.FFT, opcodes.TRIANGULAR_SOLVE)(apply_at_actual_sizes)
