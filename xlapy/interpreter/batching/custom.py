"""Custom calls in a scalar computation.

Must not know: the targets.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.batching.core import BATCHING_RULES

BATCHING_RULES.refuse("each instance is a call of the target", opcodes.CUSTOM_CALL)
