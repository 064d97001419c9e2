"""The fields of an array shape: their limits, their checks and the number of elements that they give.

Does not depend on `Shape`, which holds the fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from operator import index
from typing import Final

from xlapy.base.cursor import INT64_MAX
from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.errors import ShapeError
from xlapy.base.layout import Layout

MAX_TUPLE_DEPTH = 64
"""Limit on the nesting of tuples and buffers in a shape."""
MAX_TUPLE_NODES = 1 << 16
"""Limit on the tuples and leaves inside a tuple, each counted as often as it occurs.

A tuple of two references to one tuple doubles the number with each level of nesting, so that 64 short lines of a text
would otherwise describe a shape of 2**64 arrays.
"""

MAX_ARRAY_RANK = 256
"""Limit on the dimensions of an array. Shape rules compare dimensions with one another."""

UNBOUNDED = -(2**63)
"""The size of a dimension printed `?`: dynamic, without an upper bound."""


class DefaultLayout(Enum):
    """The type of `DEFAULT`."""

    DEFAULT = "row-major"


DEFAULT: Final = DefaultLayout.DEFAULT
"""Stands for the row-major layout of the rank of the shape."""


def check_tuple(depths: Sequence[int], nodes: int) -> None:
    """Raises ShapeError if a tuple nests too deep or holds too much. depths: of its elements."""
    depth = 1 + max(depths, default=0)
    if depth > MAX_TUPLE_DEPTH:
        raise ShapeError(
            codes.SHAPE_DEPTH, f"tuples nest {depth} deep, and {MAX_TUPLE_DEPTH} is the most a shape may have"
        )

    if nodes > MAX_TUPLE_NODES:
        raise ShapeError(
            codes.TUPLE_NODES, f"a tuple holds {nodes} tuples and leaves, and {MAX_TUPLE_NODES} is the most it may hold"
        )


def check_array_fields(
    element_type: PrimitiveType,
    sizes: tuple[int, ...],
    flags: tuple[bool, ...] | None,
    layout: Layout | DefaultLayout | None,
) -> tuple[tuple[int, ...], tuple[bool, ...], Layout | None, int]:
    """Checks the fields of an array shape; returns sizes, dynamic flags, layout and number of elements.

    The number of elements is -1 if a dimension is unbounded. Raises ShapeError.
    """
    if not element_type.is_array:
        raise ShapeError(codes.ARRAY_ELEMENT_TYPE, f"{element_type} is not the element type of an array")
    if len(sizes) > MAX_ARRAY_RANK:
        raise ShapeError(codes.ARRAY_RANK, f"an array has at most {MAX_ARRAY_RANK} dimensions, not {len(sizes)}")
    try:
        sizes = tuple([index(size) for size in sizes])
    except TypeError as error:
        raise ShapeError(
            codes.DIMENSION_SIZE, f"{element_type}{list(sizes)}: dimension sizes must be integers"
        ) from error
    dynamic = (False,) * len(sizes) if flags is None else tuple([bool(flag) for flag in flags])
    if len(dynamic) != len(sizes):
        raise ShapeError(
            codes.DYNAMIC_FLAGS,
            f"{element_type}{list(sizes)}: {len(sizes)} dimensions, but {len(dynamic)} dynamic flags",
        )
    size = element_count(element_type, sizes, dynamic)
    chosen = Layout.default(len(sizes)) if isinstance(layout, DefaultLayout) else layout
    if chosen is not None and chosen.rank != len(sizes):
        raise ShapeError(
            codes.LAYOUT_RANK,
            f"{element_type}{list(sizes)}: the shape has {len(sizes)} dimensions, "
            f"but its layout {chosen} orders {chosen.rank}",
        )
    return sizes, dynamic, chosen, size


def element_count(element_type: PrimitiveType, sizes: tuple[int, ...], dynamic: tuple[bool, ...]) -> int:
    """The product of the sizes, or -1 if one is unbounded."""
    unbounded = False
    for number, (size, is_dynamic) in enumerate(zip(sizes, dynamic, strict=True)):
        if size == UNBOUNDED and is_dynamic:
            unbounded = True
        elif not 0 <= size <= INT64_MAX:
            raise ShapeError(
                codes.DIMENSION_SIZE, f"{element_type}{list(sizes)}: dimension {number} has the size {size}"
            )
    if unbounded:
        return -1
    count = bounded_product(sizes)
    if count * max(element_type.byte_size, 1) > INT64_MAX:
        shown = f"{count} elements" if count <= INT64_MAX else "more than 2**63 elements"
        raise ShapeError(
            codes.ARRAY_BYTES,
            f"{element_type}{list(sizes)}: {shown} of {element_type.byte_size} bytes do not fit in a 64-bit byte count",
        )
    return count


def bounded_product(sizes: Sequence[int]) -> int:
    """The product of sizes >= 0; some number above 2**63 - 1 if the product is larger than that.

    Multiplication stops there, so that a text with very many sizes does not take long.
    """
    if 0 in sizes:
        return 0
    product = 1
    for size in sizes:
        product *= size
        if product > INT64_MAX:
            break
    return product
