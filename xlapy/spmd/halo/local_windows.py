"""Local operations that need elements of other tiles: windows, convolutions, pads, slices, reverse, concatenate.

A device assembles the span of elements that its tile of the result needs (`exchange.py`), where padding at the
ends of the array becomes elements of the padding value, and applies the same window to it without that padding.

Responsible for the local operation of each of these. Does not depend on the geometry of windows (`windows.py`), nor on
why an operation is split that way (`strategy.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension, SliceRanges, WindowDimension, dilated
from xlapy.opcodes.convolution import ConvolutionAttributes
from xlapy.opcodes.movement import PadAttributes, SliceAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.halo.concatenations import concatenation_of, expand_concatenation
from xlapy.spmd.halo.dynamic_slices import LOCAL_DYNAMIC_SLICE_RULES
from xlapy.spmd.halo.exchange import HaloExchange, pad_dimension
from xlapy.spmd.halo.select_and_scatter import TileOfSelection, with_local_windows
from xlapy.spmd.halo.windows import (
    TileReads,
    concatenation_rounds,
    tile_reads,
    window_along,
    with_windows,
)
from xlapy.spmd.local_operations import LocalOperation
from xlapy.spmd.tiling import Tiling, tile_count


def exchange_along(local: LocalOperation, number: int, dimension: int, tiling: Tiling) -> HaloExchange:
    """Returns the exchange of elements of an operand along one of its dimensions."""
    sharding = local.operand_shardings[number]
    others = [other for d, other in enumerate(sharding.tilings) if d != dimension]
    return HaloExchange(local.resharder, dimension, tiling, [*others, sharding.partial_sums, *local.manual_axes])


def _read(
    local: LocalOperation, number: int, array: Instruction, dimension: int, tiling: Tiling, reads: TileReads,
    fill: Instruction | None,
) -> Instruction:  # fmt: skip
    """Returns the elements of an operand that the device's tile reads, with holes if their positions differ by tile.

    array: the local array of operand `number`, which may be extended along other dimensions already.
    """
    exchange = exchange_along(local, number, dimension, tiling)
    size = local.instruction.operands[number].shape.dimensions[dimension]
    is_whole = local.operand_shardings[number].tilings[dimension] is None
    found = exchange.read(array, size, reads.spans, fill, is_whole)
    if reads.are_aligned:
        return found
    write, holes = local.resharder.write, reads.base_dilation - 1
    value = write.scalar(0, array.shape.element_type) if fill is None else fill
    after = max(0, reads.extent - dilated(reads.spans.length, reads.base_dilation))
    spread = pad_dimension(write.add, found, dimension, PaddingDimension(holes, after, holes), value)
    return exchange.slice_at(spread, holes - reads.leads, reads.extent)


def _local_reads(
    local: LocalOperation, dimension: int, kernel_dimension: int | None, result_dimension: int
) -> tuple[Tiling, TileReads] | None:
    """Returns the tiling and the reads of a dimension of the first operand; None if it is not split there."""
    window = window_along(local.instruction, dimension)
    if window is not None and window.is_identity:
        return None
    tiling, result = local.result_shardings[0].tilings[result_dimension], result_dimension
    if tiling is not None:
        return tiling, tile_reads(local.instruction, dimension, kernel_dimension, result, tile_count(tiling))
    tiling = None if kernel_dimension is None else local.operand_shardings[1].tilings[kernel_dimension]
    if tiling is None:
        return None
    return tiling, tile_reads(local.instruction, dimension, kernel_dimension, None, tile_count(tiling))


def _exchanged(
    local: LocalOperation, fills: Sequence[Instruction | None], dimensions: Sequence[tuple[int, int | None, int]]
) -> tuple[list[Instruction], dict[int, WindowDimension]]:
    """Returns the first operands with what the device's tile reads, and the local windows of dimensions that are split.

    fills: the padding value of each of the operands that are read by the window. dimensions: those of an operand, with
    the dimensions of the kernel and of the result that belong to them.
    """
    arrays, windows = list(local.operands[: len(fills)]), {}
    for dimension, kernel_dimension, result_dimension in dimensions:
        found = _local_reads(local, dimension, kernel_dimension, result_dimension)
        if found is None:
            continue
        tiling, reads = found
        for number, fill in enumerate(fills):
            arrays[number] = _read(local, number, arrays[number], dimension, tiling, reads, fill)
        window = window_along(local.instruction, dimension)
        windows[dimension] = WindowDimension(1) if window is None else reads.local_window(window)
    return arrays, windows


def _same_dimension(local: LocalOperation) -> list[tuple[int, None, int]]:
    return [(dimension, None, dimension) for dimension in range(local.operands[0].shape.rank)]


def _local_reduce_window(local: LocalOperation) -> Instruction:
    count = len(local.operands) // 2
    arrays, windows = _exchanged(local, local.operands[count:], _same_dimension(local))
    attributes = local.instruction.attributes_as(WindowAttributes)
    window = with_windows(attributes.window, windows)
    return local.write([*arrays, *local.operands[count:]], replace(attributes, window=window))


def _local_convolution(local: LocalOperation) -> Instruction:
    attributes = local.instruction.attributes_as(ConvolutionAttributes)
    labels = attributes.dim_labels
    spatial = list(
        zip(
            labels.input_spatial_dimensions,
            labels.kernel_spatial_dimensions,
            labels.output_spatial_dimensions,
            strict=True,
        )
    )
    zero = local.resharder.write.scalar(0, local.operands[0].shape.element_type)
    (array,), windows = _exchanged(local, [zero], spatial)
    numbered = {labels.input_spatial_dimensions.index(dimension): window for dimension, window in windows.items()}
    sizes = [local.operands[1].shape.dimensions[kernel_dimension] for _, kernel_dimension, _ in spatial]
    resized = with_windows(attributes.window, numbered).dimensions
    window = replace(
        attributes.window,
        dimensions=tuple([replace(each, size=size) for each, size in zip(resized, sizes, strict=True)]),
    )
    features, batch = (
        local.operand_shardings[0].tilings[dimension]
        for dimension in (labels.input_feature_dimension, labels.input_batch_dimension)
    )
    groups, batch_groups = attributes.feature_group_count, attributes.batch_group_count
    local_attributes = replace(
        attributes,
        window=window,
        feature_group_count=groups if groups == 1 else groups // tile_count(features),
        batch_group_count=batch_groups if batch_groups == 1 else batch_groups // tile_count(batch),
    )
    return local.write([array, local.operands[1]], local_attributes)


def _local_pad(local: LocalOperation) -> Instruction:
    (array,), windows = _exchanged(local, [local.operands[1]], _same_dimension(local))
    padding = list(local.instruction.attributes_as(PadAttributes).padding.dimensions)
    for dimension, window in windows.items():
        padding[dimension] = PaddingDimension(window.padding_low, window.padding_high, window.base_dilation - 1)
    return local.write([array, local.operands[1]], PadAttributes.make(padding=PaddingConfig(tuple(padding))))


def _local_slice(local: LocalOperation) -> Instruction:
    (array,), windows = _exchanged(local, [None], _same_dimension(local))
    assert isinstance(local.attributes, SliceAttributes)
    ranges = local.attributes.ranges
    starts, limits = list(ranges.starts), list(ranges.limits)
    for dimension in windows:
        starts[dimension], limits[dimension] = 0, array.shape.dimensions[dimension]
    return local.write([array], SliceAttributes.make(ranges=SliceRanges(tuple(starts), tuple(limits), ranges.strides)))


def _local_reverse(local: LocalOperation) -> Instruction:
    dimensions = [each for each in _same_dimension(local) if each[0] in local.instruction.dimensions]
    arrays, _ = _exchanged(local, [None], dimensions)
    return local.write(arrays)


def _local_concatenate(local: LocalOperation) -> Instruction:
    """Assembles the tile of a concatenation from tiles of the operands."""
    found = concatenation_of(local.instruction)
    if found is None:
        return local.write()
    dimension, _ = found
    tiling = local.result_shardings[0].tilings[dimension]
    if tiling is None:
        return expand_concatenation(local.resharder.write, local.instruction, local.operands)
    are_whole = [sharding.tilings[dimension] is None for sharding in local.operand_shardings]
    planned = concatenation_rounds(local.instruction, are_whole, tile_count(tiling))
    assert planned is not None
    return exchange_along(local, 0, dimension, tiling).assembled(
        local.operands, *planned, local.shape.dimensions[dimension]
    )


def _local_select_and_scatter(local: LocalOperation) -> Instruction:
    """Selects in all windows that overlap the tile, and keeps what is scattered to the tile."""
    array, source, initial = local.operands
    tiles: list[TileOfSelection] = []
    for dimension, tiling in enumerate(local.result_shardings[0].tilings):
        window = window_along(local.instruction, dimension)
        if tiling is None or window is None or window.is_identity:
            continue
        sizes = [operand.shape.dimensions[dimension] for operand in local.instruction.operands[:2]]
        exchanges = [exchange_along(local, number, dimension, tiling) for number in range(2)]
        tile = TileOfSelection(exchanges[0], sizes[0], local.shape.dimensions[dimension], window)
        is_whole = [sharding.tilings[dimension] is None for sharding in local.operand_shardings[:2]]
        array = exchanges[0].read(array, sizes[0], tile.reads.elements, None, is_whole[0])
        source = exchanges[1].read(source, sizes[1], tile.reads.windows, initial, is_whole[1])
        tiles.append(tile)
    for tile in tiles:
        array = tile.repeated_edges(array)
    attributes = with_local_windows(local.instruction, [tile.exchange.dimension for tile in tiles])
    found = replace(local, shape=array.shape).write([array, source, initial], attributes)
    for tile in tiles:
        found = tile.combined_edges(found, local.instruction, initial)
    for tile in tiles:
        found = tile.exchange.slice_at(found, tile.reads.offsets, tile.tile_size)
    return found


LOCAL_WINDOW_RULES: dict[OpDef, Callable[[LocalOperation], Instruction]] = {
    opcodes.CONCATENATE: _local_concatenate,
    opcodes.CONVOLUTION: _local_convolution,
    opcodes.CUSTOM_CALL: _local_concatenate,
    opcodes.PAD: _local_pad,
    opcodes.REDUCE_WINDOW: _local_reduce_window,
    opcodes.REVERSE: _local_reverse,
    **LOCAL_DYNAMIC_SLICE_RULES,
    opcodes.SELECT_AND_SCATTER: _local_select_and_scatter,
    opcodes.SLICE: _local_slice,
}
"""Writes the operations that need elements of other tiles."""
