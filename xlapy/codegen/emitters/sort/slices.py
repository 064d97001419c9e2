"""The common part of kernels that sort: one task per slice, and access to the elements of all arrays in it.

A slice is a 1-D subarray along the dimension that is sorted. Does not depend on algorithms or comparators.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xlapy.codegen.region import kernel_builder, result_buffer
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, AxisKind, Buffer
from xlapy.lower import Element, Lowering, load_element, store_element
from xlapy.lower.core import delinear, linear


class SliceSorter:
    """The arrays of a sort, which are sorted in place, and a spare buffer for each."""

    def __init__(self, instruction: Instruction, target: Target) -> None:
        self.instruction = instruction
        self.builder = kernel_builder(instruction.name, target)
        self.types = [o.shape.element_type for o in instruction.operands]
        shapes = [o.shape for o in instruction.operands]
        self.arrays = [result_buffer(self.builder, shape, f"array{n}") for n, shape in enumerate(shapes)]
        self.spare = [result_buffer(self.builder, shape, f"spare{n}") for n, shape in enumerate(shapes)]
        self.dimensions = shapes[0].dimensions
        self.axis = instruction.dimension
        self.length = self.dimensions[self.axis]
        self.stride = math.prod(self.dimensions[self.axis + 1 :])
        self.lowering = Lowering(self.builder, {})

    @contextmanager
    def slices(self) -> Iterator[Affine]:
        """Opens a parallel loop over the slices; yields the offset of the first element of a slice."""
        others = [size for d, size in enumerate(self.dimensions) if d != self.axis]
        with self.builder.loop(math.prod(others), AxisKind.PARALLEL) as number:
            index = delinear(self.builder, number, others)
            yield linear((*index[: self.axis], Affine(), *index[self.axis :]), self.dimensions)

    def load(self, buffers: Sequence[Buffer], start: Affine, position: Affine) -> list[Element]:
        offset = start + position * self.stride
        return [load_element(self.builder, b, offset, t) for b, t in zip(buffers, self.types, strict=True)]

    def store(self, buffers: Sequence[Buffer], start: Affine, position: Affine, elements: Sequence[Element]) -> None:
        offset = start + position * self.stride
        for buffer, t, element in zip(buffers, self.types, elements, strict=True):
            store_element(self.builder, buffer, offset, element, t)

    def copy(self, source: Sequence[Buffer], target: Sequence[Buffer], start: Affine) -> None:
        """Copies a slice."""
        lanes = min(self.builder.lanes(buffer.type) for buffer in source)
        with self.builder.loop(self.length, AxisKind.VECTOR, width=min(lanes, self.length)) as position:
            self.store(target, start, position, self.load(source, start, position))
