"""Cumulative operations along a split dimension, such as cumulative sums.

JAX writes them as a reduce-window whose windows cover all elements up to their position, or all from it on. Each device
computes the cumulative operation of its tile and combines it with the totals of the tiles before. Devices exchange one
total for each row.

The elements of a row are combined in this order: those of each tile first to last, then the totals of the earlier tiles
first to last, then these with the elements of the tile. So floating-point results differ in rounding from those of the
whole program, as they do in XLA.

Responsible for these reduce-windows. Does not depend on how a single device computes one.
"""

from __future__ import annotations

import dataclasses

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import monoid
from xlapy.opcodes.attributes.dimensions import Window, WindowDimension
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.movement import DimensionsAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.passes.expand.blocks import compare, iota, slice_dimension
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.reducers import initial_values_may_repeat, reduce_first_dimension
from xlapy.spmd.along_dimension.tile_group import TileGroup
from xlapy.spmd.resharding import PartitionedArray


def cumulative_along_split_dimension(split: SplitOperation) -> list[PartitionedArray] | None:
    """Writes a reduce-window of one operand that is cumulative along a split dimension."""
    instruction, write = split.instruction, split.resharder.write
    dimension = cumulative_dimension(instruction)
    sharding = None if dimension is None else split.sharding_along(dimension)
    if dimension is None or sharding is None:
        return None
    reducer = instruction.to_apply
    if not initial_values_may_repeat(reducer, instruction.operands[1:]):
        return None
    initial = split.whole(1)
    tile = split.fill(split.local(0, sharding), sharding, dimension, initial)
    is_reverse = _windows(instruction)[dimension].padding_high > 0
    size = tile.shape.dimensions[dimension]
    window = _cumulative_window(tile.shape.rank, dimension, size, is_reverse)
    own = write.add(
        opcodes.REDUCE_WINDOW, tile, initial, attributes=WindowAttributes.make(window=window), computations=[reducer],
    )  # fmt: skip
    start = 0 if is_reverse else size - 1
    total = slice_dimension(write, own, dimension, start, start + 1)
    carry = _carry(write, split.group(sharding, dimension), reducer, total, initial, is_reverse)
    rest = [d for d in range(tile.shape.rank) if d != dimension]
    flat = write.reshape(carry, carry.shape.with_dimensions([carry.shape.dimensions[d] for d in rest]))
    spread = write.broadcast(flat, own.shape, rest)
    pair = (own, spread) if is_reverse else (spread, own)
    return split.results([apply_elementwise(write, reducer, *pair)], sharding)


def cumulative_dimension(instruction: Instruction) -> int | None:
    """Returns the dimension along which a reduce-window of one operand is cumulative; None if it is not."""
    windows = _windows(instruction)
    wide = [d for d, window in enumerate(windows) if window != WindowDimension(1)]
    if len(instruction.operands) != 2 or len(wide) != 1:
        return None
    (dimension,) = wide
    size, window = instruction.operands[0].shape.dimensions[dimension], windows[dimension]
    plain = dataclasses.replace(window, size=1, padding_low=0, padding_high=0) == WindowDimension(1)
    padding = (window.padding_low, window.padding_high)
    covers = window.size >= size and padding in ((window.size - 1, 0), (0, window.size - 1))
    return dimension if plain and covers and size > 1 else None


def _windows(instruction: Instruction) -> tuple[WindowDimension, ...]:
    return instruction.attributes_as(WindowAttributes).window.dimensions


def _cumulative_window(rank: int, dimension: int, size: int, is_reverse: bool) -> Window:
    low, high = (0, size - 1) if is_reverse else (size - 1, 0)
    wide = WindowDimension(size, padding_low=low, padding_high=high)
    return Window(tuple([wide if d == dimension else WindowDimension(1) for d in range(rank)]))


def _carry(
    write: Writer, group: TileGroup, reducer: Computation, total: Instruction, initial: Instruction, is_reverse: bool
) -> Instruction:
    """Returns the combination of the totals of the tiles before the device's own, or after it if `is_reverse`."""
    stacked = group.stack(write, total)
    numbers = iota(write, Shape.array(group.tile_index().shape.element_type, (group.size,)), 0)
    own = write.broadcast(group.tile_index(), numbers.shape)
    direction = ComparisonDirection.GT if is_reverse else ComparisonDirection.LT
    counts = compare(write, numbers, own, direction)
    mask = write.broadcast(counts, stacked.shape.with_element_type(counts.shape.element_type), (0,))
    others = write.add(opcodes.SELECT, mask, stacked, write.broadcast(initial, stacked.shape))
    return reduce_first_dimension(write, reducer, [others], [initial])[0]


def apply_elementwise(write: Writer, reducer: Computation, left: Instruction, right: Instruction) -> Instruction:
    """Writes a reducer of two scalars, applied to the elements of two arrays."""
    op = monoid(reducer)
    if op is not None:
        return write.add(op, left, right)
    attributes = DimensionsAttributes.make(dimensions=tuple(range(left.shape.rank)))
    return write.add(opcodes.MAP, left, right, attributes=attributes, computations=[reducer], shape=left.shape)
