"""What kernels that sort share: a task for each line, the elements of all arrays at a place of it.

Owns: where lines lie. Must not know: algorithms, the meaning of comparators.
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


class SortedLines:
    """The arrays of a sort, which are sorted where they are, and as much spare memory."""

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
    def lines(self) -> Iterator[Affine]:
        """A loop over the lines; gives the place of the first element."""
        others = [size for d, size in enumerate(self.dimensions) if d != self.axis]
        with self.builder.loop(math.prod(others), AxisKind.PARALLEL) as line:
            places = delinear(self.builder, line, others)
            yield linear((*places[: self.axis], Affine(), *places[self.axis :]), self.dimensions)

    def get(self, buffers: Sequence[Buffer], start: Affine, position: Affine) -> list[Element]:
        place = start + position * self.stride
        return [load_element(self.builder, b, place, t) for b, t in zip(buffers, self.types, strict=True)]

    def put(self, buffers: Sequence[Buffer], start: Affine, position: Affine, elements: Sequence[Element]) -> None:
        place = start + position * self.stride
        for buffer, t, element in zip(buffers, self.types, elements, strict=True):
            store_element(self.builder, buffer, place, element, t)

    def copy(self, here: Sequence[Buffer], there: Sequence[Buffer], start: Affine) -> None:
        """A line from some buffers to others."""
        lanes = min(self.builder.lanes(buffer.type) for buffer in here)
        with self.builder.loop(self.length, AxisKind.VECTOR, width=min(lanes, self.length)) as position:
            self.put(there, start, position, self.get(here, start, position))
