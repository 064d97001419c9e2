"""What instructions say beside their meaning: shardings, frontend attributes, accuracies, as attributes of MLIR.

Owns: their names and forms, as XLA reads them. Must not know: what instructions compute.
"""

from __future__ import annotations

import re
from typing import Any

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.sharding import Sharding
from xlapy.stablehlo import ir

SHARDING, _FRONTEND, _ACCURACY = "mhlo.sharding", "mhlo.frontend_attributes", "result_accuracy"
COMPOSITE = "composite."
"""What the frontend attributes of a composite begin with that are attributes of the operation."""

_TOLERANCE = re.compile(r"(atol|rtol|ulps)=([^,}]+)")


def said_by(instruction: Instruction) -> dict[str, Any]:
    """The attributes for all that an instruction says."""
    found: dict[str, Any] = {}
    if instruction.sharding is not None:
        found[SHARDING] = sharding_text(instruction.sharding)
    frontend = instruction.frontend_attributes or {}
    if instruction.op is opcodes.CALL and instruction.is_composite:
        frontend = {name: value for name, value in frontend.items() if not name.startswith(COMPOSITE)}
    if frontend:
        found[_FRONTEND] = dict(frontend)
    if instruction.result_accuracy:
        found[_ACCURACY] = _accuracy(instruction.result_accuracy)
    return found


def sharding_text(sharding: Sharding) -> str:
    """HLO's own text, without metadata."""
    return sharding.to_text(metadata=False)


def _accuracy(text: str) -> ir.StructAttribute:
    """`tolerance={atol=0,rtol=0,ulps=2}` or `mode=highest` as a struct."""
    name = "stablehlo.result_accuracy"
    if "tolerance" not in text:
        return ir.StructAttribute(name, {"mode": text.partition("=")[2].strip().upper()})
    given = dict(_TOLERANCE.findall(text))
    fields: dict[str, Any] = {
        "atol": float(given.get("atol", 0)),
        "rtol": float(given.get("rtol", 0)),
        "ulps": int(given.get("ulps", 0)),
    }
    return ir.StructAttribute(name, {**{key: value for key, value in fields.items() if value}, "mode": "TOLERANCE"})
