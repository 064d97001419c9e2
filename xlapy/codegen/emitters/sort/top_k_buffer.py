"""Emits topk with a k of hundreds or thousands: a buffer of candidates, which is sorted when it is full.

A row is read once. Its first elements fill the buffer; then each element whose key is larger than that of the last one
of the best k enters it. A radix sort of the candidates leaves the best k of them. The maximum of each chunk of a row,
found in vectors, says whether any element of the chunk enters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy.base.shape import Shape
from xlapy.codegen.emitters.sort.radix_sort import DIGIT_BITS, digit, increment, sum_before
from xlapy.codegen.emitters.sort.top_k import TopKEmitter, inserting_top_k_kernel
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I32, I64, Affine, AxisKind, Buffer, Kernel, Value
from xlapy.lower.core import delinear
from xlapy.lower.sort_keys import zero_bits
from xlapy.opcodes.sorting import TopKAttributes

BUFFER_ROWS = 4
"""The candidates in the buffer, as a multiple of k. With more, the buffer is sorted less often, but is larger."""


MAX_INSERTION_K = 128
"""The largest k for which a sorted list is kept instead, in which an insertion moves up to k elements."""

MAX_K = 1 << 12
"""The largest k: the buffers of keys and positions take 256 KiB of stack for keys of 4 bytes."""

MAX_LENGTH = 1 << 31
"""The length from which on a row has positions that do not fit the buffer."""


def has_top_k_kernel(shape: Shape, k: int) -> bool:
    """Whether the best k elements of rows of a shape are found without sorting the rows."""
    length = shape.dimensions[-1]
    if k <= MAX_INSERTION_K and k <= max(8, length // 8):
        return True
    return k <= MAX_K and 2 * BUFFER_ROWS * k <= length < MAX_LENGTH


def top_k_kernel(instruction: Instruction, target: Target) -> Kernel:
    """Returns the kernel. Buffers: the operand, the chosen elements, their positions."""
    if instruction.attributes_as(TopKAttributes).k <= MAX_INSERTION_K:
        return inserting_top_k_kernel(instruction, target)
    return _BufferedTopK(instruction, target).build()


class _BufferedTopK(TopKEmitter):
    def __init__(self, instruction: Instruction, target: Target) -> None:
        super().__init__(instruction, target)
        builder = self.builder
        self.size = -(-BUFFER_ROWS * self.k // self.chunk) * self.chunk
        """The candidates in the buffer: a multiple of the elements of a chunk."""
        self.keys = builder.scratch("keys", self.key_type, self.size)
        self.positions = builder.scratch("positions", I32, self.size)
        self.spare_keys = builder.scratch("spare_keys", self.key_type, self.size)
        self.spare_positions = builder.scratch("spare_positions", I32, self.size)
        self.low_bits = range(zero_bits(self.element_type), self.key_type.bits, DIGIT_BITS)
        self.counts = builder.scratch("counts", I32, len(self.low_bits) << DIGIT_BITS)
        self.state = builder.scratch("state", I64, 1)
        """The number of candidates."""

    def build(self) -> Kernel:
        builder = self.builder
        with builder.loop(math.prod(self.outer), AxisKind.PARALLEL) as row:
            outer = delinear(builder, row, self.outer)
            self.set_count(builder.zero(I64))
            builder.store(self.keys, Affine((), self.k - 1), builder.zero(self.key_type))
            chunks, rest = divmod(self.length, self.chunk)
            with builder.loop(chunks + 1) as number:
                self.offer_chunk(outer, number, chunks, rest)
            self.finish(outer, row)
        return builder.kernel

    def set_count(self, count: Value) -> None:
        self.builder.store(self.state, Affine(), count)

    def offer_chunk(self, outer: Sequence[Affine], number: Affine, chunks: int, rest: int) -> None:
        """Adds what enters of a chunk, and sorts the buffer if another chunk has no room or there is none."""
        builder, zero, start = self.builder, self.builder.zero(I64), number * self.chunk
        fills = builder.compare("slt", builder.value_of(start), builder.constant(I64, self.size))
        is_last = builder.compare("eq", builder.value_of(number), builder.constant(I64, chunks))
        # the last chunk is incomplete: all its elements are offered, whatever is found here
        place = builder.binary("smin", builder.value_of(start), builder.constant(I64, self.length - self.chunk))
        enters = self.enters(self.largest_key(outer, Affine.of(place), self.chunk))
        with builder.branch(builder.binary("or", enters, builder.binary("or", fills, is_last))):
            limit = builder.load(self.keys, Affine((), self.k - 1))
            extent = builder.select(is_last, builder.constant(I64, rest), builder.constant(I64, self.chunk))
            extent.range = (0, self.chunk)

            def offer(position: Affine, counts: Sequence[Value]) -> list[Value]:
                key = self.key(outer, start + position)
                entry = Affine.of(counts[0])
                builder.store(self.keys, entry, key)
                builder.store(self.positions, entry, builder.convert("trunc", builder.value_of(start + position), I32))
                is_chosen = builder.binary("or", fills, builder.compare("ugt", key, limit))
                return [builder.add(counts[0], builder.convert("zext", is_chosen, I64))]

            (count,) = builder.reduce(extent, [builder.load(self.state, Affine())], offer)
            self.set_count(count)
            is_full = builder.compare("sgt", count, builder.constant(I64, self.size - self.chunk))
            with builder.branch(builder.binary("or", is_full, is_last)):
                count.range = (0, self.size)
                self.sort(count)
                self.set_count(builder.add(zero, builder.constant(I64, self.k)))

    def sort(self, count: Value) -> None:
        """Sorts the candidates from the largest key to the smallest; equal keys stay in order."""
        builder, lanes = self.builder, self.builder.lanes(I32)
        with builder.loop(self.counts.size, AxisKind.VECTOR, width=lanes) as entry:
            builder.store(self.counts, entry, builder.zero(I32))
        with builder.loop(count) as position:
            key = builder.load(self.keys, position)
            for number in range(len(self.low_bits)):
                increment(builder, self.counts, self.entry(key, number))
        source: tuple[Buffer, Buffer] = (self.keys, self.positions)
        target: tuple[Buffer, Buffer] = (self.spare_keys, self.spare_positions)
        for number in range(len(self.low_bits)):
            sum_before(builder, self.counts, number << DIGIT_BITS, 1 << DIGIT_BITS)
            with builder.loop(count) as position:
                key = builder.load(source[0], position)
                before = increment(builder, self.counts, self.entry(key, number))
                place = Affine.of(builder.convert("zext", before, I64))
                builder.store(target[0], place, key)
                builder.store(target[1], place, builder.load(source[1], position))
            source, target = target, source
        if source[0] is not self.keys:
            with builder.loop(self.k) as position:
                for one, other in zip(source, target, strict=True):
                    builder.store(other, position, builder.load(one, position))

    def entry(self, key: Value, number: int) -> Affine:
        """The position in `counts` of the entry for a digit of a key."""
        bits = self.builder.binary("xor", key, self.builder.constant(key.type, -1))
        return digit(self.builder, bits, self.low_bits[number], DIGIT_BITS) + (number << DIGIT_BITS)
