"""Emits convolutions with windows of 3 x 3 by Winograd's algorithm F(2x2, 3x3).

A tile of 2 x 2 results depends on 4 x 4 elements of the input. Both operands and the sums are transformed, one
dimension after the other:

    input   d0 d1 d2 d3  ->  d0 - d2, d1 + d2, d2 - d1, d1 - d3
    filter  g0 g1 g2     ->  g0, (g0 + g1 + g2) / 2, (g0 - g1 + g2) / 2, g2
    sums    m0 m1 m2 m3  ->  m0 + m1 + m2, m1 - m2 - m3

Between the transforms there are 16 products per input feature, output feature and tile instead of 36: 16 matrix
multiplications of tiles x inputs by inputs x outputs. The first kernel transforms the filter to a temporary; in the
second one, each task has a block of tiles:

    for each block of tiles and part of the panels of features, a task
      transform the input: [16][tiles][inputs]
      for each panel of features
        for each of the 16 products, for each group of tiles, for each input feature
          sums += input[...] * filter[...]
        for each tile, transform the sums to 4 results

The value of a result depends on the elements under its own window only: the sums of result 0 contain d0, d1 and d2,
those of result 1 contain d1, d2 and d3. An infinity or NaN in the window, or an overflow of a transform, makes the
result infinite or NaN. Such results are computed again, directly. The order of the additions follows from the shapes
alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from xlapy.codegen.emitters.convolution.geometry import ConvolutionGeometry
from xlapy.codegen.emitters.convolution.winograd_blocks import PRODUCTS, TILE, WinogradBlocks
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.micro_kernel import in_bounds
from xlapy.codegen.epilogue import MAX_UNROLLED_EPILOGUE_COST, Epilogue
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.loops import F32, Affine, AxisKind, Buffer, Builder, Kernel, Value
from xlapy.lower import Lowering
from xlapy.lower.core import delinear

Line = Sequence[Value]
"""The elements of a tile or a window along one dimension."""

_ELEMENTS = range(TILE + 2)
"""The elements of the input, and the sums, of a tile along one dimension."""


def _transformed_input(b: Builder, d: Line) -> list[Value]:
    return [b.sub(d[0], d[2]), b.add(d[1], d[2]), b.sub(d[2], d[1]), b.sub(d[1], d[3])]


def _transformed_filter(b: Builder, g: Line) -> list[Value]:
    half = b.constant(F32, 0.5)
    ends, middle = b.mul(b.add(g[0], g[2]), half), b.mul(g[1], half)
    return [g[0], b.add(ends, middle), b.sub(ends, middle), g[2]]


def _results(b: Builder, m: Line) -> list[Value]:
    return [b.add(b.add(m[0], m[1]), m[2]), b.sub(b.sub(m[1], m[2]), m[3])]


def _transformed(b: Builder, matrix: Sequence[Line], along: Callable[[Builder, Line], list[Value]]) -> list[Value]:
    """Transforms the columns of a matrix, then the rows; returns its elements in row-major order."""
    columns = [along(b, column) for column in zip(*matrix, strict=True)]
    return [value for row in zip(*columns, strict=True) for value in along(b, row)]


class _WinogradKernel:
    """A kernel under construction. Its buffers: the operands, the results, the transformed filter."""

    def __init__(
        self, region: Region, geometry: ConvolutionGeometry, blocks: WinogradBlocks, *, writes_filter: bool
    ) -> None:
        self.geometry, self.blocks = geometry, blocks
        self.builder = builder = kernel_builder(region.name, region.target)
        self.sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        self.outputs = [result_buffer(builder, result.shape, f"out{n}") for n, result in enumerate(region.results)]
        self.filter = builder.buffer("filter", F32, blocks.filter_size, written=writes_filter)
        self.lowering = Lowering(builder, self.sources)

    def filter_element(self, input: Affine, output: Affine, offsets: Sequence[Affine]) -> Value:
        g = self.geometry
        return self.lowering.value(g.filter, g.filter_index(Affine(), input, output, g.in_kernel_order(offsets)))

    def mask_of_output(self, output: Affine) -> Value | None:
        """Whether a feature of a panel exists; None if the panels are whole."""
        return in_bounds(self.lowering, output, self.geometry.outputs, self.blocks.features)


def filter_kernel(region: Region, geometry: ConvolutionGeometry, blocks: WinogradBlocks) -> Kernel:
    """Transforms the filter: [panels][16][inputs][features of a panel], with zeros for features that do not exist."""
    kernel = _WinogradKernel(region, geometry, blocks, writes_filter=True)
    builder, lowering = kernel.builder, kernel.lowering
    with builder.loop(blocks.panels * geometry.inputs, AxisKind.PARALLEL) as number:
        panel, input = delinear(builder, number, (blocks.panels, geometry.inputs))
        with builder.loop(blocks.features, AxisKind.VECTOR, width=blocks.lanes) as column:
            output = panel * blocks.features + column
            mask = kernel.mask_of_output(output)
            with nullcontext() if mask is None else lowering.where(mask):
                window = [
                    [kernel.filter_element(input, output, (Affine((), y), Affine((), x))) for x in range(3)]
                    for y in range(3)
                ]
            for product, value in enumerate(_transformed(builder, window, _transformed_filter)):
                at = blocks.filter_offset(panel, Affine((), product), input)
                builder.store(kernel.filter, at + column, value)
    return builder.kernel


class WinogradConvolution(_WinogradKernel):
    """The kernel that computes a convolution with the transformed filter."""

    def __init__(self, region: Region, geometry: ConvolutionGeometry, blocks: WinogradBlocks) -> None:
        super().__init__(region, geometry, blocks, writes_filter=False)
        builder = self.builder
        self.epilogue = Epilogue(region, geometry.root, builder, self.sources, self.outputs)
        self.inputs = builder.scratch("inputs", F32, PRODUCTS * blocks.input_pitch)
        self.sums = builder.scratch("sums", F32, PRODUCTS * blocks.sum_pitch)
        self.results: Buffer | None = None
        """The results of a tile for a panel, if they have a long epilogue."""
        if self.epilogue.cost * TILE * TILE > MAX_UNROLLED_EPILOGUE_COST:
            self.results = builder.scratch("results", F32, TILE * TILE * blocks.features)

    def kernel(self) -> Kernel:
        builder, blocks = self.builder, self.blocks
        with builder.loop(blocks.tasks, AxisKind.PARALLEL) as task:
            # all blocks of tiles in turn with the same part of the filter, which stays in the caches
            part, block = delinear(builder, task, (blocks.panel_parts, blocks.tile_blocks))
            first_tile, first_panel = block * blocks.block_tiles, part * blocks.panels_per_task
            tiles = block_extent(builder, first_tile, blocks.tiles, blocks.block_tiles)
            panels = block_extent(builder, first_panel, blocks.panels, blocks.panels_per_task)
            with builder.loop(tiles) as tile:
                self.transform_input(first_tile + tile, tile)
            with builder.loop(panels) as number:
                panel = first_panel + number
                with builder.loop(PRODUCTS) as product, builder.loop(blocks.groups(builder, tiles)) as group:
                    self.multiply(panel, product, group)
                with builder.loop(tiles) as tile:
                    self.transform_sums(panel, first_tile + tile, tile)
        return builder.kernel

    def place(self, tile: Affine) -> tuple[Affine, list[Affine]]:
        """The batch element of a tile, and its first position in each dimension."""
        batch, *numbers = delinear(self.builder, tile, (self.geometry.batch, *self.blocks.grid))
        return batch, [number * TILE for number in numbers]

    # -- input

    def transform_input(self, tile: Affine, number: Affine) -> None:
        """Transforms the input of a tile. number: the tile's number in its block."""
        g, builder, blocks = self.geometry, self.builder, self.blocks
        batch, place = self.place(tile)
        axes = zip(place, g.dimensions, strict=True)
        lines, columns = ([p + (k - d.window.padding_low) for k in _ELEMENTS] for p, d in axes)
        with builder.loop(g.inputs, AxisKind.VECTOR, width=blocks.lanes) as input:
            found = [[self.input_element(batch, input, (y, x)) for x in columns] for y in lines]
            for product, value in enumerate(_transformed(builder, found, _transformed_input)):
                builder.store(self.inputs, blocks.input_offset(product, number, input), value)

    def input_element(self, batch: Affine, input: Affine, spatial: Sequence[Affine]) -> Value:
        """An element of the input; zero in the padding."""
        g, lowering, mask = self.geometry, self.lowering, self.mask_of_input(spatial)
        with nullcontext() if mask is None else lowering.where(mask):
            value = lowering.value(g.input, g.input_index(Affine(), batch, input, spatial))
        return value if mask is None else self.builder.select(mask, value, self.builder.zero(F32))

    def mask_of_input(self, spatial: Sequence[Affine]) -> Value | None:
        """Whether a position lies inside of the input; None if it always does."""
        return self.lowering.in_bounds(tuple(spatial), [(0, d.input) for d in self.geometry.dimensions])

    # -- products

    def multiply(self, panel: Affine, product: Affine, group: Affine) -> None:
        """Computes one of the 16 sums of each tile of a group, for the features of a panel."""
        builder, blocks = self.builder, self.blocks
        rows, vectors = blocks.tile_rows, range(blocks.tile_vectors)
        with builder.loop(blocks.lanes, AxisKind.VECTOR, width=blocks.lanes) as lane:

            def step(input: Affine, sums: Sequence[Value]) -> list[Value]:
                at = blocks.filter_offset(panel, product, input) + lane
                columns = [builder.load(self.filter, at + vector * blocks.lanes) for vector in vectors]
                totals = iter(sums)
                after: list[Value] = []
                for row in range(rows):
                    place = blocks.input_offset(product, group * rows + row, input)
                    factor = builder.load(self.inputs, place)
                    after += [builder.fma(factor, column, next(totals)) for column in columns]
                return after

            zeros = [builder.zero(F32)] * (rows * blocks.tile_vectors)
            for number, total in enumerate(builder.reduce(self.geometry.inputs, zeros, step)):
                row, vector = divmod(number, blocks.tile_vectors)
                column = lane + vector * blocks.lanes
                builder.store(self.sums, blocks.sum_offset(product, group * rows + row, column), total)

    # -- results

    def transform_sums(self, panel: Affine, tile: Affine, number: Affine) -> None:
        """Transforms the sums of a tile, and stores the results that exist. number: the tile's number in its block."""
        builder, blocks = self.builder, self.blocks
        batch, place = self.place(tile)
        with builder.loop(blocks.features, AxisKind.VECTOR, width=blocks.lanes) as column:
            matrix = [
                [builder.load(self.sums, blocks.sum_offset(y * (TILE + 2) + x, number, column)) for x in _ELEMENTS]
                for y in _ELEMENTS
            ]
            output = panel * blocks.features + column
            values = self.finite_or_direct(_transformed(builder, matrix, _results), batch, place, output)
            for position, value in enumerate(values):
                if self.results is None:
                    self.store(batch, place, divmod(position, TILE), output, value)
                else:
                    builder.store(self.results, column + position * blocks.features, value)
        if self.results is not None:
            self.store_results(self.results, panel, batch, place)

    def store_results(self, results: Buffer, panel: Affine, batch: Affine, place: Sequence[Affine]) -> None:
        """Stores the results of a tile that are in scratch memory."""
        builder, blocks = self.builder, self.blocks
        with (
            builder.loop(TILE * TILE) as position,
            builder.loop(blocks.features, AxisKind.VECTOR, width=blocks.lanes) as column,
        ):
            value = builder.load(results, position * blocks.features + column)
            offsets = delinear(builder, position, (TILE, TILE))
            self.store(batch, place, offsets, panel * blocks.features + column, value)

    def store(
        self, batch: Affine, place: Sequence[Affine], offsets: Sequence[Affine | int], output: Affine, value: Value
    ) -> None:
        """Stores a result of a tile, if it exists."""
        spatial = [p + offset for p, offset in zip(place, offsets, strict=True)]
        limits = [(0, d.output) for d in self.geometry.dimensions]
        found = [self.lowering.in_bounds(tuple(spatial), limits), self.mask_of_output(output)]
        masks = [mask for mask in found if mask is not None]
        mask = self.builder.binary("and", *masks) if len(masks) == 2 else masks[0] if masks else None
        self.epilogue.store(self.geometry.result_index(Affine(), batch, output, spatial), value, mask)

    # -- results that are not finite

    def finite_or_direct(
        self, values: Sequence[Value], batch: Affine, place: Sequence[Affine], output: Affine
    ) -> list[Value]:
        """The results of a tile, all of which are computed directly if one is infinite or NaN."""
        builder, zero = self.builder, self.builder.zero(F32)
        probe = zero
        for value in values:
            probe = builder.fma(value, zero, probe)
        is_special = builder.compare("uno", probe, probe)
        return builder.cold_path("direct", is_special, values, lambda: self.direct_sums(batch, place, output))

    def direct_sums(self, batch: Affine, place: Sequence[Affine], output: Affine) -> list[Value]:
        """The results of a tile as sums of the products under their windows. Padding contributes nothing."""
        g, builder = self.geometry, self.builder
        positions = [divmod(number, TILE) for number in range(TILE * TILE)]

        def add_row(number: Affine, totals: Sequence[Value]) -> list[Value]:
            """Adds the products of all input features at one position of the window, unless all results are NaN."""
            offsets = delinear(builder, number, (3, 3))

            def add(input: Affine, totals: Sequence[Value]) -> list[Value]:
                mask = self.mask_of_output(output)
                with nullcontext() if mask is None else self.lowering.where(mask):
                    weight = self.filter_element(input, output, offsets)
                after: list[Value] = []
                for position, total in zip(positions, totals, strict=True):
                    axes = zip(place, position, offsets, g.dimensions, strict=True)
                    at = [p + (k - d.window.padding_low) + offset for p, k, offset, d in axes]
                    inside, factor = self.mask_of_input(at), self.input_element(batch, input, at)
                    following = builder.fma(factor, weight, total)
                    after.append(following if inside is None else builder.select(inside, following, total))
                return after

            known = [builder.compare("ord", total, total) for total in totals]
            is_unfinished = functools.reduce(lambda a, b: builder.binary("or", a, b), known)
            return builder.cold_path("products", is_unfinished, totals, lambda: builder.reduce(g.inputs, totals, add))

        return builder.reduce(9, [builder.zero(F32)] * len(positions), add_row)
