"""Splits large reductions with few results into two, so that the first one has work for every thread.

Only reductions whose terms may be combined in any order are split; how depends on the shape alone. For example, the sum
of f32[4096,4096] over dimension 0 becomes the sum of f32[2,2048,4096] over dimension 1, followed by the sum of
f32[2,4096] over dimension 0.

Does not depend on kernels or threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.codegen.emitters.column_reduction import COLUMN_BLOCK_BYTES, column_shape
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.monoids import identity_of, monoid
from xlapy.loops.reduction_order import MIN_SPLIT_ELEMENTS, rows_of_first_step, split_dimensions
from xlapy.lower.reduction import can_be_reordered
from xlapy.opcodes.reduction import ReduceAttributes
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule


@dataclass(frozen=True)
class SplitReductions:
    """Splits reductions that have too few results to compute in parallel."""

    name: ClassVar[str] = "split-reductions"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            pending = [i for i in computation if i.op is opcodes.REDUCE]
            while pending:
                made = _split(pending.pop())
                changed |= made is not None
                pending += [] if made is None else [made]
        return update_schedule(module, changed)


def _split(reduction: Instruction) -> Instruction | None:
    """Returns the second reduction, which replaces the given one; None if it is not split."""
    count = len(reduction.operands) // 2
    operands, inits = reduction.operands[:count], reduction.operands[count:]
    shape = operands[0].shape
    if (
        shape.size < MIN_SPLIT_ELEMENTS
        or shape.is_dynamic
        or reduction.has_control_edges
        or not can_be_reordered(reduction.to_apply)
    ):
        return None
    rows = _rows_of_first_step(reduction)
    first = split_dimensions(list(shape.dimensions), sorted(reduction.dimensions), rows)
    if first is None:
        return None
    dimensions, inner, outer = first
    write = Writer(reduction)
    split = [write.reshape(operand, operand.shape.with_dimensions(dimensions)) for operand in operands]
    if monoid(reduction.to_apply) is None:
        neutral: Sequence[Instruction] = inits  # a selection may see its initial values any number of times
    else:
        neutral = [write.scalar(identity_of(reduction.to_apply), shape.element_type)]
    partial = _reduce(write, split, neutral, inner, reduction)
    parts = [write.get_tuple_element(partial, i) for i in range(count)] if partial.shape.is_tuple else [partial]
    result = _reduce(write, parts, inits, outer, reduction)
    replace_with_new(reduction, result)
    return result


def _reduce(
    write: Writer,
    operands: Sequence[Instruction],
    inits: Sequence[Instruction],
    dimensions: list[int],
    like: Instruction,
) -> Instruction:
    attributes = ReduceAttributes.make(dimensions=tuple(dimensions))
    return write.add(opcodes.REDUCE, *operands, *inits, attributes=attributes, computations=[like.to_apply])


def _rows_of_first_step(reduction: Instruction) -> int:
    """Returns the number of rows that the first reduction combines, which is larger if a column kernel computes it."""
    shape = column_shape(reduction)
    if shape is None:
        return rows_of_first_step(None, 1)
    column_bytes = math.prod(shape.columns) * reduction.shape.element_type.byte_size
    return rows_of_first_step(math.prod(shape.rows), -(-column_bytes // COLUMN_BLOCK_BYTES))
