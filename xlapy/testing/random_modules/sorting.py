"""Makers of sorts and topks: results that the operands determine, so ties are stable or cannot be told apart."""

from __future__ import annotations

from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sorting import SORT, TOPK, SortAttributes, TopKAttributes
from xlapy.testing.random_modules.draft import Draft, Maker
from xlapy.testing.random_modules.scalar_computations import comparator, is_ordered


def sort(draft: Draft) -> None:
    """Mostly by the total order of floats; a plain less-than now and then, which NaNs break."""
    first = draft.array(lambda s: s.rank > 0, lambda _: True)
    others = [draft.type() for _ in range(draft.choice((0, 0, 1, 2)))]
    operands = [first, *(draft.values(first.shape.dimensions, t) for t in others)]
    total = draft.chance(0.8)
    attributes = SortAttributes.make(
        dimension=draft.integer(0, first.shape.rank - 1), is_stable=bool(others) or not total or draft.chance(0.5)
    )
    computation = comparator(draft, [operand.shape.element_type for operand in operands], total)
    draft.add(SORT, operands, attributes, (computation,))


def topk(draft: Draft) -> None:
    operand = draft.array(lambda s: s.rank > 0, is_ordered)
    k = draft.integer(0, operand.shape.dimensions[-1])
    draft.add(TOPK, (operand,), TopKAttributes.make(k=k, largest=draft.chance(0.5)))


MAKERS: tuple[tuple[OpDef, Maker], ...] = ((SORT, sort), (SORT, sort), (TOPK, topk))
