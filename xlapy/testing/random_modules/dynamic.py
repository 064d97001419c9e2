"""Generates random programs on arrays with dynamic dimensions, whose sizes are known during generation.

Responsible for the op generators of these instructions, and for the sizes of their results. They avoid operations for
which XLA computes sizes beyond the bounds, and operations that turn padding into elements, because the result is
unspecified. Does not depend on evaluation.

A program takes s32 arrays and returns static arrays: for each array that nothing else uses, the array with the
dimensions of its bounds, and the size of each of its dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from xlapy.base.element_types import S32
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes import movement as moves
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension, SliceRanges, Window, strided
from xlapy.opcodes.contraction import DOT, DotAttributes
from xlapy.opcodes.elementwise import (
    ABS,
    ADD,
    COMPARE,
    MAXIMUM,
    MINIMUM,
    MULTIPLY,
    NEGATE,
    NOT,
    SELECT,
    SUBTRACT,
    XOR,
    CompareAttributes,
    ComparisonDirection,
)
from xlapy.opcodes.reduction import REDUCE, REDUCE_WINDOW, ReduceAttributes, WindowAttributes
from xlapy.opcodes.sorting import SORT, SortAttributes
from xlapy.opcodes.tuples import TUPLE
from xlapy.testing.random_modules.generator import MAX_ELEMENTS, Choices, ModuleGenerator, SkipDraw


@dataclass(frozen=True, slots=True)
class SizedValue:
    """An instruction with dynamic dimensions and the sizes that they have at run time."""

    instruction: Instruction
    sizes: tuple[int, ...]

    @property
    def shape(self) -> Shape:
        return self.instruction.shape


DynamicOpGenerator = Callable[[ModuleGenerator, Sequence[SizedValue]], SizedValue]
"""Adds an instruction that uses one or more of the given values. Raises `SkipDraw` if it finds nothing valid to add."""


def random_dynamic_module(seed: int, *, instructions: int = 12) -> Module:
    """Returns a valid module with two parameters and `instructions` drawn instructions on arrays with dynamic
    dimensions.

    Equal arguments give equal modules.
    """
    rng = np.random.default_rng(seed)
    module = Module(f"dynamic_{seed}")
    entry = edit.add_computation(module, "entry", entry=True)
    generator = ModuleGenerator(module, entry, rng, Choices((S32,), {}, {}), ())
    values = [_reduce_size(generator, _with_full_sizes(_parameter(generator))) for _ in range(2)]
    while instructions:
        try:
            values.append(generator.choice(_OP_GENERATORS)(generator, values))
            instructions -= 1
        except SkipDraw:
            continue
    results = [
        result for value in values if not value.instruction.has_users for result in _static_results(generator, value)
    ]
    generator.finish(generator.add(TUPLE, results))
    module.config.entry_computation_layout = entry.program_shape
    return module


def _parameter(generator: ModuleGenerator) -> Instruction:
    return generator.parameter(Shape.array(S32, [generator.integer(2, 5) for _ in range(generator.integer(1, 3))]))


def _with_full_sizes(instruction: Instruction) -> SizedValue:
    return SizedValue(instruction, instruction.shape.dimensions)


def _scalar(generator: ModuleGenerator, value: int) -> Instruction:
    return generator.constant(np.array(value, np.int32))


def _static_results(generator: ModuleGenerator, value: SizedValue) -> list[Instruction]:
    """Returns the array with the dimensions of the bounds, and the size of each dimension."""
    sizes = [
        generator.add(moves.GET_DIMENSION_SIZE, (value.instruction,), moves.DimensionAttributes.make(dimension=d))
        for d in range(value.shape.rank)
    ]
    array, shape, flags = value.instruction, value.shape, list(value.shape.dynamic_dimensions)
    for dimension, bound in enumerate(shape.dimensions):
        if flags[dimension]:
            flags[dimension] = False
            attributes = moves.DimensionAttributes.make(dimension=dimension)
            result_shape = shape.with_dimensions(shape.dimensions, flags)
            array = generator.add(
                moves.SET_DIMENSION_SIZE, (array, _scalar(generator, bound)), attributes, shape=result_shape
            )
    return [array, *sizes]


def _check_elements(dimensions: Sequence[int]) -> None:
    if prod(dimensions) > MAX_ELEMENTS:
        raise SkipDraw


def _array(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    """Returns a value of rank 1 or more."""
    return generator.choice([value for value in values if value.sizes])


def _dimension(generator: ModuleGenerator, value: SizedValue) -> int:
    return generator.integer(0, value.shape.rank - 1)


# -- op generators


def _reduce_size(generator: ModuleGenerator, value: SizedValue) -> SizedValue:
    """Sets a dimension to a size that is at most its current size. XLA does not propagate all dynamic dimensions of
    bound 1.
    """
    dimension = generator.choice([d for d, bound in enumerate(value.shape.dimensions) if bound > 1])
    size = generator.integer(0, value.sizes[dimension])
    attributes = moves.DimensionAttributes.make(dimension=dimension)
    added = generator.add(moves.SET_DIMENSION_SIZE, (value.instruction, _scalar(generator, size)), attributes)
    return SizedValue(added, _with_size(value.sizes, dimension, size))


def _with_size(sizes: Sequence[int], dimension: int, size: int) -> tuple[int, ...]:
    return (*sizes[:dimension], size, *sizes[dimension + 1 :])


def set_dimension_size(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    return _reduce_size(generator, _array(generator, values))


def unary(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    value = generator.choice(values)
    return SizedValue(generator.add(generator.choice((ABS, NEGATE, NOT)), (value.instruction,)), value.sizes)


def binary(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    """Adds a binary operation on two arrays with equal bounds; their sizes may differ."""
    left = generator.choice(values)
    right = generator.choice([value for value in values if value.shape.dimensions == left.shape.dimensions])
    op = generator.choice((ADD, SUBTRACT, MULTIPLY, MAXIMUM, MINIMUM, XOR))
    return SizedValue(generator.add(op, (left.instruction, right.instruction)), _common_sizes(left, right))


def _common_sizes(left: SizedValue, right: SizedValue) -> tuple[int, ...]:
    rows = zip(
        left.sizes, right.sizes, left.shape.dynamic_dimensions, right.shape.dynamic_dimensions, strict=True
    )  # fmt: skip
    return tuple(
        max(a, b) if dynamic_a and dynamic_b and min(a, b) == 1 else min(a, b) for a, b, dynamic_a, dynamic_b in rows
    )


def select(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    """Adds the elementwise minimum, as a compare and a select, of two arrays with equal sizes."""
    left = generator.choice(values)
    right = generator.choice([v for v in values if v.sizes == left.sizes and v.shape.compatible(left.shape)])
    pair = left.instruction, right.instruction
    less = generator.add(COMPARE, pair, CompareAttributes.make(direction=ComparisonDirection.LT))
    generator.pool.remove(less)
    return SizedValue(generator.add(SELECT, (less, *pair)), left.sizes)


def transpose(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    value = _array(generator, values)
    order = generator.shuffled(range(value.shape.rank))
    attributes = moves.DimensionsAttributes.make(dimensions=tuple(order))
    return SizedValue(
        generator.add(moves.TRANSPOSE, (value.instruction,), attributes), tuple(value.sizes[d] for d in order)
    )


def reverse(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    value = _array(generator, values)
    attributes = moves.DimensionsAttributes.make(
        dimensions=tuple(generator.random_subset(range(value.shape.rank), 0.7))
    )
    return SizedValue(generator.add(moves.REVERSE, (value.instruction,), attributes), value.sizes)


def broadcast(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    """Adds a broadcast that inserts a dimension. The operand has at most one dynamic dimension, because StableHLO needs
    this.
    """
    value = generator.choice([v for v in values if sum(v.shape.dynamic_dimensions) < 2])
    index, size = generator.integer(0, value.shape.rank), generator.positive(3)
    dimensions = (*value.shape.dimensions[:index], size, *value.shape.dimensions[index:])
    _check_elements(dimensions)
    flags = (*value.shape.dynamic_dimensions[:index], False, *value.shape.dynamic_dimensions[index:])
    kept = tuple(d for d in range(len(dimensions)) if d != index)
    attributes = moves.BroadcastAttributes.make(dimensions=kept)
    shape = value.shape.with_dimensions(dimensions, flags)
    added = generator.add(moves.BROADCAST, (value.instruction,), attributes, shape=shape)
    return SizedValue(added, (*value.sizes[:index], size, *value.sizes[index:]))


def reshape(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    """Adds a reshape that merges all dimensions into one."""
    value = generator.choice(
        [v for v in values if len(v.sizes) > 1 and 1 not in v.shape.dimensions and v.shape.is_dynamic]
    )
    shape = value.shape.with_dimensions([value.shape.size], [True])
    added = generator.add(moves.RESHAPE, (value.instruction,), shape=shape)
    return SizedValue(added, (prod(value.sizes),))


def concatenate(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    first = _array(generator, values)
    dimension = _dimension(generator, first)

    def fits(value: SizedValue) -> bool:
        bounds = value.shape.dimensions, first.shape.dimensions
        return len(value.sizes) == len(first.sizes) and all(
            _with_size(a, dimension, 0) == _with_size(b, dimension, 0) for a, b in ((value.sizes, first.sizes), bounds)
        )

    chosen = [first, *(generator.choice([v for v in values if fits(v)]) for _ in range(generator.integer(0, 2)))]
    total = sum(value.shape.dimensions[dimension] for value in chosen)
    _check_elements(_with_size(first.shape.dimensions, dimension, total))
    attributes = moves.DimensionAttributes.make(dimension=dimension)
    added = generator.add(moves.CONCATENATE, [value.instruction for value in chosen], attributes)
    return SizedValue(added, _with_size(first.sizes, dimension, sum(value.sizes[dimension] for value in chosen)))


def slice_(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    """Adds a slice from a valid element to the bound. Dimensions of which it would leave one element are not sliced."""
    value = _array(generator, values)
    starts, strides, sizes = [], [], []
    for size, bound in zip(value.sizes, value.shape.dimensions, strict=True):
        start, stride = generator.integer(0, size), generator.integer(1, 3)
        if strided(bound - start, 1, stride) < 2:
            start, stride = 0, 1
        starts.append(start)
        strides.append(stride)
        sizes.append(strided(size - start, 1, stride))
    ranges = SliceRanges(tuple(starts), value.shape.dimensions, tuple(strides))
    if any(bound == 1 for bound in value.shape.dimensions):
        raise SkipDraw
    return SizedValue(
        generator.add(moves.SLICE, (value.instruction,), moves.SliceAttributes.make(ranges=ranges)), tuple(sizes)
    )


def pad(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    value = _array(generator, values)
    entries = [PaddingDimension(*(generator.choice((0, 0, 1, 2)) for _ in range(3))) for _ in value.sizes]
    _check_elements([entry.output_size(bound) for entry, bound in zip(entries, value.shape.dimensions, strict=True)])
    attributes = moves.PadAttributes.make(padding=PaddingConfig(tuple(entries)))
    added = generator.add(moves.PAD, (value.instruction, _scalar(generator, 7)), attributes)
    return SizedValue(added, tuple(entry.output_size(size) for entry, size in zip(entries, value.sizes, strict=True)))


def reduce(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    value = _array(generator, values)
    dimensions = tuple(generator.random_subset(range(value.shape.rank), 0.5))
    init, computation = _identity_and_reducer(generator)
    attributes = ReduceAttributes.make(dimensions=dimensions)
    added = generator.add(REDUCE, (value.instruction, init), attributes, (computation,))
    return SizedValue(added, tuple(size for d, size in enumerate(value.sizes) if d not in dimensions))


def reduce_window(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    """Adds a reduce-window over windows without padding. Skips sizes for which XLA would compute a negative number of
    windows.
    """
    value = _array(generator, values)
    sizes = [generator.integer(1, 2) for _ in value.sizes]
    window = Window.make(sizes, [1 if size == 1 else generator.integer(1, 2) for size in sizes])
    rows = list(zip(value.sizes, value.shape.dimensions, window.dimensions, strict=True))
    if any(size < d.size - d.stride or d.output_size(bound) < 2 for size, bound, d in rows):
        raise SkipDraw
    init, computation = _identity_and_reducer(generator)
    attributes = WindowAttributes.make(window=window)
    added = generator.add(REDUCE_WINDOW, (value.instruction, init), attributes, (computation,))
    return SizedValue(added, window.output_sizes(value.sizes))


def _identity_and_reducer(generator: ModuleGenerator) -> tuple[Instruction, Computation]:
    """Returns the identity and the reducer. XLA uses the identity for missing elements."""
    op, identity = generator.choice(((ADD, 0), (MAXIMUM, -(2**31)), (XOR, 0)))
    inner = generator.nested("reducer", [Shape.scalar(S32)] * 2, scalars=True)
    return _scalar(generator, identity), inner.finish(inner.add(op, tuple(inner.pool)))


def sort(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    value = _array(generator, values)
    inner = generator.nested("order", [Shape.scalar(S32)] * 2, scalars=True)
    direction = generator.choice((ComparisonDirection.LT, ComparisonDirection.GT))
    comparator = inner.finish(inner.add(COMPARE, tuple(inner.pool), CompareAttributes.make(direction=direction)))
    attributes = SortAttributes.make(dimension=_dimension(generator, value))
    return SizedValue(generator.add(SORT, (value.instruction,), attributes, (comparator,)), value.sizes)


def dot(generator: ModuleGenerator, values: Sequence[SizedValue]) -> SizedValue:
    """Adds a dot along a dimension of equal bounds; the sizes may differ."""
    left = _array(generator, values)
    i = _dimension(generator, left)
    bound = left.shape.dimensions[i]
    pairs = [(v, j) for v in values for j, size in enumerate(v.shape.dimensions) if size == bound]
    right, j = generator.choice(pairs)
    kept = [
        (size, value.shape.dimensions[d])
        for value, summed in ((left, i), (right, j))
        for d, size in enumerate(value.sizes)
        if d != summed
    ]
    _check_elements([most for _, most in kept])
    attributes = DotAttributes.make(lhs_contracting_dims=(i,), rhs_contracting_dims=(j,))
    added = generator.add(DOT, (left.instruction, right.instruction), attributes)
    return SizedValue(added, tuple(size for size, _ in kept))


_OP_GENERATORS: tuple[DynamicOpGenerator, ...] = (
    set_dimension_size,
    unary,
    binary,
    binary,
    select,
    transpose,
    reverse,
    broadcast,
    reshape,
    concatenate,
    slice_,
    pad,
    reduce,
    reduce_window,
    sort,
    dot,
)
