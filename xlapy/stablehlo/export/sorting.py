"""Export rules: sorting.

Owns: sort and topk. Must not know: what comparators compute.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo.export.core.attributes import integer
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope


@RULES.rule(opcodes.SORT)
def sort(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {"dimension": integer(instruction.dimension), "is_stable": instruction.is_stable}
    return scope.all("stablehlo.sort", instruction, attributes, [scope.region(instruction.to_apply)])


@RULES.rule(opcodes.TOPK)
def topk(scope: Scope, instruction: Instruction) -> Structure:
    """CHLO's finds the largest; for the smallest there is a custom call that XLA knows."""
    if instruction.largest:
        attributes = {"k": integer(instruction.k), "is_stable": instruction.is_stable}
        return scope.all("chlo.top_k", instruction, attributes)
    hidden = {"k": integer(instruction.k), "largest": False}
    return scope.all("stablehlo.custom_call", instruction, {"call_target_name": "mhlo.topk", "mhlo.attributes": hidden})
