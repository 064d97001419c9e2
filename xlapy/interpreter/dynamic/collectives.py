"""Refuses collectives on dynamic dimensions, because the devices may have arrays of different sizes."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.core import DYNAMIC_RULES
from xlapy.opcodes.registry import REGISTRY

_SCALARS = (opcodes.PARTITION_ID, opcodes.REPLICA_ID)

DYNAMIC_RULES.refuse("a scalar has no dimensions", *_SCALARS)
DYNAMIC_RULES.refuse(
    "devices may have different sizes, and XLA does not propagate sizes through collectives either",
    *(op for op in REGISTRY.values() if op.family == "collectives" and op not in _SCALARS),
)
