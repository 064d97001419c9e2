"""Horizontal fusion of reductions: reductions over the same dimensions share one loop and read shared operands once.

Does not decide which reductions are in one kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Value
from xlapy.lower import Element, Lowering
from xlapy.lower.core import Index, delinear, flatten_elements
from xlapy.lower.reduction import combine_elements, insert_components, unflatten_elements


def horizontally_fused_reductions(
    lowering: Lowering, instructions: Sequence[Instruction], position: Affine
) -> dict[Instruction, Element]:
    """Computes, at a row-major position, the reductions of a region that can share a loop.

    No reduction of the region may depend on another. Reductions share loops only inside a vector axis: elsewhere each
    runs in vectors by itself.
    """
    if not lowering.builder.block.in_vector:
        return {}
    by_loop: dict[tuple[tuple[int, ...], ...], list[Instruction]] = {}
    for instruction in instructions:
        if instruction.op is opcodes.REDUCE and instruction.shape.is_array:
            shape = instruction.operands[0].shape.dimensions
            key = (instruction.shape.dimensions, shape, tuple(sorted(instruction.dimensions)))
            by_loop.setdefault(key, []).append(instruction)
    found: dict[Instruction, Element] = {}
    for reductions in by_loop.values():
        if len(reductions) > 1:
            index = delinear(lowering.builder, position, reductions[0].shape.dimensions)
            found.update(zip(reductions, _reduce_in_one_loop(lowering, reductions, index), strict=True))
    return found


def _reduce_in_one_loop(lowering: Lowering, reductions: Sequence[Instruction], index: Index) -> list[Element]:
    shape = reductions[0].operands[0].shape
    reduced = sorted(reductions[0].dimensions)
    initial = [lowering.element(r.operands[1], ()) for r in reductions]

    def nest(inner: Index, carried: Sequence[Value]) -> list[Value]:
        if len(inner) < len(reduced):
            extent = shape.dimensions[reduced[len(inner)]]
            return lowering.builder.reduce(extent, carried, lambda p, c: nest((*inner, p), c))
        operand_index = insert_components(index, reduced, inner)
        after: list[Element] = []
        for reduction, total in zip(reductions, unflatten_elements(carried, initial), strict=True):
            term = lowering.element(reduction.operands[0], operand_index)
            after += combine_elements(lowering, reduction.to_apply, [total], [term])
        return flatten_elements(after)

    return unflatten_elements(nest((), flatten_elements(initial)), initial)
