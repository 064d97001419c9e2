"""Stable merge sort of each slice, with any comparator.

Runs of 1, 2, 4 ... elements are merged from the arrays into their spares and back. If there are few slices, their
blocks are tasks: a first kernel sorts each block, and each further one merges pairs of runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.sort.slices import (
    MAX_PARALLEL_SLICES,
    SliceSorter,
    SortKernels,
    Spare,
    spare_bytes,
    spare_of_slices,
)
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I64, Affine, Buffer, Value
from xlapy.lower import Element
from xlapy.lower.elementwise import select_element

MIN_PARALLEL_LENGTH = 1024
"""The smallest length of a slice whose blocks are tasks."""

BLOCKS = 32
"""The largest number of blocks of a slice. Each doubling adds a kernel."""


def merge_sort(instruction: Instruction, target: Target) -> SortKernels:
    """Returns the kernels; the elements are in the arrays at the end."""
    dimensions = instruction.operands[0].shape.dimensions
    length = dimensions[instruction.dimension]
    count = len(instruction.operands)
    arrays, spares = tuple(range(count)), tuple(range(count, 2 * count))
    is_parallel = length >= MIN_PARALLEL_LENGTH and math.prod(dimensions) < MAX_PARALLEL_SLICES * length
    block = 1 << (-(-length // BLOCKS) - 1).bit_length() if is_parallel else length
    spare = Spare.ARRAYS if is_parallel else spare_of_slices(instruction)
    first = _MergeSort(instruction, target, spare=spare)
    first.sort_blocks(block)
    if spare is Spare.SLICE:
        return SortKernels(((first.builder.kernel, arrays),))
    steps = [(first.builder.kernel, (*arrays, *spares))]
    while block < length:
        merging = _MergeSort(instruction, target, changes=False)
        merging.merge_blocks(block)
        steps.append((merging.builder.kernel, (*arrays, *spares)))
        arrays, spares, block = spares, arrays, 2 * block
    if arrays[0] != 0:
        copying = _MergeSort(instruction, target, changes=False)
        copying.copy_slices()
        steps.append((copying.builder.kernel, (*arrays, *spares)))
    return SortKernels(tuple(steps), spare_bytes(instruction))


class _MergeSort(SliceSorter):
    """A kernel of the merge sort of one sort instruction."""

    def sort_blocks(self, size: int) -> None:
        """Sorts each block of `size` elements in the arrays."""
        with self.blocks(-(-self.length // size)) as (_, start, number):
            begin = number * size
            count = block_extent(self.builder, begin, self.length, size)
            source, target, run = self.arrays, self.spare, 1
            while run < size:
                self.merge_runs(start, source, target, (begin, count), run)
                source, target, run = target, source, run * 2
            if source is self.spare:
                self.copy(self.spare, self.arrays, start, begin, count)

    def merge_blocks(self, run: int) -> None:
        """Merges neighboring runs of `run` elements from the arrays to the spare buffers; the last may be shorter."""
        with self.blocks(-(-self.length // (2 * run))) as (_, start, pair):
            limits = Affine(), self.builder.constant(I64, self.length)
            self.merge_pair(start, self.arrays, self.spare, limits, pair, run)

    def copy_slices(self) -> None:
        """Copies the arrays to the spare buffers."""
        size = -(-self.length // BLOCKS)
        with self.blocks(-(-self.length // size)) as (_, start, number):
            begin = number * size
            count = block_extent(self.builder, begin, self.length, size)
            self.copy(self.arrays, self.spare, start, begin, count)

    def merge_runs(
        self,
        start: Affine,
        source: Sequence[Buffer],
        target: Sequence[Buffer],
        block: tuple[Affine, int | Value],
        run: int,
    ) -> None:
        """Merges neighboring runs of a block, pair by pair. block: its first element, and the number of elements."""
        builder, (begin, count) = self.builder, block
        if isinstance(count, int):
            pairs: int | Value = -(-count // (2 * run))
            end = builder.value_of(begin + count)
        else:
            last = count.range[1] if count.range is not None else self.length
            shift = builder.constant(I64, (2 * run).bit_length() - 1)
            pairs = builder.binary("lshr", builder.add(count, builder.constant(I64, 2 * run - 1)), shift)
            pairs.range = (1, max(1, -(-last // (2 * run))))
            end = builder.add(builder.value_of(begin), count)
        with builder.loop(pairs) as pair:
            self.merge_pair(start, source, target, (begin, end), pair, run)

    def merge_pair(
        self,
        start: Affine,
        source: Sequence[Buffer],
        target: Sequence[Buffer],
        limits: tuple[Affine, Value],
        pair: Affine,
        run: int,
    ) -> None:
        """Merges two neighboring runs. limits: the first element of the first run of all, and the end of the last."""
        builder, (begin, end) = self.builder, limits
        low = begin + pair * (2 * run)
        middle = builder.binary("smin", builder.value_of(low + run), end)
        high = builder.binary("smin", builder.value_of(low + 2 * run), end)
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
