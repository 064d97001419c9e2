"""Ops that make a value from nothing, declared with dynamic dimensions: these have their bounds for sizes."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import ops
from xlapy.hlo.instruction import Instruction
from xlapy.passes.expand.dynamic.core import DYNAMIC_EXPANSIONS, SizeWriter, Value, array_of, static


@DYNAMIC_EXPANSIONS.rule(ops.IOTA, ops.RNG, ops.RNG_BIT_GENERATOR)
def of_bounds(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return write.like(instruction, [array_of(value) for value in values])


@DYNAMIC_EXPANSIONS.rule(ops.CONSTANT)
def constant(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return write.literal(instruction.literal, static(instruction.shape))
