"""Random numbers: those that follow from a state alone, for many states; those of the run are drawn in turn.

Must not know: the generators.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.batching.core import BATCHING_RULES, apply_ordinary_rule

BATCHING_RULES.rule(opcodes.RNG_BIT_GENERATOR)(apply_ordinary_rule)
BATCHING_RULES.refuse("each instance draws its own numbers, in its turn", opcodes.RNG, opcodes.RNG_GET_AND_UPDATE_STATE)
