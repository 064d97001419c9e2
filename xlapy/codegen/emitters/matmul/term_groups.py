"""Matrix multiplications of narrow types by dot instructions, which multiply groups of terms.

A grouped problem has a group of two or four consecutive terms where the original problem has a term. A factor is an
I32 that holds the elements of a group:

| operands | dot instruction | a factor |
|---|---|---|
| bf16, and all types whose values bf16 holds: f8, integers of at most 8 bits | BF16_PAIRS | 2 x bf16 |
| integers of at most 8 bits | U8_S8_QUADS, else S16_PAIRS | 4 x 8 bits, else 2 x 16 bits |
| integers of at most 16 bits, except u16 | S16_PAIRS | 2 x 16 bits |

U8_S8_QUADS multiplies unsigned by signed bytes. Of two operands that are both signed or both unsigned, the left one is
packed with the highest bit of each byte inverted, which adds 128 or subtracts it (`MatmulProblem.left_offset`).

Every kernel of this folder solves a grouped problem as it solves any other. Groups that are contiguous in memory are
loaded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from xlapy.base.element_types import BF16, F8E8M0FNU, F32, PRED, S8, S16, S32, U16, PrimitiveType
from xlapy.codegen.emitters.matmul.micro_kernel import clamped_position
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I32, I64, Affine, Location, PositionArithmetic, Value
from xlapy.loops.dot_instructions import BF16_PAIRS, S16_PAIRS, U8_S8_QUADS, DotInstruction
from xlapy.lower import Element
from xlapy.lower.core import Index
from xlapy.lower.element_types import register_type
from xlapy.lower.movement import conjunction

MIN_GROUPS = 4
"""The smallest number of groups of terms for which packing groups is worth it."""

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
    if left.is_integral and right.is_integral and PRED not in (left, right):
        wraps = sum_type.is_integral and sum_type.bits <= S32.bits
        if wraps or terms * _largest(left) * _largest(right) <= _MAX_S32:
            if left.bits <= 8 and right.bits <= 8 and U8_S8_QUADS in found:
                return GroupFormat(U8_S8_QUADS, S32, S8, left.is_signed, right.is_signed)
            if all(t.bits <= 16 and t is not U16 for t in (left, right)) and S16_PAIRS in found:
                return GroupFormat(S16_PAIRS, S32, S16)
    is_float = sum_type.is_floating and register_type(sum_type) is register_type(F32)
    if is_float and BF16_PAIRS in found and all(map(_fits_bfloat16, (left, right))):
        return GroupFormat(BF16_PAIRS, sum_type, F32)
    return None


def _fits_bfloat16(t: PrimitiveType) -> bool:
    """Whether bf16 represents all values of a type."""
    if t.is_floating:
        return t is BF16 or (t.bits <= 8 and t is not F8E8M0FNU)  # whose smallest number is a denormal bf16
    return t.is_integral and t.bits <= 8


def _largest(t: PrimitiveType) -> int:
    """The largest absolute value of an integer."""
    return 1 << (t.bits - 1) if t.is_signed else (1 << t.bits) - 1


def grouped_problem(problem: MatmulProblem) -> MatmulProblem:
    """Returns the problem with its terms in groups if a dot instruction multiplies them, else the problem itself."""
    origin = (Affine(),) * 3
    left, _ = problem.left_index(problem.builder, *origin)
    right, _ = problem.right_index(problem.builder, *origin)
    types = left.shape.element_type, right.shape.element_type
    form = group_format(problem.region.target, *types, problem.type, problem.terms)
    if form is None:
        return problem
    size = form.instruction.terms
    if problem.terms < MIN_GROUPS * size or (problem.outer > 1 and problem.inner % size):
        return problem
    return GroupedProblem(problem, form)


class GroupedProblem(MatmulProblem):
    """A problem whose terms are the groups of terms of another problem."""

    def __init__(self, terms: MatmulProblem, form: GroupFormat) -> None:
        self._ungrouped, self.format = terms, form
        self._size = form.instruction.terms
        super().__init__(terms.region)
        self.builder, self.lowering, self.epilogue = terms.builder, terms.lowering, terms.epilogue
        self.type, self.factor_type, terms.factor_type = form.sum, S32, form.element
        self.batches, self.rows, self.columns = terms.batches, terms.rows, terms.columns
        self.outer, self.inner = terms.outer, -(-terms.inner // self._size)
        self._partial = terms.inner % self._size
        """The number of terms of the last group if it is not whole, else 0."""

    @property
    def terms_per_factor(self) -> int:
        return self._size

    def left_index(
        self, arithmetic: PositionArithmetic, batch: Affine, row: Affine, term: Affine
    ) -> tuple[Instruction, Index]:
        return self._ungrouped.left_index(arithmetic, batch, row, term * self._size)

    def right_index(
        self, arithmetic: PositionArithmetic, batch: Affine, term: Affine, column: Affine
    ) -> tuple[Instruction, Index]:
        return self._ungrouped.right_index(arithmetic, batch, term * self._size, column)

    def left_strides(self) -> tuple[int | None, int | None]:
        return self._grouped(self._ungrouped.left_strides())

    def right_strides(self) -> tuple[int | None, int | None]:
        return self._grouped(self._ungrouped.right_strides())

    def _grouped(self, strides: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
        free, terms = strides
        return free, terms and (1 if terms == 1 else terms * self._size)

    def index(self, batch: Affine, row: Affine, column: Affine) -> Index:
        return self._ungrouped.index(batch, row, column)

    def fast_path_condition(self, batch: Affine, rows: tuple[Affine, int], columns: tuple[Affine, int]) -> Value | None:
        return self._ungrouped.fast_path_condition(batch, rows, columns)

    def element_exists(self, batch: Affine, row: Affine, column: Affine) -> Value | None:
        return self._ungrouped.element_exists(batch, row, column)

    def multiply_add(self, left: Element, right: Element, total: Element) -> Element:
        assert isinstance(left, Value) and isinstance(right, Value) and isinstance(total, Value)
        factors, instruction = (right, left) if self.format.swaps else (left, right), self.format.instruction
        return self.builder.op("dot", instruction.sum, *factors, total, attribute=instruction)

    def left_offset(self) -> Element | None:
        return self.builder.constant(I32, _HIGHEST_BITS) if self.format.has_left_offset else None

    # -- factors

    def left_element(self, batch: Affine, row: Affine, term: Affine, mask: Value | None = None) -> Element:
        terms = self._ungrouped
        group = self._group(
            term,
            lambda position: terms.left_element(batch, row, position, mask),
            lambda position: terms.left_location(batch, row, position),
            mask,
        )
        offset = self.left_offset()
        return self.builder.binary("xor", group, offset) if isinstance(offset, Value) else group

    def right_element(self, batch: Affine, term: Affine, column: Affine, mask: Value | None = None) -> Element:
        terms = self._ungrouped
        return self._group(
            term,
            lambda position: terms.right_element(batch, position, column, mask),
            lambda position: terms.right_location(batch, position, column),
            mask,
        )

    def _group(
        self,
        group: Affine,
        element: Callable[[Affine], Element],
        location: Callable[[Affine], Location | None],
        mask: Value | None,
    ) -> Value:
        """The elements of a group. Elements beyond the last term are zero."""
        positions = [group * self._size + number for number in range(self._size)]
        found = self._loaded_group(group, [location(position) for position in positions], mask)
        if found is not None:
            return found
        builder = self.builder
        parts: list[Value] = []
        for number, position in enumerate(positions):
            if self._partial and number >= self._partial:
                last = clamped_position(builder, position, self._ungrouped.inner)
                part = self._positioned(element(last), number)
                parts.append(builder.select(self._is_last(group), builder.zero(I32), part))
            else:
                parts.append(self._positioned(element(position), number))
        return self._joined(parts)

    def _loaded_group(self, group: Affine, places: Sequence[Location | None], mask: Value | None) -> Value | None:
        """Loads the elements of a group at once if they are contiguous in memory; None otherwise."""
        builder, first = self.builder, places[0]
        if first is None or first.buffer.type.bits * self._size != I32.bits:
            return None
        for number, place in enumerate(places):
            if place is None or place.buffer is not first.buffer or place.offset - first.offset != Affine((), number):
                return None
        if not self._partial:
            return builder.load_wide(I32, first, mask)
        # The last group reaches into the next row. Only the one in the last row ends outside of the buffer.
        size, terms = first.buffer.size, self._ungrouped.inner
        start = first.offset - group * self._size
        if any(stride % terms for stride in (size, start.constant, *(factor for _, factor in start.terms))):
            return None
        rest = [builder.load(first.buffer, Affine((), size - self._partial + n)) for n in range(self._partial)]
        ends = builder.value_of(first.offset + (self._size - 1))
        is_inside = builder.compare("slt", ends, builder.constant(I64, size))
        otherwise = self._joined([self._shifted(builder.convert("zext", part, I32), n) for n, part in enumerate(rest)])
        loaded = builder.load_wide(I32, first, conjunction(builder, is_inside, mask), otherwise)
        kept = builder.constant(I32, (1 << self._partial * (I32.bits // self._size)) - 1)
        return builder.binary("and", loaded, builder.select(self._is_last(group), kept, builder.constant(I32, -1)))

    def _is_last(self, group: Affine) -> Value:
        builder = self.builder
        return builder.compare("eq", builder.value_of(group), builder.constant(I64, self.inner - 1))

    def _positioned(self, element: Element, number: int) -> Value:
        """The bits of an element at its position in a group."""
        builder = self.builder
        assert isinstance(element, Value)
        if not element.type.is_float:
            return self._shifted(builder.convert("zext", element, I32), number)
        bits = builder.bitcast(element, I32)
        if number:
            return builder.binary("and", bits, builder.constant(I32, -0x10000))
        return builder.binary("lshr", bits, builder.constant(I32, 16))

    def _shifted(self, bits: Value, number: int) -> Value:
        amount = self.builder.constant(I32, number * (I32.bits // self._size))
        return self.builder.binary("shl", bits, amount) if number else bits

    def _joined(self, parts: Sequence[Value]) -> Value:
        return reduce(lambda left, right: self.builder.binary("or", left, right), parts)
