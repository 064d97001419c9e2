"""Computes on the matrices of a batch in vectors: one matrix per lane.

    for each group of matrices, one per lane, a task
      the matrices are transposed into scratch memory, where element e of all of them is a vector
      an algorithm for one matrix, written for scalars
      results are transposed back

Small matrices are computed without loops, and their elements are kept in registers.

Responsible for memory, for incomplete groups and for the form of loops. Does not depend on the algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xlapy.codegen.region import kernel_builder
from xlapy.cpu.target import host_target
from xlapy.loops import I32, I64, Affine, AxisKind, Buffer, Kernel, ScalarType, Value
from xlapy.loops.ir import tile_shape

MAX_UNROLLED_SIZE = 4
"""The most rows and columns of matrices whose algorithm is emitted without loops: about 400 multiplications."""

_MAX_SHUFFLED_ELEMENTS = 16
"""The most elements of matrices that are shuffled out of contiguous vectors; others are transposed in tiles."""

_BLOCK = 4
"""The number of sums that a loop adds up at the same time, so that additions do not wait for each other."""


@dataclass(eq=False, slots=True)
class LaneMatrix:
    """A matrix per lane in scratch memory; element e of the matrices of all lanes is a vector.

    known: the values of elements, as far as they are known while the kernel is built.
    """

    memory: Buffer
    size: int
    known: dict[int, Value] = field(default_factory=dict[int, Value])


class MatrixLanes:
    """Builds a kernel for `count` matrices. `unrolled`: whether loops inside of an algorithm are unrolled."""

    def __init__(self, name: str, type: ScalarType, count: int, *, unrolled: bool) -> None:
        self.builder = kernel_builder(name, host_target())
        self.type, self.count, self.unrolled = type, count, unrolled
        self.width = self.builder.lanes(type)
        self.groups = -(-count // self.width)
        self.group, self.lane = Affine(), Affine()
        self.left: Value | None = None
        """The number of matrices from the group's first one on; None if all groups are complete."""
        self.is_whole: Value | None = None

    @property
    def kernel(self) -> Kernel:
        return self.builder.kernel

    # -- memory

    def operand(self, size: int) -> Buffer:
        """Adds a buffer with `size` elements of each matrix, which the kernel reads."""
        return self.builder.buffer(f"operand{len(self.kernel.buffers)}", self.type, self.count * size)

    def result(self, size: int, type: ScalarType | None = None) -> Buffer:
        """Adds a buffer with `size` elements for each matrix, which the kernel writes."""
        return self.builder.buffer(
            f"result{len(self.kernel.buffers)}", type or self.type, self.count * size, written=True
        )

    @contextmanager
    def groups_of_matrices(self) -> Iterator[None]:
        """Opens the loop over groups."""
        builder = self.builder
        with builder.loop(self.groups, AxisKind.PARALLEL) as group:
            self.group = group
            if self.count % self.width:
                self.left = builder.value_of(Affine((), self.count) - group * self.width)
                self.is_whole = builder.compare("sge", self.left, builder.constant(self.left.type, self.width))
            yield

    @contextmanager
    def lanes(self) -> Iterator[None]:
        """Opens the loop over the lanes of a group, inside of which everything is computed for one matrix."""
        with self.builder.loop(self.width, AxisKind.VECTOR, width=self.width) as lane:
            self.lane = lane
            yield

    def each_extent(self, access: Callable[[Value | None], None]) -> None:
        """Emits an access to the matrices of a group: for complete groups, and for one with fewer matrices.

        The access receives the number of these matrices, or None for all.
        """
        if self.left is None or self.is_whole is None:
            access(None)
            return
        if self.groups > 1:
            with self.builder.branch(self.is_whole):
                access(None)
        with self.builder.branch(self.builder.logical_not(self.is_whole)):
            access(self.left)

    def read(self, source: Buffer, size: int) -> LaneMatrix:
        """Emits the transpose of the matrices of a group into new scratch memory, before anything is stored."""
        found, width = self.scratch(size), self.width
        self.kernel.read_first.add(source)

        def access(count: Value | None) -> None:
            if size <= _MAX_SHUFFLED_ELEMENTS:
                with self.lanes():
                    place, mask = (self.group * width + self.lane) * size, self.mask(count)
                    for e in range(size):
                        value = self.builder.load(source, place + e, mask)
                        self.builder.store(found.memory, self.lane + e * width, value)
                return
            extents = (width if count is None else count, size)
            start = (source, self.group * (width * size))
            self.builder.transpose(start, size, (found.memory, Affine()), width, extents)

        self.each_extent(access)
        return found

    def write(self, matrix: LaneMatrix, target: Buffer) -> None:
        """Emits the transpose of the matrices of a group into a result."""
        size, width = matrix.size, self.width
        tile = tile_shape(self.builder.vector_bytes, self.type.byte_size)[0]
        room = -(-size // tile) * tile
        is_direct = size <= _MAX_SHUFFLED_ELEMENTS
        rows = None if is_direct or (size == room and self.left is None) else self.rows(room)

        def access(count: Value | None) -> None:
            if is_direct:
                with self.lanes():
                    place, mask = (self.group * width + self.lane) * size, self.mask(count)
                    values = [self.builder.load(matrix.memory, self.lane + e * width) for e in range(size)]
                    for e, value in enumerate(values):
                        self.builder.store(target, place + e, value, mask)
                return
            end = self.group * (width * size)
            if count is None and size == room:
                self.builder.transpose((matrix.memory, Affine()), width, (target, end), size, (size, width))
                return
            assert rows is not None
            self.builder.transpose((matrix.memory, Affine()), width, (rows, Affine()), room, (size, width))
            with (
                self.builder.loop(width if count is None else count) as row,
                self.builder.loop(size, AxisKind.VECTOR, width=width) as element,
            ):
                self.builder.store(target, end + row * size + element, self.builder.load(rows, row * room + element))

        self.each_extent(access)

    def write_integers(self, target: Buffer, size: int, number: Affine | int, value: Value) -> None:
        """Emits a store, inside of `lanes`, of one of `size` integers per matrix."""
        place = (self.group * self.width + self.lane) * size + number
        self.builder.store(target, place, value, self.mask(self.left))

    def mask(self, count: Value | None) -> Value | None:
        return None if count is None else self.builder.compare("slt", self.builder.value_of(self.lane), count)

    def scratch(self, size: int) -> LaneMatrix:
        """Returns new scratch memory for `size` elements per lane."""
        tile = max(tile_shape(self.builder.vector_bytes, self.type.byte_size))
        memory = self.builder.scratch(
            f"lanes{len(self.kernel.scratch)}", self.type, -(-size // tile) * tile * self.width
        )
        return LaneMatrix(memory, size)

    def rows(self, room: int) -> Buffer:
        """Returns the scratch memory in which results are rows again, `room` elements apart."""
        size = -(-self.width // 16) * 16 * room
        known = next((b for b in self.kernel.scratch if b.name == "rows" and b.size >= size), None)
        return known or self.builder.scratch("rows", self.type, size)

    # -- elements of one matrix

    def get(self, matrix: LaneMatrix, e: Affine) -> Value:
        """Returns an element."""
        found = matrix.known.get(e.constant) if e.is_constant else None
        if found is None:
            found = self.builder.load(matrix.memory, e * self.width + self.lane)
            if e.is_constant and self.unrolled:
                matrix.known[e.constant] = found
        return found

    def set(self, matrix: LaneMatrix, e: Affine, value: Value) -> None:
        """Changes an element."""
        self.builder.store(matrix.memory, e * self.width + self.lane, value)
        if self.unrolled:
            matrix.known[e.constant] = value

    # -- loops inside of an algorithm

    def repeat(self, extent: Affine, body: Callable[[Affine], None]) -> None:
        """Emits a loop; `body` receives the position."""
        if self.unrolled:
            for position in range(extent.constant):
                body(Affine((), position))
        elif not extent.is_constant or extent.constant > 0:
            with self.builder.loop(self.extent(extent)) as place:
                body(place)

    def repeat_in_blocks(self, extent: Affine, body: Callable[[Sequence[Affine]], None]) -> None:
        """Emits a loop whose `body` receives several positions at once: independent of each other, in any order."""
        if self.unrolled:
            body([Affine((), position) for position in range(extent.constant)])
            return
        whole = self.builder.quotient(extent, _BLOCK)
        self.repeat(whole, lambda block: body([block * _BLOCK + n for n in range(_BLOCK)]))
        if not extent.is_constant or extent.constant % _BLOCK:
            rest = extent - whole * _BLOCK
            self.repeat(rest, lambda position: body([whole * _BLOCK + position]))

    def carry(
        self, extent: Affine, initial: Sequence[Value], body: Callable[[Affine, Sequence[Value]], Sequence[Value]]
    ) -> Sequence[Value]:
        """Emits a loop that passes values from each iteration to the next; returns the final values."""
        if self.unrolled:
            for position in range(extent.constant):
                initial = body(Affine((), position), initial)
            return initial
        return self.builder.reduce(self.extent(extent), initial, body)

    def extent(self, extent: Affine) -> int | Value:
        return extent.constant if extent.is_constant else self.builder.value_of(extent)

    # -- values

    def number(self, position: Affine) -> Value:
        """Returns a position as an integer of 32 bits."""
        if position.is_constant:
            return self.builder.constant(I32, position.constant)
        return self.builder.convert("trunc", self.builder.value_of(position), I32)

    def power_of_two(self, size: Value) -> tuple[Value, Value]:
        """Returns a power of two near a magnitude, and its inverse, both of them normal numbers. Products with them are
        exact, and numbers up to that magnitude times the inverse have squares that neither overflow nor vanish."""
        builder, fraction = self.builder, self.type.float_format.precision - 1
        integer = I32 if self.type.byte_size == 4 else I64
        largest = self.type.byte_size * 8 - 1 - fraction
        bias = (1 << (largest - 1)) - 1
        exponent = builder.binary("lshr", builder.bitcast(size, integer), builder.constant(integer, fraction))
        opposite = builder.sub(builder.constant(integer, 2 * bias), exponent)
        opposite = builder.binary("smax", opposite, builder.constant(integer, 1))
        opposite = builder.binary("smin", opposite, builder.constant(integer, 2 * bias - 1))
        inverse = builder.bitcast(builder.binary("shl", opposite, builder.constant(integer, fraction)), self.type)
        return builder.binary("div", builder.constant(self.type, 1), inverse), inverse

    def minus_product(self, addend: Value, left: Value, right: Value) -> Value:
        """Returns addend - left * right, rounded once."""
        return self.builder.fma(self.builder.unary("neg", left), right, addend)
