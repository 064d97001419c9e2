"""Export rules: random numbers.

Owns: rng and rng-bit-generator. Must not know: how they are drawn.
"""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope
from xlapy.stablehlo.export.core.types import type_of
from xlapy.stablehlo.export.sources import emit_constant


@RULES.rule(opcodes.RNG)
def rng(scope: Scope, instruction: Instruction) -> Structure:
    """The shape is an operand."""
    sizes = emit_constant(scope, Literal.of(np.array(instruction.shape.dimensions, np.int64)))
    attributes = {"rng_distribution": instruction.distribution.name}
    return scope.all("stablehlo.rng", instruction, attributes, operands=[*scope.operands(instruction), sizes])


@RULES.rule(opcodes.RNG_BIT_GENERATOR)
def rng_bit_generator(scope: Scope, instruction: Instruction) -> Structure:
    """The next state and the bits; HLO's instruction may give the bits alone."""
    attributes = {"rng_algorithm": instruction.algorithm.name}
    if instruction.shape.is_tuple:
        return scope.all("stablehlo.rng_bit_generator", instruction, attributes)
    operands = scope.operands(instruction)
    types = [operands[0].type, type_of(instruction.shape)]
    return scope.emit("stablehlo.rng_bit_generator", operands, types, attributes)[1]


RULES.refuse("StableHLO's programs have no state that outlives a run", opcodes.RNG_GET_AND_UPDATE_STATE)
RULES.refuse("it has no rounding by random numbers", opcodes.STOCHASTIC_CONVERT)
