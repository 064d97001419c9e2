"""Sharding rules of the collectives of manual regions.

All devices of a group execute such a collective on tiles at the same position.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.collectives import AllGatherAttributes, AllToAllAttributes, ReduceScatterAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.sharding_rules.factors import Factor, Rule, dimensions_except, same_dimensions


def _elementwise_collective(instruction: Instruction) -> Iterator[Factor]:
    if len(instruction.operands) == 1:
        yield from same_dimensions(instruction, range(instruction.shape.rank))


def _all_gather(instruction: Instruction) -> Iterator[Factor]:
    if len(instruction.operands) == 1:
        yield from same_dimensions(
            instruction,
            dimensions_except(instruction.shape, [instruction.attributes_as(AllGatherAttributes).all_gather_dimension]),
        )


def _reduce_scatter(instruction: Instruction) -> Iterator[Factor]:
    if len(instruction.operands) == 1:
        yield from same_dimensions(
            instruction,
            dimensions_except(
                instruction.shape, [instruction.attributes_as(ReduceScatterAttributes).scatter_dimension]
            ),
        )


def _all_to_all(instruction: Instruction) -> Iterator[Factor]:
    split_dimension = instruction.attributes_as(AllToAllAttributes).split_dimension
    if split_dimension is not None:
        yield from same_dimensions(instruction, dimensions_except(instruction.shape, [split_dimension]))


COLLECTIVES_RULES: dict[OpDef, Rule] = {
    opcodes.ALL_REDUCE: _elementwise_collective,
    opcodes.COLLECTIVE_PERMUTE: _elementwise_collective,
    opcodes.COLLECTIVE_BROADCAST: _elementwise_collective,
    opcodes.ALL_GATHER: _all_gather,
    opcodes.REDUCE_SCATTER: _reduce_scatter,
    opcodes.ALL_TO_ALL: _all_to_all,
}
