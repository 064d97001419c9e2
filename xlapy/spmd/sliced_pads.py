"""Merges a slice with the pad whose result it takes a part of, which is how programs shift an array.

Example: `slice(pad(x, 0, padding=1_0), [0:4096])` of 4096 rows is `pad(x, 0, padding=1_-1)`. Along a split dimension,
the padded array would have tiles of other sizes than the operand and the result, so that much would be sent twice; as
one pad, a tile takes one row from its neighbor.

Responsible for that rewrite. Does not depend on devices.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension
from xlapy.opcodes.movement import PadAttributes, SliceAttributes
from xlapy.passes.rewrite import Writer, replace_with_new


def merge_slices_of_pads(module: Module) -> None:
    """Replaces slices without strides of pads that nothing else uses by pads, with edges that may be negative."""
    for computation in module.computations:
        for instruction in list(computation):
            padding = _merged_padding(instruction)
            if padding is not None:
                operands, attributes = instruction.operands[0].operands, PadAttributes.make(padding=padding)
                merged = Writer(instruction).add(opcodes.PAD, *operands, attributes=attributes, shape=instruction.shape)
                replace_with_new(instruction, merged)


def _merged_padding(instruction: Instruction) -> PaddingConfig | None:
    """Returns the padding of a slice and the pad that is its operand; None for other instructions."""
    if instruction.op is not opcodes.SLICE or instruction.operands[0].op is not opcodes.PAD:
        return None
    pad, ranges = instruction.operands[0], instruction.attributes_as(SliceAttributes).ranges
    if len(pad.users) > 1 or pad.is_root or pad.has_control_edges or any(stride != 1 for stride in ranges.strides):
        return None
    edges = pad.attributes_as(PadAttributes).padding.dimensions
    limits = zip(edges, ranges.starts, ranges.limits, pad.shape.dimensions, strict=True)
    merged = [
        PaddingDimension(edge.low - start, edge.high - (size - limit), edge.interior)
        for edge, start, limit, size in limits
    ]
    return PaddingConfig(tuple(merged))
