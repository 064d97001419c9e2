"""PJRT_Buffer_MemoryLayout: how frameworks describe the layout of an array.

Responsible for reading and writing these structures. Does not depend on buffers.
"""

from __future__ import annotations

from typing import Any, Final

from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.passes.layouts.entry_layouts import Order
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.objects.layouts import row_major
from xlapy.pjrt.objects.records import read_words

TILED: Final = 0
"""PJRT_Buffer_MemoryLayout_Type_Tiled."""


def read_layout(address: int, rank: int) -> Order:
    """The order of dimensions that a structure describes; row-major for a null pointer.

    `UnsupportedError` for strides and tiles, `InvalidArgumentError` for what does not order `rank` dimensions.
    """
    if not address:
        return row_major(rank)
    layout: Any = structure("MemoryLayout").from_address(address)
    if layout.type != TILED:
        raise UnsupportedError(
            codes.MEMORY_LAYOUT, "layouts by strides are not supported: give the order of the dimensions"
        )
    if layout.num_tiles:
        raise UnsupportedError(codes.MEMORY_LAYOUT, f"layouts with tiles are not supported, given {layout.num_tiles}")
    size = layout.minor_to_major_size
    order = tuple(read_words(layout.minor_to_major, size)[::-1]) if size else row_major(rank)
    if sorted(order) != list(row_major(rank)):
        raise InvalidArgumentError(codes.MEMORY_LAYOUT, f"the order {order} is not one of {rank} dimensions")
    return order
