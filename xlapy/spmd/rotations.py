"""Rotations along a dimension: `concatenate(slice(x, [a:n]), slice(x, [0:a]))`, which is what jnp.roll becomes.

XLA's counterpart is the internal custom call RotateRight. The two slices of a cut dimension would be distributed each
for itself, and then again as parts of the concatenation. As one instruction, a rotation sends only what moves to
another tile. The pass replaces rotations by custom calls that only the partitioner sees.

Responsible for the pattern, for the custom call and for its expansion. Does not depend on devices.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.attributes.dimensions import SliceRanges
from xlapy.opcodes.custom import CustomCallAttributes
from xlapy.opcodes.movement import SliceAttributes
from xlapy.passes.expand.blocks import concatenate, slice_dimension
from xlapy.passes.rewrite import Writer, replace_with_new

ROTATE = "xlapy.Rotate"
"""The target of the custom call. Its frontend attributes are the dimension and the index of the first element."""

_DIMENSION, _START = "dimension", "start"


def is_rotation(instruction: Instruction) -> bool:
    """Returns whether an instruction is a rotation."""
    return instruction.op is opcodes.CUSTOM_CALL and instruction.custom_call_target == ROTATE


def rotation_of(instruction: Instruction) -> tuple[int, int]:
    """Returns the dimension of a rotation and the index of the element that it makes the first one."""
    given = instruction.frontend_attributes or {}
    return int(given[_DIMENSION]), int(given[_START])


def collect_rotations(module: Module) -> None:
    """Replaces concatenates that rotate an array by custom calls."""
    for computation in module.computations:
        for instruction in list(computation):
            start = _start_of_rotation(instruction)
            if start is None:
                continue
            attributes = CustomCallAttributes.make(custom_call_target=ROTATE)
            source, shape = instruction.operands[0].operands[0], instruction.shape
            made = Writer(instruction).add(opcodes.CUSTOM_CALL, source, attributes=attributes, shape=shape)
            given = {_DIMENSION: str(instruction.dimension), _START: str(start)}
            replace_with_new(instruction, made)
            made.frontend_attributes = given


def _start_of_rotation(instruction: Instruction) -> int | None:
    """Returns the index of the element that a concatenate makes the first one; None if it is not a rotation."""
    if instruction.op is not opcodes.CONCATENATE or len(instruction.operands) != 2:
        return None
    if any(operand.op is not opcodes.SLICE for operand in instruction.operands):
        return None
    sources = [operand.operands[0] for operand in instruction.operands]
    dimension, shape = instruction.dimension, sources[0].shape
    if sources[0] is not sources[1] or shape.is_dynamic or shape.dimensions != instruction.shape.dimensions:
        return None
    size, (last, first) = shape.dimensions[dimension], [o.shape.dimensions[dimension] for o in instruction.operands]
    wanted = [_range(instruction, size - last, size), _range(instruction, 0, first)]
    is_found = [operand.attributes_as(SliceAttributes).ranges for operand in instruction.operands] == wanted
    return size - last if is_found else None


def _range(concatenate: Instruction, start: int, limit: int) -> SliceRanges:
    """Returns the ranges of a slice of all elements but for one dimension."""
    sizes = list(concatenate.shape.dimensions)
    starts = [0] * len(sizes)
    starts[concatenate.dimension], sizes[concatenate.dimension] = start, limit
    return SliceRanges(tuple(starts), tuple(sizes), (1,) * len(sizes))


def expand_rotation(write: Writer, rotation: Instruction, operand: Instruction) -> Instruction:
    """Writes a rotation of an array whose dimension is whole."""
    dimension, start = rotation_of(rotation)
    size = operand.shape.dimensions[dimension]
    parts = [
        slice_dimension(write, operand, dimension, start, size),
        slice_dimension(write, operand, dimension, 0, start),
    ]
    return concatenate(write, parts, dimension)
