"""Concatenations of slices, such as `concatenate(slice(x, [a:n]), slice(x, [0:a]))`, which jnp.roll becomes.

XLA's counterparts are the internal custom calls RotateRight and RotateRightPad. Slices of a dimension that is split
would be distributed each for itself, and then again as parts of the concatenation. As one instruction, a concatenation
of ranges of arrays sends only what moves to another tile. A pass replaces such concatenates by custom calls that only
the partitioner sees.

Responsible for the pattern, for the custom call and for its expansion. Does not depend on devices.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.custom import CustomCallAttributes
from xlapy.opcodes.movement import SliceAttributes
from xlapy.passes.expand.blocks import concatenate, slice_dimension
from xlapy.passes.rewrite import Writer, replace_with_new
from xlapy.spmd.halo.segments import Range

_TARGET = "xlapy.ConcatenateRanges"
"""The target of the custom call. Its frontend attributes are the dimension and the ranges, as array:start:length."""

_DIMENSION, _RANGES = "dimension", "ranges"


def concatenates_ranges(instruction: Instruction) -> bool:
    """Returns whether an instruction is the custom call of a concatenation of ranges."""
    return instruction.op is opcodes.CUSTOM_CALL and instruction.custom_call_target == _TARGET


def concatenation_of(instruction: Instruction) -> tuple[int, list[Range]] | None:
    """Returns the dimension along which an operation concatenates ranges of its operands; None if it does not."""
    if instruction.op is opcodes.CONCATENATE:
        sizes = [operand.shape.dimensions[instruction.dimension] for operand in instruction.operands]
        return instruction.dimension, [Range(number, 0, size) for number, size in enumerate(sizes)]
    if not concatenates_ranges(instruction):
        return None
    given = instruction.frontend_attributes or {}
    ranges = [Range(*map(int, text.split(":"))) for text in given[_RANGES].split(",")]
    return int(given[_DIMENSION]), ranges


def collect_concatenated_ranges(module: Module) -> None:
    """Replaces concatenates of slices along the concatenated dimension by custom calls on the sliced arrays."""
    for computation in module.computations:
        for instruction in list(computation):
            if instruction.op is opcodes.CONCATENATE and not instruction.shape.is_dynamic:
                _collect(instruction)


def _collect(instruction: Instruction) -> None:
    parts = [_sliced(operand, instruction.dimension) for operand in instruction.operands]
    if all(source is operand for (source, _, _), operand in zip(parts, instruction.operands, strict=True)):
        return
    sources = list(dict.fromkeys(source for source, _, _ in parts))
    ranges = [f"{sources.index(source)}:{start}:{length}" for source, start, length in parts]
    attributes = CustomCallAttributes.make(custom_call_target=_TARGET)
    made = Writer(instruction).add(opcodes.CUSTOM_CALL, *sources, attributes=attributes, shape=instruction.shape)
    given = {_DIMENSION: str(instruction.dimension), _RANGES: ",".join(ranges)}
    replace_with_new(instruction, made)
    made.frontend_attributes = given


def _sliced(operand: Instruction, dimension: int) -> tuple[Instruction, int, int]:
    """Returns the array of which an operand is a slice along one dimension, the first element and their number.

    An operand that is no such slice is a range of itself.
    """
    size = operand.shape.dimensions[dimension]
    if operand.op is not opcodes.SLICE:
        return operand, 0, size
    source, ranges = operand.operands[0], operand.attributes_as(SliceAttributes).ranges
    differs = [d for d in range(operand.shape.rank) if operand.shape.dimensions[d] != source.shape.dimensions[d]]
    if ranges.strides[dimension] != 1 or source.shape.is_dynamic or any(d != dimension for d in differs):
        return operand, 0, size
    return source, ranges.starts[dimension], size


def expand_concatenation(write: Writer, instruction: Instruction, operands: Sequence[Instruction]) -> Instruction:
    """Writes a concatenation of ranges of arrays that are not split along the dimension."""
    found = concatenation_of(instruction)
    assert found is not None
    dimension, ranges = found
    parts = [slice_dimension(write, operands[r.array], dimension, r.start, r.start + r.length) for r in ranges]
    return concatenate(write, parts, dimension)
