"""The forms in which dot instructions take groups of terms: a factor is an I32 that holds two or four elements.

| operands | dot instruction | a factor |
|---|---|---|
| bf16, and all types whose values bf16 holds: f8, integers of at most 8 bits | BF16_PAIRS | 2 x bf16 |
| integers of at most 8 bits | U8_S8_QUADS, else S16_PAIRS | 4 x 8 bits, else 2 x 16 bits |
| integers of at most 16 bits, except u16 | S16_PAIRS | 2 x 16 bits |

U8_S8_QUADS multiplies unsigned by signed bytes. Of two operands that are both signed or both unsigned, the left one has
the highest bit of each byte inverted, which adds 128 or subtracts it.

Does not depend on the loops around a product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from xlapy.base.element_types import BF16, F8E8M0FNU, F32, PRED, S8, S16, S32, U16, PrimitiveType
from xlapy.codegen.target import Target
from xlapy.loops import I32, Builder, Value
from xlapy.loops.dot_instructions import (
    BF16_PAIRS,
    S8_QUADS,
    S8_U8_QUADS,
    S16_PAIRS,
    U8_QUADS,
    U8_S8_QUADS,
    DotInstruction,
)
from xlapy.lower import Element
from xlapy.lower.element_types import register_type

_MAX_S32 = (1 << 31) - 1

_HIGHEST_BITS = 0x80808080
"""The highest bit of each byte of a group."""


@dataclass(frozen=True, slots=True)
class GroupFormat:
    """How the terms of a matrix multiplication are grouped.

    sum: the type of the sums. element: the type to which elements are converted before they form groups; of an F32, the
    upper half. left_signed, right_signed: whether the elements of each operand are signed.
    """

    instruction: DotInstruction
    sum: PrimitiveType
    element: PrimitiveType
    left_signed: bool = True
    right_signed: bool = True

    @property
    def has_left_offset(self) -> bool:
        """Whether the highest bits of the left elements are inverted."""
        return self.instruction is U8_S8_QUADS and self.left_signed == self.right_signed

    @property
    def swaps(self) -> bool:
        """Whether the right factors are the left operand of the instruction."""
        return self.instruction is U8_S8_QUADS and not self.right_signed


def group_format(
    target: Target, left: PrimitiveType, right: PrimitiveType, sum_type: PrimitiveType, terms: int
) -> GroupFormat | None:
    """Returns how products of two types are grouped on a machine; None if it has no fitting dot instruction.

    sum_type: the type of the sums without groups. Sums of integers wrap at 32 bits: if the sum is a float or wider, it
    must not wrap with so many terms.
    """
    found = target.dot_instructions
    are_integral = left.is_integral and right.is_integral and PRED not in (left, right)
    if are_integral and _sums_fit(left, right, sum_type, terms):
        if left.bits <= 8 and right.bits <= 8 and U8_S8_QUADS in found:
            return GroupFormat(U8_S8_QUADS, S32, S8, left.is_signed, right.is_signed)
        if all(t.bits <= 16 and t is not U16 for t in (left, right)) and S16_PAIRS in found:
            return GroupFormat(S16_PAIRS, S32, S16)
    is_float = sum_type.is_floating and register_type(sum_type) is register_type(F32)
    if is_float and BF16_PAIRS in found and all(map(_fits_bfloat16, (left, right))):
        return GroupFormat(BF16_PAIRS, sum_type, F32)
    return None


def tile_format(
    target: Target, left: PrimitiveType, right: PrimitiveType, sum_type: PrimitiveType, terms: int
) -> GroupFormat | None:
    """As `group_format`, for tile instructions. They multiply bytes of any signs."""
    found = target.tile_instructions
    if left.is_integral and right.is_integral and PRED not in (left, right) and left.bits <= 8 and right.bits <= 8:
        instruction = _BY_SIGNS[left.is_signed, right.is_signed]
        if instruction in found and _sums_fit(left, right, sum_type, terms):
            return GroupFormat(instruction, S32, S8, left.is_signed, right.is_signed)
    is_float = sum_type.is_floating and register_type(sum_type) is register_type(F32)
    if is_float and BF16_PAIRS in found and all(map(_fits_bfloat16, (left, right))):
        return GroupFormat(BF16_PAIRS, sum_type, F32)
    return None


_BY_SIGNS = {
    (instruction.left_signed, instruction.right_signed): instruction
    for instruction in (S8_QUADS, S8_U8_QUADS, U8_S8_QUADS, U8_QUADS)
}


def _sums_fit(left: PrimitiveType, right: PrimitiveType, sum_type: PrimitiveType, terms: int) -> bool:
    """Whether sums of integers that wrap at 32 bits have the value that is meant."""
    wraps = sum_type.is_integral and sum_type.bits <= S32.bits
    return wraps or terms * _largest(left) * _largest(right) <= _MAX_S32


def _fits_bfloat16(t: PrimitiveType) -> bool:
    """Whether bf16 represents all values of a type."""
    if t.is_floating:
        return t is BF16 or (t.bits <= 8 and t is not F8E8M0FNU)  # whose smallest number is a denormal bf16
    return t.is_integral and t.bits <= 8


def _largest(t: PrimitiveType) -> int:
    """The largest absolute value of an integer."""
    return 1 << (t.bits - 1) if t.is_signed else (1 << t.bits) - 1


# -- factors


def element_in_group(builder: Builder, size: int, element: Element, number: int) -> Value:
    """The bits of an element at its position in a group of `size` elements. Of an F32, the upper half."""
    assert isinstance(element, Value)
    if not element.type.is_float:
        bits, amount = builder.convert("zext", element, I32), builder.constant(I32, number * (I32.bits // size))
        return builder.binary("shl", bits, amount) if number else bits
    bits = builder.bitcast(element, I32)
    if number:
        return builder.binary("and", bits, builder.constant(I32, -0x10000))
    return builder.binary("lshr", bits, builder.constant(I32, 16))


def joined(builder: Builder, parts: Sequence[Value]) -> Value:
    """The group whose elements are at their positions in the parts."""
    return reduce(lambda left, right: builder.binary("or", left, right), parts)


def interleaved(builder: Builder, rows: Sequence[Value]) -> list[Value]:
    """The groups of neighboring columns, given the elements of each row of a group in these columns as one I32.

    There are as many rows as columns, two or four. Group n holds element n of each row: in each lane, the rows are a
    matrix that is transposed. Example: the bytes a0 a1 a2 a3, b0 ..., c0 ... and d0 ... become a0 b0 c0 d0, a1 ...
    """
    found, bits = list(rows), I32.bits // 2
    while bits >= I32.bits // len(rows):
        distance = bits * len(rows) // I32.bits
        for first in (n for n in range(len(rows)) if not n & distance):
            found[first], found[first + distance] = _exchanged(builder, found[first], found[first + distance], bits)
        bits //= 2
    return found


def _exchanged(builder: Builder, first: Value, second: Value, bits: int) -> tuple[Value, Value]:
    """Exchanges the upper halves of all fields of 2 * `bits` bits of a number with the lower halves of another one."""
    pattern = sum((1 << bits) - 1 << start for start in range(0, I32.bits, 2 * bits))
    lower, upper = builder.constant(I32, pattern), builder.constant(I32, pattern << bits)
    amount = builder.constant(I32, bits)
    moved = builder.binary("shl", second, amount), builder.binary("lshr", first, amount)
    if 2 * bits < I32.bits:
        moved = builder.binary("and", moved[0], upper), builder.binary("and", moved[1], lower)
    kept = builder.binary("and", first, lower), builder.binary("and", second, upper)
    return builder.binary("or", kept[0], moved[0]), builder.binary("or", kept[1], moved[1])


def add_products(builder: Builder, form: GroupFormat, left: Element, right: Element, total: Element) -> Value:
    """The sum of a total and the products of the elements of two factors."""
    assert isinstance(left, Value) and isinstance(right, Value) and isinstance(total, Value)
    factors = (right, left) if form.swaps else (left, right)
    return builder.op("dot", form.instruction.sum, *factors, total, attribute=form.instruction)


def left_offset(builder: Builder, form: GroupFormat) -> Value | None:
    """The constant that every left factor contains besides its value; None if there is none."""
    return builder.constant(I32, _HIGHEST_BITS) if form.has_left_offset else None


def with_left_offset(builder: Builder, form: GroupFormat, group: Value) -> Value:
    """The left factor of a group of elements, which contains the offset if there is one."""
    offset = left_offset(builder, form)
    return group if offset is None else builder.binary("xor", group, offset)
