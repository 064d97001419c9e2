"""Which operations a platform runs, and why it does not run the others.

Owns: the road from a platform to its table of rules. Must not know: any operation.
"""

from __future__ import annotations

from typing import Any

from xlapy.interpreter import RULES
from xlapy.ops.registry import OpDef, Rules

TABLES: dict[str, Rules[Any]] = {"interpreter": RULES}
"""The rules of each platform."""


def refusal_of(platform: str, op: OpDef) -> str:
    """Why a platform does not run an op; "" if it does."""
    rules = TABLES[platform]
    return "" if op in rules else rules.refusals.get(op, "no rule")
