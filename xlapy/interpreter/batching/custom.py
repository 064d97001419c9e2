"""Custom calls in a batch: the target is called for each batch element."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.batching.core import BATCHING_RULES

BATCHING_RULES.refuse("the target is called for each batch element", opcodes.CUSTOM_CALL)
