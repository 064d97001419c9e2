"""The geometry of operations that read a window: which elements of an operand a tile of the result needs.

Pads and slices count as windows of one element: a pad has edges and holes, a slice has negative edges and a stride.

Responsible for windows along one dimension, the spans that tiles need and the window of the local operation. Does not
depend on instructions that are written, nor on devices.

Worked example: a window of 3 elements with padding 1_1 over 12 elements in 3 tiles of 4. The tiles of the result need
the elements from -1, 3 and 7 on, 6 each; the local operation has the same window without padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window, WindowDimension, dilated
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.movement import PadAttributes, SliceAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.spmd.halo.concatenations import concatenation_of
from xlapy.spmd.halo.segments import (
    Segment,
    Spans,
    TiledDimension,
    concatenation_segments,
    elements_sent,
    rounds_of_spans,
)


def window_along(instruction: Instruction, dimension: int) -> WindowDimension | None:
    """Returns the window with which an operation reads a dimension of its first operand; None without a window."""
    attributes = instruction.attributes
    if isinstance(attributes, PadAttributes):
        edges = attributes.padding.dimensions[dimension]
        return WindowDimension(1, 1, edges.low, edges.high, edges.interior + 1)
    if isinstance(attributes, SliceAttributes):
        start, stride = attributes.ranges.starts[dimension], attributes.ranges.strides[dimension]
        limit, size = attributes.ranges.limits[dimension], instruction.operands[0].shape.dimensions[dimension]
        return WindowDimension(1, stride, -start, limit - size)
    if isinstance(attributes, ConvolutionAttributes):
        spatial = attributes.dim_labels.input_spatial_dimensions
        return attributes.window.dimensions[spatial.index(dimension)] if dimension in spatial else None
    if isinstance(attributes, WindowAttributes) and attributes.window.dimensions:
        return attributes.window.dimensions[dimension]
    return None


def with_windows(window: Window, changed: dict[int, WindowDimension]) -> Window:
    """Returns a window with some of its dimensions replaced."""
    return Window(tuple([changed.get(number, each) for number, each in enumerate(window.dimensions)]))


def reads_padding(window: WindowDimension, size: int) -> bool:
    """Returns whether some position of a window reaches over the ends of a dimension of `size` elements."""
    last = (window.output_size(size) - 1) * window.stride + window.dilated_size - 1 - window.padding_low
    return window.padding_low > 0 or last >= dilated(size, window.base_dilation)


@dataclass(frozen=True)
class TileReads:
    """What each tile of a result reads along a dimension, as positions of the operand with its base dilation.

    spans: the elements. leads: for each tile, the number of holes before its first element. extent: the number of
    positions, holes included. base_dilation: the distance of adjacent elements.
    """

    spans: Spans
    leads: tuple[int, ...]
    extent: int
    base_dilation: int

    @property
    def are_aligned(self) -> bool:
        """Whether the holes are at the same positions on all tiles."""
        return len(set(self.leads)) == 1

    def local_window(self, window: WindowDimension) -> WindowDimension:
        """Returns the window that reads the positions of a tile from a local array of its span."""
        if not self.are_aligned:
            return replace(window, padding_low=0, padding_high=0, base_dilation=1)
        high = self.extent - self.leads[0] - dilated(self.spans.length, self.base_dilation)
        return replace(window, padding_low=self.leads[0], padding_high=high)


def reads_of_result_tiles(window: WindowDimension, tile_size: int, tiles: int) -> TileReads:
    """Returns what the tiles of a result read that are `tile_size` positions of a window each."""
    step = tile_size * window.stride
    extent = (tile_size - 1) * window.stride + window.dilated_size
    return _reads([tile * step - window.padding_low for tile in range(tiles)], extent, window.base_dilation)


def reads_of_kernel_tiles(window: WindowDimension, tile_size: int, tiles: int, result_size: int) -> TileReads:
    """Returns what devices read that hold a tile of the kernel each and compute partial sums of the whole result.

    With window reversal, the first tile of the kernel is at the end of the window.
    """
    firsts = [tile * tile_size for tile in range(tiles)]
    if window.window_reversal:
        firsts = [window.size - tile_size - first for first in firsts]
    extent = (result_size - 1) * window.stride + dilated(tile_size, window.window_dilation)
    positions = [first * window.window_dilation - window.padding_low for first in firsts]
    return _reads(positions, extent, window.base_dilation)


def reads_of_reversed_tiles(size: int, tile_size: int, tiles: int) -> TileReads:
    """Returns what the tiles of a reversed dimension of `size` elements read."""
    return _reads([size - (tile + 1) * tile_size for tile in range(tiles)], tile_size, 1)


def _reads(positions: Sequence[int], extent: int, base_dilation: int) -> TileReads:
    """Returns the elements among `extent` positions from each tile's first position on."""
    starts = [-(-position // base_dilation) for position in positions]
    pairs = list(zip(positions, starts, strict=True))
    length = max(1, *[(position + extent - 1) // base_dilation - start + 1 for position, start in pairs])
    leads = tuple([start * base_dilation - position for position, start in pairs])
    return TileReads(Spans(tuple(starts), length), leads, extent, base_dilation)


@dataclass(frozen=True)
class OverlappingWindows:
    """The windows that overlap each tile of the operand, and the elements of these windows.

    offsets: the position of the tile among the elements.
    """

    windows: Spans
    elements: Spans
    offsets: tuple[int, ...]


def overlapping_windows(window: WindowDimension, tile_size: int, tiles: int) -> OverlappingWindows:
    """Returns the windows that overlap the tiles of an operand."""
    firsts, counts = [], []
    for tile in range(tiles):
        start = tile * tile_size + window.padding_low
        firsts.append(-(-(start - window.size + 1) // window.stride))
        counts.append((start + tile_size - 1) // window.stride - firsts[-1] + 1)
    count = max(1, *counts)
    starts = [first * window.stride - window.padding_low for first in firsts]
    ends = [start + (count - 1) * window.stride + window.size for start in starts]
    low = min([0, *[tile * tile_size - start for tile, start in enumerate(starts)]])
    high = max([0, *[(tile + 1) * tile_size - end for tile, end in enumerate(ends)]])
    return _widened(firsts, starts, count, window, tile_size, low, high)


def _widened(
    firsts: list[int], starts: list[int], count: int, window: WindowDimension, tile_size: int, low: int, high: int
) -> OverlappingWindows:
    """Takes more windows on either side until their elements cover the tiles, which windows with gaps may not."""
    before, after = -(low // window.stride), -(-high // window.stride)
    firsts = [first - before for first in firsts]
    starts = [start - before * window.stride for start in starts]
    count += before + after
    length = (count - 1) * window.stride + window.size
    offsets = tuple([tile * tile_size - start for tile, start in enumerate(starts)])
    return OverlappingWindows(Spans(tuple(firsts), count), Spans(tuple(starts), length), offsets)


def tile_reads(
    instruction: Instruction, dimension: int, kernel_dimension: int | None, result_dimension: int | None, tiles: int
) -> TileReads:
    """Returns what the devices read along a dimension of the first operand of an operation.

    dimension: cut into `tiles` tiles, as is the dimension of the result, or else that of the kernel of a convolution.
    """
    size = instruction.operands[0].shape.dimensions[dimension]
    shape = next(leaf for _, leaf in instruction.shape.leaves())
    if instruction.op is opcodes.REVERSE:
        return reads_of_reversed_tiles(size, -(-size // tiles), tiles)
    window = window_along(instruction, dimension)
    assert window is not None
    if instruction.op is opcodes.SELECT_AND_SCATTER:
        reads = overlapping_windows(window, -(-size // tiles), tiles)
        return TileReads(reads.elements, (0,) * tiles, reads.elements.length, 1)
    if result_dimension is not None:
        return reads_of_result_tiles(window, -(-shape.dimensions[result_dimension] // tiles), tiles)
    assert kernel_dimension is not None
    labels = instruction.attributes_as(ConvolutionAttributes).dim_labels
    spatial = labels.input_spatial_dimensions.index(dimension)
    kernel_size = instruction.operands[1].shape.dimensions[kernel_dimension]
    result_size = shape.dimensions[labels.output_spatial_dimensions[spatial]]
    return reads_of_kernel_tiles(window, -(-kernel_size // tiles), tiles, result_size)


def segments_of_concatenation(
    instruction: Instruction, are_whole: Sequence[bool], tiles: int
) -> list[list[Segment]] | None:
    """Returns the segments of the tiles of a concatenation along its dimension; None if it is not a concatenation.

    are_whole: whether each operand is whole on every device, rather than cut into `tiles` tiles.
    """
    found = concatenation_of(instruction)
    if found is None:
        return None
    dimension, ranges = found
    sizes = [operand.shape.dimensions[dimension] for operand in instruction.operands]
    arrays = [
        TiledDimension(size, size, 1) if whole else TiledDimension(size, -(-size // tiles), tiles)
        for size, whole in zip(sizes, are_whole, strict=True)
    ]
    return concatenation_segments(ranges, arrays, -(-instruction.shape.dimensions[dimension] // tiles), tiles)


def elements_exchanged(
    instruction: Instruction, operands: Sequence[int | None], results: Sequence[int | None], are_whole: Sequence[bool],
    tiles: int,
) -> int:  # fmt: skip
    """Returns the number of elements along a dimension that a device receives from other tiles.

    operands, results: the dimensions that are cut into `tiles` tiles, of each operand and result; see `tile_reads`.
    are_whole: whether each operand is whole on every device.
    """
    segments = segments_of_concatenation(instruction, are_whole, tiles)
    if segments is not None:
        return elements_sent(segments)
    if are_whole[0]:
        return 0
    dimension = operands[0]
    assert dimension is not None
    kernel_dimension = operands[1] if len(operands) > 1 else None
    size = instruction.operands[0].shape.dimensions[dimension]
    reads = tile_reads(instruction, dimension, kernel_dimension, results[0], tiles)
    rounds, _ = rounds_of_spans(TiledDimension(size, -(-size // tiles), tiles), reads.spans)
    return sum(each.elements_sent for each in rounds)
