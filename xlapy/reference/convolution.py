"""Definition of the convolution. Sums are those of `contraction.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.error_codes.operations import convolution as convolution_codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.base.value import Value
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.reference.contraction import sum_of_products
from xlapy.reference.core import defines
from xlapy.reference.elements import (
    Index,
    array_of_shape,
    element,
    indices,
    number,
    sizes_at,
    tabulate,
    type_of,
    with_values,
)


@defines(opcodes.CONVOLUTION)
def convolution(instruction: Instruction, lhs: Array, rhs: Value) -> Array:
    """result[batch, feature, position] = sum over window offsets and input features of input * kernel.

    Padding and holes contribute nothing; they are not multiplied by 0.
    """
    kernel, attributes = dense_kernel(instruction, rhs), instruction.attributes_as(ConvolutionAttributes)
    types = [type_of(lhs), type_of(kernel)]

    def element_at(index: Index) -> Any:
        pairs = convolved_pairs(attributes, lhs, kernel, index)
        terms = ((lhs[left], kernel[right]) for left, right in pairs)
        return sum_of_products(terms, types, instruction.shape.element_type)

    return array_of_shape(instruction.shape, element_at)


def convolved_pairs(
    attributes: ConvolutionAttributes, lhs: Array, kernel: Array, index: Index
) -> Iterator[tuple[Index, Index]]:
    """Yields the indices of the factors of a result element. A group has its own part of the output features.

    A group of features reads its own input features; a group of the batch reads its own part of the batch.
    """
    n, window = attributes.dim_labels, attributes.window.dimensions
    groups = attributes.feature_group_count * attributes.batch_group_count
    output_feature, depth = index[n.output_feature_dimension], kernel.shape[n.kernel_input_feature_dimension]
    group = output_feature // (kernel.shape[n.kernel_output_feature_dimension] // groups)
    batch, first = index[n.output_batch_dimension], group * depth
    if attributes.batch_group_count > 1:
        batch, first = batch + group * (lhs.shape[n.input_batch_dimension] // groups), 0
    positions = [index[d] for d in n.output_spatial_dimensions]
    sizes = sizes_at(lhs, n.input_spatial_dimensions)
    for offsets in indices(attributes.window.sizes):
        places = list(map(base_position, window, positions, offsets, sizes))
        if None in places:
            continue
        taps = [d.size - 1 - k if d.window_reversal else k for d, k in zip(window, offsets, strict=True)]
        for feature in range(depth):
            left = (batch, first + feature, *places)
            right = (feature, output_feature, *taps)
            yield (
                arranged(left, (n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions)),
                arranged(
                    right,
                    (n.kernel_input_feature_dimension, n.kernel_output_feature_dimension, *n.kernel_spatial_dimensions),
                ),
            )


def arranged(values: Sequence[Any], dimensions: Sequence[int]) -> Index:
    """Returns the index whose component in dimensions[k] is values[k]."""
    return with_values((0,) * len(values), dimensions, values)


def base_position(window: WindowDimension, position: int, offset: int, size: int) -> int | None:
    """Returns the element of a base area of `size` elements under an offset of the window at a position.

    None if that is padding or a hole. The window moves by `stride`; its elements are `window_dilation` apart, and those
    of the base area `base_dilation`.
    """
    place = position * window.stride + offset * window.window_dilation - window.padding_low
    if place % window.base_dilation or not 0 <= place // window.base_dilation < size:
        return None
    return place // window.base_dilation


def dense_kernel(instruction: Instruction, kernel: Value) -> Array:
    """Returns the kernel without sparsity. Of N elements, S apart, a 1xN kernel stores one, and its position."""
    sparsity = instruction.attributes_as(ConvolutionAttributes).sparsity_config.rhs
    if not isinstance(kernel, tuple):
        if sparsity is not None:
            _refuse(instruction, "of a sparsity must be a tuple of its elements and their positions")
        return kernel
    if sparsity is None:
        _refuse(instruction, "that is a tuple needs a sparsity_config of rhs")
    elements, positions = kernel
    d, size, stride = sparsity.dimension, sparsity.block_size, sparsity.stride
    features = instruction.attributes_as(ConvolutionAttributes).dim_labels.kernel_input_feature_dimension
    if d != features or positions.shape != elements.shape or not type_of(positions).is_integral:
        _refuse(instruction, "is sparse along its input features and has an integer position for each element")
    if stride < 1 or elements.shape[d] % stride:
        _refuse(instruction, f"stores a multiple of its stride {stride} of elements")
    sizes = with_values(elements.shape, [d], [elements.shape[d] * size])
    dense = tabulate(type_of(elements), sizes, lambda _: element(0, type_of(elements)))
    for index in indices(elements.shape):
        block, within = divmod(index[d], stride)
        position = number(positions[index])
        if not 0 <= position < size:
            raise ExecutionError(
                codes.SPARSE_POSITION,
                f"{describe_instruction(instruction)}: an element of the kernel has the position {position} in a block "
                f"of {size}",
            )
        dense[with_values(index, [d], [(block * size + position) * stride + within])] = elements[index]
    return np.asarray(dense)


def _refuse(instruction: Instruction, what: str) -> NoReturn:
    raise UnsupportedError(convolution_codes.SPARSE_KERNEL, f"{describe_instruction(instruction)}: a kernel {what}")
