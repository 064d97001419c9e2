"""Definitions of parameter, constant and iota."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.base.literal import Literal
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sources import IotaAttributes
from xlapy.reference.core import TOKEN, Value, defines
from xlapy.reference.elements import array_of_shape, element


@defines(opcodes.PARAMETER)
def parameter(instruction: Instruction, *arguments: Value) -> Value:
    """The argument with the number of the parameter."""
    return arguments[instruction.parameter_number]


@defines(opcodes.CONSTANT)
def constant(instruction: Instruction) -> Value:
    """The value of the literal."""
    return value_of(instruction.literal)


def value_of(literal: Literal) -> Value:
    """Returns a literal as a value."""
    if literal.shape.is_tuple:
        return tuple(value_of(part) for part in literal.elements)
    return TOKEN if literal.shape.is_token else literal.array


@defines(opcodes.IOTA)
def iota(instruction: Instruction) -> Array:
    """result[i] = i[iota_dimension]; integers wrap."""
    dimension, element_type = instruction.attributes_as(IotaAttributes).iota_dimension, instruction.shape.element_type
    return array_of_shape(instruction.shape, lambda index: element(index[dimension], element_type))
