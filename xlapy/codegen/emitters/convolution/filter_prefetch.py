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
from xlapy.codegen.emitters.convolution.transposed_filter import TransposedFilter
from xlapy.codegen.target import Target
from xlapy.loops import Affine, Location
from xlapy.lower.core import delinear, linear

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
    """Prefetches blocks of `features` output features and at most `count` factors, on a machine `target`.

    transposed: the filter in memory, if blocks are packed by transposition.
    """

    target: Target
    factors: ConvolutionFactors
    transposed: TransposedFilter | None
    features: int
    count: int

    @property
    def is_worthwhile(self) -> bool:
        """Whether the filter lies in memory as it is packed, and is large enough."""
        filter = self.factors.geometry.filter
        size = filter.shape.size * filter.shape.element_type.byte_size
        is_in_memory = self.transposed is not None or self.factors.lowering.source(filter) is not None
        return is_in_memory and size >= self.target.l2_bytes // MIN_FILTERS_IN_L2

    def prefetch(self, block: FilterBlock, offsets: Sequence[Affine], number: Affine, tile: Affine) -> None:
        """Prefetches a cache line of a block, in the step for factor `number` at an offset in the window.

        tile: the number of the tile that is being computed; each tile prefetches other lines.
        """
        if self.transposed is None:
            location = self._line_of_features(block, offsets, number, tile)
        else:
            location = self._line_of_terms(self.transposed, block, offsets, number, tile)
        self.factors.builder.prefetch(location)

    @property
    def _line_elements(self) -> int:
        return max(1, self.target.cache_line_bytes // self.factors.geometry.filter.shape.element_type.byte_size)

    def _line_of_features(
        self, block: FilterBlock, offsets: Sequence[Affine], number: Affine, tile: Affine
    ) -> Location:
        """A line of neighboring features of the same factor."""
        builder, g, terms = self.factors.builder, self.factors.geometry, self.factors.terms
        source = self.factors.lowering.source(g.filter)
        assert source is not None, g.filter.name
        lines = -(-self.features // self._line_elements)
        term, line = delinear(builder, builder.remainder(tile, terms * lines), (terms, lines))
        input = minimum(builder, (block.factor + number) * terms + term, g.inputs - 1)
        output = minimum(builder, block.feature + line * self._line_elements, g.outputs - 1)
        return Location(source.buffer, source.offset(g.filter_index(Affine(), input, output, offsets)))

    def _line_of_terms(
        self, filter: TransposedFilter, block: FilterBlock, offsets: Sequence[Affine], number: Affine, tile: Affine
    ) -> Location:
        """A line of neighboring terms of one feature: steps go through the features, then through the lines."""
        builder, g = self.factors.builder, self.factors.geometry
        step = number * filter.window + linear(tuple(offsets), [d.window.size for d in g.dimensions])
        lines, feature = delinear(builder, step, (-(-self.count * filter.window // self.features), self.features))
        part = builder.remainder(tile, -(-self.features // self._line_elements))
        line = lines + part * -(-self.count * filter.window // self.features)
        term = minimum(builder, block.factor * filter.window + line * self._line_elements, filter.pitch - 1)
        output = minimum(builder, block.feature + feature, g.outputs - 1)
        return Location(filter.buffer, filter.offset(output, Affine()) + term)
