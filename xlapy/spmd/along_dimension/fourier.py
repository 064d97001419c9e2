"""Fourier transforms of split dimensions.

The transform of several dimensions is a transform of each. Dimensions that are not split come first, on local
arrays. For each split dimension, devices either exchange whole rows and tiles (two all-to-alls), or compute the rows
together by the four-step algorithm (three all-to-alls), whichever sends less: rows are exchanged if there are about as
many as devices. XLA's partitioner sends a tile for each other device.

The last dimension of a transform of real numbers is the first one of an RFFT and the last one of an IRFFT.

Responsible for the dimensions of a transform and their order. Does not depend on how one is transformed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.linalg import FftAttributes, FftType
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.four_steps import four_step_elements, four_step_transform, transform_rows
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.real_fourier import RealPlan, RealRows, transform_real
from xlapy.spmd.along_dimension.tile_group import Rows, TileGroup
from xlapy.spmd.array_sharding import ArraySharding
from xlapy.spmd.halo.exchange import HaloExchange
from xlapy.spmd.halo.segments import spans_of_tiles
from xlapy.spmd.resharding import PartitionedArray


def fft_along_split_dimensions(split: SplitOperation) -> list[PartitionedArray] | None:
    """Writes a transform some dimensions of which are split."""
    instruction = split.instruction
    attributes = instruction.attributes_as(FftAttributes)
    rank = instruction.shape.rank
    transformed = range(rank - len(attributes.fft_length), rank)
    sharding = _sharding(split, transformed)
    if sharding is None or not _is_possible(split, sharding, transformed):
        return None
    transform = _SplitTransform(split, sharding, dict(zip(transformed, attributes.fft_length, strict=True)))
    if transform.real_plan is RealPlan.GATHER:
        return None
    return split.results([transform.write_transform(split.local(0, sharding))], sharding)


def _sharding(split: SplitOperation, transformed: Sequence[int]) -> ArraySharding | None:
    found = (split.sharding_along(dimension) for dimension in transformed)
    return next((sharding for sharding in found if sharding is not None), None)


def _is_possible(split: SplitOperation, sharding: ArraySharding, transformed: Sequence[int]) -> bool:
    """Returns whether there is an algorithm for each split dimension of complex numbers."""
    sizes = split.local_sizes(sharding)
    if not math.prod(sizes):
        return False
    is_real = split.instruction.attributes_as(FftAttributes).fft_type in (FftType.RFFT, FftType.IRFFT)
    for dimension in transformed[:-1] if is_real else transformed:
        if sharding.tilings[dimension] is None or math.prod(sizes) > sizes[dimension]:
            continue
        members, size = split.group(sharding, dimension).size, sizes[dimension]
        sends_less = 3 * four_step_elements(size, members) < members * size
        if not split.is_even(sharding, dimension) or not (size % members == 0 or sends_less):
            return False
    return True


class _SplitTransform:
    """Writes one transform. lengths: those of the transformed dimensions."""

    def __init__(self, split: SplitOperation, sharding: ArraySharding, lengths: dict[int, int]) -> None:
        self.split = split
        self.sharding = sharding
        self.lengths = lengths
        self.kind = split.instruction.attributes_as(FftAttributes).fft_type
        self.last = max(lengths)
        is_real = self.kind in (FftType.RFFT, FftType.IRFFT)
        self.real_rows = self._real_rows() if is_real and sharding.tilings[self.last] is not None else None
        self.real_plan = None if self.real_rows is None else self.real_rows.plan()

    def _real_rows(self) -> RealRows:
        split, kind, length = self.split, self.kind, self.lengths[self.last]
        sizes = split.local_sizes(self.sharding)
        is_inverse = kind is FftType.IRFFT
        real = (split.instruction if is_inverse else split.instruction.operands[0]).shape.element_type
        needs_whole = split.needs_whole
        rows = math.prod(sizes) // sizes[self.last]
        members = split.group(self.sharding, self.last).size
        return RealRows(rows, length, members, is_inverse, real.byte_size, needs_whole)

    def write_transform(self, value: Instruction) -> Instruction:
        """Returns the local array of the result, given that of the operand."""
        write, kind = self.split.resharder.write, self.kind
        is_split_real = self.real_rows is not None
        complex_kind = FftType.IFFT if kind in (FftType.IFFT, FftType.IRFFT) else FftType.FFT
        local = [d for d in self.lengths if self.sharding.tilings[d] is None]
        rest = [d for d in self.lengths if self.sharding.tilings[d] is not None]
        if is_split_real:
            rest.remove(self.last)
        if is_split_real and kind is FftType.RFFT:
            value = self._real(value)
        if is_split_real or kind is not FftType.IRFFT:
            value = _transform(write, value, local, complex_kind if is_split_real else kind, self.lengths)
        for dimension in rest:
            value = self._complex(value, dimension, complex_kind)
        if is_split_real and kind is FftType.IRFFT:
            value = self._real(value)
        elif kind is FftType.IRFFT:
            value = _transform(write, value, local, kind, self.lengths)
        return value

    def _real(self, value: Instruction) -> Instruction:
        group, halo = self._group_and_halo(self.last)
        assert self.real_rows is not None and self.real_plan is not None
        return transform_real(group, halo, value, self.last, self.real_rows, self.real_plan)

    def _complex(self, value: Instruction, dimension: int, kind: FftType) -> Instruction:
        """Writes the transform of complex numbers along a split dimension, given tiles."""
        (group, halo), length = self._group_and_halo(dimension), self.lengths[dimension]
        write, rows = group.resharder.write, Rows(value.shape.dimensions, dimension)
        size, members = value.shape.dimensions[dimension], group.size
        exchanged = 2 * -(-rows.count // members) * members * size
        tiles = rows.of(write, value)
        if size * members != length or 3 * rows.count * four_step_elements(size, members) >= exchanged:
            whole = transform_rows(write, group.exchange_for_whole_rows(write, tiles, length), kind)
            return rows.restore(write, group.exchange_for_tiles(write, whole, rows.count))
        found = four_step_transform(group, tiles, kind)
        if found.shape.dimensions[1] != size:
            found = halo.span(found, length, spans_of_tiles(members, size), None)
        return rows.restore(write, found)

    def _group_and_halo(self, dimension: int) -> tuple[TileGroup, HaloExchange]:
        """Returns the devices of a split dimension, and the exchange of elements of rows along it."""
        split, tiling = self.split, self.sharding.tilings[dimension]
        assert tiling is not None
        others = [*self.sharding.with_tiling(dimension, None).all_tilings, *split.manual_axes]
        return split.group(self.sharding, dimension), HaloExchange(split.resharder, 1, tiling, others)


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
