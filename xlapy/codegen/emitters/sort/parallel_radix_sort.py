"""Radix sort of a few long slices, whose blocks are tasks, as several kernels.

For each digit, from the lowest to the highest, a kernel counts its values in each block. The next one finds where the
elements with each value begin, block by block. Then the elements of each block move in order from the arrays to the
spare buffers, and back for the next digit; if a digit has the same value in the whole slice, they are only copied. The
kernels of all digits are the same: they read the lowest bit of the digit from memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.sort.radix_sort import DIGIT_BITS, DIGIT_VALUES, digit, increment, low_bits, sum_before
from xlapy.codegen.emitters.sort.slices import SliceSorter, SortKernels, Spare, spare_bytes
from xlapy.codegen.region import kernel_builder
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I32, I64, Affine, AxisKind, Buffer, Kernel, Value
from xlapy.lower import Element
from xlapy.lower.sort_keys import SortKey

BLOCK_LENGTH = 1 << 14
"""The smallest number of elements of a block: with 256 values of a digit, it moves 64 neighboring elements each."""

MAX_BLOCKS = 64
"""The largest number of blocks of a slice: one thread sums their histograms."""

HISTOGRAMS = 4
"""The histograms in which a task counts elements in turn."""

_COUNTED, _MOVED, _SAME = 0, 1, 2
"""Entries of the state: the lowest bit of the digit that is counted, that of the digit by which elements move, and from
here on whether that digit has one value in a whole slice."""


def parallel_radix_sort(instruction: Instruction, target: Target, key: SortKey) -> SortKernels:
    """Returns the kernels; the elements are in the arrays at the end."""
    sort = _ParallelRadixSort(instruction, target, key)
    count = len(instruction.operands)
    arrays, spares = tuple(range(count)), tuple(range(count, 2 * count))
    counts, state = 2 * count, 2 * count + 1
    counting, summing, moving = sort.counting(), sort.summing(), sort.moving()
    steps: list[tuple[Kernel, tuple[int, ...]]] = [(sort.beginning(), (state,))]
    for _ in low_bits(key):
        steps.append((counting, (*arrays, counts, state)))
        steps.append((summing, (counts, state)))
        steps.append((moving, (*arrays, *spares, counts, state)))
        arrays, spares = spares, arrays
    if arrays[0] != 0:
        steps.append((sort.copying(), (*arrays, *spares)))
    sizes = (*spare_bytes(instruction), I32.byte_size * sort.count_size, I64.byte_size * sort.state_size)
    return SortKernels(tuple(steps), sizes)


class _ParallelRadixSort:
    def __init__(self, instruction: Instruction, target: Target, key: SortKey) -> None:
        self.instruction, self.target, self.key = instruction, target, key
        dimensions = instruction.operands[0].shape.dimensions
        self.length = dimensions[instruction.dimension]
        self.slices = math.prod(dimensions) // self.length
        self.block = max(BLOCK_LENGTH, -(-self.length // MAX_BLOCKS))
        self.blocks = -(-self.length // self.block)
        self.count_size = self.slices * self.blocks * DIGIT_VALUES
        self.state_size = _SAME + self.slices

    def _state(self, sorter: SliceSorter, *, written: bool = False) -> Buffer:
        return sorter.builder.buffer("state", I64, self.state_size, written=written)

    def _counts(self, sorter: SliceSorter) -> Buffer:
        return sorter.builder.buffer("counts", I32, self.count_size, written=True)

    def _sorter(self, *, has_spare: bool) -> SliceSorter:
        spare = Spare.ARRAYS if has_spare else Spare.NONE
        return SliceSorter(self.instruction, self.target, changes=False, spare=spare)

    def _digit(self, sorter: SliceSorter, elements: Sequence[Element], low: Value) -> Affine:
        builder = sorter.builder
        key = self.key.of(builder, self.instruction.to_apply.parameters, elements)
        shift = low if key.type.bits == I64.bits else builder.convert("trunc", low, key.type)
        return digit(builder, builder.binary("lshr", key, shift))

    def _value(self, sorter: SliceSorter, extent: int | Value) -> Value:
        return sorter.builder.constant(I64, extent) if isinstance(extent, int) else extent

    def beginning(self) -> Kernel:
        """Stores the lowest bit of the first digit."""
        builder = kernel_builder(self.instruction.name, self.target)
        state = builder.buffer("state", I64, self.state_size, written=True)
        builder.store(state, Affine((), _COUNTED), builder.constant(I64, self.key.low))
        return builder.kernel

    def counting(self) -> Kernel:
        """Counts the values of a digit in each block.

        Neighboring elements are counted in different histograms: an entry of one histogram is incremented only after
        its last increment, and in a digit with few values that is the one before.
        """
        sorter = self._sorter(has_spare=False)
        builder, counts, state = sorter.builder, self._counts(sorter), self._state(sorter)
        own, lanes = builder.scratch("own", I32, HISTOGRAMS * DIGIT_VALUES), builder.lanes(I32)
        with sorter.blocks(self.blocks) as (number, start, block):
            low = builder.load(state, Affine((), _COUNTED))
            with builder.loop(own.size, AxisKind.VECTOR, width=lanes) as entry:
                builder.store(own, entry, builder.zero(I32))
            first = block * self.block
            count = self._value(sorter, block_extent(builder, first, self.length, self.block))

            def count_one(position: Affine, histogram: int) -> None:
                elements = sorter.load(sorter.arrays, start, first + position)
                increment(builder, own, self._digit(sorter, elements, low) + histogram * DIGIT_VALUES)

            groups = builder.binary("lshr", count, builder.constant(I64, HISTOGRAMS.bit_length() - 1))
            groups.range = (0, self.block // HISTOGRAMS)
            with builder.loop(groups) as group:
                for histogram in range(HISTOGRAMS):
                    count_one(group * HISTOGRAMS + histogram, histogram)
            rest = builder.binary("and", count, builder.constant(I64, HISTOGRAMS - 1))
            rest.range = (0, HISTOGRAMS - 1)
            with builder.loop(rest) as position:
                count_one(Affine.of(groups) * HISTOGRAMS + position, 0)
            with builder.loop(DIGIT_VALUES, AxisKind.VECTOR, width=lanes) as entry:
                total = builder.load(own, entry)
                for histogram in range(1, HISTOGRAMS):
                    total = builder.add(total, builder.load(own, entry + histogram * DIGIT_VALUES))
                builder.store(counts, number * DIGIT_VALUES + entry, total)
        return builder.kernel

    def summing(self) -> Kernel:
        """Replaces each count by the position of the first element with this value in the block."""
        builder = kernel_builder(self.instruction.name, self.target)
        counts = builder.buffer("counts", I32, self.count_size, written=True)
        state = builder.buffer("state", I64, self.state_size, written=True)
        totals = builder.scratch("totals", I32, DIGIT_VALUES)
        lanes = builder.lanes(I32)
        with builder.loop(self.slices) as number:
            first = number * (self.blocks * DIGIT_VALUES)
            with builder.loop(DIGIT_VALUES, AxisKind.VECTOR, width=lanes) as entry:
                builder.store(totals, entry, builder.zero(I32))
            with (
                builder.loop(self.blocks) as block,
                builder.loop(DIGIT_VALUES, AxisKind.VECTOR, width=lanes) as entry,
            ):
                count = builder.load(counts, first + block * DIGIT_VALUES + entry)
                builder.store(totals, entry, builder.add(builder.load(totals, entry), count))
            zero = builder.zero(I32)
            (largest,) = builder.reduce(
                DIGIT_VALUES,
                [zero],
                lambda entry, found: [builder.binary("umax", found[0], builder.load(totals, entry))],
                kind=AxisKind.VECTOR,
                width=lanes,
                identities=[zero],
                combine=lambda left, right: [builder.binary("umax", left[0], right[0])],
            )
            same = builder.compare("eq", largest, builder.constant(I32, self.length))
            builder.store(state, number + _SAME, builder.convert("zext", same, I64))
            sum_before(builder, totals, 0)
            with (
                builder.loop(self.blocks) as block,
                builder.loop(DIGIT_VALUES, AxisKind.VECTOR, width=lanes) as entry,
            ):
                place = first + block * DIGIT_VALUES + entry
                count, before = builder.load(counts, place), builder.load(totals, entry)
                builder.store(counts, place, before)
                builder.store(totals, entry, builder.add(before, count))
        low = builder.load(state, Affine((), _COUNTED))
        builder.store(state, Affine((), _MOVED), low)
        builder.store(state, Affine((), _COUNTED), builder.add(low, builder.constant(I64, DIGIT_BITS)))
        return builder.kernel

    def moving(self) -> Kernel:
        """Moves the elements of each block to where those with the same value of the digit go."""
        sorter = self._sorter(has_spare=True)
        builder, counts, state = sorter.builder, self._counts(sorter), self._state(sorter)
        with sorter.blocks(self.blocks) as (number, start, block):
            low = builder.load(state, Affine((), _MOVED))
            first = block * self.block
            count = block_extent(builder, first, self.length, self.block)
            flag = builder.load(state, builder.quotient(number, self.blocks) + _SAME)
            same = builder.compare("ne", flag, builder.zero(I64))
            with builder.branch(same):
                sorter.copy(sorter.arrays, sorter.spare, start, first, count)
            with builder.branch(builder.logical_not(same)), builder.loop(count) as position:
                elements = sorter.load(sorter.arrays, start, first + position)
                entry = number * DIGIT_VALUES + self._digit(sorter, elements, low)
                place = builder.convert("zext", increment(builder, counts, entry), I64)
                sorter.store(sorter.spare, start, Affine.of(place), elements)
        return builder.kernel

    def copying(self) -> Kernel:
        """Copies the elements of each block to where they are needed."""
        sorter = self._sorter(has_spare=True)
        with sorter.blocks(self.blocks) as (_, start, block):
            first = block * self.block
            count = block_extent(sorter.builder, first, self.length, self.block)
            sorter.copy(sorter.arrays, sorter.spare, start, first, count)
        return sorter.builder.kernel
