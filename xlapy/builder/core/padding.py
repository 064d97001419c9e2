"""Padding of windows: the names SAME and VALID, and the pairs (low, high) that they stand for.

Responsible for the meaning of SAME and VALID in convolution, reduce-window and select-and-scatter. Does not depend on
these ops. Source: Conv and ReduceWindow of the specification ("padding").
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from operator import index
from typing import TypeAlias

from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.opcodes.attributes.dimensions import dilated, same_padding


class Padding(Enum):
    """VALID adds no padding; SAME adds padding so that there are `ceil(input / stride)` window positions."""

    SAME = "SAME"
    VALID = "VALID"


PaddingLike: TypeAlias = Padding | str | Sequence[tuple[int, int]]
"""A `Padding`, its name, or one pair (low, high) per window dimension."""


def make_padding(
    input_dimensions: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: PaddingLike,
) -> tuple[tuple[int, int], ...]:
    """Returns the number of elements to add before and after each dimension; negative numbers remove elements.

    SAME puts half of the padding of a dimension, rounded down, on the low side; it never removes elements.
    `window_strides` may be empty (all 1). Raises ShapeError if the lists differ in length, for a size or stride below
    one, and for a padding that is neither a name nor pairs of integers.
    """
    if not isinstance(padding, Padding | str):
        return _pairs(padding)
    chosen = _short_hand(padding)
    strides = list(window_strides) or [1] * len(window_dimensions)
    if not len(input_dimensions) == len(window_dimensions) == len(strides):
        raise ShapeError(
            shared.ENTRY_PER_DIMENSION,
            f"padding {chosen.value} takes one input size, window size and stride per dimension, given "
            f"{list(input_dimensions)}, {list(window_dimensions)} and {strides}",
        )
    for what, values in (("size", window_dimensions), ("stride", strides)):
        for dimension, value in enumerate(values):
            if value < 1:
                raise ShapeError(
                    attributes_codes.WINDOW_POSITIVE, f"window dimension {dimension} has a non-positive {what}: {value}"
                )
    if chosen is Padding.VALID:
        return ((0, 0),) * len(window_dimensions)
    return tuple(map(same_padding, input_dimensions, window_dimensions, strides))


def dilated_sizes(sizes: Sequence[int], dilations: Sequence[int]) -> tuple[int, ...]:
    """Returns the sizes of an input or window after dilation; `dilations` may be empty (all 1)."""
    if len(dilations) != len(sizes):
        return tuple(sizes)  # the construction of the window reports a wrong number of dilations
    return tuple(map(dilated, sizes, dilations))


def _short_hand(padding: Padding | str) -> Padding:
    try:
        return Padding(padding)
    except ValueError:
        raise ShapeError(
            codes.PADDING_FORM, f"padding is SAME, VALID or a list of (low, high) pairs, given {padding!r}"
        ) from None


def _pairs(padding: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    try:
        return tuple([(index(low), index(high)) for low, high in padding])
    except (TypeError, ValueError):
        raise ShapeError(
            codes.PADDING_FORM, f"padding is SAME, VALID or a list of (low, high) pairs, given {padding!r}"
        ) from None
