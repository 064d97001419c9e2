"""Fourier transforms of real numbers along a split dimension: to half of the spectrum (RFFT), and back (IRFFT).

Devices either exchange whole rows and tiles, or pack a row of N real numbers into M = N / 2 complex ones,
z[j] = x[2j] + i x[2j + 1], which they transform together by the four-step algorithm (`fourier.py`). With w = exp(-2 pi
i / N), the spectrum of x for k from 0 to M follows from Z[k] and Z[M - k], which device p gets from the device of the
mirrored tile:

    X[k] = (Z[k] + conj Z[M - k]) / 2 - i w^k (Z[k] - conj Z[M - k]) / 2      Z[M] = Z[0]
    Z[k] = (X[k] + conj X[M - k]) / 2 + i w^-k (X[k] - conj X[M - k]) / 2

The packed row has half of the bytes of a complex one of N elements: a device sends three tiles of it and its mirrored
tile. XLA's partitioner sends a tile of the row for each other device.

The half spectrum has M + 1 elements, which do not divide evenly; its last tiles are not full.

Responsible for one split dimension of such a transform. Does not depend on the other dimensions.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.element_types import S64
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.linalg import FftType
from xlapy.opcodes.movement import DimensionsAttributes
from xlapy.passes.expand.blocks import compare, concatenate, conjugated, iota, slice_dimension
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.four_steps import four_step_elements, four_step_transform, transform_rows, unit_roots
from xlapy.spmd.along_dimension.tile_group import Rows, TileGroup
from xlapy.spmd.halo.exchange import HaloExchange
from xlapy.spmd.halo.segments import Spans, TileNumbers, spans_of_tiles
from xlapy.spmd.time_model import RATES, collectives_seconds


class RealPlan(enum.Enum):
    """How devices transform rows of real numbers of which each has a tile."""

    GATHER = "each device transforms all rows"
    EXCHANGE = "each device transforms some whole rows"
    PACK = "devices transform packed rows together"


@dataclass(frozen=True)
class RealRows:
    """Rows of `length` real numbers, each in as many tiles as there are members, or their half spectra.

    real_bytes: the bytes of a real number; a complex one has twice as many. needs_whole: whether all devices need the
    whole result.
    """

    rows: int
    length: int
    members: int
    is_inverse: bool
    real_bytes: int
    needs_whole: bool = False

    @property
    def real_tile(self) -> int:
        """The number of real numbers of a tile."""
        return -(-self.length // self.members)

    @property
    def spectrum_tile(self) -> int:
        """The number of complex numbers of a tile of the half spectrum."""
        return -(-(self.length // 2 + 1) // self.members)

    def plan(self) -> RealPlan:
        """Returns the plan that takes the least time; of equals, the first."""
        plans = [RealPlan.GATHER]
        if self.rows > 1:
            plans.insert(0, RealPlan.EXCHANGE)
        if self.length % (2 * self.members) == 0:
            plans.append(RealPlan.PACK)
        return min(plans, key=self.seconds)

    def seconds(self, plan: RealPlan) -> float:
        """Returns the estimated time of a plan."""
        real, spectrum = self.real_tile * self.real_bytes, 2 * self.spectrum_tile * self.real_bytes
        given, result = (spectrum, real) if self.is_inverse else (real, spectrum)
        row = 2.5 * self.length * math.log2(max(2, self.length)) / RATES.products * 1e-6
        others = self.members - 1
        if plan is RealPlan.GATHER:
            return collectives_seconds(1, self.rows * given * others) + self.rows * row
        if plan is RealPlan.EXCHANGE:
            each = -(-self.rows // self.members)
            found = collectives_seconds(2, each * (given + result) * others) + each * row
        else:
            packed = 2 * self.real_bytes * four_step_elements(self.length // 2 // self.members, self.members)
            sent = 3 * packed * others / self.members + spectrum
            found = collectives_seconds(5, self.rows * sent) + 2 * self.rows * row / self.members
        return found + (collectives_seconds(1, self.rows * result * others) if self.needs_whole else 0.0)


def transform_real(
    group: TileGroup, halo: HaloExchange, value: Instruction, dimension: int, sizes: RealRows, plan: RealPlan
) -> Instruction:
    """Writes the transform of a split dimension, given tiles. halo: exchanges elements of rows, along dimension 1."""
    write, rows = group.resharder.write, Rows(value.shape.dimensions, dimension)
    tiles = rows.of(write, value)
    if plan is RealPlan.PACK:
        algorithm = _from_half_spectrum if sizes.is_inverse else _to_half_spectrum
        return rows.restore(write, algorithm(group, halo, tiles, sizes.length))
    kind = FftType.IRFFT if sizes.is_inverse else FftType.RFFT
    given = sizes.length // 2 + 1 if sizes.is_inverse else sizes.length
    whole = transform_rows(write, group.exchange_for_whole_rows(write, tiles, given), kind, sizes.length)
    return rows.restore(write, group.exchange_for_tiles(write, whole, rows.count))


def _to_half_spectrum(group: TileGroup, halo: HaloExchange, tiles: Instruction, length: int) -> Instruction:
    """Returns tiles of the half spectrum of rows of real numbers, complex[rows, tile size]."""
    write, (rows, size) = group.resharder.write, tiles.shape.dimensions
    pairs = write.reshape(tiles, tiles.shape.with_dimensions([rows, size // 2, 2]))
    parts = [
        write.reshape(slice_dimension(write, pairs, 2, n, n + 1), tiles.shape.with_dimensions([rows, size // 2]))
        for n in range(2)
    ]
    packed = write.add(opcodes.COMPLEX, *parts)
    spectrum, half = four_step_transform(group, packed, FftType.FFT), length // 2
    own, mirrored = _mirrored_pair(halo, spectrum, half, -(-(half + 1) // group.size))
    number = _numbers(group, own)
    own, mirrored = (
        write.add(opcodes.SELECT, _is_number(write, number, half, own.shape), mirrored, own),
        write.add(opcodes.SELECT, _is_number(write, number, 0, own.shape), own, mirrored),
    )
    return _combined(write, own, mirrored, number, length, -1)


def _from_half_spectrum(group: TileGroup, halo: HaloExchange, tiles: Instruction, length: int) -> Instruction:
    """Returns tiles of rows of real numbers, given tiles of their half spectra."""
    write, rows, half = group.resharder.write, tiles.shape.dimensions[0], length // 2
    size = half // group.size
    own, mirrored = _mirrored_pair(halo, tiles, half, size, is_closed=True)
    number = _numbers(group, own)
    is_first = _is_number(write, number, 0, own.shape)
    own, mirrored = [write.add(opcodes.SELECT, is_first, _real_part(write, each), each) for each in (own, mirrored)]
    packed = _combined(write, own, mirrored, number, length, 1)
    found = four_step_transform(group, packed, FftType.IFFT)
    if found.shape.dimensions[1] != size:
        found = halo.span(found, half, spans_of_tiles(group.size, size), None)
    parts = [write.add(op, found) for op in (opcodes.REAL, opcodes.IMAG)]
    columns = [write.reshape(part, part.shape.with_dimensions([rows, size, 1])) for part in parts]
    return write.reshape(concatenate(write, columns, 2), parts[0].shape.with_dimensions([rows, 2 * size]))


def _mirrored_pair(
    halo: HaloExchange, value: Instruction, half: int, size: int, is_closed: bool = False
) -> list[Instruction]:
    """Returns elements k and `half` - k for each k of a tile of `size` elements.

    is_closed: whether there is an element `half`. Elements that do not exist may have any value.
    """
    count = half + 1 if is_closed else half
    own = halo.span(value, count, spans_of_tiles(halo.tiles, size), None)
    reversed_tiles = Spans(TileNumbers(halo.tiles, half - size + 1, -size), size)
    mirrored = halo.span(value, count, reversed_tiles, None)
    attributes = DimensionsAttributes.make(dimensions=(1,))
    return [own, halo.write.add(opcodes.REVERSE, mirrored, attributes=attributes)]


def _numbers(group: TileGroup, value: Instruction) -> Instruction:
    """Returns the number of each column in its row, s64[tile size]."""
    write, size = group.resharder.write, value.shape.dimensions[1]
    first = write.add(opcodes.MULTIPLY, write.convert(group.tile_index(), S64), write.scalar(size, S64))
    shape = Shape.array(S64, (size,))
    return write.add(opcodes.ADD, iota(write, shape, 0), write.broadcast(first, shape))


def _is_number(write: Writer, numbers: Instruction, number: int, shape: Shape) -> Instruction:
    found = compare(write, numbers, write.splat(number, numbers.shape), ComparisonDirection.EQ)
    return write.broadcast(found, shape.with_element_type(found.shape.element_type), (1,))


def _real_part(write: Writer, value: Instruction) -> Instruction:
    real = write.add(opcodes.REAL, value)
    return write.add(opcodes.COMPLEX, real, write.splat(0, real.shape))


def _combined(
    write: Writer, own: Instruction, mirrored: Instruction, numbers: Instruction, length: int, sign: int
) -> Instruction:
    """Returns (a + conj b) / 2 + sign * i * exp(sign * 2 pi i k / N) * (a - conj b) / 2, with k from `numbers`."""
    other = conjugated(write, mirrored)
    total, difference = [write.add(op, own, other) for op in (opcodes.ADD, opcodes.SUBTRACT)]
    cosines, sines = unit_roots(write, numbers, length, own.shape.element_type)
    halves = [write.splat(-0.5, sines.shape), write.splat(sign * 0.5, cosines.shape)]
    factors = [write.add(opcodes.MULTIPLY, one, half) for one, half in zip((sines, cosines), halves, strict=True)]
    factor = write.broadcast(write.add(opcodes.COMPLEX, *factors), own.shape, (1,))
    half = write.add(opcodes.MULTIPLY, total, write.splat(0.5, total.shape))
    return write.add(opcodes.ADD, half, write.add(opcodes.MULTIPLY, difference, factor))
