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

import numpy as np

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Window, WindowDimension, dilated
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.movement import PadAttributes, SliceAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.spmd.halo.concatenations import concatenation_of
from xlapy.spmd.halo.segments import (
    IntArray,
    Round,
    Spans,
    TiledDimension,
    TileNumbers,
    elements_of_spans,
    rounds_of_concatenation,
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


@dataclass(frozen=True, eq=False)
class TileReads:
    """What each tile of a result reads along a dimension, as positions of the operand with its base dilation.

    spans: the elements. leads: for each tile, the number of holes before its first element. extent: the number of
    positions, holes included. base_dilation: the distance of adjacent elements.
    """

    spans: Spans
    leads: IntArray
    extent: int
    base_dilation: int

    @property
    def are_aligned(self) -> bool:
        """Whether the holes are at the same positions on all tiles."""
        return bool((self.leads == self.leads[0]).all())

    def local_window(self, window: WindowDimension) -> WindowDimension:
        """Returns the window that reads the positions of a tile from a local array of its span."""
        if not self.are_aligned:
            return replace(window, padding_low=0, padding_high=0, base_dilation=1)
        lead = int(self.leads[0])
        high = self.extent - lead - dilated(self.spans.length, self.base_dilation)
        return replace(window, padding_low=lead, padding_high=high)


def reads_of_result_tiles(window: WindowDimension, tile_size: int, tiles: int) -> TileReads:
    """Returns what the tiles of a result read that are `tile_size` positions of a window each."""
    extent = (tile_size - 1) * window.stride + window.dilated_size
    return _reads(-window.padding_low, tile_size * window.stride, tiles, extent, window.base_dilation)


def reads_of_kernel_tiles(window: WindowDimension, tile_size: int, tiles: int, result_size: int) -> TileReads:
    """Returns what devices read that hold a tile of the kernel each and compute partial sums of the whole result.

    With window reversal, the first tile of the kernel is at the end of the window.
    """
    first, step = (window.size - tile_size, -tile_size) if window.window_reversal else (0, tile_size)
    extent = (result_size - 1) * window.stride + dilated(tile_size, window.window_dilation)
    position = first * window.window_dilation - window.padding_low
    return _reads(position, step * window.window_dilation, tiles, extent, window.base_dilation)


def reads_of_reversed_tiles(size: int, tile_size: int, tiles: int) -> TileReads:
    """Returns what the tiles of a reversed dimension of `size` elements read."""
    return _reads(size - tile_size, -tile_size, tiles, tile_size, 1)


def _reads(first: int, step: int, tiles: int, extent: int, base_dilation: int) -> TileReads:
    """Returns the elements among `extent` positions from position `first + step * tile` on."""
    positions = TileNumbers(tiles, first, step).values
    numbers = TileNumbers(tiles, first, step, base_dilation)
    lengths = (positions + extent - 1) // base_dilation - numbers.values + 1
    leads = numbers.values * base_dilation - positions
    return TileReads(Spans(numbers, max(1, int(lengths.max()))), leads, extent, base_dilation)


@dataclass(frozen=True, eq=False)
class OverlappingWindows:
    """The windows that overlap each tile of the operand, and the elements of these windows.

    offsets: the position of the tile among the elements.
    """

    windows: Spans
    elements: Spans
    offsets: IntArray


def overlapping_windows(window: WindowDimension, tile_size: int, tiles: int) -> OverlappingWindows:
    """Returns the windows that overlap the tiles of an operand, and more where windows with gaps do not cover them."""
    size, stride, padding = window.size, window.stride, window.padding_low
    firsts = TileNumbers(tiles, padding - size + 1, tile_size, stride)
    last = (np.arange(tiles) * tile_size + padding + tile_size - 1) // stride
    count = max(1, int((last - firsts.values).max()) + 1)
    offsets = np.arange(tiles) * tile_size - (firsts.values * stride - padding)
    before = max(0, -(int(offsets.min()) // stride))
    after = max(0, -(-int((offsets + tile_size - (count - 1) * stride - size).max()) // stride))
    firsts, count = firsts.plus(-before), count + before + after
    starts = replace(firsts, scale=stride, offset=firsts.offset * stride - padding)
    elements = Spans(starts, (count - 1) * stride + size)
    return OverlappingWindows(Spans(firsts, count), elements, offsets + before * stride)


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
        return TileReads(reads.elements, np.zeros(tiles, np.int64), reads.elements.length, 1)
    if result_dimension is not None:
        return reads_of_result_tiles(window, -(-shape.dimensions[result_dimension] // tiles), tiles)
    assert kernel_dimension is not None
    labels = instruction.attributes_as(ConvolutionAttributes).dim_labels
    spatial = labels.input_spatial_dimensions.index(dimension)
    kernel_size = instruction.operands[1].shape.dimensions[kernel_dimension]
    result_size = shape.dimensions[labels.output_spatial_dimensions[spatial]]
    return reads_of_kernel_tiles(window, -(-kernel_size // tiles), tiles, result_size)


def concatenation_rounds(
    instruction: Instruction, are_whole: Sequence[bool], tiles: int
) -> tuple[tuple[Round, ...], bool] | None:
    """Returns the rounds of a concatenation along its dimension, and whether their concatenation is the tile.

    None if the instruction is not a concatenation. are_whole: whether each operand is whole on every device, rather
    than cut into `tiles` tiles.
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
    tile_size = -(-instruction.shape.dimensions[dimension] // tiles)
    return rounds_of_concatenation(tuple(ranges), tuple(arrays), tile_size, tiles)


def elements_exchanged(
    instruction: Instruction, operands: Sequence[int | None], results: Sequence[int | None], are_whole: Sequence[bool],
    tiles: int,
) -> int:  # fmt: skip
    """Returns the number of elements along a dimension that a device receives from other tiles.

    operands, results: the dimensions that are cut into `tiles` tiles, of each operand and result; see `tile_reads`.
    are_whole: whether each operand is whole on every device.
    """
    concatenated = concatenation_rounds(instruction, are_whole, tiles)
    if concatenated is not None:
        return sum(each.elements_sent for each in concatenated[0])
    if are_whole[0]:
        return 0
    dimension = operands[0]
    assert dimension is not None
    kernel_dimension = operands[1] if len(operands) > 1 else None
    size = instruction.operands[0].shape.dimensions[dimension]
    reads = tile_reads(instruction, dimension, kernel_dimension, results[0], tiles)
    return elements_of_spans(TiledDimension(size, -(-size // tiles), tiles), reads.spans)
