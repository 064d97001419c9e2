"""Export rules of rng and rng-bit-generator."""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.random import RngAttributes, RngBitGeneratorAttributes
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.types import type_of
from xlapy.stablehlo.export.core.value_tree import ValueTree
from xlapy.stablehlo.export.sources import emit_constant


@RULES.rule(opcodes.RNG)
def rng(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports a random number generator. Its shape is an operand in StableHLO."""
    sizes = emit_constant(builder, Literal.of(np.array(instruction.shape.dimensions, np.int64)))
    attributes = {"rng_distribution": instruction.attributes_as(RngAttributes).distribution.name}
    return builder.emit_for("stablehlo.rng", instruction, attributes, operands=[*builder.operands(instruction), sizes])


@RULES.rule(opcodes.RNG_BIT_GENERATOR)
def rng_bit_generator(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports a generator, which returns the next state and the bits. HLO's may return the bits only."""
    attributes = {"rng_algorithm": instruction.attributes_as(RngBitGeneratorAttributes).algorithm.name}
    if instruction.shape.is_tuple:
        return builder.emit_for("stablehlo.rng_bit_generator", instruction, attributes)
    operands = builder.operands(instruction)
    types = [operands[0].type, type_of(instruction.shape)]
    return builder.emit("stablehlo.rng_bit_generator", operands, types, attributes)[1]


RULES.refuse("StableHLO programs have no state that persists between runs", opcodes.RNG_GET_AND_UPDATE_STATE)
RULES.refuse("it has no stochastic rounding", opcodes.STOCHASTIC_CONVERT)
