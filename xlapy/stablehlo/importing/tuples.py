"""Import rules: tuples.

Owns: tuple, get_tuple_element. Must not know: other families.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.errors import ShapeError
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import integer
from xlapy.stablehlo.importing.core.rules import rule
from xlapy.stablehlo.importing.core.scope import Scope


@rule("stablehlo.tuple", stored=True)
def tuple_(scope: Scope, operation: ir.Operation) -> Instruction:
    return scope.emit(opcodes.TUPLE, scope.operands(operation))


@rule("stablehlo.get_tuple_element", operands=1, stored=True)
def get_tuple_element(scope: Scope, operation: ir.Operation) -> Instruction:
    (operand,) = scope.operands(operation)
    index = integer(operation, "index")
    if not 0 <= index < len(operand.shape.tuple_shapes):
        raise ShapeError(f"{operand.shape.to_text(layout=False)} has no element {index}")
    return scope.element(operand, index)
