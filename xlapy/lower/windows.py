"""Maps positions in windows to positions in the base area: strides, paddings and dilations.

Does not depend on what is done with the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy.loops import Affine, Value
from xlapy.lower.core import Index, Lowering
from xlapy.lower.movement import conjunction, undilated
from xlapy.opcodes.attributes.dimensions import Window, WindowDimension


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets at which a window may meet elements of one dimension: `count` of them, from `first` on.

    is_exact: each offset meets an element, and the base area is not dilated.
    """

    position: Affine
    dimension: WindowDimension
    size: int
    first: Affine
    count: int | Value
    is_exact: bool = False


def window_span(lowering: Lowering, position: Affine, dimension: WindowDimension, size: int) -> Span:
    """The span of the whole window; if its position is the same for all lanes, of its part in the base area."""
    start, builder = position * dimension.stride - dimension.padding_low, lowering.builder
    whole = Span(position, dimension, size, Affine(), dimension.size)
    if dimension.dilated_size == 1 or dimension.dilated_size > dimension.size or dimension.base_dilation > 1:
        return whole
    limits = start.bounds()
    if limits is not None and limits[0] >= 0 and limits[1] + dimension.size <= size:
        return Span(position, dimension, size, Affine(), dimension.size, is_exact=True)
    if any(value.block.in_vector for value, _ in position.terms):
        return whole
    first = builder.clamped(builder.value_of(start * -1), dimension.size)
    end = builder.clamped(builder.value_of(start * -1 + size), dimension.size)
    return Span(position, dimension, size, first, builder.value_of(end - first), is_exact=True)


def span_positions(lowering: Lowering, spans: Sequence[Span], offsets: Index) -> tuple[Index, Value | None]:
    """The element that a window meets at offsets in the spans, and the condition that there is one; None if always."""
    base_index: list[Affine] = []
    condition: Value | None = None
    for span, offset in zip(spans, offsets, strict=True):
        if span.is_exact:
            base_index.append(position_on_base_area(span.position, span.first + offset, span.dimension))
            continue
        base_position, is_element = _base_position(
            lowering, span.position, span.first + offset, span.dimension, span.size
        )
        base_index.append(base_position)
        condition = conjunction(lowering.builder, condition, is_element)
    return tuple(base_index), condition


def window_position(
    lowering: Lowering, index: Index, offsets: Index, window: Window, sizes: Sequence[int]
) -> tuple[Index, Value | None]:
    """The element that a window meets at an offset, and the condition that there is one; None if always."""
    base_index: list[Affine] = []
    condition: Value | None = None
    for position, offset, dimension, size in zip(index, offsets, window.dimensions, sizes, strict=True):
        base_position, is_element = _base_position(lowering, position, offset, dimension, size)
        base_index.append(base_position)
        condition = conjunction(lowering.builder, condition, is_element)
    return tuple(base_index), condition


def _base_position(
    lowering: Lowering, position: Affine, offset: Affine, dimension: WindowDimension, size: int
) -> tuple[Affine, Value | None]:
    at = position_on_base_area(position, offset, dimension)
    base_position, holes = undilated(lowering.builder, at, dimension.base_dilation)
    return base_position, conjunction(lowering.builder, holes, lowering.in_bounds((base_position,), [(0, size)]))


def position_on_base_area(position: Affine, offset: Affine, dimension: WindowDimension) -> Affine:
    """The position in the dilated base area of an offset of the window at a position of the result."""
    return position * dimension.stride + offset * dimension.window_dilation - dimension.padding_low
