"""Combines what devices computed of their tiles, by the reducer of the program.

Responsible for whether a reduction may be computed in tiles, and for combining the tiles' results. Does not depend on
the operation that reduces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.analysis.constants import has_all_elements
from xlapy.analysis.effects import calls_collectives
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import Context, evaluate_computation
from xlapy.opcodes.reduction import ReduceAttributes
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.tile_group import TileGroup
from xlapy.spmd.single_execution import is_deterministic

EXCHANGED_REDUCTION_BYTES = 1 << 16
"""The size of results from which on devices divide the work of combining them: each combines a part of the results of
all tiles, and an all-gather follows. A device receives two results instead of one for each other tile, by two
collectives instead of one."""


def initial_values_may_repeat(reducer: Computation, initial: Sequence[Instruction]) -> bool:
    """Returns whether initial values may be combined once for each tile instead of once.

    They may if combining them with themselves does not change them: 0 for a sum, any value for a maximum, the pair
    (-inf, 0) for the reducer of an argmax. False if they are not constants.
    """
    values = [_constant_scalar(value) for value in initial]
    known = [value for value in values if value is not None]
    if len(known) < len(values) or calls_collectives(reducer.root_instruction):
        return False
    if not all(map(is_deterministic, reducer.instructions)):
        return False
    found = evaluate_computation(Context(), reducer, [*known, *known])
    results = found if isinstance(found, tuple) else (found,)
    return all(np.asarray(r).tobytes() == k.tobytes() for r, k in zip(results, known, strict=True))


def _constant_scalar(instruction: Instruction) -> np.ndarray[Any, Any] | None:
    """Returns the value of a constant scalar, possibly converted, reshaped or broadcast."""
    conversions: list[Instruction] = []
    while instruction.op in (opcodes.CONVERT, opcodes.RESHAPE, opcodes.COPY, opcodes.BROADCAST):
        conversions.append(instruction)
        instruction = instruction.operands[0]
    if (
        instruction.op is not opcodes.CONSTANT
        or instruction.shape.size != 1
        or not has_all_elements(instruction.literal)
    ):
        return None
    value = np.asarray(instruction.literal.array).reshape(())
    for conversion in reversed(conversions):
        with np.errstate(all="ignore"):
            value = value.astype(conversion.shape.dtype)
    return value


def reduce_first_dimension(
    write: Writer, reducer: Computation, values: Sequence[Instruction], initial: Sequence[Instruction]
) -> list[Instruction]:
    """Writes a reduce of the first dimension of arrays by a reducer of as many pairs of scalars."""
    attributes = ReduceAttributes.make(dimensions=(0,))
    reduced = write.add(opcodes.REDUCE, *values, *initial, attributes=attributes, computations=[reducer])
    return elements_of(write, reduced, len(values))


def elements_of(write: Writer, result: Instruction, count: int) -> list[Instruction]:
    """Returns the arrays of an instruction with one result, or a tuple of `count` of them."""
    return [result] if count == 1 else [write.get_tuple_element(result, number) for number in range(count)]


def combine_tiles(
    group: TileGroup, reducer: Computation, values: Sequence[Instruction], initial: Sequence[Instruction]
) -> list[Instruction]:
    """Combines the arrays of all members, first tile first; all members get the results."""
    write, shape = group.resharder.write, values[0].shape
    size = sum(value.shape.byte_size for value in values)
    if size < EXCHANGED_REDUCTION_BYTES or shape.size % group.size or group.size == 2:
        return reduce_first_dimension(write, reducer, [group.stack(write, value) for value in values], initial)
    part = shape.size // group.size
    blocks = [write.reshape(value, value.shape.with_dimensions([group.size, part])) for value in values]
    received = [group.swap_blocks(write, block) for block in blocks]
    combined = reduce_first_dimension(write, reducer, received, initial)
    stacked = [group.stack(write, value) for value in combined]
    return [write.reshape(each, value.shape) for each, value in zip(stacked, values, strict=True)]
