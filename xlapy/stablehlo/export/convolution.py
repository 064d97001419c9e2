"""Export rules: convolutions.

Owns: convolution with its window and dimension numbers. Must not know: how products are summed.
"""

from __future__ import annotations

import dataclasses

from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.contraction import Algorithm
from xlapy.opcodes.convolution import ConvolutionKind, SparsityConfig
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import booleans, integer, integers, precision, table
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope


@RULES.rule(opcodes.CONVOLUTION)
def convolution(scope: Scope, instruction: Instruction) -> Structure:
    if instruction.convolution_kind is not ConvolutionKind.UNSET or instruction.algorithm is not Algorithm.UNSET:
        raise UnsupportedError("StableHLO's convolutions have neither a kind nor an algorithm")
    if instruction.sparsity_config != SparsityConfig():
        raise UnsupportedError("StableHLO's convolutions have no sparse operands")
    window = instruction.window.dimensions
    attributes = {
        "dimension_numbers": ir.StructAttribute("stablehlo.conv", dataclasses.asdict(instruction.dim_labels)),
        "window_strides": integers(dimension.stride for dimension in window),
        "padding": table([(dimension.padding_low, dimension.padding_high) for dimension in window]),
        "lhs_dilation": integers(dimension.base_dilation for dimension in window),
        "rhs_dilation": integers(dimension.window_dilation for dimension in window),
        "window_reversal": booleans(dimension.window_reversal for dimension in window),
        "feature_group_count": integer(instruction.feature_group_count),
        "batch_group_count": integer(instruction.batch_group_count),
        **precision(instruction.operand_precision),
    }
    return scope.all("stablehlo.convolution", instruction, attributes, operands=_alike(scope, instruction))


def _alike(scope: Scope, instruction: Instruction) -> list[ir.Value]:
    """The operands in one element type: that of the result, if they differ."""
    values = scope.operands(instruction)
    wanted = instruction.shape.element_type
    kinds = {operand.shape.element_type for operand in instruction.operands}
    if len(kinds) == 1:
        return values
    if any(kind.bits > wanted.bits for kind in kinds):
        raise UnsupportedError("StableHLO's convolutions take operands of one element type")
    return [
        scope.one("stablehlo.convert", [value], operand.shape.with_element_type(wanted))
        for value, operand in zip(values, instruction.operands, strict=True)
    ]
