"""Radix sort of each line by integer keys, stable: from the lowest digit to the highest.

One pass over a line counts how often each value of each digit occurs; running sums of the counts say where the elements
with a value begin. Then for each digit the elements go, in their order, from the arrays to their places in the spare
memory, and back for the next. A digit that is the same for the whole line is only copied.

Owns: the algorithm. Must not know: the meaning of keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.codegen.emitters.sort.lines import SortedLines
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I32, I64, Affine, AxisKind, Buffer, Kernel, Value
from xlapy.lower import Element, register_type
from xlapy.lower.sort_keys import SortKey

BITS = 8
"""Of a digit."""

VALUES = 1 << BITS


class RadixSort(SortedLines):
    def __init__(self, instruction: Instruction, target: Target, key: SortKey) -> None:
        super().__init__(instruction, target)
        self.key = key
        self.lows = range(key.low, register_type(key.element_type).byte_size * 8, BITS)
        """Where each digit begins."""
        self.counts = self.builder.scratch("counts", I32, len(self.lows) * VALUES)

    def build(self) -> Kernel:
        builder = self.builder
        with self.lines() as start:
            with builder.loop(self.counts.size, AxisKind.VECTOR, width=builder.lanes(I32)) as place:
                builder.store(self.counts, place, builder.zero(I32))
            with builder.loop(self.length) as position:
                self.count(self.get(self.arrays, start, position))
            first = self.get(self.arrays, start, Affine())
            same = [self.is_same(first, number) for number in range(len(self.lows))]
            here, there = self.arrays, self.spare
            for number, is_same in enumerate(same):
                with builder.branch(is_same):
                    self.copy(here, there, start)
                with builder.branch(builder.logical_not(is_same)):
                    self.sum_counts(number)
                    with builder.loop(self.length) as position:
                        self.move(there, start, self.get(here, start, position), number)
                here, there = there, here
            if here is self.spare:
                self.copy(self.spare, self.arrays, start)
        return builder.kernel

    def digit(self, elements: Sequence[Element], number: int) -> Affine:
        """Which of the counts belongs to an element's digit."""
        builder = self.builder
        key = self.key.of(builder, self.instruction.to_apply.parameters, elements)
        low = builder.constant(key.type, self.lows[number])
        bits = builder.binary("lshr", key, low) if self.lows[number] else key
        kept = builder.binary("and", bits, builder.constant(key.type, VALUES - 1)) if key.type.bits > BITS else bits
        return Affine.of(builder.convert("zext", kept, I64)) + number * VALUES

    def add_one(self, place: Affine) -> Value:
        """The count at a place, which is one more afterwards."""
        before = self.builder.load(self.counts, place)
        self.builder.store(self.counts, place, self.builder.add(before, self.builder.constant(I32, 1)))
        return before

    def count(self, elements: Sequence[Element]) -> None:
        for number in range(len(self.lows)):
            self.add_one(self.digit(elements, number))

    def is_same(self, first: Sequence[Element], number: int) -> Value:
        """Whether the digit of the first element is that of all."""
        count = self.builder.load(self.counts, self.digit(first, number))
        return self.builder.compare("eq", count, self.builder.constant(I32, self.length))

    def sum_counts(self, number: int) -> None:
        """Counts become how many elements have a smaller digit."""
        builder, zero = self.builder, self.builder.zero(I32)
        counted: list[Value] = []

        def values(position: Affine) -> list[Value]:
            counted[:] = [builder.load(self.counts, position + number * VALUES)]
            return counted

        def use(position: Affine, sums: Sequence[Value]) -> None:
            builder.store(self.counts, position + number * VALUES, builder.sub(sums[0], counted[0]))

        def combine(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
            return [builder.add(left[0], right[0])]

        builder.scan(VALUES, [zero], values, combine, use, width=builder.lanes(I32), identities=[zero])

    def move(self, there: Sequence[Buffer], start: Affine, elements: Sequence[Element], number: int) -> None:
        """The elements to the next place of their digit."""
        place = self.builder.convert("zext", self.add_one(self.digit(elements, number)), I64)
        self.put(there, start, Affine.of(place), elements)
