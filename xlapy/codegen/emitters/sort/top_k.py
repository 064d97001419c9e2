"""Emits topk with a small k: a sorted list of the best k elements so far, into which few elements of a long row enter.

The maximum of each chunk of a row, found in vectors, says whether any element of the chunk enters the list. If k is
large, `top_k_buffer` computes it, or the pass `SortTopK` of the CPU compiler has replaced the instruction by a sort.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy.codegen.region import kernel_builder, operand_source, result_buffer
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I1, I32, I64, Affine, AxisKind, Buffer, Kernel, Value
from xlapy.loops.types import integer_type
from xlapy.lower import Lowering, register_type, store_element
from xlapy.lower.core import delinear
from xlapy.lower.sort_keys import integer_key
from xlapy.opcodes.sorting import TopKAttributes

CHUNK_VECTORS = 4
"""The number of vectors in a chunk of a row, whose maximum is compared with the smallest element of the list."""


def inserting_top_k_kernel(instruction: Instruction, target: Target) -> Kernel:
    """Returns the kernel. Buffers: the operand, the chosen elements, their positions."""
    return _InsertingTopK(instruction, target).build()


class TopKEmitter:
    """A kernel of a topk: access to the keys of elements, and to the results."""

    def __init__(self, instruction: Instruction, target: Target) -> None:
        (self.operand,) = instruction.operands
        attributes = instruction.attributes_as(TopKAttributes)
        self.k, self.largest = attributes.k, attributes.largest
        self.element_type = self.operand.shape.element_type
        self.builder = kernel_builder(instruction.name, target)
        self.lowering = Lowering(self.builder, {self.operand: operand_source(self.builder, self.operand, "in0")})
        shapes = instruction.shape.tuple_shapes
        self.outputs = [result_buffer(self.builder, shape, f"out{n}") for n, shape in enumerate(shapes)]
        self.position_type = shapes[1].element_type
        self.key_type = integer_type(max(8, register_type(self.element_type).bits))
        *self.outer, self.length = self.operand.shape.dimensions
        left = max(self.length - self.k, 1)
        self.chunk = min(self.builder.lanes(self.key_type) * CHUNK_VECTORS, 1 << (left.bit_length() - 1))
        """The number of elements of a chunk."""
        self.keys: Buffer
        """The keys of the best elements so far, the largest first."""
        self.positions: Buffer
        """Their positions."""

    def key(self, outer: Sequence[Affine], position: Affine) -> Value:
        """The unsigned integer that orders an element: the largest keys are chosen."""
        value = self.lowering.value(self.operand, (*outer, position))
        return integer_key(self.builder, value, self.element_type, descending=not self.largest)

    def largest_key(self, outer: Sequence[Affine], start: Affine, count: int) -> Value:
        zero, lanes = self.builder.zero(self.key_type), min(self.builder.lanes(self.key_type), count)

        def larger(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
            return [self.builder.binary("umax", left[0], right[0])]

        (found,) = self.builder.reduce(
            count,
            [zero],
            lambda position, best: larger(best, [self.key(outer, start + position)]),
            kind=AxisKind.VECTOR,
            width=lanes,
            accumulators=max(1, count // lanes),
            identities=[zero],
            combine=larger,
        )
        return found

    def enters(self, key: Value) -> Value:
        """Whether an element with this key enters the list; of equal keys, the first ones enter."""
        return self.builder.compare("ugt", key, self.builder.load(self.keys, Affine((), self.k - 1)))

    def finish(self, outer: Sequence[Affine], row: Affine) -> None:
        with self.builder.loop(self.k) as number:
            position = self.builder.load(self.positions, number)
            if position.type is not I64:
                position = self.builder.convert("zext", position, I64)
            found = self.lowering.element(self.operand, (*outer, Affine.of(position)))
            target = row * self.k + number
            store_element(self.builder, self.outputs[0], target, found, self.element_type)
            position = self.builder.convert("trunc", position, I32)
            store_element(self.builder, self.outputs[1], target, position, self.position_type)


class _InsertingTopK(TopKEmitter):
    def __init__(self, instruction: Instruction, target: Target) -> None:
        super().__init__(instruction, target)
        self.keys = self.builder.scratch("keys", self.key_type, self.k)
        self.positions = self.builder.scratch("positions", I64, self.k)

    def build(self) -> Kernel:
        builder, chunk = self.builder, self.chunk
        with builder.loop(math.prod(self.outer), AxisKind.PARALLEL) as row:
            outer = delinear(builder, row, self.outer)
            with builder.loop(self.k) as position:
                self.insert(outer, position, builder.value_of(position))
            chunks, rest = divmod(self.length - self.k, chunk)
            if chunks:
                self.offer_chunks(outer, chunks, chunk)
            if rest:
                self.offer(outer, Affine((), self.length - rest), rest)
            self.finish(outer, row)
        return builder.kernel

    def offer_chunks(self, outer: Sequence[Affine], count: int, size: int) -> None:
        with self.builder.loop(count) as number:
            start = number * size + self.k
            with self.builder.branch(self.enters(self.largest_key(outer, start, size))):
                self.offer(outer, start, size)

    def offer(self, outer: Sequence[Affine], start: Affine, count: int) -> None:
        last = self.builder.constant(I64, self.k - 1)
        with self.builder.loop(count) as position:
            key = self.key(outer, start + position)
            with self.builder.branch(self.enters(key)):
                self.insert(outer, start + position, last)

    def insert(self, outer: Sequence[Affine], position: Affine, free: Value) -> None:
        """Inserts an element: moves the smaller keys before the entry `free` back by one entry."""
        builder, key = self.builder, self.key(outer, position)
        zero, one = builder.zero(I64), builder.constant(I64, 1)

        def before(entry: Value) -> Affine:
            return Affine.of(builder.binary("smax", builder.sub(entry, one), zero))

        def follows(values: Sequence[Value]) -> Value:
            smaller = builder.compare("ult", builder.load(self.keys, before(values[0])), key)
            return builder.op("and", I1, builder.compare("sgt", values[0], zero), smaller)

        def move(values: Sequence[Value]) -> list[Value]:
            for buffer in (self.keys, self.positions):
                builder.store(buffer, Affine.of(values[0]), builder.load(buffer, before(values[0])))
            return [builder.sub(values[0], one)]

        (entry,) = builder.while_loop([free], follows, move)
        builder.store(self.keys, Affine.of(entry), key)
        builder.store(self.positions, Affine.of(entry), builder.value_of(position))
