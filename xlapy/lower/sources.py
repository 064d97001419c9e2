"""Lowers operations without operands: iota and constants with equal elements. Other constants are loads."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S64, PrimitiveType
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.loops import Builder
from xlapy.lower.core import LOWERINGS, ComplexElement, Element, Index, Lowering
from xlapy.lower.element_types import register_type
from xlapy.lower.elementwise import convert_element
from xlapy.opcodes.sources import IotaAttributes


@LOWERINGS.rule(opcodes.IOTA)
def iota(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """The position along one dimension."""
    position = lowering.builder.value_of(index[instruction.attributes_as(IotaAttributes).iota_dimension])
    return convert_element(lowering.builder, position, S64, instruction.shape.element_type)


@LOWERINGS.rule(opcodes.CONSTANT)
def constant(lowering: Lowering, instruction: Instruction, index: Index) -> Element:
    """A constant whose elements are all the same; other constants are in memory."""
    number = uniform_value(instruction)
    if number is None:
        raise UnsupportedError(
            codes.LOWERED_INSTRUCTION,
            f"{describe_instruction(instruction)}: a constant of shape {instruction.shape.to_text(layout=False)} lies "
            "in memory",
        )
    return constant_element(lowering.builder, instruction.shape.element_type, number)


def uniform_value(instruction: Instruction) -> Any:
    """The element of a constant whose elements have the same bits; None if they differ."""
    array: np.ndarray[Any, Any] = np.ascontiguousarray(instruction.literal.array)
    if not array.size:
        return None
    flat = array.reshape(-1).view(f"V{array.itemsize}")
    if array.size > 1 and (flat != flat[0]).any():
        return None
    return array.reshape(-1)[0]


def constant_element(builder: Builder, t: PrimitiveType, number: Any) -> Element:
    """A number as an element of a type."""
    part = register_type(t)
    if t.is_complex:
        return ComplexElement(builder.constant(part, number.real), builder.constant(part, number.imag))
    return builder.constant(part, int(number) if part.is_integer else float(number))
