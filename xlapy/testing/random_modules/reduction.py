"""Makers of reductions: several operands at once, windows of every kind, maps of random scalar computations."""

from __future__ import annotations

from math import prod

from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.ops import reduction as ops
from xlapy.ops.dimensions import Window, WindowDimension
from xlapy.ops.reduction import MapAttributes, ReduceAttributes, WindowAttributes
from xlapy.ops.registry import OpDef
from xlapy.testing.random_modules.contraction import window_dimension
from xlapy.testing.random_modules.draft import MOST_ELEMENTS, Draft, Maker, Unsuitable
from xlapy.testing.random_modules.scalar_computations import is_ordered, reducer, selector


def _arrays(draft: Draft) -> list[Instruction]:
    """One to three arrays of equal sizes."""
    first = draft.array(lambda _: True, lambda _: True)
    others = draft.partners(first.shape.element_type, draft.choice((0, 0, 0, 1, 1, 2)))
    return [first, *(draft.values(first.shape.dimensions, t) for t in others)]


def _with_initial_values(draft: Draft, arrays: list[Instruction]) -> list[Instruction]:
    return [*arrays, *(draft.values((), array.shape.element_type) for array in arrays)]


def reduce(draft: Draft) -> None:
    arrays = _arrays(draft)
    dimensions = tuple(draft.shuffled(draft.some(range(arrays[0].shape.rank), 0.6)))
    computation = reducer(draft, [array.shape.element_type for array in arrays])
    operands = _with_initial_values(draft, arrays)
    draft.add(ops.REDUCE, operands, ReduceAttributes.make(dimensions=dimensions), (computation,))


def _window(draft: Draft, shape: Shape) -> Window:
    window = Window(tuple(window_dimension(draft, size, draft.positive(3)) for size in shape.dimensions))
    if prod(window.output_sizes(shape.dimensions)) > MOST_ELEMENTS:
        raise Unsuitable
    return window


def reduce_window(draft: Draft) -> None:
    arrays = _arrays(draft)
    window = _window(draft, arrays[0].shape)
    computation = reducer(draft, [array.shape.element_type for array in arrays])
    operands = _with_initial_values(draft, arrays)
    draft.add(ops.REDUCE_WINDOW, operands, WindowAttributes.make(window=window), (computation,))


def select_and_scatter(draft: Draft) -> None:
    """Every window takes an element at least: padding is not chosen, and a window of padding has nothing to choose."""
    operand = draft.array(lambda s: s.rank > 0 and 0 not in s.dimensions, is_ordered)
    t = operand.shape.element_type
    entries = [_covering(draft, size) for size in operand.shape.dimensions]
    window = Window(tuple(entries))
    source = draft.values(window.output_sizes(operand.shape.dimensions), t)
    operands = (operand, source, draft.values((), t))
    computations = (selector(draft, t), reducer(draft, [t]))
    draft.add(ops.SELECT_AND_SCATTER, operands, WindowAttributes.make(window=window), computations)


def _covering(draft: Draft, base: int) -> WindowDimension:
    size = draft.integer(1, min(3, base))
    low, high = draft.integer(0, size - 1), draft.integer(0, size - 1)
    return WindowDimension(size, draft.choice((1, 1, 2, 3)), low, high)


def map_(draft: Draft) -> None:
    arrays = _arrays(draft)
    rank = arrays[0].shape.rank
    shapes = [Shape.scalar(array.shape.element_type) for array in arrays]
    inner = draft.nested("mapped", shapes, ("elementwise",), scalars=True)
    inner.grow(draft.integer(1, 5))
    computation = inner.finish(inner.pool[-1])
    draft.add(ops.MAP, arrays, MapAttributes.make(dimensions=tuple(range(rank))), (computation,))


MAKERS: tuple[tuple[OpDef, Maker], ...] = (
    (ops.REDUCE, reduce),
    (ops.REDUCE, reduce),
    (ops.REDUCE_WINDOW, reduce_window),
    (ops.REDUCE_WINDOW, reduce_window),
    (ops.SELECT_AND_SCATTER, select_and_scatter),
    (ops.MAP, map_),
)
