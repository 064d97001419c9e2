"""Folds a transpose of a dot into the dot, by swapping its operands.

In JAX, the gradient of x @ w with respect to w has this form: transpose(dot(dy, x)) becomes dot(x, dy). Does not depend
on kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.contraction import Algorithm, DotAttributes
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule


@dataclass(frozen=True)
class FoldTransposeIntoDot:
    """Replaces a transpose that swaps the rows and columns of a dot with no other users by a dot."""

    name: ClassVar[str] = "fold-transpose-into-dot"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in computation.instructions:
                if instruction.op is opcodes.TRANSPOSE and _swaps_rows_and_columns(instruction):
                    _fold(instruction)
                    changed = True
        return update_schedule(module, changed)


def _swaps_rows_and_columns(transpose: Instruction) -> bool:
    (dot,) = transpose.operands
    if dot.op is not opcodes.DOT or len(dot.operands) != 2 or len(dot.users) != 1 or dot.is_root:
        return False
    if dot.has_control_edges or transpose.has_control_edges or dot.shape.is_dynamic:
        return False
    attrs: DotAttributes = dot.attributes_as(DotAttributes)
    batches = len(attrs.lhs_batch_dims)
    rows = len(attrs.lhs_free_dims(dot.operands[0].shape.rank))
    order = range(dot.shape.rank)
    swapped = (*order[:batches], *order[batches + rows :], *order[batches : batches + rows])
    return transpose.dimensions == swapped and attrs.algorithm is Algorithm.UNSET


def _fold(transpose: Instruction) -> None:
    (dot,) = transpose.operands
    attrs: DotAttributes = dot.attributes_as(DotAttributes)
    swapped = attrs.replace(
        lhs_batch_dims=attrs.rhs_batch_dims,
        rhs_batch_dims=attrs.lhs_batch_dims,
        lhs_contracting_dims=attrs.rhs_contracting_dims,
        rhs_contracting_dims=attrs.lhs_contracting_dims,
        operand_precision=attrs.operand_precision[::-1],
    )
    lhs, rhs = dot.operands
    replace_with_new(transpose, Writer(transpose).add(opcodes.DOT, rhs, lhs, attributes=swapped, shape=transpose.shape))
