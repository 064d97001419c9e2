"""Fourier transforms of split dimensions.

The transform of several dimensions is a transform of each. Dimensions that are not split come first, on local
arrays. For each split dimension, devices either exchange whole rows and tiles (two all-to-alls), or compute the rows
together by the four-step algorithm (three all-to-alls), whichever sends less: rows are exchanged if there are about as
many as devices. XLA's partitioner sends a tile for each other device.

The four-step algorithm transforms a row of n * m elements, of which device p has x[p*m : (p+1)*m], with c = m / n:

1. all-to-all: device r has x[p*m + q] for all p, and for q from r*c to (r+1)*c
2. transform over p, of length n, to k1; multiply by exp(-2 pi i q k1 / (n*m))
3. all-to-all: device k1 has all q; transform over q, of length m, to k2
4. all-to-all: the result of k1 and k2 is element k1 + n*k2 of the transform

Responsible for transforms of split dimensions. Does not depend on how a single device computes one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import C64, F32, F64, S64
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.linalg import FftAttributes, FftType
from xlapy.passes.expand.blocks import iota
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.tile_group import Rows, TileGroup
from xlapy.spmd.array_sharding import ArraySharding
from xlapy.spmd.resharding import PartitionedArray

_EXACT_F32_LENGTH = 1 << 24
"""The greatest length of a row whose numbers f32 represents exactly, so that angles are computed in f32."""


def fft_along_split_dimensions(split: SplitOperation) -> list[PartitionedArray] | None:
    """Writes a transform some dimensions of which are split, but not the last one of a transform of real numbers."""
    instruction, write = split.instruction, split.resharder.write
    attributes = instruction.attributes_as(FftAttributes)
    rank, kind = instruction.shape.rank, attributes.fft_type
    transformed = range(rank - len(attributes.fft_length), rank)
    sharding = _sharding(split, transformed)
    if sharding is None or not _is_possible(split, sharding, transformed):
        return None
    local = [d for d in transformed if sharding.tilings[d] is None]
    value = split.local(0, sharding)
    complex_kind = FftType.IFFT if kind in (FftType.IFFT, FftType.IRFFT) else FftType.FFT
    lengths = dict(zip(transformed, attributes.fft_length, strict=True))
    if kind is not FftType.IRFFT:
        value = _transform(write, value, local, kind, lengths)
    for dimension in transformed:
        if sharding.tilings[dimension] is not None:
            value = _transform_split(
                split.group(sharding, dimension), value, dimension, complex_kind, lengths[dimension]
            )
    if kind is FftType.IRFFT:
        value = _transform(write, value, local, kind, lengths)
    return split.results([value], sharding)


def _sharding(split: SplitOperation, transformed: Sequence[int]) -> ArraySharding | None:
    found = (split.sharding_along(dimension) for dimension in transformed)
    return next((sharding for sharding in found if sharding is not None), None)


def _is_possible(split: SplitOperation, sharding: ArraySharding, transformed: Sequence[int]) -> bool:
    """Returns whether there is an algorithm for each split dimension."""
    kind = split.instruction.attributes_as(FftAttributes).fft_type
    if kind in (FftType.RFFT, FftType.IRFFT) and sharding.tilings[transformed[-1]] is not None:
        return False
    sizes = split.local_sizes(sharding)
    if not math.prod(sizes):
        return False
    groups = [(d, split.group(sharding, d).size) for d in transformed if sharding.tilings[d] is not None]
    divisible = {d for d, members in groups if sizes[d] % members == 0 and split.is_even(sharding, d)}
    return all(math.prod(sizes) > sizes[d] or d in divisible for d, _ in groups)


def _transform(
    write: Writer, value: Instruction, dimensions: Sequence[int], kind: FftType, lengths: dict[int, int]
) -> Instruction:
    """Writes the transform of some dimensions of a local array; the last one is that of real numbers, if any."""
    if not dimensions:
        return value
    order = [*[d for d in range(value.shape.rank) if d not in dimensions], *dimensions]
    attributes = FftAttributes.make(fft_type=kind, fft_length=tuple([lengths[d] for d in dimensions]))
    if order == list(range(len(order))):
        return write.add(opcodes.FFT, value, attributes=attributes)
    found = write.add(opcodes.FFT, write.transpose(value, order), attributes=attributes)
    return write.transpose(found, [order.index(d) for d in range(len(order))])


def _transform_split(group: TileGroup, value: Instruction, dimension: int, kind: FftType, length: int) -> Instruction:
    """Writes the transform of complex numbers along a split dimension of `length` elements, given tiles."""
    write, rows = group.resharder.write, Rows(value.shape.dimensions, dimension)
    size, members = value.shape.dimensions[dimension], group.size
    exchanged = 2 * -(-rows.count // members) * members
    tiles = rows.of(write, value)
    if size * members == length and size % members == 0 and 3 * rows.count < exchanged:
        return rows.restore(write, _four_steps(group, tiles, kind))
    whole = _transform_rows(write, group.exchange_for_whole_rows(write, tiles, length), kind)
    return rows.restore(write, group.exchange_for_tiles(write, whole, rows.count))


def _transform_rows(write: Writer, rows: Instruction, kind: FftType) -> Instruction:
    return write.add(
        opcodes.FFT, rows, attributes=FftAttributes.make(fft_type=kind, fft_length=(rows.shape.dimensions[-1],))
    )


def _four_steps(group: TileGroup, tiles: Instruction, kind: FftType) -> Instruction:
    """Writes the transform of rows of which each device has a tile: complex[rows, m]."""
    write, members, (rows, size) = group.resharder.write, group.size, tiles.shape.dimensions
    each = size // members

    def shaped(value: Instruction, *dimensions: int) -> Instruction:
        return write.reshape(value, value.shape.with_dimensions(dimensions))

    def swapped(value: Instruction, order: Sequence[int]) -> Instruction:
        """Sends the parts that the dimension `order[0]` numbers; returns complex[members, rows, c]."""
        return group.swap_blocks(write, write.transpose(value, order))

    columns = write.transpose(swapped(shaped(tiles, rows, members, each), (1, 0, 2)), (1, 2, 0))
    transformed = _transform_rows(write, columns, kind)  # [rows, c, k1]
    turned = write.add(opcodes.MULTIPLY, transformed, _twiddles(group, transformed.shape, kind))
    received = write.transpose(swapped(turned, (2, 0, 1)), (1, 0, 2))
    long = _transform_rows(write, shaped(received, rows, size), kind)
    last = write.transpose(swapped(shaped(long, rows, members, each), (1, 0, 2)), (1, 2, 0))
    return shaped(last, rows, size)


def _twiddles(group: TileGroup, shape: Shape, kind: FftType) -> Instruction:
    """Returns exp(-2 pi i q k1 / N) for complex[rows, c, n], with q = r * c + its second index on device r."""
    write, (_, each, members) = group.resharder.write, shape.dimensions
    whole = each * members * members
    numbers = Shape.array(S64, (each, members))
    first = write.add(opcodes.MULTIPLY, write.convert(group.tile_index(), S64), write.scalar(each, S64))
    q = write.add(opcodes.ADD, iota(write, numbers, 0), write.broadcast(first, numbers))
    product = write.add(opcodes.MULTIPLY, q, iota(write, numbers, 1))
    turns = write.add(opcodes.REMAINDER, product, write.splat(whole, numbers))
    real = F32 if shape.element_type is C64 and whole <= _EXACT_F32_LENGTH else F64
    turn = write.splat((2 if kind is FftType.IFFT else -2) * math.pi / whole, numbers.with_element_type(real))
    angle = write.add(opcodes.MULTIPLY, write.convert(turns, real), turn)
    parts = [write.add(op, angle) for op in (opcodes.COSINE, opcodes.SINE)]
    if shape.element_type is C64:
        parts = [write.convert(part, F32) for part in parts]
    return write.broadcast(write.add(opcodes.COMPLEX, *parts), shape, (1, 2))
