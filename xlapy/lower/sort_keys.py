"""Recognizes comparators that compare a key of the left element with the same key of the right one.

JAX's comparators of floats, for example, compare in the total order, after all NaN became one NaN and -0 became 0. Such
keys are mapped to unsigned integers in the same order. Does not depend on sorting algorithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.element_types import BF16, F16, PRED, PrimitiveType
from xlapy.base.float_formats import SINGLE
from xlapy.hlo.computation import is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I8, Builder, Value
from xlapy.loops.types import integer_type
from xlapy.lower.core import Element, Lowering
from xlapy.lower.elementwise import total_order_key
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType
from xlapy.opcodes.sources import CONSTANT

_ZERO_BITS = {t: SINGLE.mantissa_bits - t.float_format.mantissa_bits for t in (BF16, F16)}
"""The number of lowest bits that are always 0 in the register of a narrow float."""


def zero_bits(t: PrimitiveType) -> int:
    """The number of lowest bits that are 0 in the key of every element of a type."""
    return _ZERO_BITS.get(t, 0)


@dataclass(frozen=True, slots=True)
class SortKey:
    """The key of a comparator; `left` computes the key of the left element."""

    left: Instruction
    descending: bool
    total_order: bool

    @property
    def element_type(self) -> PrimitiveType:
        return self.left.shape.element_type

    @property
    def low(self) -> int:
        """The lowest bit of the key that orders elements; the bits below it are 0."""
        return zero_bits(self.element_type)

    def of(self, builder: Builder, parameters: Sequence[Instruction], elements: Sequence[Element]) -> Value:
        """Emits the key of an element as an unsigned integer, given the elements of all operands."""
        bindings = {p: elements[p.parameter_number // 2] for p in parameters}
        value = Lowering(builder, {}, bindings).value(self.left, ())
        if self.element_type.is_floating and not self.total_order:  # -0 and 0 are equal
            zero = builder.zero(value.type)
            value = builder.select(builder.compare("oeq", value, zero), zero, value)
        return integer_key(builder, value, self.element_type, descending=self.descending)


def integer_key(builder: Builder, value: Value, t: PrimitiveType, *, descending: bool) -> Value:
    """An unsigned integer in the order of the elements; floats are in the total order."""
    if t is PRED:
        key = builder.convert("zext", value, I8)
    elif t.is_floating:
        key = _without_sign(builder, total_order_key(builder, value, t))
    else:
        key = _without_sign(builder, value) if t.is_signed else value
    return builder.binary("xor", key, builder.constant(key.type, -1)) if descending else key


def _without_sign(builder: Builder, value: Value) -> Value:
    bits = integer_type(value.type.bits)
    return builder.binary("xor", value, builder.constant(bits, -(2 ** (bits.bits - 1))))


def sort_key(sort: Instruction) -> SortKey | None:
    """The key that a sort compares; None if its comparator is of another form."""
    root = sort.to_apply.root_instruction
    if root.op is not opcodes.COMPARE or root.attributes_as(CompareAttributes).direction not in (
        ComparisonDirection.LT,
        ComparisonDirection.GT,
    ):
        return None
    left, right = root.operands
    t = left.shape.element_type
    if t.is_complex or not _correspond(left, right):
        return None
    return SortKey(
        left,
        root.attributes_as(CompareAttributes).direction is ComparisonDirection.GT,
        root.attributes_as(CompareAttributes).type is ComparisonType.TOTALORDER,
    )


def _correspond(left: Instruction, right: Instruction) -> bool:
    """Whether two instructions are the same function of the left and of the right element."""
    pending, known = [(left, right)], set[tuple[Instruction, Instruction]]()
    while pending:
        pair = pending.pop()
        if pair in known:
            continue
        known.add(pair)
        one, other = pair
        if is_parameter(one):
            if not is_parameter(other) or one.parameter_number % 2:
                return False
            if other.parameter_number != one.parameter_number + 1:
                return False
        elif not _same_operation(one, other):
            return False
        else:
            pending += zip(one.operands, other.operands, strict=True)
    return True


def _same_operation(one: Instruction, other: Instruction) -> bool:
    if one.op is not other.op or one.computations or other.computations or one.shape != other.shape:
        return False
    if one.op is CONSTANT:
        return one is other or one.literal.array.tobytes() == other.literal.array.tobytes()
    return one.op.elementwise and one.attributes == other.attributes
