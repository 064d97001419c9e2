"""Sharding rules of elementwise operations and of iota."""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.sharding_rules.factors import Factor, Rule


def elementwise(instruction: Instruction) -> Iterator[Factor]:
    """Yields all dimensions of the result; scalar operands have none."""
    rank = instruction.shape.rank
    for dimension in range(rank):
        taken = tuple([dimension if operand.shape.rank == rank else None for operand in instruction.operands])
        yield Factor(taken, (dimension,), is_uneven=True)


def _bitcast_convert(instruction: Instruction) -> Iterator[Factor]:
    """Yields the dimensions that both have; types of different sizes have one more for the parts of an element."""
    for dimension in range(min(instruction.shape.rank, instruction.operands[0].shape.rank)):
        yield Factor((dimension,), (dimension,))


def _iota(instruction: Instruction) -> Iterator[Factor]:
    """Yields all dimensions, the iota dimension too: a tile of it counts from the tile's offset."""
    for dimension in range(instruction.shape.rank):
        yield Factor((), (dimension,), is_uneven=True)


ELEMENTWISE_RULES: dict[OpDef, Rule] = {
    opcodes.COPY: elementwise,
    opcodes.MAP: elementwise,
    opcodes.BITCAST_CONVERT: _bitcast_convert,
    opcodes.IOTA: _iota,
}
