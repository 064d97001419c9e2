"""Lowers convolution: a sum of products over the window and the input features of a group."""

from __future__ import annotations

from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.loops import Affine
from xlapy.lower.contraction import sum_of_products, sum_type, zero_element
from xlapy.lower.core import LOWERINGS, Element, Index, Lowering
from xlapy.lower.elementwise import convert_element, select_element
from xlapy.lower.movement import masked_element
from xlapy.lower.windows import window_position
from xlapy.opcodes.convolution import CONVOLUTION, ConvolutionAttributes, SparsityConfig


@LOWERINGS.rule(CONVOLUTION)
def convolution(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """Loops over the window and the input features; padding and holes contribute zeros."""
    attrs: ConvolutionAttributes = instruction.attributes_as(ConvolutionAttributes)
    if attrs.sparsity_config != SparsityConfig():
        raise UnsupportedError(
            codes.LOWERED_INSTRUCTION, f"{describe_instruction(instruction)}: sparse operands do not run on cpu"
        )
    lhs, rhs = instruction.operands
    numbers, builder, result = attrs.dim_labels, lowering.builder, instruction.shape.element_type
    t = sum_type([lhs.shape.element_type, rhs.shape.element_type], result)
    positions = tuple(index[d] for d in numbers.output_spatial_dimensions)
    sizes = [lhs.shape.dimensions[d] for d in numbers.input_spatial_dimensions]
    inputs = rhs.shape.dimensions[numbers.kernel_input_feature_dimension]
    batch, feature = _group(lowering, instruction, index)
    output = index[numbers.output_feature_dimension]

    def terms(inner: Index) -> tuple[Element, Element]:
        *offsets, input_feature = inner
        base_index, condition = window_position(lowering, positions, tuple(offsets), attrs.window, sizes)
        source: list[Affine] = [Affine()] * lhs.shape.rank
        source[numbers.input_batch_dimension] = batch
        source[numbers.input_feature_dimension] = feature + input_feature
        filter_index: list[Affine] = [Affine()] * rhs.shape.rank
        filter_index[numbers.kernel_input_feature_dimension] = input_feature
        filter_index[numbers.kernel_output_feature_dimension] = output
        for d, position in zip(numbers.input_spatial_dimensions, base_index, strict=True):
            source[d] = position
        window = attrs.window.dimensions
        for d, offset, w in zip(numbers.kernel_spatial_dimensions, offsets, window, strict=True):
            filter_index[d] = offset * -1 + (w.size - 1) if w.window_reversal else offset
        # padding contributes nothing, even if the filter element is infinite
        left = masked_element(lowering, lhs, tuple(source), condition, zero_element(builder, lhs.shape.element_type))
        right = lowering.element(rhs, tuple(filter_index))
        if condition is not None:
            right = select_element(builder, condition, right, zero_element(builder, rhs.shape.element_type))
        return (
            convert_element(builder, left, lhs.shape.element_type, t),
            convert_element(builder, right, rhs.shape.element_type, t),
        )

    return convert_element(builder, sum_of_products(lowering, t, [*attrs.window.sizes, inputs], terms), t, result)


def _group(lowering: Lowering, instruction: Instruction, index: Index) -> tuple[Affine, Affine]:
    """The batch position and the first input feature of the group of an output element."""
    attrs: ConvolutionAttributes = instruction.attributes_as(ConvolutionAttributes)
    lhs, rhs = (operand.shape.dimensions for operand in instruction.operands)
    numbers = attrs.dim_labels
    batch, output = index[numbers.output_batch_dimension], index[numbers.output_feature_dimension]
    groups = attrs.feature_group_count * attrs.batch_group_count
    if groups == 1:
        return batch, Affine()
    group = lowering.builder.quotient(output, rhs[numbers.kernel_output_feature_dimension] // groups)
    if attrs.batch_group_count > 1:
        return batch + group * (lhs[numbers.input_batch_dimension] // groups), Affine()
    return batch, group * rhs[numbers.kernel_input_feature_dimension]
