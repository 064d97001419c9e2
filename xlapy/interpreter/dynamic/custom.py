"""Custom calls on dynamic dimensions: of XLA's own targets, which are given values with their sizes.

Must not know: the targets, which decide what they take when the program is compiled (`interpreter/custom.py`).
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.interpreter.dynamic.core import apply_ordinary_rule

DYNAMIC_RULES.rule(opcodes.CUSTOM_CALL)(apply_ordinary_rule)
