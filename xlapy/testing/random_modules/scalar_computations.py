"""Scalar computations for reductions, scatters and sorts: reducers that any grouping serves, orders without cycles."""

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


def _monoids(t: PrimitiveType, exact: bool) -> tuple[OpDef, ...]:
    """Operations that are associative and commutative, rounding aside; exact ones for floats only choose."""
    if t.is_complex:
        return opcodes.ADD, opcodes.MULTIPLY
    if not t.is_floating:
        return opcodes.ADD, opcodes.MULTIPLY, opcodes.MAXIMUM, opcodes.MINIMUM, opcodes.AND, opcodes.OR, opcodes.XOR
    choosing = (opcodes.MAXIMUM, opcodes.MINIMUM)
    return choosing if exact else (*choosing, opcodes.ADD, opcodes.ADD, opcodes.MULTIPLY)


def _scalars(types: Sequence[PrimitiveType]) -> list[Shape]:
    return [Shape.scalar(t) for t in types]


def reducer(generator: ModuleGenerator, types: Sequence[PrimitiveType]) -> Computation:
    """Accumulators, then values, each in the order of `types`; the result is a tuple if there are several."""
    inner = generator.nested("reducer", _scalars([*types, *types]), scalars=True)
    if len(types) == 2 and is_ordered(types[0]) and types[1].is_integral and generator.chance(0.5):
        return inner.finish(inner.add(TUPLE, _greater(inner, *inner.pool)))
    results: list[Instruction] = []
    for number, t in enumerate(types):
        pair = generator.shuffled((inner.pool[number], inner.pool[len(types) + number]))
        results.append(inner.add(generator.choice(_monoids(t, generator.exact)), pair))
    return inner.finish(results[0] if len(results) == 1 else inner.add(TUPLE, results))


def _greater(
    generator: ModuleGenerator, value: Instruction, place: Instruction, other: Instruction, other_place: Instruction
) -> tuple[Instruction, Instruction]:
    """The pair with the greater value, NaN the greatest; of equal ones, as all NaN are, that with the lower place."""
    nan, other_nan = (_compare(generator, v, v, ComparisonDirection.NE) for v in (value, other))
    greater = generator.add(opcodes.OR, (_compare(generator, value, other, ComparisonDirection.GT), nan))
    wins = generator.add(opcodes.AND, (greater, generator.add(opcodes.NOT, (other_nan,))))
    equal = _compare(generator, value, other, ComparisonDirection.EQ)
    tied = generator.add(opcodes.OR, (equal, generator.add(opcodes.AND, (nan, other_nan))))
    lower = _compare(generator, place, other_place, ComparisonDirection.LT)
    stays = generator.add(opcodes.OR, (wins, generator.add(opcodes.AND, (tied, lower))))
    return generator.add(opcodes.SELECT, (wins, value, other)), generator.add(
        opcodes.SELECT, (stays, place, other_place)
    )


def combiner(generator: ModuleGenerator, types: Sequence[PrimitiveType]) -> Computation:
    """For a scatter: a reducer, or the choice of the current value or of the update, a type each."""
    if generator.chance(0.6):
        return reducer(generator, types)
    inner = generator.nested("combiner", _scalars([*types, *types]), scalars=True)
    count = len(types)
    chosen = [inner.pool[number + (count if generator.chance(0.8) else 0)] for number in range(count)]
    return inner.finish(chosen[0] if count == 1 else inner.add(TUPLE, chosen))


def selector(generator: ModuleGenerator, t: PrimitiveType) -> Computation:
    """For a select-and-scatter: whether the first of two elements is to be preferred."""
    inner = generator.nested("selector", _scalars([t, t]), scalars=True)
    lhs, rhs = inner.pool
    direction = ComparisonDirection(generator.choice(("GE", "GT", "LE", "LT")))
    return inner.finish(_compare(inner, lhs, rhs, direction))


def comparator(generator: ModuleGenerator, types: Sequence[PrimitiveType], total: bool) -> Computation:
    """A lexicographic order by one or two of the operands; `total` orders floats totally."""
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
    made = generator.add(opcodes.COMPARE, (lhs, rhs), CompareAttributes.make(direction=direction, type=order))
    assert made.shape.element_type is PRED
    return made
