"""Kernels of cumulative reductions: a running value along one dimension, in work that grows with the array alone.

Along the last dimension the running values of a vector come from each other (`Scan`), if they may be grouped anyhow;
others run one by one, many rows in the lanes. Along another dimension every row is the row before it combined with the
operand's, in vectors along the rows.

Owns: these loops. Must not know: what elements are (`lower`), where buffers lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.loops import I64, Affine, AxisKind, Builder, Kernel, Value
from xlapy.lower import Element, Lowering, load_element, store_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.cumulative import Cumulative, cumulative
from xlapy.lower.element_types import ComplexElement, storage_type
from xlapy.lower.reduction import Carried, combine_elements, flat, neutral_elements, unflat

STRIP = 256
"""Elements of a row that one task takes, where the running values are a row."""


def cumulative_kernel(region: Region) -> tuple[Kernel, int] | None:
    """The kernel of a region whose root is cumulative, and the work of one parallel iteration."""
    how = cumulative(region.root)
    return None if how is None else _Cumulative(region, how).build()


class _Cumulative:
    def __init__(self, region: Region, how: Cumulative) -> None:
        self.root, self.how = region.root, how
        self.builder: Builder = kernel_builder(region.name, region.target)
        sources = {
            operand: operand_source(self.builder, operand, f"in{n}") for n, operand in enumerate(region.operands)
        }
        self.shapes = [shape for _, shape in region.root.shape.leaves()]
        self.outputs = [result_buffer(self.builder, shape, f"out{n}") for n, shape in enumerate(self.shapes)]
        self.lowering = Lowering(self.builder, sources)
        self.operands = region.root.operands[: len(self.shapes)]
        self.initial = [self.lowering.element(init, ()) for init in region.root.operands[len(self.shapes) :]]
        self.dimensions = self.shapes[0].dimensions
        self.length = self.dimensions[how.axis]
        self.outer, self.inner = self.dimensions[: how.axis], self.dimensions[how.axis + 1 :]
        self.cost = len(region.instructions)

    def build(self) -> tuple[Kernel, int]:
        if math.prod(self.inner) > 1:
            return self.builder.kernel, self.rows() * self.cost
        if self.how.regroups and not any(isinstance(e, ComplexElement) for e in self.initial):
            return self.builder.kernel, self.in_lanes() * self.cost
        return self.builder.kernel, self.one_by_one() * self.cost

    # -- elements

    def index(self, outer: Index, position: Affine, inner: Index) -> Index:
        """Where the value of a position of the running value belongs."""
        along = position * -1 + (self.length - 1) if self.how.is_reverse else position
        return (*outer, along, *inner)

    def values(self, index: Index) -> list[Element]:
        return [self.lowering.element(operand, index) for operand in self.operands]

    def put(self, index: Index, elements: Sequence[Element]) -> None:
        place = linear(index, self.dimensions)
        for buffer, element, shape in zip(self.outputs, elements, self.shapes, strict=True):
            store_element(self.builder, buffer, place, element, shape.element_type)

    def get(self, index: Index) -> list[Element]:
        place = linear(index, self.dimensions)
        pairs = zip(self.outputs, self.shapes, strict=True)
        return [load_element(self.builder, buffer, place, shape.element_type) for buffer, shape in pairs]

    def combine(self, left: Carried, right: Carried) -> list[Value]:
        elements = (unflat(left, self.initial), unflat(right, self.initial))
        return flat(combine_elements(self.lowering, self.root.to_apply, *elements))

    @property
    def lanes(self) -> int:
        """As many as the widest elements allow, in registers and in memory."""
        kinds = [value.type for value in flat(self.initial)]
        kinds += [storage_type(shape.element_type) for shape in self.shapes]
        return min(self.builder.lanes(kind) for kind in kinds)

    # -- loops

    def in_lanes(self) -> int:
        """A task a line, in vectors along it; returns the work of one."""
        inner = (Affine(),) * len(self.inner)
        with self.builder.loop(math.prod(self.outer), AxisKind.PARALLEL) as line:
            outer = delinear(self.builder, line, self.outer)
            self.builder.scan(
                self.length,
                flat(self.initial),
                lambda position: flat(self.values(self.index(outer, position, inner))),
                self.combine,
                lambda position, results: self.put(self.index(outer, position, inner), unflat(results, self.initial)),
                width=self.lanes,
                identities=neutral_elements(self.builder, self.root.to_apply, self.initial),
            )
        return self.length

    def one_by_one(self) -> int:
        """Lines in the lanes of a vector, all at the same position."""
        lines, lanes = math.prod(self.outer), self.lanes
        with self.builder.loop(-(-lines // lanes), AxisKind.PARALLEL) as group, self.strip(group, lines, lanes) as line:
            self.along(delinear(self.builder, line, self.outer), (Affine(),) * len(self.inner))
        return self.length * lanes

    def along(self, outer: Index, inner: Index) -> None:
        def step(position: Affine, carried: Carried) -> Carried:
            index = self.index(outer, position, inner)
            after = self.combine(carried, flat(self.values(index)))
            self.put(index, unflat(after, self.initial))
            return after

        self.builder.reduce(self.length, flat(self.initial), step)

    def rows(self) -> int:
        """A task a strip of all rows, each from the row before; returns the work of one."""
        builder, size = self.builder, math.prod(self.inner)
        width = min(STRIP, size)
        strips = -(-size // width)
        with builder.loop(math.prod(self.outer) * strips, AxisKind.PARALLEL) as task:
            outer = delinear(builder, builder.quotient(task, strips), self.outer)
            part = builder.remainder(task, strips)
            with self.strip(part, size, width) as column:
                self.row(self.index(outer, Affine(), delinear(builder, column, self.inner)), self.initial)
            with builder.loop(self.length - 1) as position, self.strip(part, size, width) as column:
                inner = delinear(builder, column, self.inner)
                self.row(self.index(outer, position + 1, inner), self.get(self.index(outer, position, inner)))
        return self.length * width

    def row(self, index: Index, before: Sequence[Element]) -> None:
        after = self.combine(flat(before), flat(self.values(index)))
        self.put(index, unflat(after, self.initial))

    @contextmanager
    def strip(self, part: Affine, size: int, width: int) -> Iterator[Affine]:
        """A part of a dimension as a vector axis; the last part is what is left."""
        start = part * width
        left = self.builder.value_of(Affine((), size) - start)
        end = self.builder.binary("smin", left, self.builder.constant(I64, width)) if size % width else width
        with self.builder.loop(end, AxisKind.VECTOR, width=self.lanes) as inner:
            for value, _ in inner.terms:
                value.range = (0, width - 1)
            yield start + inner
