"""Expansions of batch normalization.

Must not know: which platform needs them.
Source: BatchNormInference of the specification.
"""

from __future__ import annotations

import numpy as np

from xlapy import ops
from xlapy.hlo.instruction import Instruction
from xlapy.passes.expand.core import EXPANSIONS, wide_type
from xlapy.passes.rewrite import Writer


@EXPANSIONS.rule(ops.BATCH_NORM_INFERENCE)
def batch_norm_inference(write: Writer, instruction: Instruction) -> Instruction:
    """(x - mean) / sqrt(variance + epsilon) scale + offset, the vectors repeated along all but the feature dimension.

    The vectors may have another element type than the operand, which decides; epsilon is a float32, rounded to it.
    """
    t = instruction.shape.element_type
    operand, scale, offset, mean, variance = (write.convert(each, wide_type(t)) for each in instruction.operands)
    rounded = write.convert(write.scalar(float(np.float32(instruction.attributes.epsilon)), t), wide_type(t))
    epsilon = write.broadcast(rounded, variance.shape)
    deviation = write.add(ops.SQRT, write.add(ops.ADD, variance, epsilon))

    def spread(vector: Instruction) -> Instruction:
        return write.broadcast(vector, operand.shape, [instruction.attributes.feature_index])

    centred = write.add(ops.SUBTRACT, operand, spread(mean))
    normalized = write.add(ops.DIVIDE, write.add(ops.MULTIPLY, spread(scale), centred), spread(deviation))
    return write.convert(write.add(ops.ADD, normalized, spread(offset)), t)
