"""Sharding rules of custom calls: concatenated ranges, and calls that declare batch dimensions."""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.halo.concatenations import concatenates_ranges
from xlapy.spmd.sharding_rules.factors import Factor, Rule
from xlapy.spmd.sharding_rules.movement import concatenate

BATCH_DIMENSIONS = "num_batch_dims"
"""The frontend attribute of a custom call with the number of its leading dimensions that are batch dimensions."""


def _custom_call(instruction: Instruction) -> Iterator[Factor]:
    """Yields the leading dimensions that a frontend attribute declares to be batch dimensions."""
    if concatenates_ranges(instruction):
        yield from concatenate(instruction)
        return
    count = (instruction.frontend_attributes or {}).get(BATCH_DIMENSIONS, "")
    shapes = [*(operand.shape for operand in instruction.operands), *(leaf for _, leaf in instruction.shape.leaves())]
    if not count.isdecimal() or not all(shape.is_array for shape in shapes):
        return
    operands = len(instruction.operands)
    for dimension in range(min(int(count), *[shape.rank for shape in shapes])):
        if len({shape.dimensions[dimension] for shape in shapes}) == 1:
            yield Factor((dimension,) * operands, (dimension,) * (len(shapes) - operands))


CUSTOM_RULES: dict[OpDef, Rule] = {
    opcodes.CUSTOM_CALL: _custom_call,
}
