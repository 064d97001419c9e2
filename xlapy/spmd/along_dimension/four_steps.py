"""The four-step algorithm: the Fourier transform of rows of complex numbers that are split over devices.

A row has n * m elements, of which device p has x[p*m : (p+1)*m]; c is m / n, rounded up.

1. all-to-all: device r has x[p*m + q] for all p, and for q from r*c to (r+1)*c
2. transform over p, of length n, to k1; multiply by exp(-2 pi i q k1 / (n*m))
3. all-to-all: device k1 has all q; transform over q, of length m, to k2
4. all-to-all: the result of k1 and k2 is element k1 + n*k2 of the transform

If m is not a multiple of n, the tiles are filled up to n * c elements before they are sent, and the tiles of the result
have as many.

Responsible for this algorithm. Does not depend on where rows come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import C64, F32, F64, S64, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.linalg import FftAttributes, FftType
from xlapy.passes.expand.blocks import iota, slice_dimension
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.tile_group import TileGroup, pad_end

_EXACT_F32_LENGTH = 1 << 24
"""The greatest length of a row whose numbers f32 represents exactly, so that angles are computed in f32."""


def transform_rows(write: Writer, rows: Instruction, kind: FftType, length: int | None = None) -> Instruction:
    """Writes the transform of local rows. length: that of rows of real numbers, for IRFFT."""
    attributes = FftAttributes.make(fft_type=kind, fft_length=(length or rows.shape.dimensions[-1],))
    return write.add(opcodes.FFT, rows, attributes=attributes)


def four_step_elements(tile_size: int, members: int) -> int:
    """Returns the number of elements of a tile that the algorithm exchanges in each step."""
    return -(-tile_size // members) * members


def four_step_transform(group: TileGroup, tiles: Instruction, kind: FftType) -> Instruction:
    """Writes the transform of rows of which each device has a full tile, complex[rows, m].

    Returns complex[rows, n * c]: device r has the elements from r * n * c on of the transform, the last ones not all.
    """
    write, members, (rows, size) = group.resharder.write, group.size, tiles.shape.dimensions
    filled = four_step_elements(size, members)
    each = filled // members

    def shaped(value: Instruction, *dimensions: int) -> Instruction:
        return write.reshape(value, value.shape.with_dimensions(dimensions))

    def swapped(value: Instruction, order: Sequence[int]) -> Instruction:
        """Sends the parts that the dimension `order[0]` numbers; returns complex[members, rows, c]."""
        return group.swap_blocks(write, write.transpose(value, order))

    def blocks(value: Instruction) -> Instruction:
        return shaped(pad_end(write, value, 1, filled - size), rows, members, each)

    columns = write.transpose(swapped(blocks(tiles), (1, 0, 2)), (1, 2, 0))
    transformed = transform_rows(write, columns, kind)  # [rows, c, k1]
    turned = write.add(opcodes.MULTIPLY, transformed, _twiddles(group, transformed.shape, kind, members * size))
    received = write.transpose(swapped(turned, (2, 0, 1)), (1, 0, 2))
    long = transform_rows(write, slice_dimension(write, shaped(received, rows, filled), 1, 0, size), kind)
    last = write.transpose(swapped(blocks(long), (1, 0, 2)), (1, 2, 0))
    return shaped(last, rows, filled)


def _twiddles(group: TileGroup, shape: Shape, kind: FftType, whole: int) -> Instruction:
    """Returns exp(-2 pi i q k1 / N) for complex[rows, c, n], with q = r * c + its second index on device r."""
    write, (_, each, members) = group.resharder.write, shape.dimensions
    numbers = Shape.array(S64, (each, members))
    first = write.add(opcodes.MULTIPLY, write.convert(group.tile_index(), S64), write.scalar(each, S64))
    q = write.add(opcodes.ADD, iota(write, numbers, 0), write.broadcast(first, numbers))
    product = write.add(opcodes.MULTIPLY, q, iota(write, numbers, 1))
    cosines, sines = unit_roots(write, product, whole, shape.element_type)
    signed = sines if kind is FftType.IFFT else write.add(opcodes.NEGATE, sines)
    return write.broadcast(write.add(opcodes.COMPLEX, cosines, signed), shape, (1, 2))


def unit_roots(
    write: Writer, numbers: Instruction, whole: int, element_type: PrimitiveType
) -> tuple[Instruction, Instruction]:
    """Returns cos and sin of 2 pi k / `whole` for an array of k, s64, in the type of the parts of `element_type`."""
    turns = write.add(opcodes.REMAINDER, numbers, write.splat(whole, numbers.shape))
    real = F32 if element_type is C64 and whole <= _EXACT_F32_LENGTH else F64
    turn = write.splat(2 * math.pi / whole, numbers.shape.with_element_type(real))
    angle = write.add(opcodes.MULTIPLY, write.convert(turns, real), turn)
    parts = [write.add(op, angle) for op in (opcodes.COSINE, opcodes.SINE)]
    if element_type is C64:
        parts = [write.convert(part, F32) for part in parts]
    return parts[0], parts[1]
