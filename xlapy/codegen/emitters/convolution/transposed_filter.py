"""Filters whose terms are contiguous for each output feature, as in the order OIHW of networks with channels first.

A convolution in the canonical order reads such a filter through a transpose. A packed block is then a transposed
matrix: its rows in memory are output features, its columns are pairs of an input feature and a window offset.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.codegen.emitters.convolution.factors import ConvolutionFactors
from xlapy.loops import Affine, Buffer
from xlapy.loops.ir import tile_shape
from xlapy.lower.element_types import register_type


@dataclass(frozen=True, slots=True)
class TransposedFilter:
    """A filter in memory: element (output, input, offset) is at start + output * pitch + input * window + offset."""

    buffer: Buffer
    start: Affine
    pitch: int
    window: int

    def offset(self, output: Affine, input: Affine) -> Affine:
        """The offset in the buffer of the first window offset of an input feature."""
        return self.start + output * self.pitch + input * self.window


def transposed_filter(factors: ConvolutionFactors, features: int) -> TransposedFilter | None:
    """The memory of a filter that is packed by transposition, `features` output features at a time; None for others."""
    g, builder = factors.geometry, factors.builder
    n, filter = g.numbers, g.filter
    if filter.op is not opcodes.TRANSPOSE or factors.terms > 1 or g.groups > 1:
        return None
    source = factors.lowering.source(filter.operands[0])
    kind = register_type(factors.factor_type)
    if source is None or source.buffer.type is not kind or any(d.window.window_reversal for d in g.dimensions):
        return None
    order = n.kernel_output_feature_dimension, n.kernel_input_feature_dimension, *n.kernel_spatial_dimensions
    is_contiguous = [filter.dimensions[d] for d in order] == list(range(len(order)))
    if not is_contiguous or features % tile_shape(builder.kernel.vector_bytes, kind.byte_size)[0]:
        return None
    window = math.prod(d.window.size for d in g.dimensions)
    start = source.offset((Affine(),) * len(order))
    return TransposedFilter(source.buffer, start, g.inputs * window, window)


def packed_room(factors: ConvolutionFactors, features: int) -> int:
    """The elements behind a packed block that its last transposed tile may overwrite."""
    return tile_shape(factors.builder.kernel.vector_bytes, register_type(factors.factor_type).byte_size)[1] * features
