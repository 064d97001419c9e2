"""Halo exchange: a device gets the elements of other tiles that an operation on its own tile needs.

XLA's counterparts are ExchangeHalo and ExchangeHaloAndGetValidData. Elements travel by collective-permutes of only the
elements that are needed. A span of elements may reach over several tiles, may differ in its offset from tile to tile,
and may reach over the ends of the array, where its elements are a given padding value.

Responsible for the instructions that assemble a local array from such elements. Does not depend on the operation that
needs them (`windows.py`), nor on which segments travel in which round (`segments.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.shape import Ints
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension
from xlapy.opcodes.collectives import CollectivePermuteAttributes
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.movement import DynamicSliceAttributes, PadAttributes
from xlapy.passes.expand.blocks import compare, concatenate, index_type, iota, slice_dimension
from xlapy.spmd.collectives.device_pairs import pairs_of_tiles
from xlapy.spmd.halo.segments import IntArray, Round, Spans, TiledDimension, rounds_of_spans
from xlapy.spmd.halo.tile_values import per_tile_value
from xlapy.spmd.resharding import Resharder
from xlapy.spmd.tiling import Tiling, tile_count


@dataclass(frozen=True)
class _Placed:
    """Where the elements of a round are taken from and go to.

    A device sends as many elements as the longest segment has. So that these are in its tile, a segment may be sent
    with elements before or after it.

    length: the number of elements that are sent. sent_from: the first of them in each source tile. offsets: where the
    first of them goes in each tile of the result. low, high: which of them are of the segment of each tile.
    """

    length: int
    sent_from: IntArray
    offsets: IntArray
    low: IntArray
    high: IntArray

    @staticmethod
    def of(each: Round, tile_size: int) -> _Placed:
        tiles, length = len(each.sources), each.length
        placed = _Placed(length, *[np.zeros(tiles, np.int64) for _ in range(4)])
        targets = each.targets
        sources, starts = each.sources[targets], each.starts[targets]
        placed.sent_from[sources] = np.minimum(starts, tile_size - length)
        placed.low[targets] = starts - placed.sent_from[sources]
        placed.high[targets] = placed.low[targets] + each.lengths[targets]
        placed.offsets[targets] = each.positions[targets] - placed.low[targets]
        return placed

    @property
    def is_full(self) -> bool:
        """Whether all tiles receive a segment and nothing else."""
        return not self.low.any() and self.high.min() == self.length


class HaloExchange:
    """Assembles local arrays along one dimension, whose tiles are on different devices.

    dimension: the dimension of the local arrays. tiling: its tiling, and that of the assembled array. others: all other
    tilings in which the contents of devices differ. Arrays may also be whole, with all elements on each device.
    """

    def __init__(self, resharder: Resharder, dimension: int, tiling: Tiling, others: Sequence[Tiling | None]) -> None:
        self.resharder = resharder
        self.write = resharder.write
        self.dimension = dimension
        self.tiling = tiling
        self.tiles = tile_count(tiling)
        self.others = others

    # -- spans

    def span(self, array: Instruction, size: int, spans: Spans, fill: Instruction | None) -> Instruction:
        """Returns the span of the device's tile.

        array: the local array, one of the tiles of an array of `size` elements. fill: the scalar that elements outside
        of the array have; None if their values do not matter.
        """
        own = TiledDimension(size, array.shape.dimensions[self.dimension], self.tiles)
        fill = fill if fill is not None and spans.reaches_outside(size) else None
        rounds, is_concatenation = rounds_of_spans(own, spans)
        if not is_concatenation:
            found = self._selected([array], rounds, spans.length)
            return found if fill is None else self.filled(found, spans.starts, size, fill)
        pieces = [self._filled_piece(array, each, spans, size, fill) for each in rounds]
        return concatenate(self.write, pieces, self.dimension)

    def read(
        self, array: Instruction, size: int, spans: Spans, fill: Instruction | None, is_whole: bool
    ) -> Instruction:
        """Returns the span of the device's tile, from the whole array or from tiles on all devices.

        An array without elements is whole on each of them.
        """
        is_here = is_whole or not size
        return self.span_of_whole(array, spans, fill) if is_here else self.span(array, size, spans, fill)

    def span_of_whole(self, array: Instruction, spans: Spans, fill: Instruction | None) -> Instruction:
        """Returns the span of the device's tile from the whole array, without communication."""
        size = array.shape.dimensions[self.dimension]
        starts = spans.starts
        low = max(0, -int(starts.min()))
        high = max(0, int(starts.max()) + spans.length - size)
        return self.slice_at(self._padded(array, low, high, fill), starts + low, spans.length)

    def _filled_piece(
        self, array: Instruction, each: Round, spans: Spans, size: int, fill: Instruction | None
    ) -> Instruction:
        """Returns the segments of a round of a span, with elements outside of the array filled."""
        is_received = bool(len(each.targets))
        piece = self._sent(array, each)
        if fill is None:
            return piece
        starts = spans.starts + each.positions
        outside = (starts < 0) | (starts >= size)
        if (~outside & (starts + each.length > size)).any():
            return self.filled(piece, starts, size, fill)
        if not is_received:
            return self.write.broadcast(fill, piece.shape)
        is_zero_already = not each.is_local and _is_zero(fill)  # for devices that receive nothing
        if is_zero_already or not outside.any():
            return piece
        return self._select(self._per_tile(~outside), piece, fill)

    def _sent(self, array: Instruction, each: Round) -> Instruction:
        """Returns the segments of a round whose segments all have the same place and length."""
        start = int(each.starts[0])
        piece = slice_dimension(self.write, array, self.dimension, start, start + each.length)
        return piece if each.is_local else self._permuted(piece, each)

    def filled(self, array: Instruction, starts: IntArray, size: int, fill: Instruction) -> Instruction:
        """Fills the elements outside of an array of `size` elements; `starts`: the first element of each tile."""
        low, high = np.clip(-starts, 0, None), size - starts
        return self.chosen(array, low, high, fill)

    # -- segments of several arrays

    def assembled(
        self, arrays: Sequence[Instruction], rounds: Sequence[Round], is_concatenation: bool, size: int
    ) -> Instruction:
        """Returns the local array of `size` elements that consists of the segments of the device's tile.

        is_concatenation: whether it is the concatenation of the rounds.
        """
        if not is_concatenation:
            return self._selected(arrays, rounds, size)
        return concatenate(self.write, [self._sent(arrays[each.array], each) for each in rounds], self.dimension)

    def _selected(self, arrays: Sequence[Instruction], rounds: Sequence[Round], size: int) -> Instruction:
        """Writes the segments of each round to their places in an array of `size` elements.

        The array has room on both sides for elements that are sent together with a segment.
        """
        placed = [_Placed.of(each, arrays[each.array].shape.dimensions[self.dimension]) for each in rounds]
        before = max([0, *[-int(each.offsets.min()) for each in placed]])
        after = max([0, *[int(each.offsets.max()) + each.length - size for each in placed]])
        found = self.write.splat(0, self._resized(arrays[0], before + size + after))
        for each, one in zip(rounds, placed, strict=True):
            piece = self.slice_at(arrays[each.array], one.sent_from, one.length)
            piece = piece if each.is_local else self._permuted(piece, each)
            offsets = one.offsets + before
            if not one.is_full:
                old = self.slice_at(found, offsets, one.length)
                piece = self.chosen(piece, one.low, one.high, old)
            found = self.updated_at(found, piece, offsets)
        return slice_dimension(self.write, found, self.dimension, before, before + size)

    # -- communication and local movement

    def _permuted(self, piece: Instruction, each: Round) -> Instruction:
        """Sends segments to the tiles that need them; all others receive zeros."""
        pairs = pairs_of_tiles(self.tiling, self.others, each.sources)
        attributes = CollectivePermuteAttributes.make(
            channel_id=next(self.resharder.channels), source_target_pairs=pairs
        )
        return self.write.add(opcodes.COLLECTIVE_PERMUTE, piece, attributes=attributes)

    def _padded(self, array: Instruction, low: int, high: int, fill: Instruction | None) -> Instruction:
        if low == high == 0:
            return array
        value = self.write.scalar(0, array.shape.element_type) if fill is None else fill
        return pad_dimension(self.write.add, array, self.dimension, PaddingDimension(low, high), value)

    def slice_at(self, array: Instruction, starts: IntArray, length: int) -> Instruction:
        """Returns `length` elements of the local array along the dimension, from `starts[tile]` on."""
        first = int(starts[0])
        if (starts == first).all():
            return slice_dimension(self.write, array, self.dimension, first, first + length)
        shape = self._resized(array, length)
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=shape.dimensions)
        indices = self._start_indices(array, starts)
        return self.write.add(opcodes.DYNAMIC_SLICE, array, *indices, attributes=attributes, shape=shape)

    def _start_indices(self, array: Instruction, starts: IntArray) -> list[Instruction]:
        """Returns the start indices of a slice that starts at `starts[tile]` along the dimension, else at 0."""
        of_type = index_type(array.shape.dimensions[self.dimension])
        zero = self.write.scalar(0, of_type)
        here = self._per_tile(starts.astype(zero.shape.dtype))
        return [here if d == self.dimension else zero for d in range(array.shape.rank)]

    def updated_at(self, array: Instruction, update: Instruction, starts: IntArray) -> Instruction:
        """Returns the local array with some elements replaced, from `starts[tile]` on."""
        indices = self._start_indices(array, starts)
        return self.write.add(opcodes.DYNAMIC_UPDATE_SLICE, array, update, *indices)

    def chosen(self, array: Instruction, low: IntArray, high: IntArray, other: Instruction) -> Instruction:
        """Returns an array with other elements outside of the indices from `low[tile]` up to `high[tile]`."""
        return self._select(self._is_between(array, low, high), array, other)

    def _is_between(self, array: Instruction, low: IntArray, high: IntArray) -> Instruction:
        """Returns for each element whether its index along the dimension is from `low[tile]` up to `high[tile]`."""
        size = array.shape.dimensions[self.dimension]
        low, high = np.clip(low, 0, size), np.clip(high, 0, size)
        if ((low == 0) & (high == size) | (low >= high)).all():
            return self._per_tile(low < high)
        indices = iota(self.write, array.shape.with_element_type(index_type(size)), self.dimension)
        limits = [self._per_tile(each.astype(indices.shape.dtype)) for each in (low, high)]
        first, last = [self.write.broadcast(limit, indices.shape) for limit in limits]
        is_from_first = compare(self.write, indices, first, ComparisonDirection.GE)
        return self.write.add(opcodes.AND, is_from_first, compare(self.write, indices, last, ComparisonDirection.LT))

    def _select(self, condition: Instruction, array: Instruction, other: Instruction) -> Instruction:
        """Selects between arrays; the condition and the second array may be scalars."""
        mask = (
            condition if condition.shape.rank else self.write.broadcast(condition, array.shape.with_element_type(PRED))
        )
        rest = other if other.shape.rank else self.write.broadcast(other, array.shape)
        return self.write.add(opcodes.SELECT, mask, array, rest)

    def _per_tile(self, values: np.ndarray[Any, Any]) -> Instruction:
        return per_tile_value(self.resharder, self.tiling, values)

    def _resized(self, array: Instruction, size: int) -> Any:
        sizes: Ints = array.shape.dimensions
        return array.shape.with_dimensions([*sizes[: self.dimension], size, *sizes[self.dimension + 1 :]])


def pad_dimension(
    add: Callable[..., Instruction], array: Instruction, dimension: int, padding: PaddingDimension, value: Instruction
) -> Instruction:
    """Writes a pad along one dimension."""
    config = [padding if d == dimension else PaddingDimension(0, 0) for d in range(array.shape.rank)]
    return add(opcodes.PAD, array, value, attributes=PadAttributes.make(padding=PaddingConfig(tuple(config))))


def _is_zero(value: Instruction) -> bool:
    """Returns whether a scalar is a constant all bits of which are 0."""
    return value.op is opcodes.CONSTANT and not any(value.literal.array.tobytes())
