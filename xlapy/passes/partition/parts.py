"""Operations whose parts depend on where they lie.

Owns: what a device computes for its part of them. Must not know: why they are cut.
"""

from __future__ import annotations

import numpy as np

from xlapy import ops
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.ops.sources import IotaAttributes
from xlapy.passes.expand.blocks import index_type
from xlapy.passes.partition.moving import Mover
from xlapy.passes.partition.splits import Placement


def counted_from(mover: Mover, instruction: Instruction, part: Shape, placement: Placement) -> Instruction:
    """A part of an iota: counted from where it begins, in integers, as sums of rounded numbers differ."""
    write, dimension = mover.write, instruction.attributes.iota_dimension
    split = placement.splits[dimension]
    attributes = IotaAttributes.make(iota_dimension=dimension)
    if split is None:
        return write.add(ops.IOTA, attributes=attributes, shape=part)
    counts = part.with_element_type(index_type(instruction.shape.dimensions[dimension]))
    starts = np.asarray(split, counts.dtype) * part.dimensions[dimension]
    local = write.add(ops.IOTA, attributes=attributes, shape=counts)
    sums = write.add(ops.ADD, local, write.broadcast(mover.own(starts), counts))
    return write.convert(sums, part.element_type)
