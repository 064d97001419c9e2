"""Stable radix sort of each slice, or of each of its blocks, by integer keys, from the lowest digit to the highest.

One pass over a block builds a histogram of each digit. Prefix sums of a histogram say where the elements with each
value begin. Then, for each digit, the elements move in order from the arrays to their spares, and back for the next
digit. A digit with the same value in the whole block is only copied. Does not depend on what the keys mean.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.sort.merging import merge_count
from xlapy.codegen.emitters.sort.slices import SliceSorter, Spare, spare_of_slices
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I32, I64, Affine, AxisKind, Buffer, Builder, Kernel, Value
from xlapy.lower import Element, register_type
from xlapy.lower.sort_keys import SortKey

DIGIT_BITS = 8
"""The number of bits of a digit. Its histogram has an entry for each value."""

LONG_DIGIT_BITS = 11
"""The same for long blocks: a key of 32 bits has three such digits instead of four."""

LONG_BLOCK = 1 << 15
"""The smallest number of elements of a long block. A million f32 take 0.7x of the time of digits of 8 bits, 32,768 the
same time, and 8,192 take 1.3x."""


def digit(builder: Builder, key: Value, low: int, width: int) -> Affine:
    """The digit of a key, from bit `low` on, of `width` bits, as a position."""
    bits = builder.binary("lshr", key, builder.constant(key.type, low)) if low else key
    if bits.type.bits > width:
        bits = builder.binary("and", bits, builder.constant(bits.type, (1 << width) - 1))
    return Affine.of(builder.convert("zext", bits, I64))


def increment(builder: Builder, counts: Buffer, position: Affine) -> Value:
    """Returns an entry of a histogram, and adds one to it."""
    before = builder.load(counts, position)
    builder.store(counts, position, builder.add(before, builder.constant(I32, 1)))
    return before


def sum_before(builder: Builder, counts: Buffer, first: int, entries: int) -> None:
    """Replaces each entry of a histogram, which begins at `first`, by the sum of those before it."""
    zero = builder.zero(I32)
    counted: list[Value] = []

    def values(position: Affine) -> list[Value]:
        counted[:] = [builder.load(counts, position + first)]
        return counted

    def use(position: Affine, sums: Sequence[Value]) -> None:
        builder.store(counts, position + first, builder.sub(sums[0], counted[0]))

    def combine(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        return [builder.add(left[0], right[0])]

    builder.scan(entries, [zero], values, combine, use, width=builder.lanes(I32), identities=[zero])


class RadixSort(SliceSorter):
    """The radix sort of one sort instruction. blocks: how many blocks of each slice are sorted, each by a task.
    If there are several, the elements end where `merged_blocks` expects them."""

    def __init__(self, instruction: Instruction, target: Target, key: SortKey, blocks: int = 1) -> None:
        super().__init__(instruction, target, spare=spare_of_slices(instruction) if blocks == 1 else Spare.ARRAYS)
        self.key = key
        self.block = -(-self.length // blocks)
        self.ends_in_spare = merge_count(self.length, self.block) % 2 != 0
        self.width = DIGIT_BITS if self.block < LONG_BLOCK else LONG_DIGIT_BITS
        self.low_bits = range(key.low, register_type(key.element_type).byte_size * 8, self.width)
        """The lowest bit of each digit."""
        self.counts = self.builder.scratch("counts", I32, len(self.low_bits) << self.width)

    def build(self) -> Kernel:
        """Returns the kernel."""
        builder = self.builder
        with self.blocks(-(-self.length // self.block)) as (_, slice_start, number):
            begin = number * self.block
            count = block_extent(builder, begin, self.length, self.block)
            start = slice_start + begin * self.stride
            with builder.loop(self.counts.size, AxisKind.VECTOR, width=builder.lanes(I32)) as entry:
                builder.store(self.counts, entry, builder.zero(I32))
            with builder.loop(count) as position:
                self.count_digits(self.load(self.arrays, start, position))
            first = self.load(self.arrays, start, Affine())
            same = [self.has_one_value(first, digit, count) for digit in range(len(self.low_bits))]
            source, target = self.arrays, self.spare
            for number_of_digit, is_same in enumerate(same):
                with builder.branch(is_same):
                    self.copy(source, target, start, Affine(), count)
                with builder.branch(builder.logical_not(is_same)):
                    sum_before(builder, self.counts, number_of_digit << self.width, 1 << self.width)
                    with builder.loop(count) as position:
                        self.move(target, start, self.load(source, start, position), number_of_digit)
                source, target = target, source
            self.leave(source, self.ends_in_spare, start, Affine(), count)
        return builder.kernel

    def histogram_entry(self, elements: Sequence[Element], number: int) -> Affine:
        """The position in `counts` of the entry for one digit of an element."""
        key = self.key.of(self.builder, self.instruction.to_apply.parameters, elements)
        return digit(self.builder, key, self.low_bits[number], self.width) + (number << self.width)

    def count_digits(self, elements: Sequence[Element]) -> None:
        for number in range(len(self.low_bits)):
            increment(self.builder, self.counts, self.histogram_entry(elements, number))

    def has_one_value(self, first: Sequence[Element], number: int, count: int | Value) -> Value:
        """Whether all `count` elements have the same value of a digit as the first one."""
        builder = self.builder
        found = builder.load(self.counts, self.histogram_entry(first, number))
        all_ = builder.constant(I32, count) if isinstance(count, int) else builder.convert("trunc", count, I32)
        return builder.compare("eq", found, all_)

    def move(self, target: Sequence[Buffer], start: Affine, elements: Sequence[Element], number: int) -> None:
        """Stores the elements of one position at the next position for their value of a digit."""
        before = increment(self.builder, self.counts, self.histogram_entry(elements, number))
        position = self.builder.convert("zext", before, I64)
        self.store(target, start, Affine.of(position), elements)
