"""The convolution.

Responsible for the elements that are multiplied and added. Does not depend on the type that sums are accumulated in
(`kernels/sums_of_products.py`).
Source: Conv and its general forms in the specification.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.interpreter.kernels.sparse_convolution import dense_kernel
from xlapy.interpreter.kernels.sums_of_products import Accumulator
from xlapy.opcodes.attributes.dimensions import ConvDimensions, WindowDimension
from xlapy.opcodes.convolution import CONVOLUTION, ConvolutionAttributes


@RULES.rule(CONVOLUTION)
def convolution(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """For each offset in the window, adds the products of input elements and the kernel's elements at that offset.

    Padding and dilation holes are skipped, not multiplied by zero: an infinite kernel element gives no NaN there.
    """
    attrs: ConvolutionAttributes = instruction.attributes_as(ConvolutionAttributes)
    operands = (values[0], dense_kernel(instruction, values[1]))
    accumulator = Accumulator.of(
        [PrimitiveType.from_dtype(operand.dtype) for operand in operands], instruction.shape.element_type
    )
    base = _grouped_input(accumulator.widen(operands[0]), attrs)
    kernel = _grouped_kernel(accumulator.widen(operands[1]), attrs)
    numbers = attrs.dim_labels
    positions = [instruction.shape.dimensions[d] for d in numbers.output_spatial_dimensions]
    return accumulator.narrow(_ungrouped_output(_slide(accumulator, base, kernel, positions, attrs), numbers))


def _grouped_input(lhs: Array, attrs: ConvolutionAttributes) -> Array:
    """Returns lhs as `[group, batch, *spatial, feature]`, with the batch or the features of one group."""
    n = attrs.dim_labels
    plain = lhs.transpose(n.input_batch_dimension, *n.input_spatial_dimensions, n.input_feature_dimension)
    batch, *spatial, feature = plain.shape
    if attrs.batch_group_count > 1:
        return plain.reshape(attrs.batch_group_count, batch // attrs.batch_group_count, *spatial, feature)
    count = attrs.feature_group_count
    return np.moveaxis(plain.reshape(batch, *spatial, count, feature // count), -2, 0)


def _grouped_kernel(rhs: Array, attrs: ConvolutionAttributes) -> Array:
    """Returns rhs as `[*spatial, group, input feature, output feature]`, with reversed window dimensions flipped."""
    n = attrs.dim_labels
    plain = rhs.transpose(
        *n.kernel_spatial_dimensions, n.kernel_input_feature_dimension, n.kernel_output_feature_dimension
    )
    reversed_axes = tuple(axis for axis, d in enumerate(attrs.window.dimensions) if d.window_reversal)
    *spatial, inputs, outputs = plain.shape
    count = attrs.feature_group_count * attrs.batch_group_count
    grouped = np.flip(plain, reversed_axes).reshape(*spatial, inputs, count, outputs // count)
    return np.swapaxes(grouped, -3, -2)


def _ungrouped_output(output: Array, n: ConvDimensions) -> Array:
    """Transposes `[group, batch, *spatial, feature]` to the output labels; features of a group are consecutive."""
    merged = np.moveaxis(output, 0, -2)
    merged = merged.reshape(*merged.shape[:-2], merged.shape[-2] * merged.shape[-1])
    places = (n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension)
    return merged.transpose(np.argsort(places))


def _slide(
    accumulator: Accumulator, base: Array, kernel: Array, positions: Sequence[int], attrs: ConvolutionAttributes
) -> Array:
    """Returns sums `[group, batch, *positions, output feature]` over all window offsets and input features."""
    groups, batch, *spatial, features = base.shape
    outputs = kernel.shape[-1]
    sums = np.zeros((groups, batch, *positions, outputs), accumulator.dtype)
    reach = [
        [_reach(d, offset, size, count) for offset in range(d.size)]
        for d, size, count in zip(attrs.window.dimensions, spatial, positions, strict=True)
    ]
    for offset in product(*(range(size) for size in attrs.window.sizes)):
        slices = [reach[axis][k] for axis, k in enumerate(offset)]
        patch = base[:, :, *(source for _, source in slices)]
        rows = accumulator.matmul(patch.reshape(groups, math.prod(patch.shape[1:-1]), features), kernel[offset])
        sums[:, :, *(target for target, _ in slices)] += rows.reshape(*patch.shape[:-1], outputs)
    return sums


def _reach(window: WindowDimension, offset: int, size: int, positions: int) -> tuple[slice, slice]:
    """Returns the window positions at which this offset covers an element of the base area, and these elements.

    Example: for 3 elements padded by 1_1 and a window of 3, offset 0 covers elements 0, 1 at positions 1, 2.
    """
    at = np.arange(positions) * window.stride + offset * window.window_dilation - window.padding_low
    met = (at % window.base_dilation == 0) & (at >= 0) & (at < size * window.base_dilation)
    targets = np.flatnonzero(met)
    return _progression(targets), _progression(at[targets] // window.base_dilation)


def _progression(indices: Array) -> slice:
    """Returns evenly spaced, increasing indices as a slice."""
    if not indices.size:
        return slice(0, 0)
    step = int(indices[1] - indices[0]) if indices.size > 1 else 1
    return slice(int(indices[0]), int(indices[-1]) + 1, step)
