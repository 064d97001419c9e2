"""Op generators for sorts and topks whose operands determine the result: ties are stable, or their order is not
observable.
"""

from __future__ import annotations

from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sorting import SORT, TOPK, SortAttributes, TopKAttributes
from xlapy.testing.random_modules.generator import ModuleGenerator, OpGenerator
from xlapy.testing.random_modules.scalar_computations import comparator, is_ordered


def sort(generator: ModuleGenerator) -> None:
    """Adds a sort, mostly by the total order of floats, sometimes by less-than, which NaN makes inconsistent."""
    first = generator.array(lambda s: s.rank > 0, lambda _: True)
    others = [generator.type() for _ in range(generator.choice((0, 0, 1, 2)))]
    operands = [first, *(generator.array_of(first.shape.dimensions, t) for t in others)]
    total = generator.chance(0.8)
    attributes = SortAttributes.make(
        dimension=generator.integer(0, first.shape.rank - 1),
        is_stable=bool(others) or not total or generator.chance(0.5),
    )
    computation = comparator(generator, [operand.shape.element_type for operand in operands], total)
    generator.add(SORT, operands, attributes, (computation,))


def topk(generator: ModuleGenerator) -> None:
    operand = generator.array(lambda s: s.rank > 0, is_ordered)
    k = generator.integer(0, operand.shape.dimensions[-1])
    generator.add(TOPK, (operand,), TopKAttributes.make(k=k, largest=generator.chance(0.5)))


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = ((SORT, sort), (SORT, sort), (TOPK, topk))
