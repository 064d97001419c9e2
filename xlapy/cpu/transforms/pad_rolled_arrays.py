"""Replaces the rolls of an array by slices of one array with periodic borders.

A stencil on a torus adds up the neighbors of each element. `jnp.roll` makes each array of neighbors by a concatenation
of two slices, which would be a copy of the array. Slices of an array with borders are read where they lie:

    a = f32[64] concatenate(slice(x, [1:64]), slice(x, [0:1]))
    b = f32[64] concatenate(slice(x, [63:64]), slice(x, [0:63]))
    ->    p = f32[66] concatenate(slice(x, [63:64]), x, slice(x, [0:1]))  a = slice(p, [2:66])  b = slice(p, [0:64])

Does not depend on kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final

from xlapy import opcodes
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.movement import DimensionAttributes, SliceAttributes
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule

MIN_ROLLS: Final = 2
"""The least number of rolls that are replaced: an array with borders is a copy, too, or two for several dimensions."""

MAX_BORDER_SHARE: Final = 1 / 2
"""The largest size of the borders, relative to the array. Long shifts would copy more than they save."""

Shifts = tuple[int, ...]
"""For each dimension of an array, how far a roll moves its elements toward lower indices."""


@dataclass(frozen=True)
class PadRolledArrays:
    """Replaces several rolls of an array by slices of one array with borders."""

    name: ClassVar[str] = "pad-rolled-arrays"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for array, rolls in _rolls(computation).items():
                changed |= _replace(array, rolls)
        return update_schedule(module, changed)


def _rolls(computation: Computation) -> dict[Instruction, dict[Instruction, Shifts]]:
    """Returns the rolls of each array, including rolls of rolls, with their shifts."""
    sources: dict[Instruction, tuple[Instruction, Shifts]] = {}
    found: dict[Instruction, dict[Instruction, Shifts]] = {}
    for instruction in post_order(computation):
        roll = _roll(instruction)
        if roll is None:
            continue
        operand, dimension, shift = roll
        array, before = sources.get(operand, (operand, (0,) * operand.shape.rank))
        size = operand.shape.dimensions[dimension]
        shifts = tuple(_shortest(s + shift, size) if d == dimension else s for d, s in enumerate(before))
        sources[instruction] = array, shifts
        found.setdefault(array, {})[instruction] = shifts
    return found


def _shortest(shift: int, size: int) -> int:
    """Returns the shift in either direction that moves elements the least."""
    shift %= size
    return shift if 2 * shift <= size else shift - size


def _roll(instruction: Instruction) -> tuple[Instruction, int, int] | None:
    """Returns the array, the dimension and the shift of a roll along one dimension; None for others."""
    if instruction.op is not opcodes.CONCATENATE or len(instruction.operands) != 2 or instruction.has_control_edges:
        return None
    first, second = instruction.operands
    if first.op is not opcodes.SLICE or second.op is not opcodes.SLICE or first.operands != second.operands:
        return None
    array, dimension = first.operands[0], instruction.dimension
    if array.shape != instruction.shape or array.shape.is_dynamic or not array.shape.size:
        return None
    heads, tails = (one.attributes_as(SliceAttributes).ranges for one in (first, second))
    for d, size in enumerate(array.shape.dimensions):
        parts = [(r.starts[d], r.limits[d], r.strides[d]) for r in (heads, tails)]
        shift = parts[0][0]
        wanted = [(shift, size, 1), (0, shift, 1)] if d == dimension else [(0, size, 1)] * 2
        if parts != wanted:
            return None
    return array, dimension, heads.starts[dimension]


def _replace(array: Instruction, rolls: dict[Instruction, Shifts]) -> bool:
    """Replaces the rolls that others than rolls use, if they are several and their shifts short."""
    used = [roll for roll in rolls if roll.is_root or any(user.op is not opcodes.SLICE for user in roll.users)]
    if len({rolls[roll] for roll in used}) < MIN_ROLLS:
        return False
    dimensions = array.shape.dimensions
    before = [max(0, *(-rolls[roll][d] for roll in used)) for d in range(len(dimensions))]
    after = [max(0, *(rolls[roll][d] for roll in used)) for d in range(len(dimensions))]
    padded = math.prod(b + size + a for b, size, a in zip(before, dimensions, after, strict=True))
    if padded > (1 + MAX_BORDER_SHARE) * array.shape.size:
        return False
    write = Writer(used[0])
    borders = array
    for dimension, (low, high) in enumerate(zip(before, after, strict=True)):
        borders = _with_borders(write, borders, dimension, low, high)
    for roll in used:
        starts = [low + shift for low, shift in zip(before, rolls[roll], strict=True)]
        limits = [start + size for start, size in zip(starts, dimensions, strict=True)]
        replace_with_new(roll, Writer(roll).slice(borders, starts, limits, shape=roll.shape))
    return True


def _with_borders(write: Writer, array: Instruction, dimension: int, low: int, high: int) -> Instruction:
    """Writes an array that continues periodically by `low` elements before its first and `high` after its last one."""
    dimensions = array.shape.dimensions
    size = dimensions[dimension]

    def part(begin: int, end: int) -> Instruction:
        starts = [begin if d == dimension else 0 for d in range(len(dimensions))]
        limits = [end if d == dimension else whole for d, whole in enumerate(dimensions)]
        return write.slice(array, starts, limits)

    parts = [part(size - low, size)] if low else []
    parts.append(array)
    if high:
        parts.append(part(0, high))
    if len(parts) == 1:
        return array
    return write.add(opcodes.CONCATENATE, *parts, attributes=DimensionAttributes.make(dimension=dimension))
