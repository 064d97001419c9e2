"""Export rules: what has no array operands.

Owns: parameters, which are arguments, constants and iota. Must not know: how literals are written.
"""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import constant, integer
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope
from xlapy.stablehlo.export.core.types import type_of


@RULES.rule(opcodes.PARAMETER)
def parameter(scope: Scope, instruction: Instruction) -> Structure:
    return scope.given[instruction.number]


@RULES.rule(opcodes.CONSTANT)
def literal(scope: Scope, instruction: Instruction) -> Structure:
    """A tuple is a constant for each of its elements, a token one that depends on nothing."""
    return _literal(scope, instruction.literal)


def _literal(scope: Scope, value: Literal) -> Structure:
    if value.shape.is_tuple:
        return tuple([_literal(scope, element) for element in value.elements])
    if value.shape.is_token:
        return scope.emit("stablehlo.create_token", (), [ir.TokenType()])[0]
    return emit_constant(scope, value)


def emit_constant(scope: Scope, value: Literal) -> ir.Value:
    """The elements of an array."""
    # A copy that is no longer packed with others: literals keep their arrays.
    elements = constant(np.ascontiguousarray(value.array).reshape(value.shape.dimensions), value.shape.element_type)
    return scope.emit("stablehlo.constant", (), [type_of(value.shape.without_layout())], {"value": elements})[0]


@RULES.rule(opcodes.IOTA)
def iota(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all("stablehlo.iota", instruction, {"iota_dimension": integer(instruction.iota_dimension)})
