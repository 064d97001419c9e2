"""Ops without array operands whose shapes have dynamic dimensions: the bounds are their sizes."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.passes.expand.dynamic.core import DYNAMIC_EXPANSIONS, SizeWriter, Value, array_of, static


@DYNAMIC_EXPANSIONS.rule(opcodes.IOTA, opcodes.RNG, opcodes.RNG_BIT_GENERATOR)
def static_result(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return write.like(instruction, [array_of(value) for value in values])


@DYNAMIC_EXPANSIONS.rule(opcodes.CONSTANT)
def constant(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return write.constant(instruction.literal, static(instruction.shape))
