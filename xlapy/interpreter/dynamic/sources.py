"""Ops without operands (constant, iota, parameter) with dynamic dimensions: their sizes are the bounds."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.interpreter.dynamic.core import apply_ordinary_rule

DYNAMIC_RULES.rule(opcodes.CONSTANT, opcodes.IOTA, opcodes.PARAMETER)(apply_ordinary_rule)
