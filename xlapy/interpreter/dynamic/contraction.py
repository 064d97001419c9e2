"""Contractions on dynamic dimensions: evaluated at actual sizes, with paired dimensions cropped to the smaller size.

Does not depend on precision or accumulation.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import DYNAMIC_RULES, Context, Value
from xlapy.interpreter.dynamic.core import apply_at_actual_sizes, crop_paired_dimensions
from xlapy.opcodes.contraction import DotAttributes

DYNAMIC_RULES.rule(opcodes.RAGGED_DOT, opcodes.SCALED_DOT)(apply_at_actual_sizes)


@DYNAMIC_RULES.rule(opcodes.DOT)
def dot(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    attrs: DotAttributes = instruction.attributes_as(DotAttributes)
    left = (*attrs.lhs_batch_dims, *attrs.lhs_contracting_dims)
    right = (*attrs.rhs_batch_dims, *attrs.rhs_contracting_dims)
    return apply_at_actual_sizes(
        context, instruction, crop_paired_dimensions(values[0], values[1], zip(left, right, strict=True))
    )
