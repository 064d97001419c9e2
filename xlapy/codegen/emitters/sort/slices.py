"""The common part of kernels that sort: tasks of slices or of blocks of slices, and access to the elements in them.

A slice is a 1-D subarray along the dimension that is sorted. Does not depend on algorithms or comparators.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from xlapy.codegen.region import kernel_builder, result_buffer
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, AxisKind, Buffer, Kernel, Value
from xlapy.lower import Element, Lowering, components, load_element, storage_type, store_element
from xlapy.lower.core import delinear, linear

MAX_PARALLEL_SLICES = 4
"""The largest number of slices whose blocks are tasks. More slices are tasks themselves."""

MAX_SPARE_SLICE_BYTES = 1 << 20
"""The largest size in bytes of the spare slices of a task. Longer slices have spare buffers for whole arrays."""


@dataclass(frozen=True, slots=True)
class SortKernels:
    """The kernels of a sort, in the order in which they run.

    steps: each kernel with the numbers of its buffers: of the arrays, then of the temporaries. temporaries: the size of
    each in bytes.
    """

    steps: tuple[tuple[Kernel, tuple[int, ...]], ...]
    temporaries: tuple[int, ...] = ()


class Spare(Enum):
    """Where elements move while slices are sorted."""

    ARRAYS = "arrays"
    """Each array has a spare buffer of the same size."""
    SLICE = "slice"
    """Scratch memory of the task has a spare slice for each array."""


def spare_of_slices(instruction: Instruction) -> Spare:
    """Returns where the elements of slices move that are tasks: to scratch memory, if a slice fits."""
    length = instruction.operands[0].shape.dimensions[instruction.dimension]
    size = sum(operand.shape.element_type.byte_size for operand in instruction.operands) * length
    return Spare.SLICE if size <= MAX_SPARE_SLICE_BYTES else Spare.ARRAYS


def spare_bytes(instruction: Instruction) -> tuple[int, ...]:
    """Returns the sizes in bytes of spare buffers for all arrays."""
    return tuple(o.shape.size * o.shape.element_type.byte_size for o in instruction.operands)


class SliceSorter:
    """The arrays of a sort, which are sorted in place or moved to their spares.

    changes: whether the kernel changes the arrays.
    """

    def __init__(
        self, instruction: Instruction, target: Target, *, changes: bool = True, spare: Spare = Spare.ARRAYS
    ) -> None:
        self.instruction = instruction
        self.builder = kernel_builder(instruction.name, target)
        self.types = [o.shape.element_type for o in instruction.operands]
        shapes = [o.shape for o in instruction.operands]
        self.arrays = [result_buffer(self.builder, shape, f"array{n}") for n, shape in enumerate(shapes)]
        for buffer in self.arrays:
            buffer.written = changes
        self.dimensions = shapes[0].dimensions
        self.axis = instruction.dimension
        self.length = self.dimensions[self.axis]
        self.others = [size for d, size in enumerate(self.dimensions) if d != self.axis]
        self.stride = math.prod(self.dimensions[self.axis + 1 :])
        self.lowering = Lowering(self.builder, {})
        self.spare: list[Buffer] = []
        if spare is Spare.ARRAYS:
            self.spare = [result_buffer(self.builder, shape, f"spare{n}") for n, shape in enumerate(shapes)]
        elif spare is Spare.SLICE:
            self.spare = [
                self.builder.scratch(f"spare{n}", storage_type(t), self.length * components(t))
                for n, t in enumerate(self.types)
            ]
        self._spare_slice = frozenset(self.spare if spare is Spare.SLICE else ())

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
        offset = self._offset(buffers, start, position)
        return [load_element(self.builder, b, offset, t) for b, t in zip(buffers, self.types, strict=True)]

    def _offset(self, buffers: Sequence[Buffer], start: Affine, position: Affine) -> Affine:
        """The offset of an element of a slice. A spare slice is contiguous."""
        return position if buffers[0] in self._spare_slice else start + position * self.stride

    def store(self, buffers: Sequence[Buffer], start: Affine, position: Affine, elements: Sequence[Element]) -> None:
        offset = self._offset(buffers, start, position)
        for buffer, t, element in zip(buffers, self.types, elements, strict=True):
            store_element(self.builder, buffer, offset, element, t)

    def leave(
        self, buffers: Sequence[Buffer], in_spare: bool, start: Affine, first: Affine, count: int | Value
    ) -> None:
        """Copies `count` elements of a slice from `first` on from `buffers` to the others if they are to be there."""
        wanted = self.spare if in_spare else self.arrays
        if buffers is not wanted:
            self.copy(buffers, wanted, start, first, count)

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
