"""Generates scalar computations: reducers that are independent of grouping for reductions and scatters, orders for
sorts.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.tuples import TUPLE
from xlapy.testing.random_modules.generator import ModuleGenerator, SkipDraw


def is_ordered(t: PrimitiveType) -> bool:
    return not t.is_complex


def _reducer_opcodes(t: PrimitiveType, exact: bool) -> tuple[OpDef, ...]:
    """Returns operations that are associative and commutative, except for rounding. Exact ones on floats are only min
    and max.
    """
    if t.is_complex:
        return opcodes.ADD, opcodes.MULTIPLY
    if not t.is_floating:
        return opcodes.ADD, opcodes.MULTIPLY, opcodes.MAXIMUM, opcodes.MINIMUM, opcodes.AND, opcodes.OR, opcodes.XOR
    exact_opcodes = (opcodes.MAXIMUM, opcodes.MINIMUM)
    return exact_opcodes if exact else (*exact_opcodes, opcodes.ADD, opcodes.ADD, opcodes.MULTIPLY)


def _scalars(types: Sequence[PrimitiveType]) -> list[Shape]:
    return [Shape.scalar(t) for t in types]


def reducer(generator: ModuleGenerator, types: Sequence[PrimitiveType]) -> Computation:
    """Returns a reducer of accumulators, then values, each in the order of `types`. If there are several, its root is a
    tuple.
    """
    inner = generator.nested("reducer", _scalars([*types, *types]), scalars=True)
    if len(types) == 2 and is_ordered(types[0]) and types[1].is_integral and generator.chance(0.5):
        return inner.finish(inner.add(TUPLE, _greater_pair(inner, *inner.pool)))
    results: list[Instruction] = []
    for number, t in enumerate(types):
        pair = generator.shuffled((inner.pool[number], inner.pool[len(types) + number]))
        results.append(inner.add(generator.choice(_reducer_opcodes(t, generator.exact)), pair))
    return inner.finish(results[0] if len(results) == 1 else inner.add(TUPLE, results))


def _greater_pair(
    generator: ModuleGenerator, value: Instruction, index: Instruction, other: Instruction, other_index: Instruction
) -> tuple[Instruction, Instruction]:
    """Returns the pair with the greater value; NaN is the greatest. Of equal values (all NaN are equal), the one with
    the lower index.
    """
    nan, other_nan = (_compare(generator, v, v, ComparisonDirection.NE) for v in (value, other))
    greater = generator.add(opcodes.OR, (_compare(generator, value, other, ComparisonDirection.GT), nan))
    wins = generator.add(opcodes.AND, (greater, generator.add(opcodes.NOT, (other_nan,))))
    equal = _compare(generator, value, other, ComparisonDirection.EQ)
    tied = generator.add(opcodes.OR, (equal, generator.add(opcodes.AND, (nan, other_nan))))
    lower = _compare(generator, index, other_index, ComparisonDirection.LT)
    stays = generator.add(opcodes.OR, (wins, generator.add(opcodes.AND, (tied, lower))))
    return generator.add(opcodes.SELECT, (wins, value, other)), generator.add(
        opcodes.SELECT, (stays, index, other_index)
    )


def scatter_computation(generator: ModuleGenerator, types: Sequence[PrimitiveType]) -> Computation:
    """Returns the computation of a scatter: a reducer, or for each type either the current value or the update."""
    if generator.chance(0.6):
        return reducer(generator, types)
    inner = generator.nested("combiner", _scalars([*types, *types]), scalars=True)
    count = len(types)
    chosen = [inner.pool[number + (count if generator.chance(0.8) else 0)] for number in range(count)]
    return inner.finish(chosen[0] if count == 1 else inner.add(TUPLE, chosen))


def selector(generator: ModuleGenerator, t: PrimitiveType) -> Computation:
    """Returns the selector of a select-and-scatter: whether the first of two elements is selected."""
    inner = generator.nested("selector", _scalars([t, t]), scalars=True)
    lhs, rhs = inner.pool
    direction = ComparisonDirection(generator.choice(("GE", "GT", "LE", "LT")))
    return inner.finish(_compare(inner, lhs, rhs, direction))


def comparator(generator: ModuleGenerator, types: Sequence[PrimitiveType], total: bool) -> Computation:
    """Returns a comparator by one or two of the operands, lexicographic. `total` uses the total order of floats."""
    inner = generator.nested("comparator", _scalars([t for t in types for _ in range(2)]), scalars=True)
    keys = generator.shuffled([number for number, t in enumerate(types) if is_ordered(t)])[
        : generator.choice((1, 1, 2))
    ]
    if not keys:
        raise SkipDraw
    pairs = [(inner.pool[2 * key], inner.pool[2 * key + 1]) for key in keys]
    directions = [generator.choice((ComparisonDirection.LT, ComparisonDirection.GT)) for _ in keys]
    result = _compare(inner, *pairs[-1], directions[-1], total)
    for pair, direction in reversed(list(zip(pairs[:-1], directions[:-1], strict=True))):
        before = _compare(inner, *pair, direction, total)
        tied = _compare(inner, *pair, ComparisonDirection.EQ, total)
        result = inner.add(opcodes.OR, (before, inner.add(opcodes.AND, (tied, result))))
    return inner.finish(result)


def _compare(
    generator: ModuleGenerator, lhs: Instruction, rhs: Instruction, direction: ComparisonDirection, total: bool = False
) -> Instruction:
    order = ComparisonType.TOTALORDER if total and lhs.shape.element_type.is_floating else None
    added = generator.add(opcodes.COMPARE, (lhs, rhs), CompareAttributes.make(direction=direction, type=order))
    assert added.shape.element_type is PRED
    return added
