"""Emits the kernel of one transform of a plan: several transforms at once, one per lane, in scratch memory.

    for each group of lanes, a task
      pass after pass: butterflies of a few points times twiddle factors; every value is a vector over the lanes
        the first pass loads the operand, the last pass stores the result

The passes alternate between two scratch buffers and leave the points in natural order (Stockham). A pass of radix r on
length l = r m, with s points of other transforms between neighbors, takes x[q + s (p + m k)] to y[q + s (r p + k)] for
k below r, times the root of unity of order l to the power p k. In scratch memory, a point is a vector of real parts
followed by a vector of imaginary parts.

If the lanes are not contiguous in the operand or the result but the points are, blocks are transposed in registers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import numpy as np

from xlapy.base.element_types import Array
from xlapy.codegen.emitters.fft.butterflies import Butterflies, Point
from xlapy.codegen.emitters.fft.plan import Transform, radices
from xlapy.codegen.emitters.fft.real_transforms import even_and_odd_parts
from xlapy.codegen.region import kernel_builder
from xlapy.codegen.target import Target
from xlapy.loops import I64, Affine, AxisKind, Buffer, Kernel, ScalarType, Value
from xlapy.loops.ir import tile_shape
from xlapy.lower.core import delinear

MAX_SCRATCH_BYTES = 1 << 18
"""The largest number of bytes of scratch memory of a transform, which should stay in the cache."""

Load = Callable[[Affine, Affine], Point]
Store = Callable[[Affine, Affine, Point], None]


def max_points(target: Target) -> int:
    """How many points a kernel can transform: scratch memory holds them twice, as real and imaginary vectors."""
    return MAX_SCRATCH_BYTES // (4 * target.vector_bytes)


@dataclass(frozen=True, slots=True)
class FourierKernel:
    """A kernel whose buffers are operand, twiddle factors and result, with real and imaginary parts interleaved; or the
    last two, if it works in place."""

    kernel: Kernel
    twiddles: Array
    """The contents of the buffer of twiddle factors."""


class FftEmitter:
    """Emits one kernel; `build` returns it."""

    def __init__(
        self,
        name: str,
        target: Target,
        type: ScalarType,
        transform: Transform,
        sign: int,
        scale: float,
        in_place: bool,
    ) -> None:
        self.builder = builder = kernel_builder(name, target)
        self.type, self.transform, self.sign, self.scale = type, transform, sign, scale
        self.tables: list[Array] = []
        """The tables of twiddle factors, which form the buffer `twiddles`."""
        self.count = 0
        """Numbers in the tables so far."""
        lanes = transform.lanes
        self.width = min(builder.lanes(type), 1 << (lanes.size - 1).bit_length())
        self.parts_in = 1 if transform.reals and sign < 0 else 2
        self.parts_out = 1 if transform.reals and sign > 0 else 2
        self.tile = tile_shape(builder.vector_bytes, self.parts_out * type.byte_size)
        widest = max(tile_shape(builder.vector_bytes, min(self.parts_in, self.parts_out) * type.byte_size))
        wide = self.width % widest == 0
        self.room_step = widest
        self.reads_tiles = wide and lanes.source != 1 and transform.points.source == 1
        self.writes_tiles = wide and lanes.target != 1 and transform.points.target == 1
        self.groups = -(-lanes.size // self.width)
        self.length = self.transformed_points()
        self.radices = radices(self.length) or (1,)
        points = transform.points.size
        # half a spectrum of real numbers has one more point
        self.points_in = points + (transform.halves and sign > 0)
        self.points_out = points + (transform.halves and sign < 0)
        if transform.reals:
            half = points // 2 + 1
            self.points_in, self.points_out = (points, half) if sign < 0 else (half, points)
        assert transform.keeps_places or not in_place
        size_in, size_out = (
            max(axis.size * stride for axis, stride in zip(transform.axes, strides, strict=True))
            for strides in zip(*((axis.source, axis.target) for axis in transform.axes), strict=True)
        )
        operand = None if in_place else builder.buffer("operand", type, self.parts_in * size_in)
        self.twiddles = builder.buffer("roots", type, 0)
        self.result = builder.buffer("result", type, self.parts_out * size_out, written=True)
        # all points of a transform are read before the first result is stored
        self.operand = operand or self.result
        self.butterflies = Butterflies(builder, sign)

    def transformed_points(self) -> int:
        """The length of the transform that the passes compute."""
        return self.transform.points.size

    def scratch_points(self) -> int:
        """The number of points that each of the two scratch buffers holds."""
        return max(self.points_in, self.points_out)

    def add_own_tables(self) -> None:
        """Adds tables besides those of passes and between transforms."""

    def build(self) -> FourierKernel:
        builder, transform = self.builder, self.transform
        room = -(-self.scratch_points() // self.room_step) * self.room_step
        size = 2 * self.width * room
        self.buffers = [builder.scratch(name, self.type, size) for name in ("here", "there")]
        self.room = room
        sizes = [axis.size for axis in transform.outer]
        with builder.loop(prod(sizes) * self.groups, AxisKind.PARALLEL) as task:
            self.task_index = delinear(builder, task, (*sizes, self.groups))
            self.group = self.task_index[-1]
            whole = transform.lanes.size % self.width == 0
            self.begin = Affine.sum((p, a.source) for p, a in zip(self.task_index, transform.outer, strict=False))
            self.end = Affine.sum((p, a.target) for p, a in zip(self.task_index, transform.outer, strict=False))
            self.pass_tables = self.add_pass_tables()
            self.add_own_tables()
            if whole:
                self.emit_passes(None)
            else:
                self.emit_full_and_partial_groups()
        twiddles = np.concatenate(self.tables or [np.ones(2)]).astype(self.type.dtype)
        self.twiddles.size = len(twiddles)
        return FourierKernel(builder.kernel, twiddles)

    def emit_full_and_partial_groups(self) -> None:
        """Emits two versions of the passes: for groups with all lanes, and for the last group."""
        builder = self.builder
        left = builder.value_of(Affine((), self.transform.lanes.size) - self.group * self.width)
        whole_vector = builder.compare("sge", left, builder.constant(I64, self.width))
        if self.groups > 1:
            with builder.branch(whole_vector):
                self.emit_passes(None)
        with builder.branch(builder.logical_not(whole_vector)):
            left.range = (1, self.width - 1)
            self.emit_passes(left)

    def emit_passes(self, count: Value | None) -> None:
        """Emits all passes of a group. count: the number of its lanes; None for all."""
        load, here, there = self.first_load(count)
        ends_in_scratch = self.sign < 0 and (self.transform.halves or self.transform.reals)
        if self.sign > 0 and (self.transform.halves or self.transform.reals):
            prepare = self.pack if self.transform.halves else self.mirror
            prepare(load, self.scratch_store(here))
            load = self.scratch_load(here)
            here, there = there, here
        length, stride = self.transform.points.size, 1
        for number, radix in enumerate(self.radices):
            is_last = number == len(self.radices) - 1 and not ends_in_scratch
            store: Store = self.result_store(here, count) if is_last else self.scratch_store(here)
            self.emit_pass(number, length // radix, stride, load, store)
            load = self.scratch_load(here)
            here, there = there, here
            length, stride = length // radix, stride * radix
        if ends_in_scratch:
            finish = self.unpack if self.transform.halves else self.store_first_half
            finish(load, self.result_store(here, count))
            here, there = there, here
        if self.writes_tiles:
            self.write_tiles(there, here, count)

    # -- passes

    @contextmanager
    def vector(self) -> Iterator[Affine]:
        """Opens the loop over the lanes of a group."""
        with self.builder.loop(self.width, AxisKind.VECTOR, width=self.width) as lane:
            yield lane

    def first_load(self, count: Value | None) -> tuple[Load, Buffer, Buffer]:
        """Returns the load of the operand's points, the buffer to write to, and the other one, which may hold them."""
        here, there = self.buffers
        if not self.reads_tiles:
            return self.operand_load(count), here, there
        self.read_tiles(here, count)
        return self.tile_load(here), there, here

    def emit_all_passes(self, here: Buffer, there: Buffer) -> Buffer:
        """Emits the passes that transform the points of `here`; returns the buffer with the results."""
        length, stride = self.length, 1
        for number, radix in enumerate(self.radices):
            load, store = self.scratch_load(here), self.scratch_store(there)
            self.emit_pass(number, length // radix, stride, load, store)
            here, there = there, here
            length, stride = length // radix, stride * radix
        return here

    def emit_pass(self, number: int, rest: int, stride: int, load: Load, store: Store) -> None:
        """Emits one pass: loops over p below `rest` and q below `stride`."""
        builder, radix, table = self.builder, self.radices[number], self.pass_tables[number]
        with builder.loop(rest) as p:
            twiddles = [self.root(table, p * (radix - 1) + (k - 1)) for k in range(1, radix)] if rest > 1 else []
            with builder.loop(stride) as q, self.vector() as lane:
                points = [load(q + (p + rest * k) * stride, lane) for k in range(radix)]
                for k, point in enumerate(self.butterflies.transform(points)):
                    rotated = self.butterflies.times(point, twiddles[k - 1]) if k and twiddles else point
                    store(q + (p * radix + k) * stride, lane, rotated)

    # -- transforms of real numbers, with two numbers per point

    @contextmanager
    def mirrored_points(self) -> Iterator[tuple[Affine, Affine, Point, Affine]]:
        """Opens loops over all points but the first; yields the point, its mirror, a twiddle factor, the lane."""
        builder, points = self.builder, self.transform.points.size
        with builder.loop(points // 2) as q:
            root = self.root(self.halving, q + 1)
            with self.vector() as lane:
                yield q + 1, Affine((), points - 1) - q, root, lane

    def unpack(self, load: Load, store: Store) -> None:
        """Computes the transform of real numbers from the complex transform of half the length."""
        builder, arithmetic, points = self.builder, self.butterflies, self.transform.points.size
        half = builder.constant(self.type, 0.5)
        with self.vector() as lane:
            a, b = load(Affine(), lane)
            store(Affine(), lane, (builder.add(a, b), builder.zero(self.type)))
            store(Affine((), points), lane, (builder.sub(a, b), builder.zero(self.type)))
        with self.mirrored_points() as (here, mirrored, root, lane):
            even, odd = even_and_odd_parts(builder, load(here, lane), load(mirrored, lane))
            rotated = arithmetic.times(odd, root)
            (a, b), (c, d) = arithmetic.add(even, rotated), arithmetic.sub(even, rotated)
            store(here, lane, (builder.mul(a, half), builder.mul(b, half)))
            store(mirrored, lane, (builder.mul(c, half), builder.unary("neg", builder.mul(d, half))))

    def pack(self, load: Load, store: Store) -> None:
        """Computes twice the points of the complex transform from the transform of real numbers."""
        builder, arithmetic, points = self.builder, self.butterflies, self.transform.points.size
        with self.vector() as lane:
            (a, _), (b, _) = load(Affine(), lane), load(Affine((), points), lane)
            store(Affine(), lane, (builder.add(a, b), builder.sub(a, b)))
        with self.mirrored_points() as (here, mirrored, root, lane):
            even, odd = even_and_odd_parts(builder, load(here, lane), load(mirrored, lane))
            rotated = arithmetic.times(odd, root)
            a, b = arithmetic.add(even, rotated)
            store(here, lane, arithmetic.sub(even, rotated))
            store(mirrored, lane, (a, builder.unary("neg", b)))

    # -- transforms of real numbers, with one number per point

    def mirror(self, load: Load, store: Store) -> None:
        """Stores all points of the transform of real numbers, of which the second half are conjugates of the first.
        The imaginary parts of the points without a conjugate are ignored."""
        builder, points = self.builder, self.transform.points.size
        for point in [0] if points % 2 else [0, points // 2]:
            with self.vector() as lane:
                place = Affine((), point)
                store(place, lane, (load(place, lane)[0], builder.zero(self.type)))
        with builder.loop((points - 1) // 2) as q, self.vector() as lane:
            real, imaginary = load(q + 1, lane)
            store(q + 1, lane, (real, imaginary))
            store(Affine((), points - 1) - q, lane, (real, builder.unary("neg", imaginary)))

    def store_first_half(self, load: Load, store: Store) -> None:
        with self.builder.loop(self.points_out) as q, self.vector() as lane:
            store(q, lane, load(q, lane))

    # -- twiddle factors

    def root(self, table: int, number: Affine, mask: Value | None = None) -> Point:
        offset = number * 2 + table
        return self.builder.load(self.twiddles, offset, mask), self.builder.load(self.twiddles, offset + 1, mask)

    def add_pass_tables(self) -> list[int]:
        """Adds the twiddle factors of all passes to `tables`; returns where those of each pass begin."""
        starts: list[int] = []
        length = self.length
        for radix in self.radices:
            rest = length // radix
            starts.append(self.add_table(np.outer(np.arange(rest), np.arange(1, radix)), length) if rest > 1 else 0)
            length = rest
        self.twiddle_tables = self.add_twiddle_tables()
        points = self.transform.points.size
        self.halving = 0
        """Where the table begins with the roots of unity of twice the length."""
        if self.transform.halves:
            self.halving = self.add_table(np.arange(points // 2 + 1), 2 * points)
        if self.transform.packs:
            points = self.transform.size // self.transform.outer[0].size
            self.halving = self.add_table(np.arange(points), 2 * points)
        return starts

    def add_table(self, powers: Array, length: int, scale: float = 1.0) -> int:
        """Appends powers of a root of unity to `tables`, parts interleaved; returns where they begin."""
        values = scale * np.exp(self.sign * 2j * np.pi * ((powers % length) / length))
        return self.add_numbers(np.ascontiguousarray(values.reshape(-1)).view(np.float64))

    def add_numbers(self, values: Array) -> int:
        """Appends numbers to `tables`; returns where they begin."""
        self.tables.append(values)
        self.count += len(values)
        return self.count - len(values)

    # -- scratch memory

    def scratch_load(self, buffer: Buffer) -> Load:
        def load(point: Affine, lane: Affine) -> Point:
            offset = point * (2 * self.width) + lane
            return self.builder.load(buffer, offset), self.builder.load(buffer, offset + self.width)

        return load

    def scratch_store(self, buffer: Buffer) -> Store:
        def store(point: Affine, lane: Affine, value: Point) -> None:
            offset = point * (2 * self.width) + lane
            self.builder.store(buffer, offset, value[0])
            self.builder.store(buffer, offset + self.width, value[1])

        return store

    def tile_load(self, buffer: Buffer) -> Load:
        """A load from transposed tiles, in which the parts of a number are adjacent."""

        def load(point: Affine, lane: Affine) -> Point:
            return self.load_parts(buffer, point * self.width + lane, None)

        return load

    # -- operand and result

    def load_parts(self, buffer: Buffer, place: Affine, mask: Value | None) -> Point:
        """Loads a number of the operand, which may be real."""
        offset = place * self.parts_in
        real = self.builder.load(buffer, offset, mask)
        if self.parts_in == 1:
            return real, self.builder.zero(self.type)
        return real, self.builder.load(buffer, offset + 1, mask)

    def store_parts(self, buffer: Buffer, place: Affine, value: Point, mask: Value | None) -> None:
        """Stores a result; of a real one, the real part."""
        for part, number in enumerate(value[: self.parts_out]):
            self.builder.store(buffer, place * self.parts_out + part, number, mask)

    def operand_load(self, count: Value | None) -> Load:
        axes = self.transform

        def load(point: Affine, lane: Affine) -> Point:
            place = point * axes.points.source + (self.group * self.width + lane) * axes.lanes.source
            mask = self.lane_mask(lane, count)
            if axes.packs:
                return self.packed_point(place, mask)
            return self.load_parts(self.operand, self.begin + place, mask)

        return load

    def packed_point(self, place: Affine, mask: Value | None) -> Point:
        """Twice the point of the complex transform at a place in the first outer position, from half the spectrum of
        real numbers. The imaginary parts of the first and the last number of the spectrum are ignored."""
        builder, whole = self.builder, self.transform.outer[0]
        row = self.task_index[0] * whole.source
        number = self.begin - row + place
        (a, b), (c, d) = (
            self.load_parts(self.operand, row + position, mask)
            for position in (number, number * -1 + (whole.source - 1))
        )
        is_first, zero = builder.compare("eq", builder.value_of(number), builder.zero(I64)), builder.zero(self.type)
        b, d = (builder.select(is_first, zero, part) for part in (b, d))
        even, odd = even_and_odd_parts(builder, (a, b), (c, d))
        return self.butterflies.sub(even, self.butterflies.times(odd, self.root(self.halving, number, mask)))

    def result_store(self, tiles: Buffer, count: Value | None) -> Store:
        """A store of results, times twiddle factors and scale, to the result or to tiles that are transposed later."""
        axes = self.transform

        def store(point: Affine, lane: Affine, value: Point) -> None:
            result = self.finished(point, lane, value)
            if self.writes_tiles:
                self.store_parts(tiles, point * self.width + lane, result, None)
                return
            place = self.end + point * axes.points.target + (self.group * self.width + lane) * axes.lanes.target
            self.store_parts(self.result, place, result, self.lane_mask(lane, count))

        return store

    def lane_mask(self, lane: Affine, count: Value | None) -> Value | None:
        return None if count is None else self.builder.compare("slt", self.builder.value_of(lane), count)

    def read_tiles(self, tiles: Buffer, count: Value | None) -> None:
        axes, width, parts = self.transform, self.width, self.parts_in
        begin = (self.begin + self.group * (width * axes.lanes.source)) * parts
        extents = (width if count is None else count, self.points_in)
        self.builder.transpose(
            (self.operand, begin), axes.lanes.source * parts, (tiles, Affine()), width * parts, extents, parts
        )

    def write_tiles(self, tiles: Buffer, other: Buffer, count: Value | None) -> None:
        """Transposes tiles to the result; by way of scratch memory if the result has no room for whole tiles."""
        builder, axes, width, parts = self.builder, self.transform, self.width, self.parts_out
        end, pitch = (self.end + self.group * (width * axes.lanes.target)) * parts, axes.lanes.target * parts
        points = self.points_out
        if count is None and points % self.tile[0] == 0:
            builder.transpose((tiles, Affine()), width * parts, (self.result, end), pitch, (points, width), parts)
            return
        room = self.room * parts
        builder.transpose((tiles, Affine()), width * parts, (other, Affine()), room, (points, width), parts)
        lanes = min(builder.lanes(self.type), 1 << (parts * points).bit_length() - 1)
        with (
            builder.loop(width if count is None else count) as row,
            builder.loop(parts * points, AxisKind.VECTOR, width=lanes) as offset,
        ):
            builder.store(self.result, end + row * pitch + offset, builder.load(other, row * room + offset))

    # -- twiddle factors between two transforms of a plan

    def add_twiddle_tables(self) -> list[int]:
        """Adds factors by point and position on an outer axis, and by point and group, and by point and lane."""
        twiddle, points = self.transform.twiddle, np.arange(self.transform.points.size)
        if twiddle is None:
            return []
        positions: list[Array] = []
        if twiddle.outer is not None:
            positions.append(twiddle.apart * np.arange(self.transform.outer[twiddle.outer].size))
        if twiddle.lanes:
            positions += [self.width * np.arange(self.groups), np.arange(self.width)]
        scales = [self.scale, *[1.0] * (len(positions) - 1)]
        return [
            self.add_table(np.outer(points, each), twiddle.length, scale)
            for each, scale in zip(positions, scales, strict=True)
        ]

    def finished(self, point: Affine, lane: Affine, value: Point) -> Point:
        """A result times its twiddle factor and the scale."""
        builder, twiddle = self.builder, self.transform.twiddle
        if twiddle is None:
            if self.scale == 1:
                return value
            factor = builder.constant(self.type, self.scale)
            return builder.mul(value[0], factor), builder.mul(value[1], factor)
        positions: list[tuple[Affine, int]] = []
        if twiddle.outer is not None:
            positions.append((self.task_index[twiddle.outer], self.transform.outer[twiddle.outer].size))
        if twiddle.lanes:
            positions += [(self.group, self.groups), (lane, self.width)]
        roots = [
            self.root(table, point * size + position)
            for table, (position, size) in zip(self.twiddle_tables, positions, strict=True)
        ]
        return self.butterflies.times(value, functools.reduce(self.butterflies.times, roots))
