"""Export rules of dot and ragged-dot."""

from __future__ import annotations

import re

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_export as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Precision
from xlapy.opcodes.contraction import Algorithm, ContractionAttributes, DotAttributes, RaggedDotAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import precision
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.value_tree import ValueTree

_ALGORITHM = re.compile(r"dot_([a-z0-9]+)_([a-z0-9]+)_([a-z0-9]+?)(?:_x(\d))?")
_ANY_F8 = {
    Algorithm.DOT_ANY_F8_ANY_F8_F32: False,
    Algorithm.DOT_ANY_F8_ANY_F8_F32_FAST_ACCUM: True,
}


@RULES.rule(opcodes.DOT)
def dot(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(DotAttributes)
    attributes = {
        "dot_dimension_numbers": _dimension_numbers("stablehlo.dot", instruction),
        **precision(given.operand_precision),
    }
    if given.algorithm is not Algorithm.UNSET:
        if any(each is not Precision.DEFAULT for each in given.operand_precision):
            raise UnsupportedError(
                codes.EXPORTED_ATTRIBUTE, "StableHLO's dot_general takes an algorithm or precisions, not both"
            )
        attributes["algorithm"] = _algorithm(instruction)
    return builder.emit_for("stablehlo.dot_general", instruction, attributes)


def _dimension_numbers(name: str, instruction: Instruction, **more: tuple[int, ...]) -> ir.StructAttribute:
    attributes = instruction.attributes_as(ContractionAttributes)
    fields = {
        "lhs_batching_dimensions": attributes.lhs_batch_dims,
        "rhs_batching_dimensions": attributes.rhs_batch_dims,
        "lhs_contracting_dimensions": attributes.lhs_contracting_dims,
        "rhs_contracting_dimensions": attributes.rhs_contracting_dims,
        **more,
    }
    return ir.StructAttribute(name, {field: tuple(value) for field, value in fields.items() if value})


def _algorithm(instruction: Instruction) -> ir.StructAttribute:
    """Returns the attribute of a dot algorithm.

    Parses the precision types, the accumulation type and the number of partial products from the algorithm's name, such
    as `dot_bf16_bf16_f32_x3`.
    """
    algorithm: Algorithm = instruction.attributes_as(DotAttributes).algorithm
    if algorithm in _ANY_F8:
        lhs, rhs = (ir.ScalarType(operand.shape.element_type) for operand in instruction.operands)
        types: tuple[ir.Type, ...] = (lhs, rhs, ir.ScalarType(PrimitiveType.F32))
        products = 1
    else:
        match = _ALGORITHM.fullmatch(algorithm.value)
        assert match is not None
        types = tuple(_precision_type(match.group(number)) for number in (1, 2, 3))
        products = int(match.group(4) or 1)
    names = ("lhs_precision_type", "rhs_precision_type", "accumulation_type")
    return ir.StructAttribute(
        "stablehlo.dot_algorithm",
        {
            **dict(zip(names, types, strict=True)),
            "lhs_component_count": 1,
            "rhs_component_count": 1,
            "num_primitive_operations": products,
            "allow_imprecise_accumulation": _ANY_F8.get(algorithm, False),
        },
    )


def _precision_type(name: str) -> ir.Type:
    return ir.OpaqueType(name) if name == "tf32" else ir.ScalarType(PrimitiveType.from_text(name))


RULES.refuse("it has no operands that come with scales", opcodes.SCALED_DOT)


@RULES.rule(opcodes.RAGGED_DOT)
def ragged_dot(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(RaggedDotAttributes)
    numbers = _dimension_numbers(
        "chlo.ragged_dot",
        instruction,
        lhs_ragged_dimensions=given.lhs_ragged_dims,
        rhs_group_dimensions=given.rhs_group_dims,
    )
    attributes = {
        "ragged_dot_dimension_numbers": numbers,
        **precision(given.operand_precision),
    }
    return builder.emit_for("chlo.ragged_dot", instruction, attributes)
