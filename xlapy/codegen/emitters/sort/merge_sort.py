"""Stable merge sort of each slice, with any comparator.

Runs of 1, 2, 4 ... elements are merged from the arrays into their spares and back. If there are few slices, their
blocks are tasks: a first kernel sorts each block, and each further one merges pairs of runs (`merging`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.sort.merging import RunMerger, merge_count, merged_blocks
from xlapy.codegen.emitters.sort.slices import MAX_PARALLEL_SLICES, SortKernels, Spare, spare_of_slices
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I64, Affine, Buffer, Value

MIN_PARALLEL_LENGTH = 1024
"""The smallest length of a slice whose blocks are tasks."""

BLOCKS = 32
"""The largest number of blocks of a slice. Each doubling adds a kernel."""


def merge_sort(instruction: Instruction, target: Target) -> SortKernels:
    """Returns the kernels; the elements are in the arrays at the end."""
    dimensions = instruction.operands[0].shape.dimensions
    length = dimensions[instruction.dimension]
    is_parallel = length >= MIN_PARALLEL_LENGTH and math.prod(dimensions) < MAX_PARALLEL_SLICES * length
    block = 1 << (-(-length // BLOCKS) - 1).bit_length() if is_parallel else length
    spare = Spare.ARRAYS if is_parallel else spare_of_slices(instruction)
    first = _MergeSort(instruction, target, spare=spare)
    first.sort_blocks(block)
    return merged_blocks(instruction, target, first.builder.kernel, block)


class _MergeSort(RunMerger):
    """The first kernel of the merge sort of one sort instruction."""

    def sort_blocks(self, size: int) -> None:
        """Sorts each block of `size` elements; they end where `merged_blocks` expects them."""
        with self.blocks(-(-self.length // size)) as (_, start, number):
            begin = number * size
            count = block_extent(self.builder, begin, self.length, size)
            source, target, run = self.arrays, self.spare, 1
            while run < size:
                self.merge_runs(start, source, target, (begin, count), run)
                source, target, run = target, source, run * 2
            self.leave(source, merge_count(self.length, size) % 2 != 0, start, begin, count)

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
            self.merge_pair(start, source, target, self.runs((begin, end), pair, run))
