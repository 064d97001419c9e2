"""Linear algebra and Fourier transforms on dynamic dimensions, evaluated at actual sizes.

The length of a transform is an attribute: a dimension that is transformed must have its full size at run time.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.interpreter.dynamic.core import apply_at_actual_sizes

DYNAMIC_RULES.rule(opcodes.CHOLESKY, opcodes.FFT, opcodes.TRIANGULAR_SOLVE)(apply_at_actual_sizes)
