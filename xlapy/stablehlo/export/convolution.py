"""Export rule of convolution, with its window and dimension numbers."""

from __future__ import annotations

import dataclasses

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_export as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.contraction import Algorithm
from xlapy.opcodes.convolution import ConvolutionAttributes, ConvolutionKind, SparsityConfig
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import booleans, integer, integers, matrix, precision
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.value_tree import ValueTree


@RULES.rule(opcodes.CONVOLUTION)
def convolution(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(ConvolutionAttributes)
    if given.convolution_kind is not ConvolutionKind.UNSET or given.algorithm is not Algorithm.UNSET:
        raise UnsupportedError(
            codes.EXPORTED_ATTRIBUTE, "StableHLO's convolutions have neither a kind nor an algorithm"
        )
    if given.sparsity_config != SparsityConfig():
        raise UnsupportedError(codes.EXPORTED_ATTRIBUTE, "StableHLO's convolutions have no sparse operands")
    window = given.window.dimensions
    attributes = {
        "dimension_numbers": ir.StructAttribute("stablehlo.conv", dataclasses.asdict(given.dim_labels)),
        "window_strides": integers(dimension.stride for dimension in window),
        "padding": matrix([(dimension.padding_low, dimension.padding_high) for dimension in window]),
        "lhs_dilation": integers(dimension.base_dilation for dimension in window),
        "rhs_dilation": integers(dimension.window_dilation for dimension in window),
        "window_reversal": booleans(dimension.window_reversal for dimension in window),
        "feature_group_count": integer(given.feature_group_count),
        "batch_group_count": integer(given.batch_group_count),
        **precision(given.operand_precision),
    }
    return builder.emit_for(
        "stablehlo.convolution", instruction, attributes, operands=_operands_of_one_type(builder, instruction)
    )


def _operands_of_one_type(builder: BlockBuilder, instruction: Instruction) -> list[ir.Value]:
    """Returns the operands, converted to the result's element type if their element types differ."""
    values = builder.operands(instruction)
    result_type = instruction.shape.element_type
    operand_types = {operand.shape.element_type for operand in instruction.operands}
    if len(operand_types) == 1:
        return values
    if any(each.bits > result_type.bits for each in operand_types):
        raise UnsupportedError(
            codes.EXPORTED_OPERANDS, "StableHLO's convolution takes operands with the same element type"
        )
    return [
        builder.emit_single("stablehlo.convert", [value], operand.shape.with_element_type(result_type))
        for value, operand in zip(values, instruction.operands, strict=True)
    ]
