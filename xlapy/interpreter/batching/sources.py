"""Ops without operands (constant, iota, parameter): their value is unbatched, so that these rules are never applied."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.batching.core import BATCHING_RULES, apply_ordinary_rule

BATCHING_RULES.rule(opcodes.CONSTANT, opcodes.IOTA, opcodes.PARAMETER)(apply_ordinary_rule)
