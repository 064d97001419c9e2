"""Sorting on dynamic dimensions, evaluated at actual sizes.

Does not depend on how elements are ordered.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.value import sizes_of
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import DYNAMIC_RULES, Context, Value
from xlapy.interpreter.dynamic.core import apply_at_actual_sizes, crop_to_smallest_sizes
from xlapy.opcodes.sorting import TopKAttributes


@DYNAMIC_RULES.rule(opcodes.SORT)
def sort(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return apply_at_actual_sizes(context, instruction, crop_to_smallest_sizes(values))


@DYNAMIC_RULES.rule(opcodes.TOPK)
def topk(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns all elements if there are fewer than k; the result has the static size k, so that its end is padding."""
    k = min(instruction.attributes_as(TopKAttributes).k, sizes_of(values[0])[-1])
    return apply_at_actual_sizes(context, instruction, values, k=k)
