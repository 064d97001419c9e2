"""Batched convolutions: one convolution, with the batch merged into its batch or feature dimension.

Does not depend on how a convolution is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import BATCHING_RULES, batch_size, broadcast_to_batch, merge_batch, split_batch
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.interpreter.kernels.sparse_convolution import dense_kernel
from xlapy.opcodes.convolution import ConvolutionAttributes, SparsityConfig


@BATCHING_RULES.rule(opcodes.CONVOLUTION)
def convolution(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Merges the batch into the convolution's batch if all elements share one kernel, else into its feature groups."""
    attrs: ConvolutionAttributes = instruction.attributes_as(ConvolutionAttributes)
    n = attrs.dim_labels
    count = batch_size(instruction, values)
    lhs = broadcast_to_batch(values[0], instruction.operands[0].shape, count)
    kernel, groups = _dense(instruction, values[1], count), attrs.batch_group_count
    attrs = attrs.replace(sparsity_config=SparsityConfig())
    if kernel.ndim == lhs.ndim - 1:
        base, dimension = merge_batch(lhs, n.input_batch_dimension, groups), n.output_batch_dimension
    else:
        dimension = n.output_feature_dimension
        kernel = merge_batch(kernel, n.kernel_output_feature_dimension)
        if groups > 1:
            base = merge_batch(lhs, n.input_batch_dimension)
            attrs = attrs.replace(batch_group_count=groups * count)
        else:
            base = merge_batch(lhs, n.input_feature_dimension)
            attrs = attrs.replace(feature_group_count=attrs.feature_group_count * count)
    sizes = list(instruction.shape.dimensions)
    sizes[dimension] *= count
    shape = instruction.shape.with_dimensions(sizes)
    merged = Instruction(instruction.op, shape, instruction.operands, attrs, (), instruction.name)
    return split_batch(RULES.find(opcodes.CONVOLUTION)(context, merged, [base, kernel]), dimension, count)


def _dense(instruction: Instruction, kernel: Value, count: int) -> Array:
    """Returns the kernel; for a sparse kernel, the dense kernel of each batch element."""
    if not isinstance(kernel, tuple):
        return kernel
    shapes = instruction.operands[1].shape.tuple_shapes
    parts = [broadcast_to_batch(part, shape, count) for part, shape in zip(kernel, shapes, strict=True)]
    return np.stack([dense_kernel(instruction, instance) for instance in zip(*parts, strict=True)])
