"""Rewrites of reductions. None reorders a floating-point sum, because that would round differently."""

from __future__ import annotations

from math import prod

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS, monoid
from xlapy.passes.algebra.core import REWRITES, has_one_user, is_number, splat
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.REDUCE)
def reduce_of_at_most_one_element(write: Writer, instruction: Instruction) -> Instruction | None:
    """A reduce of one element for each result -> a reshape of the operand; of no element -> the initial value."""
    count = len(instruction.operands) // 2
    operands, inits = instruction.operands[:count], instruction.operands[count:]
    sizes = operands[0].shape.dimensions
    reduced = prod(sizes[d] for d in instruction.dimensions)
    if reduced > 1:
        return None
    shapes = instruction.shape.tuple_shapes if instruction.shape.is_tuple else (instruction.shape,)
    if reduced == 0:
        results = [write.broadcast(init, shape) for init, shape in zip(inits, shapes, strict=True)]
    else:
        results = [write.reshape(operand, shape) for operand, shape in zip(operands, shapes, strict=True)]
    return write.add(opcodes.TUPLE, *results, shape=instruction.shape) if instruction.shape.is_tuple else results[0]


@REWRITES.rule(opcodes.REDUCE)
def reduce_of_reduce(write: Writer, instruction: Instruction) -> Instruction | None:
    """max(max(x)) -> max(x) over the dimensions of both; likewise min, and, or, and sums of integers."""
    if len(instruction.operands) != 2:
        return None
    inner, init = instruction.operands
    if inner.op is not opcodes.REDUCE or len(inner.operands) != 2 or not has_one_user(inner):
        return None
    op = monoid(instruction.to_apply)
    if op is None or op is not monoid(inner.to_apply) or not _can_merge(op, init, inner.operands[1]):
        return None
    kept = [d for d in range(inner.operands[0].shape.rank) if d not in inner.dimensions]
    if not inner.operands[0].shape.size:
        return None
    dimensions = tuple(sorted({*inner.dimensions, *(kept[d] for d in instruction.dimensions)}))
    attributes = instruction.attributes.replace(dimensions=dimensions)
    return write.add(
        opcodes.REDUCE,
        inner.operands[0],
        init,
        attributes=attributes,
        computations=instruction.computations,
        shape=instruction.shape,
    )


def _can_merge(op: object, outer: Instruction, inner: Instruction) -> bool:
    """Returns whether one reduction with the outer initial value gives the same as two."""
    if op in IDEMPOTENT_OPS:
        return outer is inner
    return op is opcodes.ADD and outer.shape.element_type.is_integral and is_number(splat(inner), 0)
