"""Stable radix sort of each slice by integer keys, from the lowest digit to the highest.

One pass over a slice builds a histogram of each digit. Prefix sums of a histogram say where the elements with each
value begin. Then, for each digit, the elements move in order from the arrays to their spares, and back for the next
digit. A digit with the same value in the whole slice is only copied. Does not depend on what the keys mean.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.codegen.emitters.sort.slices import SliceSorter, SortKernels, spare_bytes, spare_of_slices
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I32, I64, Affine, AxisKind, Buffer, Builder, Value
from xlapy.lower import Element, register_type
from xlapy.lower.sort_keys import SortKey

DIGIT_BITS = 8
"""The number of bits of a digit."""

DIGIT_VALUES = 1 << DIGIT_BITS
"""The number of values of a digit, which is the number of entries of its histogram."""


def low_bits(key: SortKey) -> range:
    """The lowest bit of each digit of a key."""
    return range(key.low, register_type(key.element_type).byte_size * 8, DIGIT_BITS)


def digit(builder: Builder, bits: Value) -> Affine:
    """The lowest digit of an integer as a position."""
    if bits.type.bits > DIGIT_BITS:
        bits = builder.binary("and", bits, builder.constant(bits.type, DIGIT_VALUES - 1))
    return Affine.of(builder.convert("zext", bits, I64))


def increment(builder: Builder, counts: Buffer, position: Affine) -> Value:
    """Returns an entry of a histogram, and adds one to it."""
    before = builder.load(counts, position)
    builder.store(counts, position, builder.add(before, builder.constant(I32, 1)))
    return before


def sum_before(builder: Builder, counts: Buffer, first: int) -> None:
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

    builder.scan(DIGIT_VALUES, [zero], values, combine, use, width=builder.lanes(I32), identities=[zero])


class RadixSort(SliceSorter):
    """The radix sort of one sort instruction."""

    def __init__(self, instruction: Instruction, target: Target, key: SortKey) -> None:
        super().__init__(instruction, target, spare=spare_of_slices(instruction))
        self.key = key
        self.low_bits = low_bits(key)
        self.counts = self.builder.scratch("counts", I32, len(self.low_bits) * DIGIT_VALUES)

    def build(self) -> SortKernels:
        """Returns the kernel, which sorts the arrays in place."""
        builder = self.builder
        with self.slices() as start:
            with builder.loop(self.counts.size, AxisKind.VECTOR, width=builder.lanes(I32)) as entry:
                builder.store(self.counts, entry, builder.zero(I32))
            with builder.loop(self.length) as position:
                self.count_digits(self.load(self.arrays, start, position))
            first = self.load(self.arrays, start, Affine())
            same = [self.has_one_value(first, number) for number in range(len(self.low_bits))]
            source, target = self.arrays, self.spare
            for number, is_same in enumerate(same):
                with builder.branch(is_same):
                    self.copy(source, target, start)
                with builder.branch(builder.logical_not(is_same)):
                    sum_before(builder, self.counts, number * DIGIT_VALUES)
                    with builder.loop(self.length) as position:
                        self.move(target, start, self.load(source, start, position), number)
                source, target = target, source
            if source is self.spare:
                self.copy(self.spare, self.arrays, start)
        numbers = tuple(range(len(builder.kernel.buffers)))
        has_arrays = len(numbers) > len(self.arrays)
        return SortKernels(((builder.kernel, numbers),), spare_bytes(self.instruction) if has_arrays else ())

    def histogram_entry(self, elements: Sequence[Element], number: int) -> Affine:
        """The position in `counts` of the entry for one digit of an element."""
        builder = self.builder
        key = self.key.of(builder, self.instruction.to_apply.parameters, elements)
        low = builder.constant(key.type, self.low_bits[number])
        bits = builder.binary("lshr", key, low) if self.low_bits[number] else key
        return digit(builder, bits) + number * DIGIT_VALUES

    def count_digits(self, elements: Sequence[Element]) -> None:
        for number in range(len(self.low_bits)):
            increment(self.builder, self.counts, self.histogram_entry(elements, number))

    def has_one_value(self, first: Sequence[Element], number: int) -> Value:
        """Whether all elements of the slice have the same value of a digit as its first element."""
        count = self.builder.load(self.counts, self.histogram_entry(first, number))
        return self.builder.compare("eq", count, self.builder.constant(I32, self.length))

    def move(self, target: Sequence[Buffer], start: Affine, elements: Sequence[Element], number: int) -> None:
        """Stores the elements of one position at the next position for their value of a digit."""
        before = increment(self.builder, self.counts, self.histogram_entry(elements, number))
        position = self.builder.convert("zext", before, I64)
        self.store(target, start, Affine.of(position), elements)
