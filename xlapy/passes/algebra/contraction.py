"""Rewrites of dots that contract one element or none.

Does not depend on how dots are computed.
"""

from __future__ import annotations

from math import prod

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.contraction import DotAttributes
from xlapy.passes.algebra.core import IEEE_TYPES, REWRITES
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.DOT)
def dot_over_at_most_one_element(write: Writer, instruction: Instruction) -> Instruction | None:
    """A dot over no elements -> zeros; over one element -> a multiplication of broadcasts.

    Only if no algorithm rounds the operands. To floats, zero is added as by the sum: it turns -0 into 0.
    """
    lhs, rhs = instruction.operands[:2]
    attributes, t = instruction.attributes_as(DotAttributes), instruction.shape.element_type
    contracted = prod(lhs.shape.dimensions[d] for d in attributes.lhs_contracting_dims)
    if contracted > 1 or attributes != _dimension_numbers_only(instruction) or len(instruction.operands) != 2:
        return None
    if contracted == 0:
        return write.splat(0, instruction.shape)
    exact = t.is_integral or t in IEEE_TYPES
    if not exact or lhs.shape.element_type is not rhs.shape.element_type or lhs.shape.element_type is not t:
        return None
    batch = len(attributes.lhs_batch_dims)
    left_dims = [*attributes.lhs_batch_dims, *attributes.lhs_free_dims(lhs.shape.rank)]
    right_dims = [*attributes.rhs_batch_dims, *attributes.rhs_free_dims(rhs.shape.rank)]
    left = _broadcast_to_result(write, instruction, lhs, left_dims, list(range(len(left_dims))))
    positions = [*range(batch), *range(len(left_dims), instruction.shape.rank)]
    right = _broadcast_to_result(write, instruction, rhs, right_dims, positions)
    product = write.add(opcodes.MULTIPLY, left, right, shape=instruction.shape)
    if t.is_integral:
        return product
    return write.add(opcodes.ADD, product, write.splat(0, instruction.shape), shape=instruction.shape)


def _dimension_numbers_only(instruction: Instruction) -> object:
    """Returns the attributes of a dot that has nothing but the dimension numbers of this one."""
    names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    return instruction.op.attributes.make(**{name: getattr(instruction.attributes, name) for name in names})


def _broadcast_to_result(
    write: Writer, dot: Instruction, operand: Instruction, kept: list[int], positions: list[int]
) -> Instruction:
    """Broadcasts an operand to the result: its dimension `kept[i]` becomes `positions[i]`, others are dropped."""
    narrow = operand.shape.with_dimensions([size for d, size in enumerate(operand.shape.dimensions) if d in kept])
    order = sorted(kept)
    target = [positions[kept.index(d)] for d in order]
    return write.broadcast(write.reshape(operand, narrow), dot.shape, target)
