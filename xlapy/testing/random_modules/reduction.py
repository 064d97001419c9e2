"""Op generators for reductions: several operands, windows of every kind, maps of random scalar computations."""

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
from xlapy.testing.random_modules.generator import MAX_ELEMENTS, ModuleGenerator, OpGenerator, SkipDraw
from xlapy.testing.random_modules.scalar_computations import is_ordered, reducer, selector


def _arrays(generator: ModuleGenerator) -> list[Instruction]:
    """Returns one to three arrays of equal dimensions."""
    first = generator.array(lambda _: True, lambda _: True)
    others = generator.compatible_types(first.shape.element_type, generator.choice((0, 0, 0, 1, 1, 2)))
    return [first, *(generator.array_of(first.shape.dimensions, t) for t in others)]


def _with_initial_values(generator: ModuleGenerator, arrays: list[Instruction]) -> list[Instruction]:
    return [*arrays, *(generator.array_of((), array.shape.element_type) for array in arrays)]


def reduce(generator: ModuleGenerator) -> None:
    arrays = _arrays(generator)
    dimensions = tuple(generator.shuffled(generator.random_subset(range(arrays[0].shape.rank), 0.6)))
    computation = reducer(generator, [array.shape.element_type for array in arrays])
    operands = _with_initial_values(generator, arrays)
    generator.add(opcodes.REDUCE, operands, ReduceAttributes.make(dimensions=dimensions), (computation,))


def _window(generator: ModuleGenerator, shape: Shape) -> Window:
    window = Window(tuple(window_dimension(generator, size, generator.positive(3)) for size in shape.dimensions))
    if prod(window.output_sizes(shape.dimensions)) > MAX_ELEMENTS:
        raise SkipDraw
    return window


def reduce_window(generator: ModuleGenerator) -> None:
    arrays = _arrays(generator)
    window = _window(generator, arrays[0].shape)
    computation = reducer(generator, [array.shape.element_type for array in arrays])
    operands = _with_initial_values(generator, arrays)
    generator.add(opcodes.REDUCE_WINDOW, operands, WindowAttributes.make(window=window), (computation,))


def select_and_scatter(generator: ModuleGenerator) -> None:
    """Adds a select-and-scatter. Every window covers an element, because padding is never selected."""
    operand = generator.array(lambda s: s.rank > 0 and 0 not in s.dimensions, is_ordered)
    t = operand.shape.element_type
    entries = [_covering(generator, size) for size in operand.shape.dimensions]
    window = Window(tuple(entries))
    source = generator.array_of(window.output_sizes(operand.shape.dimensions), t)
    operands = (operand, source, generator.array_of((), t))
    computations = (selector(generator, t), reducer(generator, [t]))
    generator.add(opcodes.SELECT_AND_SCATTER, operands, WindowAttributes.make(window=window), computations)


def _covering(generator: ModuleGenerator, base: int) -> WindowDimension:
    size = generator.integer(1, min(3, base))
    low, high = generator.integer(0, size - 1), generator.integer(0, size - 1)
    return WindowDimension(size, generator.choice((1, 1, 2, 3)), low, high)


def map_(generator: ModuleGenerator) -> None:
    arrays = _arrays(generator)
    rank = arrays[0].shape.rank
    shapes = [Shape.scalar(array.shape.element_type) for array in arrays]
    inner = generator.nested("mapped", shapes, ("elementwise",), scalars=True)
    inner.add_random_instructions(generator.integer(1, 5))
    computation = inner.finish(inner.pool[-1])
    generator.add(opcodes.MAP, arrays, MapAttributes.make(dimensions=tuple(range(rank))), (computation,))


def scan(generator: ModuleGenerator) -> None:
    """Adds a scan with up to two inputs and two carries, of which one is an array, and a random exact body."""
    inputs = [generator.array(lambda s: s.rank > 0, generator.allows)]
    dimension = generator.integer(0, inputs[0].shape.rank - 1)
    if generator.chance(0.3):
        inputs.append(generator.array_of(inputs[0].shape.dimensions, generator.type()))
    carries = [generator.array(lambda _: True, generator.allows) for _ in range(generator.choice((0, 1, 1, 2)))]
    slices = [_without(value.shape, dimension) for value in inputs]
    inner = generator.nested("scanned", [*slices, *(value.shape for value in carries)], ("elementwise", "movement"))
    inner.add_random_instructions(generator.integer(1, 4))
    outputs = [inner.choice([i for i in inner.pool if i.shape.is_array]) for _ in range(generator.integer(0, 2))]
    results = [*outputs, *(inner.value(value.shape) for value in carries)]
    if not outputs or prod((inputs[0].shape.dimensions[dimension], *outputs[0].shape.dimensions)) > MAX_ELEMENTS:
        raise SkipDraw
    if any(output.shape.rank < dimension for output in outputs):
        raise SkipDraw
    body = inner.finish(inner.add(TUPLE, results))
    attributes = ScanAttributes.make(
        dimensions=(dimension,), num_carries=len(carries), is_reverse=generator.chance(0.4), is_associative=False
    )
    generator.add(opcodes.SCAN, (*inputs, *carries), attributes, (body,))


def _without(shape: Shape, dimension: int) -> Shape:
    sizes = (*shape.dimensions[:dimension], *shape.dimensions[dimension + 1 :])
    return Shape.array(shape.element_type, sizes)


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = (
    (opcodes.REDUCE, reduce),
    (opcodes.REDUCE, reduce),
    (opcodes.REDUCE_WINDOW, reduce_window),
    (opcodes.REDUCE_WINDOW, reduce_window),
    (opcodes.SELECT_AND_SCATTER, select_and_scatter),
    (opcodes.MAP, map_),
    (opcodes.SCAN, scan),
)
