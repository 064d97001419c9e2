"""Ops that make a value from nothing, declared with dynamic dimensions: these have their bounds for sizes.

Must not know: how arguments reach a computation.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.interpreter.dynamic.core import apply_ordinary_rule

DYNAMIC_RULES.rule(opcodes.CONSTANT, opcodes.IOTA, opcodes.PARAMETER)(apply_ordinary_rule)
