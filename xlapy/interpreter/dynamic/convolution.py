"""Convolutions on dynamic dimensions: of the elements that are there.

Must not know: precision, accumulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlapy import ops
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import DYNAMIC, Array, Context, Value
from xlapy.interpreter.dynamic.core import at_actual_sizes, paired
from xlapy.ops.convolution import ConvolutionAttributes
from xlapy.ops.dimensions import ConvDimensions, Window


@DYNAMIC.rule(ops.CONVOLUTION)
def convolution(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The window has the size of the kernel; padding surrounds the elements that are there."""
    attrs: ConvolutionAttributes = instruction.attributes
    lhs, rhs = features_paired(values, attrs.dim_labels, attrs.feature_group_count)
    return at_actual_sizes(context, instruction, [lhs, rhs], window=window_of(attrs.window, rhs, attrs.dim_labels))


def features_paired(values: Sequence[Value], numbers: ConvDimensions, groups: int) -> tuple[Array, Array]:
    """Input and kernel without padding; without groups of features, of which the smaller number is taken."""
    pair = (numbers.input_feature_dimension, numbers.kernel_input_feature_dimension)
    return paired(values[0], values[1], [pair] if groups == 1 else [])


def window_of(window: Window, rhs: Array, numbers: ConvDimensions) -> Window:
    """The window with the spatial sizes of a kernel."""
    pairs = zip(window.dimensions, numbers.kernel_spatial_dimensions, strict=True)
    return Window(tuple(replace(dimension, size=rhs.shape[d]) for dimension, d in pairs))
