"""Convolutions on dynamic dimensions, evaluated at actual sizes.

Does not depend on precision or accumulation.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.core import DYNAMIC_RULES, Array, Context, Value
from xlapy.interpreter.dynamic.core import apply_at_actual_sizes, crop_paired_dimensions
from xlapy.opcodes.attributes.dimensions import ConvDimensions
from xlapy.opcodes.convolution import ConvolutionAttributes


@DYNAMIC_RULES.rule(opcodes.CONVOLUTION)
def convolution(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Convolves the elements within the actual sizes; the window's padding surrounds those."""
    attrs: ConvolutionAttributes = instruction.attributes_as(ConvolutionAttributes)
    kernel = instruction.operands[1].shape
    for dimension in attrs.dim_labels.kernel_spatial_dimensions:
        if kernel.dynamic_dimensions[dimension]:
            raise UnsupportedError(
                codes.DYNAMIC_KERNEL,
                f"{describe_instruction(instruction)}: spatial dimension "
                f"{dimension} of the kernel {kernel.to_text(layout=False)} is "
                f"dynamic; a smaller kernel would have more positions than the bound of the result",
            )
    return apply_at_actual_sizes(
        context, instruction, crop_paired_features(values, attrs.dim_labels, attrs.feature_group_count)
    )


def crop_paired_features(values: Sequence[Value], numbers: ConvDimensions, groups: int) -> tuple[Array, Array]:
    """Removes the padding of input and kernel; crops both to the smaller feature count if there is one group."""
    pair = (numbers.input_feature_dimension, numbers.kernel_input_feature_dimension)
    return crop_paired_dimensions(values[0], values[1], [pair] if groups == 1 else [])
