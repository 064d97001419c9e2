"""Ops that make a value from nothing, declared with dynamic dimensions: these have their bounds for sizes."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.passes.expand.dynamic.core import DYNAMIC_EXPANSIONS, SizeWriter, Value, array_of, static


@DYNAMIC_EXPANSIONS.rule(opcodes.IOTA, opcodes.RNG, opcodes.RNG_BIT_GENERATOR)
def of_bounds(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return write.like(instruction, [array_of(value) for value in values])


@DYNAMIC_EXPANSIONS.rule(opcodes.CONSTANT)
def constant(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return write.constant(instruction.literal, static(instruction.shape))
