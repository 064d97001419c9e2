"""Random numbers: not evaluated yet; each says what it waits for.

Owns: nothing but these refusals. Must not know: text, builders.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.interpreter.core import RULES

RULES.refuse(
    "needs bit-exact generators",
    ops.RNG,
    ops.RNG_BIT_GENERATOR,
    ops.RNG_GET_AND_UPDATE_STATE,
    ops.STOCHASTIC_CONVERT,
)
