"""Layouts behind PJRT handles: the order of a buffer's dimensions in memory.

An order lists the dimensions from the slowest-varying to the fastest-varying one; `(0, 1)` is row-major. There is one
record per order, which lives as long as the process, so that equal orders have equal handles.

Responsible for these records, and for what an order means for dimensions. Does not depend on buffers or programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.passes.layouts.entry_layouts import Order
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.native.buffers import REGISTERED_RANKS
from xlapy.pjrt.objects.records import Record, read_words, words


def row_major(rank: int) -> Order:
    return tuple(range(rank))


@SingleFlight
def layout_handle(order: Order) -> int:
    """The record of an order."""
    record = Record("layout", minor_to_major=words(order[::-1]), rank=len(order))
    record.set_text("serialized_bytes", layout_text(order))
    record["serialized_layout"] = record.address
    record["serialized_layout_deleter"] = native().address("no_op")
    return record.address


def layout_text(order: Order) -> str:
    """A layout as HLO writes it: `{0,1}` for the order (1, 0)."""
    return Layout(order[::-1]).to_text()


def order_at(handle: int) -> Order:
    record = Record("layout", handle)
    return tuple(read_words(record["minor_to_major"], record["rank"])[::-1])


def physical(dimensions: Sequence[int], order: Order) -> tuple[int, ...]:
    """Returns the dimensions in the order in which they lie in memory."""
    return tuple(dimensions[dimension] for dimension in order)


def logical(physical_dimensions: Sequence[int], order: Order) -> tuple[int, ...]:
    """The inverse of `physical`."""
    return tuple(physical_dimensions[place] for place in inverse(order))


def inverse(order: Order) -> Order:
    """The position in memory of each dimension."""
    return tuple(map(order.index, range(len(order))))


def rank_of_parameter(shape: Shape) -> int:
    """The rank of the buffer that is passed for a parameter. A token is passed as an array without elements."""
    return 1 if shape.is_token else shape.rank


def register_row_major_layouts() -> None:
    """Registers the row-major layouts with native code."""
    for rank in range(REGISTERED_RANKS):
        native().set_row_major_layout(rank, layout_handle(row_major(rank)))


@entry("Layouts_Client_GetDefaultLayout")
def client_get_default_layout(args: Any) -> None:
    """Handles ranks for which native code has no row-major layout."""
    args.layout = layout_handle(row_major(args.num_dims))
