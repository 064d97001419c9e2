"""Sharding rules of dots, ragged dots and convolutions."""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.contraction import DotAttributes, RaggedDotAttributes, RaggedMode, group_prefix, ragged_mode
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.partial_sums import produces_partial_sums
from xlapy.spmd.sharding_rules.factors import Factor, Rule, dimensions_except


def _dot(instruction: Instruction) -> Iterator[Factor]:
    attributes = instruction.attributes_as(DotAttributes)
    left, right = (operand.shape for operand in instruction.operands[:2])
    result = iter(range(instruction.shape.rank))
    for pair in zip(attributes.lhs_batch_dims, attributes.rhs_batch_dims, strict=True):
        yield Factor(pair, (next(result),), is_uneven=True)
    for dimension in dimensions_except(left, (*attributes.lhs_batch_dims, *attributes.lhs_contracting_dims)):
        yield Factor((dimension, None), (next(result),), is_uneven=True)
    for dimension in dimensions_except(right, (*attributes.rhs_batch_dims, *attributes.rhs_contracting_dims)):
        yield Factor((None, dimension), (next(result),), is_uneven=True)
    for pair in zip(attributes.lhs_contracting_dims, attributes.rhs_contracting_dims, strict=True):
        yield Factor(pair, (None,), is_uneven=True)


def _ragged_dot(instruction: Instruction) -> Iterator[Factor]:
    """Yields the factors of a dot, the ragged dimension too, and the groups of the right operand, which are added up.

    The sizes of groups are whole, except for the dimensions before the groups.
    """
    attributes = instruction.attributes_as(RaggedDotAttributes)
    left, right, sizes = (operand.shape for operand in instruction.operands)
    prefix = group_prefix(attributes, left.rank) if sizes.rank > 1 else ()
    of_sizes = {dimension: number for number, dimension in enumerate(prefix)}
    groups = attributes.rhs_group_dims
    result = iter(range(int(ragged_mode(attributes) is RaggedMode.CONTRACTING), instruction.shape.rank))
    for one, other in zip(attributes.lhs_batch_dims, attributes.rhs_batch_dims, strict=True):
        yield Factor((one, other, of_sizes.get(one)), (next(result),), is_uneven=True)
    for dimension in attributes.lhs_free_dims(left.rank):
        yield Factor((dimension, None, of_sizes.get(dimension)), (next(result),), is_uneven=True)
    for dimension in attributes.rhs_free_dims(right.rank):
        if dimension not in groups:
            yield Factor((None, dimension, None), (next(result),), is_uneven=True)
    if not produces_partial_sums(instruction):
        return
    for one, other in zip(attributes.lhs_contracting_dims, attributes.rhs_contracting_dims, strict=True):
        yield Factor((one, other, of_sizes.get(one)), (None,), is_uneven=True)
    for dimension in groups:
        yield Factor((None, dimension, None), (None,))


def _convolution(instruction: Instruction) -> Iterator[Factor]:
    yield from _convolution_features(instruction)
    yield from _convolution_space(instruction)


def _convolution_features(instruction: Instruction) -> Iterator[Factor]:
    """Yields the batch and feature dimensions; those of grouped convolutions can be split between groups."""
    attributes = instruction.attributes_as(ConvolutionAttributes)
    labels = attributes.dim_labels
    kernel_features, features = labels.kernel_output_feature_dimension, labels.output_feature_dimension
    batch_groups, feature_groups = attributes.batch_group_count, attributes.feature_group_count
    if batch_groups == 1:
        yield Factor((labels.input_batch_dimension, None), (labels.output_batch_dimension,), is_uneven=True)
    else:
        yield Factor((labels.input_batch_dimension, kernel_features), (features,), groups=batch_groups)
    if feature_groups > 1:
        yield Factor((labels.input_feature_dimension, kernel_features), (features,), groups=feature_groups)
        return
    if batch_groups == 1:
        yield Factor((None, kernel_features), (features,), is_uneven=True)
    contracted = (labels.input_feature_dimension, labels.kernel_input_feature_dimension)
    yield Factor(contracted, (None,), is_uneven=True)


def _convolution_space(instruction: Instruction) -> Iterator[Factor]:
    """Yields the spatial dimensions: of the input and the result, or of the input and the kernel, which are contracted.

    The latter are the large ones of gradients with respect to a kernel.
    """
    attributes = instruction.attributes_as(ConvolutionAttributes)
    labels = attributes.dim_labels
    for number, window in enumerate(attributes.window.dimensions):
        dimension = labels.input_spatial_dimensions[number]
        exchanged = () if window.is_identity else (0,)
        yield Factor((dimension, None), (labels.output_spatial_dimensions[number],), exchanged, is_uneven=True)
        if not window.is_identity:
            yield Factor((dimension, labels.kernel_spatial_dimensions[number]), (None,), exchanged, is_uneven=True)


CONTRACTION_RULES: dict[OpDef, Rule] = {
    opcodes.DOT: _dot,
    opcodes.RAGGED_DOT: _ragged_dot,
    opcodes.CONVOLUTION: _convolution,
}
