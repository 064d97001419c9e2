"""The rules by which members of a collective read each other's arrays, from the shapes of the arrays.

Responsible for the bytes that a device reads. Does not depend on where they lie or on processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xlapy.base.shape import Shape
from xlapy.cpu.program.communication.rendezvous_assignment import byte_size
from xlapy.cpu.program.thunks import RemoteRead


def whole_reads(shapes: Sequence[Shape]) -> list[RemoteRead]:
    """Each device reads all arrays of all members."""
    return [RemoteRead(number, byte_size(shape)) for number, shape in enumerate(shapes)]


def split_read(array: int, shape: Shape, dimension: int, block: int) -> RemoteRead:
    """Each device reads, from all members, the block with the number of its rank along a dimension of an array.

    block: the size of a block in that dimension.
    """
    inner = math.prod(shape.dimensions[dimension + 1 :]) * shape.element_type.byte_size
    count = math.prod(shape.dimensions[:dimension])
    size = block * inner
    return RemoteRead(array, size, count, shape.dimensions[dimension] * inner, per_reader=size)


def forwarded_reads(shapes: Sequence[Shape], source: Callable[[int], int | None], count: int) -> list[RemoteRead]:
    """Each of `count` devices reads all arrays of one member at most."""
    found = [source(rank) for rank in range(count)]
    sources = tuple(-1 if member is None else member for member in found)
    return [RemoteRead(number, byte_size(shape), sources=sources) for number, shape in enumerate(shapes)]


def root_reads(shapes: Sequence[Shape]) -> list[RemoteRead]:
    """The first member reads all arrays of all members."""
    return [RemoteRead(number, byte_size(shape), only_root=True) for number, shape in enumerate(shapes)]
