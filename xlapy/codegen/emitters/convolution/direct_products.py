"""The products of a tile of a direct convolution (`direct`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from xlapy.codegen.emitters.convolution.direct_plan import MAX_SEGMENTS, MIN_SHARED_INPUTS, DirectConvolution
from xlapy.codegen.emitters.convolution.filter_prefetch import FilterBlock
from xlapy.codegen.emitters.convolution.geometry import scalar_values
from xlapy.codegen.emitters.convolution.rows import OffsetSegment, Tile, TileSegments
from xlapy.codegen.emitters.matmul.micro_kernel import add_elements
from xlapy.loops import Affine, Value
from xlapy.lower import Element
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import delinear, linear


@dataclass(frozen=True, slots=True)
class InputBlock:
    """A block of input features. next: the block of the filter that is packed next, if it is prefetched."""

    first: Affine
    count: int | Value
    next: FilterBlock | None


@dataclass(frozen=True, slots=True)
class _Place:
    """A step of the products.

    spatial: the place of the first position's factor in the input, but for the start of the tile. offsets: in the
    window. number: of the factor among those of the offset. term: the place in the packed panel.
    """

    spatial: tuple[Affine, ...]
    offsets: tuple[Affine, ...]
    number: Affine
    term: Affine


@dataclass(frozen=True, slots=True)
class TileProducts:
    """Adds the products of a block of input features to the sums of a tile, in a lane of the features of a panel."""

    plan: DirectConvolution
    group: Affine
    tile: Tile[TileSegments]
    inputs: InputBlock
    lane: Affine

    def add(self, sums: Sequence[Value]) -> list[Value]:
        """Adds the products of all offsets and a block of input features to the sums of a tile."""
        builder, ranges = self.plan.builder, self.tile.row.ranges

        def at_offsets(offsets: tuple[Affine, ...], carried: Sequence[Value]) -> list[Value]:
            if len(offsets) == len(ranges):
                return self._segments(offsets, carried)
            found = ranges[len(offsets)]
            return builder.reduce(
                found.count, carried, lambda k, values: at_offsets((*offsets, found.first + k), values)
            )

        return at_offsets((), sums)

    def _segments(self, offsets: tuple[Affine, ...], sums: Sequence[Value]) -> list[Value]:
        """Adds the products of all offsets along the last dimension, one segment after the other."""
        segments = self.tile.segments

        def add(segment: OffsetSegment, carried: Sequence[Value]) -> list[Value]:
            return self._segment(segment, offsets, carried)

        if self.plan.factors.inputs < MIN_SHARED_INPUTS:
            separate = segments.one_by_one()
            if len(separate) <= MAX_SEGMENTS:
                for segment in separate:
                    sums = add(segment, sums)
                return list(sums)
        if segments.most == 1:
            return add(segments.segment(Affine()), sums)
        return self.plan.builder.reduce(
            segments.count(), sums, lambda number, carried: add(segments.segment(number), carried)
        )

    def _segment(self, segment: OffsetSegment, offsets: tuple[Affine, ...], sums: Sequence[Value]) -> list[Value]:
        """Adds the products of the offsets of a segment along the last dimension."""
        plan, builder, tile = self.plan, self.plan.builder, self.tile
        pairs = list(zip(tile.row.ranges, offsets, plan.outer, strict=True))
        spatial = tuple(r.start + k * d.step for r, k, d in pairs)
        outer = tuple(r.rest + k * d.phases for r, k, d in pairs)
        rest = plan.last.rest(tile.phase)
        sums = self._corrected(segment, (*outer, Affine() + rest), sums)

        first_term = linear((*outer, Affine()), plan.window) * plan.input_block

        def step(last: Affine, offset: Affine, number: Affine, term: Affine, carried: Sequence[Value]) -> list[Value]:
            place = _Place((*spatial, last), (*outer, offset), number, first_term + term)
            return self._step(segment, place, carried)

        if plan.is_one_run:
            factors = plan.factors.inputs

            def in_run(term: Affine, carried: Sequence[Value]) -> list[Value]:
                offset, number = delinear(builder, term, (segment.most, factors))
                offset += segment.first
                return step(offset, offset, number, term + segment.first * factors, carried)

            count = segment.count
            if not isinstance(count, int):
                terms = builder.value_of(Affine.of(count) * factors)
                terms.range = (0, segment.most * factors)
                return builder.reduce(terms, sums, in_run)
            return builder.reduce(count * factors, sums, in_run)

        def at_offset(k: Affine, carried: Sequence[Value]) -> list[Value]:
            last = (k + segment.first) * plan.last.step
            offset = (k + segment.first) * plan.last.phases + rest
            return builder.reduce(
                self.inputs.count,
                carried,
                lambda number, values: step(last, offset, number, offset * plan.input_block + number, values),
            )

        return builder.reduce(segment.count, sums, at_offset)

    def _step(self, segment: OffsetSegment, place: _Place, sums: Sequence[Value]) -> list[Value]:
        """Adds the products of one factor of each position of the tile."""
        plan, tile, vectors, factors = self.plan, self.tile, self.plan.tile.vectors, self.plan.factors
        *spatial, last = place.spatial
        if plan.input_prefetch is not None:
            plan.input_prefetch.prefetch(tile.row.batch, (*spatial, tile.start), place.number)
        if plan.prefetch is not None and self.inputs.next is not None:
            tiles = tile.row.number * plan.rows.joined_tiles_per_chunk + tile.number
            order = plan.geometry.in_kernel_order(place.offsets)
            plan.prefetch.prefetch(self.inputs.next, order, place.number, tiles)
        first = place.term * plan.tile.features + self.lane
        columns = [plan.panel.load(first + vector * plan.tile.lanes) for vector in range(vectors)]

        def add(positions: Sequence[int], totals: Sequence[Value]) -> list[Value]:
            found: list[Element] = []
            for n, position in enumerate(positions):
                at = (tile.start + position) * plan.last.stride + last + plan.last.start(tile.phase)
                number = self.inputs.first + place.number
                factor = factors.from_input(self.group, tile.row.batch, number, (*spatial, at))
                pairs = zip(columns, totals[n * vectors : (n + 1) * vectors], strict=True)
                found += [factors.multiply_add(factor, column, total) for column, total in pairs]
            return scalar_values(found)

        return self._in_groups(segment, sums, add)

    def _corrected(self, segment: OffsetSegment, first: Sequence[Affine], sums: Sequence[Value]) -> list[Value]:
        """Adds what the constant in the factors from the input makes necessary for the offsets of a segment.

        first: the position in the window of the first offset of a tile.
        """
        plan, builder = self.plan, self.plan.builder
        if plan.factors.left_offset() is None:
            return list(sums)

        def at_offset(k: Affine, carried: Sequence[Value]) -> list[Value]:
            number = linear((*first[:-1], first[-1] + (k + segment.first) * plan.last.phases), plan.window)
            totals = plan.corrections.first_totals(number, self.lane) or []
            return scalar_values([add_elements(builder, a, b) for a, b in zip(carried, totals, strict=True)])

        zeros = scalar_values([zero_element(builder, plan.type)] * plan.tile.vectors)
        excess = builder.reduce(segment.count, zeros, at_offset)

        def add(positions: Sequence[int], totals: Sequence[Value]) -> list[Value]:
            return [builder.add(a, b) for a, b in zip(totals, excess * len(positions), strict=True)]

        return self._in_groups(segment, sums, add)

    def _in_groups(
        self,
        segment: OffsetSegment,
        sums: Sequence[Value],
        add: Callable[[Sequence[int], Sequence[Value]], list[Value]],
    ) -> list[Value]:
        """Returns the sums of a tile after `add`, for groups of positions that meet the input in a segment."""
        builder, vectors, after = self.plan.builder, self.plan.tile.vectors, list(sums)

        def add_to(positions: Sequence[int], _: Affine, totals: Sequence[Value]) -> list[Value]:
            return add(positions, totals)

        for group in segment.groups:
            places = [p * vectors + vector for p in group.positions for vector in range(vectors)]
            totals = [sums[place] for place in places]
            if group.is_inside is None:
                totals = add(group.positions, totals)
            else:  # at most one iteration, which is a branch
                totals = builder.reduce(group.is_inside, totals, partial(add_to, group.positions))
            for place, total in zip(places, totals, strict=True):
                after[place] = total
        return after
