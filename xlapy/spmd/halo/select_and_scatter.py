"""Local select-and-scatter along dimensions that are split, as in gradients of maximum pooling.

A device takes all windows that overlap its tile, computes on the elements of these windows, and keeps its tile. Windows
that do not exist scatter the identity. Padding must never be selected. There the nearest element of the array is
repeated, which no comparison prefers to the element itself. What is scattered to a repeated element belongs to the
element, and is combined with it.

Responsible for the local operation. Does not depend on how elements get to the device (`exchange.py`).

Worked example: windows of 3 with stride 2 and padding 1_1 over 8 elements in 2 tiles of 4. Windows begin at -1, 1, 3
and 5. Tile 0 overlaps the windows from -1, 1 and 3, tile 1 those from 3 and 5. Both take three: tile 0 the windows
0 to 2 with the elements -1 to 5, tile 1 the windows 2 to 4 with the elements 3 to 9, where window 4 does not exist.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.reduction import ReduceAttributes, WindowAttributes
from xlapy.spmd.halo.exchange import HaloExchange
from xlapy.spmd.halo.segments import IntArray
from xlapy.spmd.halo.windows import overlapping_windows, reads_padding, with_windows


class TileOfSelection:
    """One dimension along which a select-and-scatter is split.

    exchange: that of the operand. size: the elements of the whole dimension. window: that of the operation.
    """

    def __init__(self, exchange: HaloExchange, size: int, tile_size: int, window: WindowDimension) -> None:
        self.exchange = exchange
        self.size = size
        self.tile_size = tile_size
        self.reads = overlapping_windows(window, tile_size, exchange.tiles)
        self.has_padding = reads_padding(window, size)

    def repeated_edges(self, array: Instruction) -> Instruction:
        """Repeats the first and the last element of the whole array in the padding."""
        if not self.has_padding:
            return array
        starts = self.reads.elements.starts
        first = self.exchange.slice_at(array, self._edge(starts, 0), 1)
        last = self.exchange.slice_at(array, self._edge(starts, self.size - 1), 1)
        array = self.exchange.chosen(array, -starts, starts * 0 + self.reads.elements.length, self._row(array, first))
        return self.exchange.chosen(array, starts * 0, self.size - starts, self._row(array, last))

    def combined_edges(self, result: Instruction, operation: Instruction, initial: Instruction) -> Instruction:
        """Combines what was scattered to the padding with the first and the last element of the whole array."""
        if not self.has_padding:
            return result
        starts, length = self.reads.elements.starts, self.reads.elements.length
        for edge, low, high in ((0, starts * 0, -starts), (self.size - 1, self.size - starts, starts * 0 + length)):
            outside = self.exchange.chosen(result, low, high, initial)
            total = self._reduced(outside, operation, initial)
            indices = self._edge(starts, edge)
            is_here = (starts <= edge) & (edge < starts + length)
            total = self.exchange.chosen(total, starts * 0, is_here * 1, initial)
            old = self.exchange.slice_at(result, indices, 1)
            both = self._combined(old, total, operation)
            result = self.exchange.updated_at(result, both, indices)
        return result

    def _edge(self, starts: IntArray, index: int) -> IntArray:
        """Returns the position of an element of the whole array in the local array of each tile that has it."""
        return np.clip(index - starts, 0, self.reads.elements.length - 1)

    def _row(self, array: Instruction, row: Instruction) -> Instruction:
        """Broadcasts one element along the dimension to the shape of an array."""
        dimension, write = self.exchange.dimension, self.exchange.write
        kept = [d for d in range(array.shape.rank) if d != dimension]
        flat = write.reshape(row, row.shape.with_dimensions([array.shape.dimensions[d] for d in kept]))
        return write.broadcast(flat, array.shape, kept)

    def _reduced(self, array: Instruction, operation: Instruction, initial: Instruction) -> Instruction:
        """Combines all elements along the dimension, which stays with one element."""
        dimension, write = self.exchange.dimension, self.exchange.write
        attributes = ReduceAttributes.make(dimensions=(dimension,))
        scatter = operation.computations[1]
        found = write.add(opcodes.REDUCE, array, initial, attributes=attributes, computations=[scatter])
        sizes = [1 if d == dimension else size for d, size in enumerate(array.shape.dimensions)]
        return write.reshape(found, array.shape.with_dimensions(sizes))

    def _combined(self, left: Instruction, right: Instruction, operation: Instruction) -> Instruction:
        return self.exchange.write.add(operation.computations[1].root_instruction.op, left, right)


def with_local_windows(operation: Instruction, dimensions: list[int]) -> WindowAttributes:
    """Returns the attributes of the local operation, which has no padding along some dimensions."""
    attributes = operation.attributes_as(WindowAttributes)
    pairs = enumerate(attributes.window.dimensions)
    changed = {d: replace(each, padding_low=0, padding_high=0) for d, each in pairs if d in dimensions}
    return replace(attributes, window=with_windows(attributes.window, changed))
