"""Export rules of parameters, constants and iota."""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.literal import Literal
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sources import IotaAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import constant, integer
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.types import type_of
from xlapy.stablehlo.export.core.value_tree import ValueTree


@RULES.rule(opcodes.PARAMETER)
def parameter(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.parameters[instruction.parameter_number]


@RULES.rule(opcodes.CONSTANT)
def literal(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports a constant. Each element of a tuple becomes a constant; a token becomes a `create_token`."""
    return _literal(builder, instruction.literal)


def _literal(builder: BlockBuilder, value: Literal) -> ValueTree:
    if value.shape.is_tuple:
        return tuple([_literal(builder, element) for element in value.elements])
    if value.shape.is_token:
        return builder.emit("stablehlo.create_token", (), [ir.TokenType()])[0]
    if value.is_elided:
        raise UnsupportedError(
            codes.ELIDED_CONSTANT,
            "it is written {...}, so its elements are unknown; print the program with all constants in full "
            "(print_large_constants=True)",
        )
    return emit_constant(builder, value)


def emit_constant(builder: BlockBuilder, value: Literal) -> ir.Value:
    """Emits the constant of an array literal."""
    array = value.array
    if any(array.strides):  # Else all elements are one number in memory.
        array = np.ascontiguousarray(array)  # a copy of a part of a larger array, which the attribute would keep alive
    elements = constant(array.reshape(value.shape.dimensions), value.shape.element_type)
    return builder.emit("stablehlo.constant", (), [type_of(value.shape.without_layout())], {"value": elements})[0]


@RULES.rule(opcodes.IOTA)
def iota(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for(
        "stablehlo.iota",
        instruction,
        {"iota_dimension": integer(instruction.attributes_as(IotaAttributes).iota_dimension)},
    )
