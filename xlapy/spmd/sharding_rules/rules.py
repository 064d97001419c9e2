"""The sharding rule of each operation.

Responsible for which rule an operation has. An operation without a rule, and a dimension in no factor, is computed from
operands that are not split.
"""

from __future__ import annotations

from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.sharding_rules.collectives import COLLECTIVES_RULES
from xlapy.spmd.sharding_rules.contraction import CONTRACTION_RULES
from xlapy.spmd.sharding_rules.custom import CUSTOM_RULES
from xlapy.spmd.sharding_rules.elementwise import ELEMENTWISE_RULES, elementwise
from xlapy.spmd.sharding_rules.factors import Factor, Rule
from xlapy.spmd.sharding_rules.indexing import INDEXING_RULES
from xlapy.spmd.sharding_rules.linalg import LINALG_RULES
from xlapy.spmd.sharding_rules.movement import MOVEMENT_RULES
from xlapy.spmd.sharding_rules.reduction import REDUCTION_RULES

_RULES: dict[OpDef, Rule] = {
    **ELEMENTWISE_RULES,
    **MOVEMENT_RULES,
    **CONTRACTION_RULES,
    **REDUCTION_RULES,
    **LINALG_RULES,
    **INDEXING_RULES,
    **COLLECTIVES_RULES,
    **CUSTOM_RULES,
}


def sharding_factors(instruction: Instruction) -> list[Factor]:
    """Returns the factors of an operation; none for shapes with dynamic dimensions."""
    if instruction.shape.is_dynamic or any(operand.shape.is_dynamic for operand in instruction.operands):
        return []
    rule = _RULES.get(instruction.op, elementwise if instruction.op.elementwise else None)
    return [] if rule is None else list(rule(instruction))
