"""The kernel of one step of a plan: transforms of a register's lanes of arrays at once, in scratch memory.

    for each group of lanes, a task
      pass after pass: butterflies of a few points each, times roots; every value is a vector over the lanes
        the first pass reads the operand, the last one writes the result

The passes go from one scratch buffer to the other and leave the points in their order (Stockham): a pass of radix r on
length l = r m, with s points of other transforms between neighbours, takes x[q + s (p + m k)] to y[q + s (r p + k)] for
k below r, times the root of p k in l. In scratch memory a point is a vector of real parts and one of imaginary parts.

Where lanes are not neighbours in the operand or the result, its points are, and blocks are transposed in registers.

Owns: loops and memory of the kernel. Must not know: plans, butterflies' formulas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import numpy as np

from xlapy.base.element_types import Array
from xlapy.codegen.emitters.fft.butterflies import Butterflies, Point
from xlapy.codegen.emitters.fft.halves import halves
from xlapy.codegen.emitters.fft.plan import Transform, radices
from xlapy.codegen.region import kernel_builder
from xlapy.codegen.target import Target
from xlapy.loops import I64, Affine, AxisKind, Buffer, Kernel, ScalarType, Value
from xlapy.loops.builder import MOST_SCRATCH
from xlapy.loops.ir import tile_shape
from xlapy.lower.core import delinear

Load = Callable[[Affine, Affine], Point]
Store = Callable[[Affine, Affine, Point], None]


def most_points(target: Target) -> int:
    """How many points fit into scratch memory: twice, as real and imaginary vectors."""
    return MOST_SCRATCH // (4 * target.vector_bytes)


@dataclass(frozen=True, slots=True)
class FourierKernel:
    """Buffers of the kernel: operand, roots, result, each of real and imaginary parts in turn."""

    kernel: Kernel
    work: int
    roots: Array
    """The numbers that the kernel reads, in the type of its elements."""


def fourier_kernel(
    name: str, target: Target, type: ScalarType, transform: Transform, sign: int, scale: float
) -> FourierKernel:
    """The kernel for exp(sign 2 pi i ...), its results times `scale`."""
    return _Maker(name, target, type, transform, sign, scale).build()


class _Maker:
    def __init__(
        self, name: str, target: Target, type: ScalarType, transform: Transform, sign: int, scale: float
    ) -> None:
        self.builder = builder = kernel_builder(name, target)
        self.type, self.transform, self.sign, self.scale = type, transform, sign, scale
        self.tables: list[Array] = []
        self.count = 0
        lanes = transform.lanes
        self.width = min(builder.lanes(type), 1 << (lanes.size - 1).bit_length())
        tile = tile_shape(builder.vector_bytes, 2 * type.byte_size)
        self.tile = tile
        wide = self.width % max(tile) == 0
        self.reads_tiles = wide and lanes.source != 1 and transform.points.source == 1
        self.writes_tiles = wide and lanes.target != 1 and transform.points.target == 1
        self.groups = -(-lanes.size // self.width)
        self.radices = radices(transform.points.size) or (1,)
        points = transform.points.size
        self.given = points + (transform.halves and sign > 0)
        self.made = points + (transform.halves and sign < 0)
        rows = transform.size // points
        self.source = builder.buffer("operand", type, 2 * rows * self.given)
        self.roots = builder.buffer("roots", type, 0)
        self.target = builder.buffer("result", type, 2 * rows * self.made, written=True)
        self.butterflies = Butterflies(builder, sign)

    def build(self) -> FourierKernel:
        builder, transform = self.builder, self.transform
        points = transform.points.size
        room = -(-max(self.given, self.made) // max(self.tile)) * max(self.tile)
        size = 2 * self.width * room
        self.spare = [builder.scratch(name, self.type, size) for name in ("here", "there")]
        self.room = room
        sizes = [axis.size for axis in transform.outer]
        with builder.loop(prod(sizes) * self.groups, AxisKind.PARALLEL) as task:
            self.places = delinear(builder, task, (*sizes, self.groups))
            self.group = self.places[-1]
            whole = transform.lanes.size % self.width == 0
            self.begin = Affine.sum((p, a.source) for p, a in zip(self.places, transform.outer, strict=False))
            self.end = Affine.sum((p, a.target) for p, a in zip(self.places, transform.outer, strict=False))
            tables = self.root_tables()
            if whole:
                self.write(tables, None)
            else:
                self.write_either(tables)
        roots = np.concatenate(self.tables or [np.ones(2)]).astype(self.type.dtype)
        self.roots.size = len(roots)
        work = 5 * points * max(1, points.bit_length()) * self.width
        return FourierKernel(builder.kernel, work, roots)

    def write_either(self, tables: Sequence[int]) -> None:
        """The last group has fewer lanes."""
        builder = self.builder
        left = builder.value_of(Affine((), self.transform.lanes.size) - self.group * self.width)
        whole_vector = builder.compare("sge", left, builder.constant(I64, self.width))
        if self.groups > 1:
            with builder.branch(whole_vector):
                self.write(tables, None)
        with builder.branch(builder.logical_not(whole_vector)):
            left.range = (1, self.width - 1)
            self.write(tables, left)

    def write(self, tables: Sequence[int], count: Value | None) -> None:
        """All passes for a group; count: of its lanes, None for all of them."""
        here, there = self.spare
        if self.reads_tiles:
            self.read_tiles(here, count)
            load = self.loading_neighbours(here)
            here, there = there, here
        else:
            load = self.loading_operand(count)
        if self.given > self.made:
            self.pack(load, self.keeping(here))
            load = self.loading(here)
            here, there = there, here
        length, apart = self.transform.points.size, 1
        for number, radix in enumerate(self.radices):
            is_last = number == len(self.radices) - 1 and self.made <= self.given
            store: Store = self.storing(here, count) if is_last else self.keeping(here)
            self.one_pass(radix, length // radix, apart, tables[number], load, store)
            load = self.loading(here)
            here, there = there, here
            length, apart = length // radix, apart * radix
        if self.made > self.given:
            self.unpack(load, self.storing(here, count))
            here, there = there, here
        if self.writes_tiles:
            self.write_tiles(there, here, count)

    # -- passes

    def one_pass(self, radix: int, rest: int, apart: int, table: int, load: Load, store: Store) -> None:
        """Loops over p, below `rest`, and q, below `apart`."""
        builder = self.builder
        with builder.loop(rest) as p:
            roots = [self.root(table, p * (radix - 1) + (k - 1)) for k in range(1, radix)] if rest > 1 else []
            with builder.loop(apart) as q, builder.loop(self.width, AxisKind.VECTOR, width=self.width) as lane:
                points = [load(q + (p + rest * k) * apart, lane) for k in range(radix)]
                for k, point in enumerate(self.butterflies.transformed(points)):
                    turned = self.butterflies.times(point, roots[k - 1]) if k and roots else point
                    store(q + (p * radix + k) * apart, lane, turned)

    # -- real numbers, two a point

    @contextmanager
    def mirrored_points(self) -> Iterator[tuple[Affine, Affine, Point, Affine]]:
        """Every point but the first, the point that mirrors it, a root, a lane; the middle one mirrors itself."""
        builder, points = self.builder, self.transform.points.size
        with builder.loop(points // 2) as q:
            root = self.root(self.halving, q + 1)
            with builder.loop(self.width, AxisKind.VECTOR, width=self.width) as lane:
                yield q + 1, Affine((), points - 1) - q, root, lane

    def unpack(self, load: Load, store: Store) -> None:
        """The transform of real numbers, out of that of the points."""
        builder, arithmetic, points = self.builder, self.butterflies, self.transform.points.size
        half = builder.constant(self.type, 0.5)
        with builder.loop(self.width, AxisKind.VECTOR, width=self.width) as lane:
            a, b = load(Affine(), lane)
            store(Affine(), lane, (builder.add(a, b), builder.zero(self.type)))
            store(Affine((), points), lane, (builder.sub(a, b), builder.zero(self.type)))
        with self.mirrored_points() as (here, mirrored, root, lane):
            even, odd = halves(builder, load(here, lane), load(mirrored, lane))
            turned = arithmetic.times(odd, root)
            (a, b), (c, d) = arithmetic.add(even, turned), arithmetic.sub(even, turned)
            store(here, lane, (builder.mul(a, half), builder.mul(b, half)))
            store(mirrored, lane, (builder.mul(c, half), builder.unary("neg", builder.mul(d, half))))

    def pack(self, load: Load, store: Store) -> None:
        """Twice the points, out of the transform of real numbers."""
        builder, arithmetic, points = self.builder, self.butterflies, self.transform.points.size
        with builder.loop(self.width, AxisKind.VECTOR, width=self.width) as lane:
            (a, _), (b, _) = load(Affine(), lane), load(Affine((), points), lane)
            store(Affine(), lane, (builder.add(a, b), builder.sub(a, b)))
        with self.mirrored_points() as (here, mirrored, root, lane):
            even, odd = halves(builder, load(here, lane), load(mirrored, lane))
            turned = arithmetic.times(odd, root)
            a, b = arithmetic.add(even, turned)
            store(here, lane, arithmetic.sub(even, turned))
            store(mirrored, lane, (a, builder.unary("neg", b)))

    # -- roots

    def root(self, table: int, number: Affine) -> Point:
        place = number * 2 + table
        return self.builder.load(self.roots, place), self.builder.load(self.roots, place + 1)

    def root_tables(self) -> list[int]:
        """Where the roots of each pass begin among all; the numbers themselves go to `tables`."""
        starts: list[int] = []
        length = self.transform.points.size
        for radix in self.radices:
            rest = length // radix
            starts.append(self.add_table(np.outer(np.arange(rest), np.arange(1, radix)), length) if rest > 1 else 0)
            length = rest
        self.twists = self.twist_tables()
        points = self.transform.points.size
        self.halving = self.add_table(np.arange(points // 2 + 1), 2 * points) if self.transform.halves else 0
        return starts

    def add_table(self, powers: Array, length: int, scale: float = 1.0) -> int:
        """Appends powers of a root, real and imaginary parts in turn; returns where they begin."""
        start = self.count
        values = scale * np.exp(self.sign * 2j * np.pi * ((powers % length) / length))
        flat = np.ascontiguousarray(values.reshape(-1)).view(np.float64)
        self.tables.append(flat)
        self.count += len(flat)
        return start

    # -- scratch memory

    def loading(self, buffer: Buffer) -> Load:
        def load(point: Affine, lane: Affine) -> Point:
            place = point * (2 * self.width) + lane
            return self.builder.load(buffer, place), self.builder.load(buffer, place + self.width)

        return load

    def keeping(self, buffer: Buffer) -> Store:
        def store(point: Affine, lane: Affine, value: Point) -> None:
            place = point * (2 * self.width) + lane
            self.builder.store(buffer, place, value[0])
            self.builder.store(buffer, place + self.width, value[1])

        return store

    def loading_neighbours(self, buffer: Buffer) -> Load:
        """Of transposed tiles, in which the two parts of a number are neighbours."""

        def load(point: Affine, lane: Affine) -> Point:
            place = (point * self.width + lane) * 2
            return self.builder.load(buffer, place), self.builder.load(buffer, place + 1)

        return load

    # -- operand and result

    def loading_operand(self, count: Value | None) -> Load:
        axes = self.transform

        def load(point: Affine, lane: Affine) -> Point:
            place = self.begin + point * axes.points.source + (self.group * self.width + lane) * axes.lanes.source
            mask = self.inside(lane, count)
            return self.builder.load(self.source, place * 2, mask), self.builder.load(self.source, place * 2 + 1, mask)

        return load

    def storing(self, tiles: Buffer, count: Value | None) -> Store:
        """Stores results, twisted and scaled, in the result or in tiles that are transposed later."""
        axes = self.transform

        def store(point: Affine, lane: Affine, value: Point) -> None:
            real, imaginary = self.finished(point, lane, value)
            if self.writes_tiles:
                place = (point * self.width + lane) * 2
                self.builder.store(tiles, place, real)
                self.builder.store(tiles, place + 1, imaginary)
                return
            place = self.end + point * axes.points.target + (self.group * self.width + lane) * axes.lanes.target
            mask = self.inside(lane, count)
            self.builder.store(self.target, place * 2, real, mask)
            self.builder.store(self.target, place * 2 + 1, imaginary, mask)

        return store

    def inside(self, lane: Affine, count: Value | None) -> Value | None:
        return None if count is None else self.builder.compare("slt", self.builder.value_of(lane), count)

    def read_tiles(self, tiles: Buffer, count: Value | None) -> None:
        axes, width = self.transform, self.width
        begin = (self.begin + self.group * (width * axes.lanes.source)) * 2
        extents = (width if count is None else count, self.given)
        self.builder.transpose((self.source, begin), axes.lanes.source * 2, (tiles, Affine()), width * 2, extents, 2)

    def write_tiles(self, tiles: Buffer, other: Buffer, count: Value | None) -> None:
        """Straight to the result if that has room for whole tiles, else by way of rows in scratch memory."""
        builder, axes, width = self.builder, self.transform, self.width
        end, pitch = (self.end + self.group * (width * axes.lanes.target)) * 2, axes.lanes.target * 2
        points = self.made
        if count is None and points % self.tile[0] == 0:
            builder.transpose((tiles, Affine()), width * 2, (self.target, end), pitch, (points, width), 2)
            return
        builder.transpose((tiles, Affine()), width * 2, (other, Affine()), self.room * 2, (points, width), 2)
        lanes = min(builder.lanes(self.type), 1 << (2 * points).bit_length() - 1)
        with (
            builder.loop(width if count is None else count) as row,
            builder.loop(2 * points, AxisKind.VECTOR, width=lanes) as place,
        ):
            builder.store(self.target, end + row * pitch + place, builder.load(other, row * (self.room * 2) + place))

    # -- roots between two steps of a plan

    def twist_tables(self) -> tuple[int, int]:
        """Roots by point and group, and by point and lane of a group; or by point and place on an outer axis."""
        twist, points = self.transform.twist, np.arange(self.transform.points.size)
        if twist is None:
            return 0, 0
        if twist.outer is not None:
            size = self.transform.outer[twist.outer].size
            return self.add_table(np.outer(points, np.arange(size)), twist.length, self.scale), 0
        groups = np.outer(points, self.width * np.arange(self.groups))
        lanes = np.outer(points, np.arange(self.width))
        first = self.add_table(groups, twist.length, self.scale)
        return first, self.add_table(lanes, twist.length)

    def finished(self, point: Affine, lane: Affine, value: Point) -> Point:
        """A result times its root and the scale."""
        builder, twist = self.builder, self.transform.twist
        if twist is None:
            if self.scale == 1:
                return value
            factor = builder.constant(self.type, self.scale)
            return builder.mul(value[0], factor), builder.mul(value[1], factor)
        first, second = self.twists
        if twist.outer is not None:
            size, place = self.transform.outer[twist.outer].size, self.places[twist.outer]
            return self.butterflies.times(value, self.root(first, point * size + place))
        of_group = self.root(first, point * self.groups + self.group)
        of_lane = self.root(second, point * self.width + lane)
        return self.butterflies.times(value, self.butterflies.times(of_group, of_lane))
