"""Local dynamic-slice and dynamic-update-slice along dimensions that are split.

The start index is known only at run time, so that any device may hold any part of the slice. A device takes as many
elements of its tile as the slice can have there, and shifts them to their places in the slice. Elements of other tiles
are zeros, so that the sum over the devices is the slice. An update is shifted to its place in the tile; where it does
not reach, the old contents are written again.

Responsible for these local operations. Does not depend on why an operation is split that way (`strategy.py`).

Worked example: a slice of 3 of 8 elements in 2 tiles of 4, from element 2. Device 1 holds elements 4 to 7; relative to
its tile the slice begins at -2. It takes the three elements at 0 and shifts them by 2: zero, zero, element 4.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import PaddingDimension
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.movement import DynamicSliceAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.passes.expand.blocks import compare, iota
from xlapy.passes.rewrite import Writer
from xlapy.spmd.halo.exchange import pad_dimension
from xlapy.spmd.local_operations import LocalOperation


@dataclass(frozen=True)
class _Part:
    """What a device takes of its tile along one dimension.

    start: the index of the first element. size: the number of elements. shift: how far before this element the slice
    begins, or None if the dimension is not split.
    """

    start: Instruction
    size: int
    shift: Instruction | None


def _parts(local: LocalOperation, first_index: int, taken: Sequence[int]) -> list[_Part]:
    """Returns the parts that a device takes. taken: the sizes of the slice. first_index: the first index operand."""
    write, parts = local.resharder.write, []
    sizes, tile = local.instruction.operands[0].shape.dimensions, local.operands[0].shape.dimensions
    for dimension, (size, count) in enumerate(zip(sizes, taken, strict=True)):
        is_split = count != size and local.operand_shardings[0].tilings[dimension] is not None
        described = local.indexed_dimension(dimension, is_split, size - count)
        index = local.local_indices(local.operands[first_index + dimension], None, [described], 0)
        if not is_split:
            parts.append(_Part(index, min(count, tile[dimension]), None))
            continue
        part = min(count, tile[dimension])
        start = _clamped(write, index, 0, tile[dimension] - part)
        parts.append(_Part(start, part, write.add(opcodes.SUBTRACT, start, index)))
    return parts


def _clamped(write: Writer, value: Instruction, low: int, high: int) -> Instruction:
    return write.add(opcodes.CLAMP, write.splat(low, value.shape), value, write.splat(high, value.shape))


def _shifted(write: Writer, array: Instruction, dimension: int, first: Instruction, size: int) -> Instruction:
    """Returns `size` elements of an array from index `first` on, which may be outside of it, where it has zeros."""
    own = array.shape.dimensions[dimension]
    zero = write.scalar(0, array.shape.element_type)
    padded = pad_dimension(write.add, array, dimension, PaddingDimension(size, size), zero)
    here = _clamped(write, write.add(opcodes.ADD, first, write.splat(size, first.shape)), 0, own + size)
    rest = write.splat(0, first.shape)
    sizes = [size if d == dimension else each for d, each in enumerate(array.shape.dimensions)]
    indices = [here if d == dimension else rest for d in range(array.shape.rank)]
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=tuple(sizes))
    return write.add(opcodes.DYNAMIC_SLICE, padded, *indices, attributes=attributes)


def _taken(write: Writer, array: Instruction, parts: Sequence[_Part]) -> Instruction:
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=tuple([part.size for part in parts]))
    return write.add(opcodes.DYNAMIC_SLICE, array, *[part.start for part in parts], attributes=attributes)


def _local_dynamic_slice(local: LocalOperation) -> Instruction:
    """Slices the device's own tile; elements of other tiles are zeros."""
    write, taken = local.resharder.write, local.instruction.shape.dimensions
    parts = _parts(local, 1, taken)
    if all(part.shift is None for part in parts):
        return local.write()
    found = _taken(write, local.operands[0], parts)
    for dimension, part in enumerate(parts):
        if part.shift is not None:
            first = write.add(opcodes.NEGATE, part.shift)
            found = _shifted(write, found, dimension, first, taken[dimension])
    return found


def _local_dynamic_update_slice(local: LocalOperation) -> Instruction:
    """Updates the device's own tile; writes its old contents again where the update does not reach."""
    write, (array, update) = local.resharder.write, local.operands[:2]
    taken = local.instruction.operands[1].shape.dimensions
    parts = _parts(local, 2, taken)
    if all(part.shift is None for part in parts):
        return local.write()
    mask: Instruction | None = None
    for dimension, part in enumerate(parts):
        if part.shift is None:
            continue
        update = _shifted(write, update, dimension, part.shift, part.size)
        row = part.shift.shape.with_dimensions([part.size])
        places = write.add(opcodes.ADD, iota(write, row, 0), write.broadcast(part.shift, row))
        is_inside = write.add(
            opcodes.AND,
            compare(write, places, write.splat(0, row), ComparisonDirection.GE),
            compare(write, places, write.splat(taken[dimension], row), ComparisonDirection.LT),
        )
        flags = array.shape.with_element_type(PRED).with_dimensions([one.size for one in parts])
        inside = write.broadcast(is_inside, flags, [dimension])
        mask = inside if mask is None else write.add(opcodes.AND, mask, inside)
    assert mask is not None
    new = write.add(opcodes.SELECT, mask, update, _taken(write, array, parts))
    return local.write([array, new, *[part.start for part in parts]])


LOCAL_DYNAMIC_SLICE_RULES: dict[OpDef, Callable[[LocalOperation], Instruction]] = {
    opcodes.DYNAMIC_SLICE: _local_dynamic_slice,
    opcodes.DYNAMIC_UPDATE_SLICE: _local_dynamic_update_slice,
}
"""Writes slices whose place is known only at run time."""
