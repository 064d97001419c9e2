"""Tuples of arrays with dynamic dimensions: the elements are passed on with their sizes."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.interpreter.dynamic.core import apply_ordinary_rule

DYNAMIC_RULES.rule(opcodes.GET_TUPLE_ELEMENT, opcodes.TUPLE)(apply_ordinary_rule)
