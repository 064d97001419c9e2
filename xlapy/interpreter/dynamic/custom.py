"""Custom calls on dynamic dimensions: only built-in targets accept them, and receive values with their sizes.

Does not depend on the targets, which check their operands when the program is compiled (`interpreter/custom.py`).
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.interpreter.dynamic.core import apply_ordinary_rule

DYNAMIC_RULES.rule(opcodes.CUSTOM_CALL)(apply_ordinary_rule)
