"""The sizes of a select-and-scatter whose elements collect their sources: which windows contain an element.

Does not depend on loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.codegen.region import Region
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I32, Affine
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import storage_type
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.movement import PadAttributes, SliceAttributes
from xlapy.opcodes.reduction import WindowAttributes

MAX_WINDOW = 64
"""The largest number of elements of a window, each of which has code of its own where elements collect sources."""

MAX_LANE_STRIDE = 4
"""The largest stride along a last dimension whose windows run in vectors: each remainder takes part in the vectors."""

TASKS_PER_PROCESSOR = 4
"""With fewer tasks than this, each gets fewer rows."""


@dataclass(frozen=True, slots=True)
class WindowedDimension:
    """One dimension: its window, the number of windows, and the elements of the result that are wanted.

    start, size: of the wanted elements, in the operand of the select-and-scatter. data: the part of the operand that is
    not padding.
    """

    window: WindowDimension
    windows: int
    start: int
    size: int
    data: tuple[int, int]

    @property
    def is_trivial(self) -> bool:
        return self.window == WindowDimension(size=1)

    @property
    def first_quotient(self) -> int:
        return (self.start + self.window.padding_low) // self.window.stride

    @property
    def quotients(self) -> int:
        """The number of quotients of wanted elements."""
        last = self.start + self.size - 1 + self.window.padding_low
        return last // self.window.stride + 1 - self.first_quotient

    @property
    def overlap(self) -> int:
        """The number of windows before the quotient's own that contain its first element."""
        return (self.window.size - 1) // self.window.stride

    @property
    def reached(self) -> int:
        """The number of windows, in the row of all integers, that may contain wanted elements."""
        return self.quotients + self.overlap

    @property
    def first_window(self) -> int:
        return self.first_quotient - self.overlap

    def window_offsets(self, rest: int) -> list[tuple[int, int]]:
        """The windows that contain an element with a remainder, in order: how many before its own, and the offset."""
        before = range(self.overlap, -1, -1)
        found = [(j, rest + j * self.window.stride) for j in before]
        return [(j, offset) for j, offset in found if offset < self.window.size]

    def position(self, quotient: Affine, rest: int) -> Affine:
        """The position in the result of the element with a quotient, counted from the first one, and a remainder."""
        first = self.first_quotient * self.window.stride + rest - self.window.padding_low - self.start
        return quotient * self.window.stride + first

    @property
    def whole_quotients(self) -> tuple[int, int]:
        """The quotients, from the first one, of which the elements of all remainders are wanted."""
        inside = [
            q
            for q in range(self.quotients)
            if all(0 <= self.position(Affine((), q), r).constant < self.size for r in range(self.window.stride))
        ]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    @property
    def whole_windows(self) -> tuple[int, int]:
        """The windows that exist and meet data only."""
        inside = [
            w
            for w in range(max(0, self.first_window), min(self.windows, self.first_window + self.reached))
            if self.data[0] <= w * self.window.stride - self.window.padding_low
            and w * self.window.stride - self.window.padding_low + self.window.size <= self.data[1]
        ]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)


@dataclass(frozen=True, slots=True)
class PooledGradient:
    """A select-and-scatter whose elements collect their sources: see the module's description."""

    region: Region
    scatter: Instruction
    dimensions: tuple[WindowedDimension, ...]
    lanes: int

    @property
    def area(self) -> int:
        """The number of elements of a window."""
        return math.prod(d.window.size for d in self.dimensions)

    @property
    def split(self) -> int:
        """The dimension whose blocks are tasks: the first one that windows extend over, but not the one in lanes."""
        windowed = next(n for n, d in enumerate(self.dimensions) if not d.is_trivial)
        return min(windowed, len(self.dimensions) - 2)

    def selected_sizes(self, rows: int) -> tuple[int, ...]:
        """The dimensions of the selected numbers of a task with some rows of quotients."""
        first, *inner = self.dimensions[self.split :]
        return (rows + first.overlap, *(d.reached for d in inner))

    def selected_bytes(self, rows: int) -> int:
        return I32.byte_size * math.prod(self.selected_sizes(rows))

    def block(self) -> int:
        """The rows of quotients of a task: their selected numbers fill at most a quarter of the L2 cache."""
        target, count = self.region.target, self.dimensions[self.split].quotients
        row_bytes = self.selected_bytes(1) - self.selected_bytes(0)
        overlap = self.dimensions[self.split].overlap
        most = max(1, min(target.l2_bytes // 4, MAX_SCRATCH_BYTES // 2) // row_bytes - overlap)
        outer = math.prod(d.size for d in self.dimensions[: self.split])
        blocks = -(-TASKS_PER_PROCESSOR * target.processors // outer)
        return balanced_size(count, max(1, min(most, -(-count // blocks))))


def pooled_gradient(region: Region) -> PooledGradient | None:
    """The select-and-scatter of a region and the slice after it; None if there is none, or windows are unsuitable."""
    root, scatter = region.root, region.root
    if root.op is opcodes.SLICE:
        scatter = root.operands[0]
    if scatter.op is not opcodes.SELECT_AND_SCATTER or scatter not in region.instructions:
        return None
    windows = scatter.attributes_as(WindowAttributes).window.dimensions
    operand, source, _ = scatter.operands
    types = [operand.shape.element_type, source.shape.element_type, scatter.shape.element_type]
    if len(windows) < 2 or any(t.is_complex for t in types) or all(w == WindowDimension(size=1) for w in windows):
        return None
    if not root.shape.size or not source.shape.size or math.prod(w.size for w in windows) > MAX_WINDOW:
        return None
    if any(w.base_dilation > 1 or w.window_dilation > 1 for w in windows):
        return None
    if math.prod(w.stride for w in windows) > MAX_WINDOW or windows[-1].stride > MAX_LANE_STRIDE:
        return None
    ranges = root.attributes_as(SliceAttributes).ranges if root is not scatter else None
    if ranges is not None and any(stride > 1 for stride in ranges.strides):
        return None
    starts = ranges.starts if ranges is not None else (0,) * len(windows)
    data = _data(operand) if operand in region.instructions else [(0, size) for size in operand.shape.dimensions]
    sizes = zip(windows, source.shape.dimensions, starts, root.shape.dimensions, data, strict=True)
    widest = max(storage_type(t).byte_size for t in types)
    lanes = max(1, region.target.vector_bytes // max(widest, I32.byte_size))
    return PooledGradient(region, scatter, tuple(WindowedDimension(*each) for each in sizes), lanes)


def _data(operand: Instruction) -> list[tuple[int, int]]:
    """The part of an array along each dimension that is not padding, if the array is padded."""
    sizes = operand.shape.dimensions
    if operand.op is not opcodes.PAD:
        return [(0, size) for size in sizes]
    edges = operand.attributes_as(PadAttributes).padding.dimensions
    return [(max(0, d.low), size - max(0, d.high)) for d, size in zip(edges, sizes, strict=True)]
