"""Import rules of tuple and get_tuple_element."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.errors import ShapeError
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import integer
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import rule


@rule("stablehlo.tuple", on_storage_type=True, any_operands=True)
def tuple_(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    return builder.emit(opcodes.TUPLE, builder.operands(operation))


@rule("stablehlo.get_tuple_element", operands=1, on_storage_type=True, any_operands=True)
def get_tuple_element(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    (operand,) = builder.operands(operation)
    index = integer(operation, "index")
    if not 0 <= index < len(operand.shape.tuple_shapes):
        raise ShapeError(codes.TUPLE_INDEX, f"{operand.shape.to_text(layout=False)} has no element {index}")
    return builder.get_tuple_element(operand, index)
