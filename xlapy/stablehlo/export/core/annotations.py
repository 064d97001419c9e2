"""Exports the annotations of instructions as MLIR attributes: shardings, frontend attributes and result accuracies.

Responsible for the names and forms of these attributes, which XLA reads. Does not depend on what instructions compute.
"""

from __future__ import annotations

import re
from typing import Any

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.sharding import Sharding
from xlapy.opcodes.control import CallAttributes
from xlapy.stablehlo import ir

SHARDING, _FRONTEND, _ACCURACY = "mhlo.sharding", "mhlo.frontend_attributes", "result_accuracy"
COMPOSITE_PREFIX = "composite."
"""Prefix of the frontend attributes that a call has as a composite. They become attributes of `stablehlo.composite`."""

_TOLERANCE = re.compile(r"(atol|rtol|ulps)=([^,}]+)")


def annotation_attributes(instruction: Instruction) -> dict[str, Any]:
    """Returns the attributes for all annotations of an instruction."""
    attributes: dict[str, Any] = {}
    if instruction.sharding is not None:
        attributes[SHARDING] = sharding_text(instruction.sharding)
    frontend = instruction.frontend_attributes or {}
    if instruction.op is opcodes.CALL and instruction.attributes_as(CallAttributes).is_composite:
        frontend = {name: value for name, value in frontend.items() if not name.startswith(COMPOSITE_PREFIX)}
    if frontend:
        attributes[_FRONTEND] = dict(frontend)
    if instruction.result_accuracy:
        attributes[_ACCURACY] = _accuracy(instruction.result_accuracy)
    return attributes


def sharding_text(sharding: Sharding) -> str:
    """Returns the HLO text of a sharding without its metadata."""
    return sharding.to_text(metadata=False)


def _accuracy(text: str) -> ir.StructAttribute:
    """Converts `tolerance={atol=0,rtol=0,ulps=2}` or `mode=highest` to a struct attribute."""
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
