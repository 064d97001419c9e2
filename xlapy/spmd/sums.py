"""Which operations may be applied to addends, and the results added up afterwards.

Owns: that decision, for operations and for reductions of parts. Must not know: how arrays lie on devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.hlo.instruction import Instruction

_LINEAR = frozenset(
    {
        opcodes.BROADCAST, opcodes.CONVERT, opcodes.COPY, opcodes.DYNAMIC_SLICE, opcodes.GATHER, opcodes.IMAG,
        opcodes.NEGATE, opcodes.REAL, opcodes.RESHAPE, opcodes.REVERSE, opcodes.SLICE, opcodes.TRANSPOSE,
    }
)  # fmt: skip
"""Of their first operand."""

_LINEAR_TOGETHER = {
    opcodes.ADD: (0, 1), opcodes.SUBTRACT: (0, 1), opcodes.COMPLEX: (0, 1), opcodes.SELECT: (1, 2),
    opcodes.DYNAMIC_UPDATE_SLICE: (0, 1),
}  # fmt: skip
"""Of these operands at once."""

_LINEAR_APART = frozenset({opcodes.MULTIPLY, opcodes.DOT, opcodes.CONVOLUTION})
"""Of either of their two operands, if the other one is no addend."""

CHEAP = frozenset({opcodes.ADD, opcodes.SUBTRACT, opcodes.NEGATE, opcodes.RESHAPE, opcodes.TRANSPOSE, opcodes.COPY})
"""Linear operations that make nothing larger, nor sums less exact: adding up may come after them."""

_REPEATABLE = frozenset({opcodes.MAXIMUM, opcodes.MINIMUM, opcodes.AND, opcodes.OR})
"""The initial value may be taken in by every part."""

_NEUTRAL = {opcodes.ADD: 0, opcodes.MULTIPLY: 1}


def addends_of(instruction: Instruction) -> Iterator[tuple[int, ...]]:
    """Which operands may be addends at the same time, so that results are addends of the result."""
    op = instruction.op
    if op in _LINEAR:
        if _keeps_sums(instruction):
            yield (0,)
    elif op in _LINEAR_TOGETHER:
        yield _LINEAR_TOGETHER[op]
    elif op in _LINEAR_APART:
        yield from ((0,), (1,))
    elif op is opcodes.DIVIDE and not instruction.shape.element_type.is_integral:
        yield (0,)
    elif op is opcodes.CONCATENATE:
        yield tuple(range(len(instruction.operands)))
    elif op is opcodes.PAD and _is_constant(instruction.operands[1], 0):
        yield (0,)
    elif op in (opcodes.REDUCE, opcodes.SCATTER) and is_sum(instruction):
        yield (0,) if op is opcodes.REDUCE else (0, 2)


def _keeps_sums(instruction: Instruction) -> bool:
    """Conversions of numbers to integers cut off what sums would carry over, those to truth values too."""
    if instruction.op is not opcodes.CONVERT:
        return True
    old, new = instruction.operands[0].shape.element_type, instruction.shape.element_type
    return new.is_floating or new.is_complex or (old.is_integral and new.is_integral and new.bits <= old.bits)


def adds_up(reduce: Instruction) -> bool:
    """Whether a reduce of parts, the results of which are reduced again, gives the result of the whole."""
    root = only_op(reduce)
    if root is None:
        return False
    if root.op in _NEUTRAL:
        return _is_constant(reduce.operands[1], _NEUTRAL[root.op])
    return root.op in _REPEATABLE


def is_sum(instruction: Instruction) -> bool:
    """Whether results of parts are addends: of a product, a reduce that adds numbers to zero, a scatter that adds; and
    of what is picked, as devices that do not have it may give zeros."""
    if instruction.op is opcodes.REDUCE:
        return _adds(instruction) and adds_up(instruction)
    if instruction.op is opcodes.SCATTER:
        return _adds(instruction)
    if instruction.op in (opcodes.GATHER, opcodes.DYNAMIC_SLICE):
        return instruction.shape.element_type is not PRED
    return instruction.op in _LINEAR_APART


def _adds(instruction: Instruction) -> bool:
    root = only_op(instruction)
    return root is not None and root.op is opcodes.ADD and root.shape.element_type is not PRED


def only_op(instruction: Instruction) -> Instruction | None:
    """The root of the computation on scalars, if it combines the two parameters and nothing else is done."""
    root = instruction.computations[0].root_instruction
    parameters = instruction.computations[0].parameters
    takes_both = len(parameters) == 2 and sorted(map(parameters.index, _parameters(root.operands))) == [0, 1]
    return root if takes_both and len(root.operands) == 2 else None


def _parameters(operands: Sequence[Instruction]) -> list[Instruction]:
    return [operand for operand in operands if operand.op is opcodes.PARAMETER]


def _is_constant(instruction: Instruction, value: int) -> bool:
    """Whether it is that scalar; zeros that are made of a parameter or converted are not known to be."""
    while instruction.op in (opcodes.CONVERT, opcodes.RESHAPE, opcodes.COPY):
        instruction = instruction.operands[0]
    return instruction.op is opcodes.CONSTANT and bool((instruction.attributes.literal.array == value).all())
