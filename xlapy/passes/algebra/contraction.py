"""Rewrites of products of matrices that contract one element or none.

Must not know: how products are computed.
"""

from __future__ import annotations

from math import prod

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.passes.algebra.core import IEEE_TYPES, REWRITES
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.DOT)
def dot_of_at_most_one(write: Writer, instruction: Instruction) -> Instruction | None:
    """Contracting nothing -> zeros; one element -> a product of broadcasts, where no algorithm rounds the operands.

    Zero is added to the products, as it is the start of the sum: it makes -0 to 0.
    """
    lhs, rhs = instruction.operands[:2]
    attributes, t = instruction.attributes, instruction.shape.element_type
    contracted = prod(lhs.shape.dimensions[d] for d in attributes.lhs_contracting_dims)
    if contracted > 1 or attributes != _plain(instruction) or len(instruction.operands) != 2:
        return None
    if contracted == 0:
        return write.filled(0, instruction.shape)
    exact = t.is_integral or t in IEEE_TYPES
    if not exact or lhs.shape.element_type is not rhs.shape.element_type or lhs.shape.element_type is not t:
        return None
    batch = len(attributes.lhs_batch_dims)
    left_dims = [*attributes.lhs_batch_dims, *attributes.lhs_free_dims(lhs.shape.rank)]
    right_dims = [*attributes.rhs_batch_dims, *attributes.rhs_free_dims(rhs.shape.rank)]
    left = _spread(write, instruction, lhs, left_dims, list(range(len(left_dims))))
    places = [*range(batch), *range(len(left_dims), instruction.shape.rank)]
    right = _spread(write, instruction, rhs, right_dims, places)
    product = write.add(opcodes.MULTIPLY, left, right, shape=instruction.shape)
    if t.is_integral:
        return product
    return write.add(opcodes.ADD, product, write.filled(0, instruction.shape), shape=instruction.shape)


def _plain(instruction: Instruction) -> object:
    """The attributes with nothing but dimension numbers."""
    names = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    return instruction.op.attributes.make(**{name: getattr(instruction.attributes, name) for name in names})


def _spread(write: Writer, dot: Instruction, operand: Instruction, kept: list[int], places: list[int]) -> Instruction:
    """Dimensions `kept` of an operand at `places` of the result, repeated along the others."""
    narrow = operand.shape.with_dimensions([size for d, size in enumerate(operand.shape.dimensions) if d in kept])
    order = sorted(kept)
    target = [places[kept.index(d)] for d in order]
    return write.broadcast(write.reshape(operand, narrow), dot.shape, target)
