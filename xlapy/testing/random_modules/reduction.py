"""Makers of reductions: several operands at once, windows of every kind, maps of random scalar computations."""

from __future__ import annotations

from math import prod

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window, WindowDimension
from xlapy.opcodes.reduction import MapAttributes, ReduceAttributes, ScanAttributes, WindowAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.tuples import TUPLE
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
    draft.add(opcodes.REDUCE, operands, ReduceAttributes.make(dimensions=dimensions), (computation,))


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
    draft.add(opcodes.REDUCE_WINDOW, operands, WindowAttributes.make(window=window), (computation,))


def select_and_scatter(draft: Draft) -> None:
    """Every window takes an element at least: padding is not chosen, and a window of padding has nothing to choose."""
    operand = draft.array(lambda s: s.rank > 0 and 0 not in s.dimensions, is_ordered)
    t = operand.shape.element_type
    entries = [_covering(draft, size) for size in operand.shape.dimensions]
    window = Window(tuple(entries))
    source = draft.values(window.output_sizes(operand.shape.dimensions), t)
    operands = (operand, source, draft.values((), t))
    computations = (selector(draft, t), reducer(draft, [t]))
    draft.add(opcodes.SELECT_AND_SCATTER, operands, WindowAttributes.make(window=window), computations)


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
    draft.add(opcodes.MAP, arrays, MapAttributes.make(dimensions=tuple(range(rank))), (computation,))


def scan(draft: Draft) -> None:
    """Up to two inputs and up to two carries, of which one is an array; the body combines them as it likes, exactly."""
    inputs = [draft.array(lambda s: s.rank > 0, draft.allows)]
    dimension = draft.integer(0, inputs[0].shape.rank - 1)
    if draft.chance(0.3):
        inputs.append(draft.values(inputs[0].shape.dimensions, draft.type()))
    carries = [draft.array(lambda _: True, draft.allows) for _ in range(draft.choice((0, 1, 1, 2)))]
    slices = [_without(value.shape, dimension) for value in inputs]
    inner = draft.nested("scanned", [*slices, *(value.shape for value in carries)], ("elementwise", "movement"))
    inner.grow(draft.integer(1, 4))
    outputs = [inner.choice([i for i in inner.pool if i.shape.is_array]) for _ in range(draft.integer(0, 2))]
    results = [*outputs, *(inner.value(value.shape) for value in carries)]
    if not outputs or prod((inputs[0].shape.dimensions[dimension], *outputs[0].shape.dimensions)) > MOST_ELEMENTS:
        raise Unsuitable
    if any(output.shape.rank < dimension for output in outputs):
        raise Unsuitable
    body = inner.finish(inner.add(TUPLE, results))
    attributes = ScanAttributes.make(
        dimensions=(dimension,), num_carries=len(carries), is_reverse=draft.chance(0.4), is_associative=False
    )
    draft.add(opcodes.SCAN, (*inputs, *carries), attributes, (body,))


def _without(shape: Shape, dimension: int) -> Shape:
    sizes = (*shape.dimensions[:dimension], *shape.dimensions[dimension + 1 :])
    return Shape.array(shape.element_type, sizes)


MAKERS: tuple[tuple[OpDef, Maker], ...] = (
    (opcodes.REDUCE, reduce),
    (opcodes.REDUCE, reduce),
    (opcodes.REDUCE_WINDOW, reduce_window),
    (opcodes.REDUCE_WINDOW, reduce_window),
    (opcodes.SELECT_AND_SCATTER, select_and_scatter),
    (opcodes.MAP, map_),
    (opcodes.SCAN, scan),
)
