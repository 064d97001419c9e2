"""Reductions of the same dimensions in one loop, for each element of their results: what they share is read once.

Must not know: which reductions should be in one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Value
from xlapy.lower import Element, Lowering
from xlapy.lower.core import Index, delinear
from xlapy.lower.reduction import combine_elements, flat, merged, unflat


def reduced_together(lowering: Lowering, inner: Sequence[Instruction], position: Affine) -> dict[Instruction, Element]:
    """The elements at a row-major position of those reductions in a region that can share a loop, inside a vector axis.

    No reduction in the region may need another. Elsewhere a reduction has lanes of its own.
    """
    if not lowering.builder.block.in_vector:
        return {}
    alike: dict[tuple[tuple[int, ...], ...], list[Instruction]] = {}
    for instruction in inner:
        if instruction.op is opcodes.REDUCE and instruction.shape.is_array:
            shape = instruction.operands[0].shape.dimensions
            key = (instruction.shape.dimensions, shape, tuple(sorted(instruction.dimensions)))
            alike.setdefault(key, []).append(instruction)
    found: dict[Instruction, Element] = {}
    for reductions in alike.values():
        if len(reductions) > 1:
            index = delinear(lowering.builder, position, reductions[0].shape.dimensions)
            found.update(zip(reductions, _together(lowering, reductions, index), strict=True))
    return found


def _together(lowering: Lowering, reductions: Sequence[Instruction], index: Index) -> list[Element]:
    shape = reductions[0].operands[0].shape
    reduced = sorted(reductions[0].dimensions)
    initial = [lowering.element(r.operands[1], ()) for r in reductions]

    def nest(inner: Index, carried: Sequence[Value]) -> list[Value]:
        if len(inner) < len(reduced):
            extent = shape.dimensions[reduced[len(inner)]]
            return lowering.builder.reduce(extent, carried, lambda p, c: nest((*inner, p), c))
        place = merged(index, reduced, inner)
        after: list[Element] = []
        for reduction, total in zip(reductions, unflat(carried, initial), strict=True):
            term = lowering.element(reduction.operands[0], place)
            after += combine_elements(lowering, reduction.to_apply, [total], [term])
        return flat(after)

    return unflat(nest((), flat(initial)), initial)
