"""Prefetches the part of a filter that a direct convolution packs next.

A large filter is read from memory or the L3 cache. Where few positions share it, as in the last layers of a network for
one image, reading takes up to half as long as the products. So each step of the products, which reads one term of a
packed block, also starts to load one cache line of the same term of the block that follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy.codegen.emitters.convolution.factors import ConvolutionFactors
from xlapy.codegen.emitters.convolution.geometry import minimum
from xlapy.codegen.target import Target
from xlapy.loops import Affine, Location
from xlapy.lower.core import delinear

MIN_FILTERS_IN_L2 = 4
"""A filter of which fewer fit into the L2 cache is prefetched: the arrays of other layers displace it between two runs
of a network (`benchmarks.networks`, "resnet50, 1 image": the layer with a filter of 1 MB takes 0.87x)."""


@dataclass(frozen=True, slots=True)
class FilterBlock:
    """A block of the filter: its first output feature and its first factor."""

    feature: Affine
    factor: Affine


@dataclass(frozen=True, slots=True)
class FilterPrefetch:
    """Prefetches blocks of `features` output features and some factors, on a machine `target`."""

    target: Target
    factors: ConvolutionFactors
    features: int

    @property
    def is_worthwhile(self) -> bool:
        """Whether the filter lies in memory as it is, and is large enough."""
        filter = self.factors.geometry.filter
        size = filter.shape.size * filter.shape.element_type.byte_size
        least = self.target.l2_bytes // MIN_FILTERS_IN_L2
        return self.factors.lowering.source(filter) is not None and size >= least

    def prefetch(self, block: FilterBlock, offsets: Sequence[Affine], number: Affine, tile: Affine) -> None:
        """Prefetches a cache line of factor `number` of a block, at an offset in the window.

        tile: the number of the tile that is being computed; each tile prefetches another line of the factor.
        """
        builder, g, terms = self.factors.builder, self.factors.geometry, self.factors.terms
        source = self.factors.lowering.source(g.filter)
        assert source is not None, g.filter.name
        elements = max(1, self.target.cache_line_bytes // g.filter.shape.element_type.byte_size)
        lines = -(-self.features // elements)
        term, line = delinear(builder, builder.remainder(tile, terms * lines), (terms, lines))
        input = minimum(builder, (block.factor + number) * terms + term, g.inputs - 1)
        output = minimum(builder, block.feature + line * elements, g.outputs - 1)
        index = g.filter_index(Affine(), input, output, offsets)
        builder.prefetch(Location(source.buffer, source.offset(index)))
