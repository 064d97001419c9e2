"""Random numbers with dynamic dimensions: their sizes are the bounds, so that all elements are drawn."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.interpreter.dynamic.core import apply_ordinary_rule

DYNAMIC_RULES.rule(opcodes.RNG, opcodes.RNG_BIT_GENERATOR, opcodes.RNG_GET_AND_UPDATE_STATE)(apply_ordinary_rule)
