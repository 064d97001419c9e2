"""The attributes of the operation that a device executes on its tiles.

Responsible for sizes that attributes name, which become those of the tile. Does not depend on how arrays are split.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from xlapy.base.shape import Ints, Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.attributes.dimensions import SliceRanges
from xlapy.opcodes.custom import CustomCallAttributes
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.movement import DynamicSliceAttributes, SliceAttributes


def local_attributes(instruction: Instruction, operands: Sequence[Shape], result: Shape) -> Attributes:
    """Returns an operation's attributes for local operands: sizes in split dimensions become those of the tile.

    operands, result: the local shapes.
    """
    attributes = instruction.attributes
    if isinstance(attributes, SliceAttributes):
        ranges, sizes = attributes.ranges, instruction.operands[0].shape.dimensions
        limits = _local_sizes(ranges.limits, sizes, operands[0].dimensions)
        return dataclasses.replace(attributes, ranges=SliceRanges(ranges.starts, limits, ranges.strides))
    if isinstance(attributes, DynamicSliceAttributes):
        return dataclasses.replace(attributes, dynamic_slice_sizes=result.dimensions)
    if isinstance(attributes, CustomCallAttributes) and attributes.operand_layout_constraints is not None:
        constraints = [
            operand.with_layout(constraint.layout)
            for operand, constraint in zip(operands, attributes.operand_layout_constraints, strict=True)
        ]
        return dataclasses.replace(attributes, operand_layout_constraints=tuple(constraints))
    if isinstance(attributes, GatherAttributes):
        sizes = _local_sizes(attributes.slice_sizes, instruction.operands[0].shape.dimensions, operands[0].dimensions)
        return dataclasses.replace(attributes, slice_sizes=sizes)
    return attributes


def _local_sizes(sizes: Ints, before: Ints, after: Ints) -> Ints:
    """Limits sizes in the dimensions that are split to the size of the tile. before, after: whole and local sizes."""
    return tuple([size if old == new else min(size, new) for size, old, new in zip(sizes, before, after, strict=True)])
