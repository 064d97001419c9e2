"""The common part of kernels that sort: tasks of slices or of blocks of slices, and access to the elements in them.

A slice is a 1-D subarray along the dimension that is sorted. Does not depend on algorithms or comparators.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xlapy.codegen.region import kernel_builder, result_buffer
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, AxisKind, Buffer, Kernel, Value
from xlapy.lower import Element, Lowering, load_element, store_element
from xlapy.lower.core import delinear, linear

MAX_PARALLEL_SLICES = 4
"""The largest number of slices whose blocks are tasks. More slices are tasks themselves."""


@dataclass(frozen=True, slots=True)
class SortKernels:
    """The kernels of a sort, in the order in which they run.

    steps: each kernel with the numbers of its buffers: of the arrays, then of a spare buffer for each array, then of
    the temporaries. temporaries: the size of each in bytes.
    """

    steps: tuple[tuple[Kernel, tuple[int, ...]], ...]
    temporaries: tuple[int, ...] = ()


class SliceSorter:
    """The arrays of a sort, which are sorted in place or moved to a spare buffer for each.

    changes: whether the kernel changes the arrays. has_spare: whether it has the spare buffers.
    """

    def __init__(
        self, instruction: Instruction, target: Target, *, changes: bool = True, has_spare: bool = True
    ) -> None:
        self.instruction = instruction
        self.builder = kernel_builder(instruction.name, target)
        self.types = [o.shape.element_type for o in instruction.operands]
        shapes = [o.shape for o in instruction.operands]
        self.arrays = [result_buffer(self.builder, shape, f"array{n}") for n, shape in enumerate(shapes)]
        for buffer in self.arrays:
            buffer.written = changes
        spares = shapes if has_spare else []
        self.spare = [result_buffer(self.builder, shape, f"spare{n}") for n, shape in enumerate(spares)]
        self.dimensions = shapes[0].dimensions
        self.axis = instruction.dimension
        self.length = self.dimensions[self.axis]
        self.others = [size for d, size in enumerate(self.dimensions) if d != self.axis]
        self.stride = math.prod(self.dimensions[self.axis + 1 :])
        self.lowering = Lowering(self.builder, {})

    @contextmanager
    def slices(self) -> Iterator[Affine]:
        """Opens a parallel loop over the slices; yields the offset of the first element of a slice."""
        with self.builder.loop(math.prod(self.others), AxisKind.PARALLEL) as number:
            yield self._start(delinear(self.builder, number, self.others))

    @contextmanager
    def blocks(self, count: int) -> Iterator[tuple[Affine, Affine, Affine]]:
        """Opens a parallel loop over the blocks of all slices, `count` of each; yields the number of the block in all
        slices, the offset of the first element of its slice, and its number in the slice."""
        with self.builder.loop(math.prod(self.others) * count, AxisKind.PARALLEL) as number:
            *index, block = delinear(self.builder, number, [*self.others, count])
            yield number, self._start(index), block

    def _start(self, index: Sequence[Affine]) -> Affine:
        """The offset of the first element of a slice."""
        return linear((*index[: self.axis], Affine(), *index[self.axis :]), self.dimensions)

    def load(self, buffers: Sequence[Buffer], start: Affine, position: Affine) -> list[Element]:
        offset = start + position * self.stride
        return [load_element(self.builder, b, offset, t) for b, t in zip(buffers, self.types, strict=True)]

    def store(self, buffers: Sequence[Buffer], start: Affine, position: Affine, elements: Sequence[Element]) -> None:
        offset = start + position * self.stride
        for buffer, t, element in zip(buffers, self.types, elements, strict=True):
            store_element(self.builder, buffer, offset, element, t)

    def copy(
        self,
        source: Sequence[Buffer],
        target: Sequence[Buffer],
        start: Affine,
        first: Affine | None = None,
        count: int | Value | None = None,
    ) -> None:
        """Copies a slice, or `count` of its elements from `first` on."""
        lanes = min(self.builder.lanes(buffer.type) for buffer in source)
        begin, extent = first or Affine(), self.length if count is None else count
        with self.builder.loop(extent, AxisKind.VECTOR, width=min(lanes, self.length)) as position:
            self.store(target, start, begin + position, self.load(source, start, begin + position))
