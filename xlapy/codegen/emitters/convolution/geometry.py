"""The sizes of a convolution, and which input element a window meets at an offset.

A spatial dimension whose input is dilated (base dilation D, stride 1) splits into D phases: the positions p * D + r of
phase r meet input elements at the offsets k * D + rest only, and there they meet consecutive elements. Example, D = 2,
a window of 3, low padding 1: the even positions meet one element, at offset 1, the odd ones two, at offsets 0 and 2.

Does not depend on how loops are arranged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I64, Affine, Builder, Value
from xlapy.lower import Element
from xlapy.lower.core import Index, delinear
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.convolution import ConvolutionAttributes, SparsityConfig


@dataclass(frozen=True, slots=True)
class SpatialDimension:
    """One spatial dimension: its window, and the sizes of the input and of the result."""

    window: WindowDimension
    input: int
    output: int

    @property
    def phases(self) -> int:
        return self.window.base_dilation

    @property
    def has_phases_only(self) -> bool:
        """Whether phases describe the dilated input, if it is one, and each phase has positions and offsets."""
        if self.phases == 1:
            return True
        plain = self.window.stride == 1 and self.window.window_dilation == 1
        return plain and self.phases <= min(self.window.size, self.output)

    def positions(self, phase: int = 0) -> int:
        """The number of positions of a phase; the first phase has the most."""
        return max(0, -(-(self.output - phase) // self.phases))

    @property
    def offsets(self) -> int:
        """The largest number of window offsets that meet elements in one phase."""
        return -(-self.window.size // self.phases)

    def rest(self, phase: int) -> int:
        """The first window offset at which a phase meets elements."""
        return (self.window.padding_low - phase) % self.phases

    def offsets_of(self, phase: int) -> int:
        return max(0, -(-(self.window.size - self.rest(phase)) // self.phases))

    @property
    def stride(self) -> int:
        """The distance in the input between neighboring positions of a phase."""
        return 1 if self.phases > 1 else self.window.stride

    @property
    def step(self) -> int:
        """The distance in the input between neighboring offsets of a phase."""
        return 1 if self.phases > 1 else self.window.window_dilation

    def start(self, phase: int) -> int:
        """The input element, if there is one, that position 0 of a phase meets at its first offset."""
        return (phase + self.rest(phase) - self.window.padding_low) // self.phases

    def is_inside(self, phase: int, position: int, offset: int) -> bool:
        """Whether the window at a position meets an input element at an offset."""
        return 0 <= position * self.stride + offset * self.step + self.start(phase) < self.input


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The window offsets at which a row of positions meets elements, along one dimension.

    start: the input element at offset 0; rest: the window offset of offset 0; `count` offsets from `first` on.
    """

    start: Affine
    rest: Affine
    first: Affine
    count: int | Value


def offset_range(builder: Builder, d: SpatialDimension, position: Affine, phase: Affine) -> OffsetRange:
    """The offsets at which the window at a position of a phase meets elements: exactly those inside the input."""
    if d.phases == 1:
        start, rest, limit = position * d.stride - d.window.padding_low, Affine(), None
    else:
        low = d.window.padding_low
        lift = d.phases * (1 + abs(low) // d.phases)
        rest = builder.remainder(phase * -1 + (low + d.phases + lift), d.phases)
        start = position + builder.quotient(phase + rest + (lift - low), d.phases) - lift // d.phases
        limit = builder.value_of(builder.quotient(rest * -1 + (d.window.size + d.phases - 1), d.phases))
    bounds = start.bounds()
    inside = bounds is not None and bounds[0] >= 0 and bounds[1] + (d.offsets - 1) * d.step < d.input
    if inside and limit is None:
        return OffsetRange(start, rest, Affine(), d.offsets)
    first = _offsets_before(builder, d, start * -1, limit)
    end = _offsets_before(builder, d, start * -1 + d.input, limit)
    count = builder.value_of(end - first)
    count.range = (0, d.offsets)
    return OffsetRange(start, rest, first, count)


def _offsets_before(builder: Builder, d: SpatialDimension, distance: Affine, limit: Value | None) -> Affine:
    """The number of offsets whose elements lie before a distance from the first one; at most all of them."""
    if d.step > 1:
        bounds = distance.bounds()
        assert bounds is not None, "positions are sums over axes"
        lift = max(0, -(bounds[0] // d.step))
        distance = builder.quotient(distance + (d.step - 1 + lift * d.step), d.step) - lift
    clamped = builder.clamped(builder.value_of(distance), d.offsets)
    if limit is None:
        return clamped
    return builder.clamped(builder.binary("smin", builder.value_of(clamped), limit), d.offsets)


class ConvolutionGeometry:
    """The sizes of a convolution with its dimensions in any order.

    Indices are assembled of coordinates: group, batch (of a group), feature (of a group: of the input or the output),
    and spatial components.
    """

    def __init__(self, root: Instruction) -> None:
        attrs: ConvolutionAttributes = root.attributes_as(ConvolutionAttributes)
        self.root, self.attrs, self.numbers = root, attrs, attrs.dim_labels
        self.input, self.filter = root.operands
        lhs, rhs, result = self.input.shape.dimensions, self.filter.shape.dimensions, root.shape.dimensions
        n = self.numbers
        self.groups = attrs.feature_group_count * attrs.batch_group_count
        self.batch = result[n.output_batch_dimension]
        self.inputs = rhs[n.kernel_input_feature_dimension]
        self.outputs = result[n.output_feature_dimension] // self.groups
        self.dimensions = [
            SpatialDimension(w, lhs[i], result[o])
            for w, i, o in zip(
                attrs.window.dimensions, n.input_spatial_dimensions, n.output_spatial_dimensions, strict=True
            )
        ]

    @property
    def products(self) -> int:
        count = self.groups * self.batch * self.outputs * self.inputs
        for d in self.dimensions:
            count *= d.output * d.offsets
        return count

    # -- indices

    def offsets_in_order(self, builder: Builder, number: Affine) -> list[Affine]:
        """The position in the kernel of offset `number` of the window, in row-major order."""
        return self.in_kernel_order(delinear(builder, number, [d.window.size for d in self.dimensions]))

    def in_kernel_order(self, offsets: Sequence[Affine]) -> list[Affine]:
        """The position in the kernel of an offset of the window: mirrored where the window is reversed."""
        pairs = zip(self.dimensions, offsets, strict=True)
        return [k * -1 + (d.window.size - 1) if d.window.window_reversal else k for d, k in pairs]

    def input_index(self, group: Affine, batch: Affine, feature: Affine, spatial: Sequence[Affine]) -> Index:
        n = self.numbers
        index = _placed(
            {n.input_batch_dimension: batch, n.input_feature_dimension: feature}, n.input_spatial_dimensions, spatial
        )
        if self.attrs.batch_group_count > 1:
            index[n.input_batch_dimension] += group * self.batch
        else:
            index[n.input_feature_dimension] += group * self.inputs
        return tuple(index)

    def filter_index(self, group: Affine, input: Affine, output: Affine, offsets: Sequence[Affine]) -> Index:
        n = self.numbers
        features = {
            n.kernel_input_feature_dimension: input,
            n.kernel_output_feature_dimension: group * self.outputs + output,
        }
        return tuple(_placed(features, n.kernel_spatial_dimensions, offsets))

    def result_index(self, group: Affine, batch: Affine, feature: Affine, spatial: Sequence[Affine]) -> Index:
        n = self.numbers
        others = {n.output_batch_dimension: batch, n.output_feature_dimension: group * self.outputs + feature}
        return tuple(_placed(others, n.output_spatial_dimensions, spatial))


def _placed(others: Mapping[int, Affine], spatial: Sequence[int], positions: Sequence[Affine]) -> list[Affine]:
    found = dict(others) | dict(zip(spatial, positions, strict=True))
    return [found[d] for d in sorted(found)]


def plain_convolution(root: Instruction) -> ConvolutionGeometry | None:
    """The geometry of a dense convolution with elements and spatial dimensions; None for any other instruction."""
    if root.op is not opcodes.CONVOLUTION:
        return None
    if root.attributes_as(ConvolutionAttributes).sparsity_config != SparsityConfig():
        return None
    shapes = [root.shape, *(operand.shape for operand in root.operands)]
    if any(not shape.size for shape in shapes) or root.shape.rank < 3:
        return None
    geometry = ConvolutionGeometry(root)
    return geometry if all(d.has_phases_only for d in geometry.dimensions) else None


def minimum(builder: Builder, value: Affine, limit: int) -> Affine:
    """The smaller one of a nonnegative position and a limit; the position itself if it cannot exceed the limit."""
    bounds = value.bounds()
    if bounds is not None and bounds[1] <= limit:
        return value
    return builder.clamped(builder.value_of(value), limit)


def equals(builder: Builder, value: Affine, number: int) -> Value:
    return builder.compare("eq", builder.value_of(value), builder.constant(I64, number))


def scalar_values(elements: Sequence[Element]) -> list[Value]:
    """The elements as values; none of them is complex."""
    found = [element for element in elements if isinstance(element, Value)]
    assert len(found) == len(elements), "convolutions of complex numbers have another kernel"
    return found
