"""Folds a transpose of a dot into the dot, by swapping its operands.

In JAX, the gradient of x @ w with respect to w has this form: transpose(dot(dy, x)) becomes dot(x, dy). If other
dimensions are permuted, too, a transpose remains, but the last dimension of the dot is then that of the result, so that
the dot can store its rows in the order of the transpose. Example, the values that attention mixes, of heads h:

    transpose(f32[b,h,64,q] dot(values, weights)), dimensions={0,3,1,2}
    transpose(f32[b,h,q,64] dot(weights, values)), dimensions={0,2,1,3}

Does not depend on kernels.
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
    """Swaps the operands of a dot whose only user is a transpose that makes its rows the last dimension."""

    name: ClassVar[str] = "fold-transpose-into-dot"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in computation.instructions:
                if instruction.op is opcodes.TRANSPOSE and _ends_with_rows(instruction):
                    _fold(instruction)
                    changed = True
        return update_schedule(module, changed)


def _ends_with_rows(transpose: Instruction) -> bool:
    """Whether the last dimension of a transpose of a dot is a free dimension of the dot's left operand."""
    (dot,) = transpose.operands
    if dot.op is not opcodes.DOT or len(dot.operands) != 2 or dot.user_count != 1 or dot.is_root:
        return False
    if dot.has_control_edges or transpose.has_control_edges or dot.shape.is_dynamic:
        return False
    attrs: DotAttributes = dot.attributes_as(DotAttributes)
    if attrs.algorithm is not Algorithm.UNSET:
        return False
    batches = len(attrs.lhs_batch_dims)
    rows = len(attrs.lhs_free_dims(dot.operands[0].shape.rank))
    if transpose.dimensions == _swapped_order(batches, rows, dot.shape.rank):
        return True
    last = next((d for d in reversed(transpose.dimensions) if dot.shape.dimensions[d] > 1), -1)
    return batches <= last < batches + rows


def _swapped_order(batches: int, rows: int, rank: int) -> tuple[int, ...]:
    """The dimensions of a dot in the order of the dot with its operands swapped."""
    order = range(rank)
    return (*order[:batches], *order[batches + rows :], *order[batches : batches + rows])


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
    order = _swapped_order(len(attrs.lhs_batch_dims), len(attrs.lhs_free_dims(lhs.shape.rank)), dot.shape.rank)
    shape = dot.shape.with_dimensions(dot.shape.dimensions[d] for d in order)
    writer = Writer(transpose)
    result = writer.add(opcodes.DOT, rhs, lhs, attributes=swapped, shape=shape)
    if transpose.dimensions != order:
        result = writer.transpose(result, [order.index(d) for d in transpose.dimensions], shape=transpose.shape)
    replace_with_new(transpose, result)
