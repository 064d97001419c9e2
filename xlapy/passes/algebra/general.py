"""Rewrites of all operations: results without elements, and elementwise operations on broadcasts.

Does not depend on what the operations compute.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.analysis.effects import SPECULATABLE_FAMILIES
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import Effect
from xlapy.passes.algebra.core import REWRITES
from xlapy.passes.rewrite import Writer


@REWRITES.rule()
def result_without_elements(write: Writer, instruction: Instruction) -> Instruction | None:
    """A result without elements -> a broadcast of a scalar to the same shape."""
    shape = instruction.shape
    if not shape.is_array or shape.size or instruction.op.family not in SPECULATABLE_FAMILIES:
        return None
    if instruction.op is opcodes.BROADCAST and not instruction.operands[0].shape.rank:
        return None
    if instruction.op.effect_of(instruction.attributes) is not Effect.PURE:
        return None
    return write.splat(0, shape)


@REWRITES.rule()
def elementwise_of_broadcasts(write: Writer, instruction: Instruction) -> Instruction | None:
    """f(broadcast(a), broadcast(b)) -> broadcast(f(a, b)), if all operands broadcast along the same dimensions."""
    if not instruction.op.elementwise or not instruction.operands or not instruction.shape.rank:
        return None
    first = instruction.operands[0]
    if any(operand.op is not opcodes.BROADCAST for operand in instruction.operands):
        return None
    narrow = first.operands[0].shape
    for operand in instruction.operands:
        if operand.attributes != first.attributes or operand.operands[0].shape.dimensions != narrow.dimensions:
            return None
        if operand.shape.dimensions != instruction.shape.dimensions:
            return None
    if narrow.size >= instruction.shape.size:
        return None
    shape = narrow.with_element_type(instruction.shape.element_type)
    inner = [operand.operands[0] for operand in instruction.operands]
    value = write.add(instruction.op, *inner, attributes=instruction.attributes, shape=shape)
    value.result_accuracy = instruction.result_accuracy
    return write.add(opcodes.BROADCAST, value, attributes=first.attributes, shape=instruction.shape)
