"""Finds the place in memory of an element that a region reads as it is, without computing anything from it."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.codegen.access_rules import reads_of
from xlapy.codegen.iteration_space import IterationSpace
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Builder, Location, Value
from xlapy.lower import Lowering, storage_type
from xlapy.lower.core import Index

_MOVEMENT = frozenset({
    opcodes.BITCAST, opcodes.BROADCAST, opcodes.COPY, opcodes.RESHAPE, opcodes.REVERSE, opcodes.SLICE,
    opcodes.TRANSPOSE,
})  # fmt: skip
"""Opcodes whose elements are elements of their operand."""


def element_location(lowering: Lowering, instruction: Instruction, index: Index) -> Location | None:
    """Returns the location of an element; None if it is computed, or does not fill the bits that hold it in memory."""
    t, space = instruction.shape.element_type, _KernelPositions(lowering.builder)
    if t.is_complex or t.bits != storage_type(t).bits:
        return None
    while (source := lowering.source(instruction)) is None:
        if instruction.op not in _MOVEMENT or instruction.operands[0].shape.element_type is not t:
            return None
        (read,) = reads_of(space, instruction, index)
        instruction, index = read.operand, read.index
    return Location(source.buffer, source.offset(index))


class _KernelPositions(IterationSpace):
    """Positions that are values of a kernel."""

    def __init__(self, builder: Builder) -> None:
        super().__init__()
        self._builder = builder

    def divided(self, op: str, dividend: Affine, divisor: int, limits: tuple[int, int] | None) -> Value:
        return self._builder.divided(op, dividend, divisor, limits)
