"""`op[...]`: NumPy's basic indexing in terms of slice, reverse, dynamic-slice and reshape.

Responsible for interpreting an index expression. Does not depend on how ops are appended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index as as_index
from typing import Any

from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.builder import movement, tuples
from xlapy.builder.core.builder import append
from xlapy.builder.core.op import XlaOp
from xlapy.opcodes.movement import RESHAPE


@dataclass(frozen=True, slots=True)
class _Range:
    """The elements that an index selects from one dimension. `position` is a run-time index into the `limit - start`
    elements.
    """

    start: int
    limit: int
    stride: int = 1
    reverse: bool = False
    drop: bool = False
    position: XlaOp | None = None


def subscript(operand: XlaOp, index: Any) -> XlaOp:
    """Returns `operand[index]`. Raises BuilderError for an index that is out of bounds or of an unsupported type."""
    with operand.builder.building("indexing"):
        items = list(index) if isinstance(index, tuple) else [index]
        if operand.shape.is_tuple:
            return _element(operand, items)
        if not operand.shape.is_array:
            raise ShapeError(
                shared.ARRAY_OPERAND,
                f"{operand.name} {operand.shape.to_text(layout=False)} is not an array and cannot be indexed",
            )
        items = _without_ellipsis(items, operand.shape)
        ranges = [_range(item, operand.shape, d) for d, item in enumerate(i for i in items if i is not None)]
        taken = _positions(_reverse(_slice(operand, ranges), ranges), ranges)
        return _arrange(taken, items, ranges)


def _element(operand: XlaOp, items: list[Any]) -> XlaOp:
    count = len(operand.shape.tuple_shapes)
    number = _integer(items[0]) if len(items) == 1 else None
    if number is None or not -count <= number < count:
        raise ShapeError(
            codes.TUPLE_ELEMENT,
            f"a tuple of {count} elements takes one integer from {-count} to {count - 1}, given {items!r}",
        )
    return tuples.get_tuple_element(operand, number % count)


def _without_ellipsis(items: list[Any], shape: Shape) -> list[Any]:
    """Expands `...`, so that there is one item per dimension, plus the Nones."""
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(places) > 1:
        raise ShapeError(codes.INDEX_COUNT, "an index takes at most one `...`")
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > shape.rank:
        raise ShapeError(
            codes.INDEX_COUNT, f"{used} indices for {shape.to_text(layout=False)}, which has rank {shape.rank}"
        )
    whole = [slice(None)] * (shape.rank - used)
    at = places[0] if places else len(items)
    return [*items[:at], *whole, *items[at + 1 :]]


def _integer(item: Any) -> int | None:
    """Returns the item as an integer if it is one; a bool is not."""
    if isinstance(item, bool | XlaOp):
        return None
    try:
        return as_index(item)
    except TypeError:
        return None


def _range(item: Any, shape: Shape, dimension: int) -> _Range:
    size = shape.dimensions[dimension]
    if isinstance(item, slice):
        return _slice_range(item, size)
    if isinstance(item, XlaOp):
        if not item.shape.is_scalar or not item.element_type.is_integral:
            raise ShapeError(
                codes.INDEX_KIND,
                f"an XlaOp index is a scalar integer, given {item.shape.to_text(layout=False)}",
            )
        return _Range(0, size, position=item, drop=True)
    number = _integer(item)
    if number is None:
        raise ShapeError(
            codes.INDEX_KIND, f"an index is an integer, a slice, `...`, None or a scalar integer XlaOp, given {item!r}"
        )
    if not -size <= number < size:
        raise ShapeError(
            codes.INDEX_RANGE,
            f"index {number} is out of bounds for dimension {dimension} of {shape.to_text(layout=False)}",
        )
    return _Range(number % size, number % size + 1, drop=True)


def _slice_range(item: slice, size: int) -> _Range:
    if any(isinstance(bound, XlaOp) for bound in (item.start, item.stop, item.step)):
        raise ShapeError(codes.INDEX_KIND, "the bounds of a slice are integers, given an XlaOp")
    try:
        start, stop, step = item.indices(size)
    except (TypeError, ValueError) as error:
        raise ShapeError(codes.INDEX_KIND, f"{item!r}: {error}") from None
    count = len(range(start, stop, step))
    if not count:
        return _Range(0, 0)
    if step > 0:
        return _Range(start, stop, step)
    return _Range(start + (count - 1) * step, start + 1, -step, reverse=True)


def _slice(operand: XlaOp, ranges: Sequence[_Range]) -> XlaOp:
    if all((r.start, r.limit, r.stride) == (0, n, 1) for r, n in zip(ranges, operand.shape.dimensions, strict=True)):
        return operand
    return movement.slice(operand, [r.start for r in ranges], [r.limit for r in ranges], [r.stride for r in ranges])


def _reverse(operand: XlaOp, ranges: Sequence[_Range]) -> XlaOp:
    backwards = [d for d, r in enumerate(ranges) if r.reverse and operand.shape.dimensions[d] > 1]
    return movement.rev(operand, backwards) if backwards else operand


def _positions(operand: XlaOp, ranges: Sequence[_Range]) -> XlaOp:
    if all(r.position is None for r in ranges):
        return operand
    sizes = [n if r.position is None else 1 for r, n in zip(ranges, operand.shape.dimensions, strict=True)]
    starts = [0 if r.position is None else r.position for r in ranges]
    return movement.dynamic_slice(operand, starts, sizes)


def _arrange(operand: XlaOp, items: Sequence[Any], ranges: Sequence[_Range]) -> XlaOp:
    """Drops the dimensions that an integer selected, and adds the dimensions of size 1 that None requests."""
    sizes: list[int] = []
    dynamic: list[bool] = []
    dimension = 0
    for item in items:
        if item is None:
            sizes.append(1)
            dynamic.append(False)
            continue
        if not ranges[dimension].drop:
            sizes.append(operand.shape.dimensions[dimension])
            dynamic.append(operand.shape.dynamic_dimensions[dimension])
        dimension += 1
    if tuple(sizes) == operand.shape.dimensions:
        return operand
    return append(RESHAPE, (operand,), shape=operand.shape.with_dimensions(sizes, dynamic))
