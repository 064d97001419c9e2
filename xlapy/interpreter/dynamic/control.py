"""Control flow and ordering ops on dynamic dimensions: they pass values on with their sizes.

`evaluate_computation` converts arguments to the dynamic dimensions of the parameters (`interpreter/core.py`).
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.interpreter.dynamic.core import apply_ordinary_rule

DYNAMIC_RULES.rule(opcodes.CALL, opcodes.CONDITIONAL, opcodes.FUSION, opcodes.WHILE)(apply_ordinary_rule)
DYNAMIC_RULES.rule(opcodes.ASYNC_DONE, opcodes.ASYNC_START, opcodes.ASYNC_UPDATE)(apply_ordinary_rule)
DYNAMIC_RULES.rule(opcodes.ADD_DEPENDENCY, opcodes.AFTER_ALL, opcodes.DOMAIN, opcodes.OPT_BARRIER)(apply_ordinary_rule)
