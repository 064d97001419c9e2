"""Layouts as handles: in which order the dimensions of a buffer lie.

An order names dimensions from the slowest-varying to the fastest-varying one, `(0, 1)` being row-major. There is one
record for each order, which lives as long as the process, so that equal orders have equal handles.

Owns: these records, and what layouts mean for dimensions. Must not know: buffers, programs.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.passes.layouts.entry_layouts import Order
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.native.buffers import KNOWN_RANKS
from xlapy.pjrt.objects.records import Record, read_words, words


def row_major(rank: int) -> Order:
    return tuple(range(rank))


@functools.cache
def layout_handle(order: Order) -> int:
    """The record of an order."""
    record = Record("layout", minor_to_major=words(order[::-1]), rank=len(order))
    record.set_text("serialized_bytes", Layout(order[::-1]).to_text())
    record["serialized_layout"] = record.address
    record["serialized_layout_deleter"] = native().address("no_op")
    return record.address


def order_at(handle: int) -> Order:
    record = Record("layout", handle)
    return tuple(read_words(record["minor_to_major"], record["rank"])[::-1])


def physical(dimensions: Sequence[int], order: Order) -> tuple[int, ...]:
    """Dimensions as they lie."""
    return tuple(dimensions[dimension] for dimension in order)


def logical(lying: Sequence[int], order: Order) -> tuple[int, ...]:
    """The inverse of `physical`."""
    return tuple(lying[place] for place in inverse(order))


def inverse(order: Order) -> Order:
    """Where each dimension lies."""
    return tuple(map(order.index, range(len(order))))


def rank_of_parameter(shape: Shape) -> int:
    """A token comes as an array without elements."""
    return 1 if shape.is_token else shape.rank


def teach_native() -> None:
    """Tells native code the row-major layouts."""
    for rank in range(KNOWN_RANKS):
        native().set_row_major_layout(rank, layout_handle(row_major(rank)))


@entry("Layouts_Client_GetDefaultLayout")
def client_get_default_layout(args: Any) -> None:
    """Of ranks that native code does not know."""
    args.layout = layout_handle(row_major(args.num_dims))
