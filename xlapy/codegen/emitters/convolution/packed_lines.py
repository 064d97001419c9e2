"""Packs lines of both operands of a kernel gradient as factors for dot instructions, in scratch memory.

The terms of a kernel gradient are the positions of several images. A factor holds the elements of two or four images at
the same position, which lie far from each other in memory: so a task packs them, a block of lines at a time. A line is
a part of a row of each image of a factor:

    input:   [lines][positions that the result reads][rows of the task]
    kernel:  [lines][offsets][features of the task]

Does not depend on tiles and their sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from xlapy.codegen.emitters.convolution.factors import ConvolutionFactors
from xlapy.codegen.emitters.matmul.micro_kernel import clamped_position, in_bounds
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.loops import Affine, AxisKind, Value
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Element
from xlapy.lower.element_types import register_type

PACKED_BYTES = 1 << 18
"""The largest size of the packed lines of both operands, which should stay in the L2 cache; longer rows are split."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line: the number of its factor, and the window offsets along each dimension but the last.

    first_offset: its first offset along the last dimension. spatial: the input position along each dimension but the
    last; exists: whether there is one, None if there always is.
    """

    image: Affine
    offsets: tuple[Affine, ...]
    first_offset: Affine
    spatial: tuple[Affine, ...]
    exists: Value | None


@dataclass(frozen=True, slots=True)
class LineShape:
    """The sizes of a packed line: window offsets, positions in the input, and rows and features of a task."""

    offsets: int
    positions: int
    rows: int
    features: int

    @property
    def factors(self) -> int:
        """The number of factors of both operands."""
        return self.positions * self.rows + self.offsets * self.features


def line_shape(factors: ConvolutionFactors, rows: int, features: int) -> LineShape:
    """The longest lines of which one fits into `PACKED_BYTES`, all of the same length but the last."""
    last, size = factors.geometry.dimensions[-1], register_type(factors.factor_type).byte_size
    around = (last.output - 1) * last.stride + 1 - last.step
    most = (PACKED_BYTES // size - around * rows) // (last.step * rows + features)
    offsets = balanced_size(last.window.size, max(1, most))
    return LineShape(offsets, around + offsets * last.step, rows, features)


class PackedLines:
    """Blocks of at most `count` packed lines, in vectors of `lanes`."""

    def __init__(self, factors: ConvolutionFactors, shape: LineShape, count: int, lanes: int) -> None:
        self.factors, self.shape, self.lanes = factors, shape, lanes
        builder, t = factors.builder, factors.factor_type
        self.left = ScratchArray(builder, "left", t, count * shape.positions * shape.rows)
        self.right = ScratchArray(builder, "right", t, count * shape.offsets * shape.features)

    def pack(self, number: Affine, line: Line, first_row: Affine, first_feature: Affine) -> None:
        """Packs a line of some rows and features, if it exists. number: of the line in the block."""
        builder, shape, lanes = self.factors.builder, self.shape, self.lanes
        with nullcontext() if line.exists is None else builder.branch(line.exists):
            with (
                builder.loop(shape.positions) as position,
                builder.loop(shape.rows, AxisKind.VECTOR, width=lanes) as row,
            ):
                place = (number * shape.positions + position) * shape.rows + row
                self.left.store(place, self._input_factor(line, position, first_row + row))
            with (
                builder.loop(shape.offsets) as offset,
                builder.loop(shape.features, AxisKind.VECTOR, width=lanes) as feature,
            ):
                place = (number * shape.offsets + offset) * shape.features + feature
                self.right.store(place, self._filter_factor(line, offset, first_feature + feature))

    def _input_factor(self, line: Line, position: Affine, row: Affine) -> Element:
        """The factor at a position of a line; any one where there is no input."""
        builder, last = self.factors.builder, self.factors.geometry.dimensions[-1]
        at = line.first_offset * last.step - last.window.padding_low + position
        bounds = at.bounds()
        if bounds is None or bounds[0] < 0 or bounds[1] >= last.input:
            at = builder.clamped(builder.value_of(at), last.input - 1)
        return self.factors.from_input(Affine(), row, line.image, (*line.spatial, at))

    def _filter_factor(self, line: Line, offset: Affine, feature: Affine) -> Element:
        g = self.factors.geometry
        at = clamped_position(self.factors.builder, line.first_offset + offset, g.dimensions[-1].window.size)
        mask = in_bounds(self.factors.lowering, feature, g.outputs, self.shape.features)
        return self.factors.from_filter(Affine(), line.image, feature, g.in_kernel_order([*line.offsets, at]), mask)

    def rows(
        self, number: Affine, line: Line, position: Affine, offset: Affine, rows: Sequence[Affine]
    ) -> list[Element]:
        """The factors of rows of the task, at a position of the result along the last dimension and a window offset."""
        last, shape = self.factors.geometry.dimensions[-1], self.shape
        at = position * last.stride + (offset - line.first_offset) * last.step
        place = (number * shape.positions + at) * shape.rows
        return [self.left.load(place + row) for row in rows]

    def features(self, number: Affine, line: Line, offset: Affine, features: Sequence[Affine]) -> list[Element]:
        """The factors of features of the task at a window offset."""
        place = (number * self.shape.offsets + offset - line.first_offset) * self.shape.features
        return [self.right.load(place + feature) for feature in features]
