"""Ops that make a value from nothing: it is the same for all instances, so that no lifted rule is ever asked for.

Must not know: the values.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.batching.core import BATCHING_RULES, apply_ordinary_rule

BATCHING_RULES.rule(opcodes.CONSTANT, opcodes.IOTA, opcodes.PARAMETER)(apply_ordinary_rule)
