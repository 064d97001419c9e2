"""Comparators of sorts that compare a key of the left element with the same key of the right one.

JAX's comparators of floats, for example, compare x with NaN made one NaN and -0 made 0, by the total order. Such keys
become integers without sign that are in order as the elements are.

Owns: which comparators have keys, and the integers. Must not know: algorithms of sorting.
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
"""The lowest bits of a narrow float in its register, which are always 0."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """left: the key of the left element, in the comparator. The key's bits from `low` on order the elements."""

    left: Instruction
    descending: bool
    total_order: bool

    @property
    def element_type(self) -> PrimitiveType:
        return self.left.shape.element_type

    @property
    def low(self) -> int:
        return _ZERO_BITS.get(self.element_type, 0)

    def of(self, builder: Builder, parameters: Sequence[Instruction], elements: Sequence[Element]) -> Value:
        """The key of an element, given those of all operands, as an integer to be read without sign."""
        bindings = {p: elements[p.parameter_number // 2] for p in parameters}
        value = Lowering(builder, {}, bindings).value(self.left, ())
        if self.element_type.is_floating and not self.total_order:  # -0 and 0 are equal
            zero = builder.zero(value.type)
            value = builder.select(builder.compare("oeq", value, zero), zero, value)
        return integer_key(builder, value, self.element_type, descending=self.descending)


def integer_key(builder: Builder, value: Value, t: PrimitiveType, *, descending: bool) -> Value:
    """An integer to be read without sign, in the order of the elements; floats are in the total order."""
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
    """The key by which a sort's comparator compares; None if it does anything else."""
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
    """Whether two instructions are the same of the left and of the right element."""
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
