"""Batch normalization on dynamic dimensions: means and variances are taken over the actual sizes.

Does not depend on how they are computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.value import sizes_of
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import DYNAMIC_RULES, Context, Value
from xlapy.interpreter.dynamic.core import apply_at_actual_sizes, crop_value, smallest_sizes
from xlapy.opcodes.normalization import BatchNormAttributes


@DYNAMIC_RULES.rule(opcodes.BATCH_NORM_GRAD, opcodes.BATCH_NORM_INFERENCE, opcodes.BATCH_NORM_TRAINING)
def batch_norm(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Crops the arrays to the smallest sizes, and the vectors, which have one element per feature, accordingly."""
    wide = (0, 4) if instruction.op is opcodes.BATCH_NORM_GRAD else (0,)
    feature = instruction.attributes_as(BatchNormAttributes).feature_index
    sizes = list(smallest_sizes(values[number] for number in wide))
    sizes[feature] = min(sizes[feature], *(sizes_of(v)[0] for number, v in enumerate(values) if number not in wide))
    fitting = [crop_value(v, sizes if number in wide else [sizes[feature]]) for number, v in enumerate(values)]
    return apply_at_actual_sizes(context, instruction, fitting)
