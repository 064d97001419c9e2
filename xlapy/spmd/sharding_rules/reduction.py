"""Sharding rules of reductions, windowed reductions and sorts."""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import identity_value, monoid
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.halo.windows import reads_padding
from xlapy.spmd.partial_sums import is_constant, is_reducible_in_parts
from xlapy.spmd.sharding_rules.factors import Factor, Rule, dimensions_except, same_dimensions


def _reduce(instruction: Instruction) -> Iterator[Factor]:
    count = len(instruction.operands) // 2
    reduced = instruction.dimensions
    for result, dimension in enumerate(dimensions_except(instruction.operands[0].shape, reduced)):
        yield Factor((dimension,) * count + (None,) * count, (result,) * count, is_uneven=True)
    if is_reducible_in_parts(instruction):
        for dimension in reduced:
            yield Factor((dimension, None), (None,), is_uneven=True)


def _reduce_window(instruction: Instruction) -> Iterator[Factor]:
    """Yields all dimensions; those with padding only if padding with the initial value does not change a result."""
    count = len(instruction.operands) // 2
    sizes = instruction.operands[0].shape.dimensions
    for dimension, window in enumerate(instruction.attributes_as(WindowAttributes).window.dimensions):
        needs_fill = window.base_dilation > 1 or reads_padding(window, sizes[dimension])
        if window.is_identity or not needs_fill or is_reducible_in_parts(instruction):
            exchanged = () if window.is_identity else tuple(range(count))
            operands = (dimension,) * count + (None,) * count
            yield Factor(operands, (dimension,) * count, exchanged, is_uneven=True)


def _select_and_scatter(instruction: Instruction) -> Iterator[Factor]:
    """Yields all dimensions; those with windows only if a comparison selects.

    A tile of the result depends on all windows that overlap it. Those of them that do not exist scatter the identity.
    """
    select, scatter = instruction.computations
    op = monoid(scatter)
    is_splittable = (
        select.root_instruction.op is opcodes.COMPARE
        and set(select.root_instruction.operands) == set(select.parameters)
        and op is not None
        and is_constant(instruction.operands[2], identity_value(op, instruction.shape.element_type))
    )
    for dimension, window in enumerate(instruction.attributes_as(WindowAttributes).window.dimensions):
        if window.is_identity:
            yield Factor((dimension, dimension, None), (dimension,), is_uneven=True)
        elif is_splittable and window.base_dilation == window.window_dilation == 1:
            yield Factor((dimension, dimension, None), (dimension,), (0, 1), is_uneven=True)


def _sort(instruction: Instruction) -> Iterator[Factor]:
    dimensions = dimensions_except(instruction.operands[0].shape, [instruction.dimension])
    return same_dimensions(instruction, dimensions, is_uneven=True)


REDUCTION_RULES: dict[OpDef, Rule] = {
    opcodes.REDUCE: _reduce,
    opcodes.REDUCE_WINDOW: _reduce_window,
    opcodes.SELECT_AND_SCATTER: _select_and_scatter,
    opcodes.SORT: _sort,
}
