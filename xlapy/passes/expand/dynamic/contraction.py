"""Contractions and convolutions on dynamic dimensions: they combine only the elements within the actual sizes.

Elements beyond the actual size of a summed dimension are replaced by zeros on both sides. Of two paired dimensions, the
smaller size counts. Does not depend on precision or accumulation.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.contraction import DotAttributes
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.passes.expand.dynamic.core import (
    DYNAMIC_EXPANSIONS,
    Size,
    Sized,
    SizeWriter,
    Value,
    array_of,
    sizes_of,
    unsupported,
)
from xlapy.passes.expand.dynamic.reduction import window_positions

DYNAMIC_EXPANSIONS.refuse("it must be expanded first", opcodes.RAGGED_DOT, opcodes.SCALED_DOT)


@DYNAMIC_EXPANSIONS.rule(opcodes.DOT)
def dot(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    attrs: DotAttributes = instruction.attributes_as(DotAttributes)
    sizes = [list(sizes_of(value)) for value in values]
    batch = list(zip(attrs.lhs_batch_dims, attrs.rhs_batch_dims, strict=True))
    contracting = list(zip(attrs.lhs_contracting_dims, attrs.rhs_contracting_dims, strict=True))
    for left, right in (*batch, *contracting):
        sizes[0][left] = sizes[1][right] = write.smaller(sizes[0][left], sizes[1][right])
    summed = ({left for left, _ in contracting}, {right for _, right in contracting})
    arrays = [_zeroed(write, *row) for row in zip(values, sizes, summed, strict=True)]
    paired = [{left for left, _ in batch} | summed[0], {right for _, right in batch} | summed[1]]
    free = [[size for d, size in enumerate(own) if d not in used] for own, used in zip(sizes, paired, strict=True)]
    result = write.like(instruction, arrays)
    return Sized(result, (*(sizes[0][left] for left, _ in batch), *free[0], *free[1]))


def _zeroed(write: SizeWriter, value: Value, sizes: Sequence[Size], dimensions: set[int]) -> Instruction:
    """Returns the array with zeros beyond the sizes of the given dimensions."""
    array = array_of(value)
    bounds = array.shape.dimensions
    return write.zeroed(array, [size if d in dimensions else bounds[d] for d, size in enumerate(sizes)])


@DYNAMIC_EXPANSIONS.rule(opcodes.CONVOLUTION)
def convolution(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The padding surrounds the elements within the actual sizes.

    With one feature group, the smaller of the two feature sizes is summed over.
    """
    attrs: ConvolutionAttributes = instruction.attributes_as(ConvolutionAttributes)
    numbers, sizes = attrs.dim_labels, [list(sizes_of(value)) for value in values]
    _check_convolution(instruction)
    feature, kernel_feature = numbers.input_feature_dimension, numbers.kernel_input_feature_dimension
    if attrs.feature_group_count == 1:
        sizes[0][feature] = sizes[1][kernel_feature] = write.smaller(sizes[0][feature], sizes[1][kernel_feature])
    arrays = [
        _zeroed(write, values[0], sizes[0], {feature, *numbers.input_spatial_dimensions}),
        _zeroed(write, values[1], sizes[1], {kernel_feature}),
    ]
    result: list[Size] = list(instruction.shape.dimensions)
    result[numbers.output_batch_dimension] = sizes[0][numbers.input_batch_dimension]
    if attrs.batch_group_count > 1:
        result[numbers.output_batch_dimension] = instruction.shape.dimensions[numbers.output_batch_dimension]
    result[numbers.output_feature_dimension] = sizes[1][numbers.kernel_output_feature_dimension]
    windows = attrs.window.dimensions
    for window, source, target in zip(
        windows, numbers.input_spatial_dimensions, numbers.output_spatial_dimensions, strict=True
    ):
        result[target] = window_positions(write, sizes[0][source], window)
    return Sized(write.like(instruction, arrays), tuple(result))


def _check_convolution(instruction: Instruction) -> None:
    """Raises `UnsupportedError` if a dynamic dimension is divided into groups or determines the bounds of the
    result."""
    attrs: ConvolutionAttributes = instruction.attributes_as(ConvolutionAttributes)
    numbers = attrs.dim_labels
    inputs, kernel = (shape.dynamic_dimensions for shape in instruction.operand_shapes)
    if any(kernel[d] for d in numbers.kernel_spatial_dimensions):
        raise unsupported(instruction, "a smaller kernel would have more positions than the bound of the result")
    grouped = [
        (attrs.batch_group_count, inputs[numbers.input_batch_dimension]),
        (attrs.feature_group_count, inputs[numbers.input_feature_dimension]),
        (attrs.batch_group_count * attrs.feature_group_count, kernel[numbers.kernel_output_feature_dimension]),
    ]
    if any(count > 1 and dynamic for count, dynamic in grouped):
        raise unsupported(instruction, "groups would divide a dynamic dimension")
