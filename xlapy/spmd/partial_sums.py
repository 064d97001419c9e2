"""Decides which operations may be applied to partial sums (unreduced values) before these are added up.

Only an operation that is linear in an operand may be: f(a + b) = f(a) + f(b), where + wraps around for integers and is
a logical or for pred. Operations that are not in the tables of this module read the sum. Reductions and contractions
over a split dimension produce partial sums in the first place.

Responsible for that decision, for operations and for reductions of parts. Does not depend on how arrays are
distributed.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS, identity_value, monoid
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.halo.concatenations import concatenates_ranges

_LINEAR_IN_FIRST_OPERAND = frozenset(
    {
        opcodes.BROADCAST, opcodes.CONVERT, opcodes.COPY, opcodes.DYNAMIC_SLICE, opcodes.GATHER, opcodes.IMAG,
        opcodes.NEGATE, opcodes.REAL, opcodes.RESHAPE, opcodes.REVERSE, opcodes.SLICE, opcodes.TRANSPOSE,
    }
)  # fmt: skip

_JOINTLY_LINEAR_OPERANDS = {
    opcodes.ADD: (0, 1), opcodes.SUBTRACT: (0, 1), opcodes.COMPLEX: (0, 1), opcodes.SELECT: (1, 2),
    opcodes.DYNAMIC_UPDATE_SLICE: (0, 1),
}  # fmt: skip
"""Operations that are linear in these operands together: f(a + b, c + d) = f(a, c) + f(b, d)."""

_BILINEAR = frozenset({opcodes.MULTIPLY, opcodes.DOT, opcodes.CONVOLUTION})
"""Operations that are linear in either of their two operands while the other one is fixed."""

DEFERRABLE_OPS = frozenset(
    {opcodes.ADD, opcodes.SUBTRACT, opcodes.NEGATE, opcodes.RESHAPE, opcodes.TRANSPOSE, opcodes.COPY}
)
"""Linear operations that are applied before partial sums are added up, even if no sharding asks for that. They make no
array larger and no sum less exact."""


def partial_sum_operands(instruction: Instruction) -> Iterator[tuple[int, ...]]:
    """Yields each set of operands that may be partial sums at the same time, so that the results are partial sums."""
    op = instruction.op
    if op in _LINEAR_IN_FIRST_OPERAND:
        if _is_linear(instruction):
            yield (0,)
    elif op in _JOINTLY_LINEAR_OPERANDS:
        yield _JOINTLY_LINEAR_OPERANDS[op]
    elif op in _BILINEAR:
        yield from ((0,), (1,))
    elif op is opcodes.DIVIDE and not instruction.shape.element_type.is_integral:
        yield (0,)
    elif op is opcodes.CONCATENATE or concatenates_ranges(instruction):
        yield tuple(range(len(instruction.operands)))
    elif op is opcodes.PAD and is_constant(instruction.operands[1], 0):
        yield (0,)
    elif op in (opcodes.REDUCE, opcodes.SCATTER) and produces_partial_sums(instruction):
        yield (0,) if op is opcodes.REDUCE else (0, 2)


def _is_linear(instruction: Instruction) -> bool:
    """Returns whether an operation with one operand is linear, which some conversions are not.

    Conversions of fractions to integers and to pred round each part. Those of integers to fractions or to more bits,
    and those of pred, carry what a sum of the operand's type drops: 100 + 100 is -56 in s8, but 200 in f32.
    """
    if instruction.op is not opcodes.CONVERT:
        return True
    old, new = instruction.operands[0].shape.element_type, instruction.shape.element_type
    if old.is_integral:
        return new.is_integral and new.bits <= old.bits
    return old is new or (old is not PRED and (new.is_floating or new.is_complex))


def is_reducible_in_parts(reduce: Instruction) -> bool:
    """Returns whether reducing parts of the operand and combining the results by the same reducer gives the result.

    The initial value enters once for each part, and so must be the identity, or the reducer idempotent.
    """
    op = reducer_op(reduce)
    if op in (opcodes.ADD, opcodes.MULTIPLY):
        return is_constant(reduce.operands[1], identity_value(op, reduce.operands[1].shape.element_type))
    return op in IDEMPOTENT_OPS


def produces_partial_sums(instruction: Instruction) -> bool:
    """Returns whether the results for parts of a split dimension add up to the result for the whole.

    They do for contractions, for a reduce that adds numbers to zero, and for a scatter that adds. They also do for a
    gather or dynamic-slice of single elements, because a device that does not hold an element gives zero for it.
    """
    if instruction.op is opcodes.REDUCE:
        return _adds_numbers(instruction) and is_reducible_in_parts(instruction)
    if instruction.op is opcodes.SCATTER:
        return _adds_numbers(instruction)
    if instruction.op in (opcodes.GATHER, opcodes.DYNAMIC_SLICE):
        return instruction.shape.element_type is not PRED
    if instruction.op is opcodes.RAGGED_DOT:
        return instruction.shape.element_type is not PRED
    return instruction.op in _BILINEAR


def _adds_numbers(instruction: Instruction) -> bool:
    """Returns whether the reducer is a sum; the sum of pred is a logical or."""
    is_number = instruction.computations[0].root_instruction.shape.element_type is not PRED
    return reducer_op(instruction) is opcodes.ADD and is_number


def reducer_op(instruction: Instruction) -> OpDef | None:
    """Returns the operation of a reduce, scatter or all-reduce whose reducer is a monoid; else None."""
    return monoid(instruction.computations[0])


def is_constant(instruction: Instruction, value: float) -> bool:
    """Returns whether an instruction is a constant of this value, possibly converted or reshaped."""
    while instruction.op in (opcodes.CONVERT, opcodes.RESHAPE, opcodes.COPY):
        instruction = instruction.operands[0]
    return instruction.op is opcodes.CONSTANT and bool((instruction.literal.array == value).all())
