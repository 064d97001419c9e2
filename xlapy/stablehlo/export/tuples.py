"""Export rules: tuples, which are taken apart.

Owns: tuple and get-tuple-element. Must not know: what the elements are.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope


@RULES.rule(opcodes.TUPLE)
def tuple_(scope: Scope, instruction: Instruction) -> Structure:
    return tuple([scope.values[operand] for operand in instruction.operands])


@RULES.rule(opcodes.GET_TUPLE_ELEMENT)
def get_tuple_element(scope: Scope, instruction: Instruction) -> Structure:
    (operand,) = instruction.operands
    structure = scope.values[operand]
    if not isinstance(structure, tuple) or len(structure) != len(operand.shape.tuple_shapes):
        raise UnsupportedError(f"an element of {operand.op.name} that is not yet done has no value in StableHLO")
    return structure[instruction.index]
