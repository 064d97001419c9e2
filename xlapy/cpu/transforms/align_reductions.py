"""Aligns reductions of rows with the transpose that their result is broadcast to.

A softmax of transposed scores may take the maximum of the rows before the transpose. Rows then have two orders and need
two kernels. Example, attention with groups of g heads that share keys, as JAX writes it:

    t = f32[g,h,q,k] transpose(f32[h,q,g,k] x), dimensions={2,0,1,3}
    m = f32[h,q,g] reduce(x), dimensions={3}
    b = f32[g,h,q,k] broadcast(m), dimensions={1,2,0}

    m = f32[g,h,q] reduce(t), dimensions={3}
    b = f32[g,h,q,k] broadcast(m), dimensions={0,1,2}

Each row is reduced as before. Does not depend on kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule


@dataclass(frozen=True)
class AlignReductions:
    """Reduces the transpose of an array instead of the array, if the result is broadcast to the transpose's shape."""

    name: ClassVar[str] = "align-reductions"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in computation.instructions:
                transpose = _transpose_beside(instruction)
                if transpose is not None:
                    _align(instruction, transpose)
                    changed = True
        return update_schedule(module, changed)


def _transpose_beside(reduce: Instruction) -> Instruction | None:
    """The transpose of the reduced array whose rows are those of a reduction, in the order in which all users want
    them."""
    if reduce.op is not opcodes.REDUCE or not reduce.shape.is_array or reduce.is_root or reduce.has_control_edges:
        return None
    source, last = reduce.operands[0], reduce.shape.rank
    if reduce.shape.is_dynamic or reduce.dimensions != (last,) or source.user_count != 2 or source.is_root:
        return None
    (other,) = (user for user in source.users if user is not reduce)
    if other.op is not opcodes.TRANSPOSE or other.dimensions[-1] != last or other.dimensions == tuple(range(last + 1)):
        return None
    places = tuple(other.dimensions.index(d) for d in range(last))

    def is_broadcast_to_transpose(user: Instruction) -> bool:
        is_fitting = user.op is opcodes.BROADCAST and user.shape.dimensions == other.shape.dimensions
        return is_fitting and user.dimensions == places and not user.has_control_edges

    return other if reduce.users and all(map(is_broadcast_to_transpose, reduce.users)) else None


def _align(reduce: Instruction, transpose: Instruction) -> None:
    last = reduce.shape.rank
    shape, (_, initial) = reduce.shape.with_dimensions(transpose.shape.dimensions[:last]), reduce.operands
    aligned = Writer(reduce).add(
        opcodes.REDUCE,
        transpose,
        initial,
        attributes=reduce.attributes,
        computations=reduce.computations,
        shape=shape,
    )
    for user in list(reduce.users):
        replace_with_new(user, Writer(user).broadcast(aligned, user.shape, range(last)))
