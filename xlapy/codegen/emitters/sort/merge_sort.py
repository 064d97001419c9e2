"""Stable merge sort of each slice, with any comparator.

Runs of 1, 2, 4 ... elements are merged from the arrays into the spare buffers and back.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.codegen.emitters.sort.slices import SliceSorter
from xlapy.loops import I64, Affine, Buffer, Kernel, Value
from xlapy.lower import Element
from xlapy.lower.elementwise import select_element


class MergeSort(SliceSorter):
    """The merge sort of one sort instruction."""

    def build(self) -> Kernel:
        with self.slices() as start:
            source, target, run = self.arrays, self.spare, 1
            while run < self.length:
                self.merge_runs(start, source, target, run)
                source, target, run = target, source, run * 2
            if source is self.spare:
                self.copy(self.spare, self.arrays, start)
        return self.builder.kernel

    def merge_runs(self, start: Affine, source: Sequence[Buffer], target: Sequence[Buffer], run: int) -> None:
        """Merges neighboring runs of `run` elements, pair by pair; the last runs may be shorter."""
        builder, length = self.builder, self.builder.constant(I64, self.length)
        with builder.loop(-(-self.length // (2 * run))) as pair:
            low = pair * (2 * run)
            middle = builder.binary("smin", builder.value_of(low + run), length)
            high = builder.binary("smin", builder.value_of(low + 2 * run), length)
            count = builder.sub(high, builder.value_of(low))
            count.range = (1, 2 * run)
            self.merge(start, source, target, (low, middle, high), count)

    def merge(
        self,
        start: Affine,
        source: Sequence[Buffer],
        target: Sequence[Buffer],
        bounds: tuple[Affine, Value, Value],
        count: Value,
    ) -> None:
        """Merges `count` elements: [low, middle) and [middle, high), given these bounds. Of an exhausted run, the last
        element is loaded but not taken."""
        builder, (low, middle, high) = self.builder, bounds
        one = builder.constant(I64, 1)
        last_left, last_right = builder.sub(middle, one), builder.sub(high, one)

        def step(position: Affine, cursors: Sequence[Value]) -> list[Value]:
            left, right = cursors
            left_elements = self.load(source, start, Affine.of(builder.binary("smin", left, last_left)))
            right_elements = self.load(source, start, Affine.of(builder.binary("smin", right, last_right)))
            is_before = self.is_before(right_elements, left_elements)
            left_done = builder.compare("sge", left, middle)
            take_right = builder.binary(
                "and", builder.compare("slt", right, high), builder.binary("or", left_done, is_before)
            )
            chosen = [
                select_element(builder, take_right, r, s) for r, s in zip(right_elements, left_elements, strict=True)
            ]
            self.store(target, start, low + position, chosen)
            moved = builder.convert("zext", take_right, I64)
            return [builder.add(left, builder.sub(one, moved)), builder.add(right, moved)]

        builder.reduce(count, [builder.value_of(low), middle], step)

    def is_before(self, first: Sequence[Element], second: Sequence[Element]) -> Value:
        pairs = [element for pair in zip(first, second, strict=True) for element in pair]
        result: Value = self.lowering.apply(self.instruction.to_apply, pairs)
        return result
