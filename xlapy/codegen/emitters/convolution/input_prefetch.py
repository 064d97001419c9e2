"""Prefetches the input of a direct convolution whose windows have one element, as in bottlenecks of networks.

Such a convolution uses an element only for a few products. Its tiles read several positions at once, each in a stream
of its own, which hardware prefetchers do not follow. So each step of the products, which reads one factor of each
position of a tile, also starts to load a part of the positions behind the tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy.codegen.emitters.convolution.factors import ConvolutionFactors
from xlapy.codegen.emitters.convolution.geometry import minimum
from xlapy.codegen.target import Target
from xlapy.loops import Affine, Location


@dataclass(frozen=True, slots=True)
class InputPrefetch:
    """Prefetches the input of tiles of `positions` positions, on a machine `target`."""

    target: Target
    factors: ConvolutionFactors
    positions: int

    @property
    def is_worthwhile(self) -> bool:
        """Whether the input lies in memory, position after position as tiles read it, but not in the L2 cache.

        With eight images of 56 x 56 positions, 144 features to 24 take 0.67x the time, 256 to 64 0.77x, and 64 to 256
        0.97x (two processors, L2 caches of 1 MiB). With strides, layers of ResNet-50 take the same time.
        """
        g = self.factors.geometry
        source = self.factors.lowering.source(g.input)
        if source is None or g.groups > 1 or g.numbers.input_feature_dimension != g.input.shape.rank - 1:
            return False
        size = source.shape.size * source.buffer.type.byte_size
        return size > self.target.l2_bytes and all(d.window.is_identity for d in g.dimensions)

    def prefetch(self, batch: Affine, spatial: Sequence[Affine], number: Affine) -> None:
        """Prefetches a part of the positions behind a tile, in the step for factor `number` of the tile's positions.

        spatial: the first position of the tile.
        """
        builder, g = self.factors.builder, self.factors.geometry
        source = self.factors.lowering.source(g.input)
        assert source is not None, g.input.name
        behind = source.offset(g.input_index(Affine(), batch, Affine(), spatial)) + self.positions * g.inputs
        elements = self.positions * self.factors.terms
        line = max(1, self.target.cache_line_bytes // source.buffer.type.byte_size)
        for begin in range(0, elements, line):
            place = minimum(builder, behind + number * elements + begin, source.buffer.size - 1)
            builder.prefetch(Location(source.buffer, place))
