"""Bounds of the integers that an instruction computes, from constants, iotas and the counters of loops around it.

Example: in the body of a loop whose counter i runs from 0 to 99, `i - 1` is from -1 to 98. Does not depend on passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from xlapy import opcodes
from xlapy.analysis.constants import has_all_elements, literal_value
from xlapy.analysis.counted_loops import counter_range
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection
from xlapy.opcodes.sources import IotaAttributes

Range = tuple[int, int]
"""The least and the greatest integer, both included."""

MAX_INSTRUCTIONS: Final = 48
"""The largest number of instructions that are visited for the bounds of one."""

MAX_CONSTANT_ELEMENTS: Final = 1 << 12
"""The largest constant whose elements are read."""

_SAME_ELEMENTS: Final = frozenset(
    {
        opcodes.BROADCAST,
        opcodes.COPY,
        opcodes.DYNAMIC_SLICE,
        opcodes.GATHER,
        opcodes.RESHAPE,
        opcodes.REVERSE,
        opcodes.SLICE,
        opcodes.TRANSPOSE,
    }
)
"""Opcodes whose elements all are elements of the first operand."""

_RELYING: Final = frozenset(
    {
        opcodes.DIVIDE,
        opcodes.DYNAMIC_SLICE,
        opcodes.DYNAMIC_UPDATE_SLICE,
        opcodes.GATHER,
        opcodes.REMAINDER,
        opcodes.SCATTER,
    }
)
"""Opcodes whose code does not check an operand, other than the first one, that is known to be within bounds."""

_LIMITING: Final = frozenset({opcodes.AND, opcodes.CLAMP, opcodes.MAXIMUM, opcodes.MINIMUM})
"""Opcodes that have bounds even if nothing is known about some operands."""


_Known = dict[Instruction, Range | None]
"""The bounds of the instructions that have been visited."""


def integer_range(instruction: Instruction) -> Range | None:
    """Returns bounds of all elements of an array of integers; None if none are known."""
    return _range(instruction, {})


def known_comparison(instruction: Instruction) -> bool | None:
    """Returns the result of a comparison of integers if it is the same for all their values."""
    if instruction.op is not opcodes.COMPARE:
        return None
    return _compared(instruction, {})


def _range(one: Instruction, known: _Known) -> Range | None:
    if one in known or len(known) == MAX_INSTRUCTIONS:
        return known.get(one)
    known[one] = None
    known[one] = found = _range_in_type(one, known)
    return found


def _range_in_type(one: Instruction, known: _Known) -> Range | None:
    shape = one.shape
    if not shape.is_array or not shape.element_type.is_integral or shape.element_type is PRED or not shape.size:
        return None
    found = _unchecked_range(one, known)
    limits = limits_of(shape.element_type)
    if found is not None and limits[0] <= found[0] and found[1] <= limits[1]:
        return found
    return None


def assumed_ranges(instruction: Instruction) -> tuple[Range | None, ...]:
    """Returns the bounds that the code of an instruction, and of those in its computations, may rely on.

    They are those of indices and divisors. Equal instructions have different ones if their operands have, or if they
    are in loops of different lengths.
    """
    found: list[Range | None] = []
    pending = [instruction]
    while pending:
        one = pending.pop()
        if one.op in _RELYING:
            found += [integer_range(operand) for operand in one.operands[1:] if operand.shape.element_type.is_integral]
        for computation in one.computations:
            pending += post_order(computation)
    return tuple(found)


def limits_of(t: PrimitiveType) -> Range:
    """Returns the least and the greatest value of an integer type."""
    return (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.is_signed else (0, (1 << t.bits) - 1)


def _unchecked_range(one: Instruction, known: _Known) -> Range | None:
    """Returns bounds of what an instruction computes without overflow, which may exceed its type."""
    op = one.op
    if op is opcodes.CONSTANT:
        if one.shape.size > MAX_CONSTANT_ELEMENTS or not has_all_elements(one.literal):
            return None
        elements = literal_value(one.literal)
        return int(elements.min()), int(elements.max())
    if op is opcodes.IOTA:
        return 0, one.shape.dimensions[one.attributes_as(IotaAttributes).iota_dimension] - 1
    if op is opcodes.PARAMETER:
        caller = _only_caller(one.parent, opcodes.FUSION)
        return None if caller is None else _range(caller.operands[one.parameter_number], known)
    if op is opcodes.GET_TUPLE_ELEMENT:
        return _range_of_element(one, known)
    if op is opcodes.FUSION:
        return _range(one.computations[0].root_instruction, known)
    if op in _SAME_ELEMENTS:
        return _range(one.operands[0], known)
    if op is opcodes.CONVERT:
        return _range(one.operands[0], known)
    if op is opcodes.SELECT:
        chosen = _chosen(one, known)
        return _union([_range(operand, known) for operand in chosen])
    if op is opcodes.CONCATENATE:
        return _union([_range(operand, known) for operand in one.operands])
    combine = _COMBINED.get(op)
    if combine is None:
        return None
    ranges = [_range(operand, known) for operand in one.operands]
    if op in _LIMITING:
        limits = limits_of(one.shape.element_type)
        ranges = [limits if found is None else found for found in ranges]
    each = [found for found in ranges if found is not None]
    return combine(each) if len(each) == len(ranges) else None


def _only_caller(computation: Computation | None, *ops: object) -> Instruction | None:
    """Returns the instruction that alone calls a computation, if its opcode is one of these."""
    if computation is None or len(computation.callers) != 1:
        return None
    (caller,) = computation.callers
    return caller if caller.op in ops else None


def _range_of_element(one: Instruction, known: _Known) -> Range | None:
    """The bounds of an element of the state of a loop in its body or condition, or of a result of a fusion."""
    source, number = one.operands[0], one.tuple_index
    if source.op is opcodes.TUPLE:
        return _range(source.operands[number], known)
    if source.op is opcodes.FUSION:
        root = source.computations[0].root_instruction
        return _range(root.operands[number], known) if root.op is opcodes.TUPLE else None
    if source.op is not opcodes.PARAMETER or source.parent is None:
        return None
    loop = _only_caller(source.parent, opcodes.WHILE)
    if loop is None:
        return None
    body, (initial,) = loop.computations[1], loop.operands
    following, found = body.root_instruction, counter_range(loop, number, in_body=source.parent is body)
    if found is not None or following.op is not opcodes.TUPLE or initial.op is not opcodes.TUPLE:
        return found
    after = following.operands[number]
    is_invariant = (
        after.op is opcodes.GET_TUPLE_ELEMENT
        and after.tuple_index == number
        and after.operands[0] is body.parameters[0]
    )
    return _range(initial.operands[number], known) if is_invariant else None


def _union(ranges: Sequence[Range | None]) -> Range | None:
    known = [found for found in ranges if found is not None]
    if not known or len(known) < len(ranges):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _chosen(select: Instruction, known: _Known) -> Sequence[Instruction]:
    """Returns the operands from which a selection may take elements."""
    predicate, left, right = select.operands
    result = _compared(predicate, known) if predicate.op is opcodes.COMPARE else None
    return [left, right] if result is None else [left if result else right]


def _compared(one: Instruction, known: _Known) -> bool | None:
    left, right = (_range(operand, known) for operand in one.operands)
    if left is None or right is None:
        return None
    direction = one.attributes_as(CompareAttributes).direction
    if direction in (ComparisonDirection.GT, ComparisonDirection.LE):
        left, right = right, left
    if direction in (ComparisonDirection.EQ, ComparisonDirection.NE):
        if left[1] < right[0] or right[1] < left[0]:
            return direction is ComparisonDirection.NE
        is_same = left == right and left[0] == left[1]
        return direction is ComparisonDirection.EQ if is_same else None
    is_strict = direction in (ComparisonDirection.LT, ComparisonDirection.GT)  # left < right, or not left < right
    if left[1] < right[0]:
        return is_strict
    return not is_strict if left[0] >= right[1] else None


# -- arithmetic


def _add(ranges: Sequence[Range]) -> Range:
    (low0, high0), (low1, high1) = ranges
    return low0 + low1, high0 + high1


def _subtract(ranges: Sequence[Range]) -> Range:
    (low0, high0), (low1, high1) = ranges
    return low0 - high1, high0 - low1


def _multiply(ranges: Sequence[Range]) -> Range:
    products = [one * other for one in ranges[0] for other in ranges[1]]
    return min(products), max(products)


def _divide(ranges: Sequence[Range]) -> Range | None:
    (low, high), (divisor, last) = ranges
    if divisor <= 0 or divisor != last:
        return None
    quotients = [abs(n) // divisor * (1 if n >= 0 else -1) for n in (low, high)]
    return quotients[0], quotients[1]


def _remainder(ranges: Sequence[Range]) -> Range | None:
    (low, high), (least, most) = ranges
    if least <= 0:
        return None
    return 0 if low >= 0 else max(low, 1 - most), 0 if high <= 0 else min(high, most - 1)


def _maximum(ranges: Sequence[Range]) -> Range:
    return max(low for low, _ in ranges), max(high for _, high in ranges)


def _minimum(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), min(high for _, high in ranges)


def _clamp(ranges: Sequence[Range]) -> Range:
    low, value, high = ranges
    return _minimum([_maximum([low, value]), high])


def _negate(ranges: Sequence[Range]) -> Range:
    ((low, high),) = ranges
    return -high, -low


def _and(ranges: Sequence[Range]) -> Range | None:
    """Bits that a number which is not negative does not have are not in the result."""
    highs = [high for low, high in ranges if low >= 0]
    return (0, min(highs)) if highs else None


def _shift_right(ranges: Sequence[Range]) -> Range | None:
    (low, high), (distance, last) = ranges
    return (low >> distance, high >> distance) if low >= 0 and distance == last and 0 <= distance < 64 else None


_COMBINED: Final[dict[object, Callable[[Sequence[Range]], Range | None]]] = {
    opcodes.ADD: _add,
    opcodes.AND: _and,
    opcodes.CLAMP: _clamp,
    opcodes.DIVIDE: _divide,
    opcodes.MAXIMUM: _maximum,
    opcodes.MINIMUM: _minimum,
    opcodes.MULTIPLY: _multiply,
    opcodes.NEGATE: _negate,
    opcodes.REMAINDER: _remainder,
    opcodes.SHIFT_RIGHT_ARITHMETIC: _shift_right,
    opcodes.SHIFT_RIGHT_LOGICAL: _shift_right,
    opcodes.SUBTRACT: _subtract,
}


def is_within(found: Range | None, low: int, high: int) -> bool:
    """Whether bounds are known and between two numbers, both included."""
    return found is not None and low <= found[0] and found[1] <= high
