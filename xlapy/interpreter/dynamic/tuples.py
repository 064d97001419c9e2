"""Tuples of arrays of dynamic dimensions: the elements are handed on.

Must not know: what the elements are.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.interpreter.dynamic.core import apply_ordinary_rule

DYNAMIC_RULES.rule(opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE)(apply_ordinary_rule)
