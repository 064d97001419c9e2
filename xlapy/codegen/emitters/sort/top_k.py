"""The kernel of topk with a small k: the best k so far are kept in order, and few elements of a long row enter them.

The largest of each chunk, found in vectors, says whether any of its elements does. A large k is sorted instead.

Owns: the algorithm, and where it ends. Must not know: whose memory the arrays are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.codegen.region import kernel_builder, operand_source, result_buffer
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.loops import I1, I32, I64, Affine, AxisKind, Kernel, Value
from xlapy.loops.types import integer_type
from xlapy.lower import Lowering, register_type, store_element
from xlapy.lower.core import delinear
from xlapy.lower.sort_keys import integer_key
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.rewrite import Writer, editable_computations, has_control_edges, settle, take_over

MOST_KEPT = 128
"""The largest k of which an insertion moves few elements."""

VECTORS = 4
"""In a chunk."""


@dataclass(frozen=True)
class SortTopK:
    """Makes a sort of topk where k is large, for its length or at all, or the length is dynamic."""

    name: ClassVar[str] = "sort-top-k"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in computation.instructions:
                if instruction.op is opcodes.TOPK and not _is_small(instruction) and not has_control_edges(instruction):
                    take_over(instruction, EXPANSIONS.find(opcodes.TOPK)(Writer(instruction), instruction))
                    changed = True
        return settle(module, changed)


def _is_small(instruction: Instruction) -> bool:
    shape = instruction.operands[0].shape
    return not shape.is_dynamic and instruction.k <= min(MOST_KEPT, max(8, shape.dimensions[-1] // 8))


def top_k_kernel(instruction: Instruction, target: Target) -> Kernel:
    """Buffers: the operand, the elements chosen, their places."""
    return _TopK(instruction, target).build()


class _TopK:
    def __init__(self, instruction: Instruction, target: Target) -> None:
        (self.operand,) = instruction.operands
        self.k, self.largest = instruction.k, instruction.largest
        self.element_type = self.operand.shape.element_type
        self.builder = kernel_builder(instruction.name, target)
        self.lowering = Lowering(self.builder, {self.operand: operand_source(self.builder, self.operand, "in0")})
        shapes = instruction.shape.tuple_shapes
        self.outputs = [result_buffer(self.builder, shape, f"out{n}") for n, shape in enumerate(shapes)]
        self.place_type = shapes[1].element_type
        self.key_type = integer_type(max(8, register_type(self.element_type).bits))
        self.keys = self.builder.scratch("keys", self.key_type, self.k)
        self.places = self.builder.scratch("places", I64, self.k)
        *self.outer, self.length = self.operand.shape.dimensions

    def build(self) -> Kernel:
        builder = self.builder
        left = max(self.length - self.k, 1)
        chunk = min(builder.lanes(self.key_type) * VECTORS, 1 << (left.bit_length() - 1))
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

    def key(self, outer: Sequence[Affine], position: Affine) -> Value:
        """What orders an element, to be read without sign: the largest come first."""
        value = self.lowering.value(self.operand, (*outer, position))
        return integer_key(self.builder, value, self.element_type, descending=not self.largest)

    def offer_chunks(self, outer: Sequence[Affine], count: int, size: int) -> None:
        with self.builder.loop(count) as number:
            start = number * size + self.k
            with self.builder.branch(self.enters(self.largest_key(outer, start, size))):
                self.offer(outer, start, size)

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
        """Whether a key belongs among the best; of equal ones the first do."""
        return self.builder.compare("ugt", key, self.builder.load(self.keys, Affine((), self.k - 1)))

    def offer(self, outer: Sequence[Affine], start: Affine, count: int) -> None:
        last = self.builder.constant(I64, self.k - 1)
        with self.builder.loop(count) as position:
            key = self.key(outer, start + position)
            with self.builder.branch(self.enters(key)):
                self.insert(outer, start + position, last)

    def insert(self, outer: Sequence[Affine], position: Affine, free: Value) -> None:
        """Moves smaller keys on, from before a free place, and puts an element where it belongs."""
        builder, key = self.builder, self.key(outer, position)
        zero, one = builder.zero(I64), builder.constant(I64, 1)

        def before(place: Value) -> Affine:
            return Affine.of(builder.binary("smax", builder.sub(place, one), zero))

        def is_behind(values: Sequence[Value]) -> Value:
            smaller = builder.compare("ult", builder.load(self.keys, before(values[0])), key)
            return builder.op("and", I1, builder.compare("sgt", values[0], zero), smaller)

        def move(values: Sequence[Value]) -> list[Value]:
            for buffer in (self.keys, self.places):
                builder.store(buffer, Affine.of(values[0]), builder.load(buffer, before(values[0])))
            return [builder.sub(values[0], one)]

        (place,) = builder.repeat([free], is_behind, move)
        builder.store(self.keys, Affine.of(place), key)
        builder.store(self.places, Affine.of(place), builder.value_of(position))

    def finish(self, outer: Sequence[Affine], row: Affine) -> None:
        with self.builder.loop(self.k) as number:
            place = self.builder.load(self.places, number)
            found = self.lowering.element(self.operand, (*outer, Affine.of(place)))
            target = row * self.k + number
            store_element(self.builder, self.outputs[0], target, found, self.element_type)
            place = self.builder.convert("trunc", place, I32)
            store_element(self.builder, self.outputs[1], target, place, self.place_type)
