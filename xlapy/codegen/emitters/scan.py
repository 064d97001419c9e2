"""Emits cumulative reductions (scans): a running value along one dimension, in time linear in the size of the array.

- Along the contiguous dimension, reducers that may be reordered run in vectors: each vector is scanned in registers
  (`Builder.scan`). Other reducers run element by element, with one row in each lane.
- Along another dimension, each row is the previous row combined with the operand's, in vectors along the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xlapy import opcodes
from xlapy.codegen.emitters.loop_nest import limit_range, preferred_lanes
from xlapy.codegen.kernel_cost import SCAN_OPERATIONS, result_size, vector_cycles
from xlapy.codegen.plan import Candidate, NoParameters, Rejection, Strategy
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.loops import I64, Affine, AxisKind, Builder, Kernel, Value
from xlapy.lower import Element, Lowering, load_element, store_element
from xlapy.lower.core import Index, delinear, flatten_elements, linear
from xlapy.lower.cumulative import Cumulative, cumulative
from xlapy.lower.element_types import ComplexElement, storage_type
from xlapy.lower.reduction import Carried, combine_elements, neutral_elements, unflatten_elements

STRIP_ELEMENTS = 256
"""The number of elements of a row that one task computes if the running values form a row."""


class ScanStrategy(Strategy[NoParameters]):
    """Computes a cumulative reduction that is the root of a region in linear time."""

    name = "scan"
    required_opcodes = frozenset({opcodes.REDUCE_WINDOW})

    def candidate(self, region: Region) -> Candidate | Rejection:
        if cumulative(region.root) is None:
            return Rejection("its root is not a cumulative reduction")
        lanes = preferred_lanes(region)
        return Candidate(SCAN_OPERATIONS * vector_cycles(region, result_size(region), lanes))

    def parameters(self, region: Region) -> NoParameters:
        return NoParameters()

    def emit(self, region: Region, parameters: NoParameters) -> list[Kernel]:
        scan = cumulative(region.root)
        assert scan is not None
        return [_ScanEmitter(region, scan).build()]


class _ScanEmitter:
    def __init__(self, region: Region, scan: Cumulative) -> None:
        self.root, self.scan = region.root, scan
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
        self.length = self.dimensions[scan.axis]
        self.outer, self.inner = self.dimensions[: scan.axis], self.dimensions[scan.axis + 1 :]

    def build(self) -> Kernel:
        if math.prod(self.inner) > 1:
            self.scan_rows()
        elif self.scan.can_be_reordered and not any(isinstance(e, ComplexElement) for e in self.initial):
            self.scan_in_vectors()
        else:
            self.scan_rows_in_lanes()
        return self.builder.kernel

    # -- elements

    def index(self, outer: Index, position: Affine, inner: Index) -> Index:
        """The index of the element at a position along the scan, which may run backwards."""
        along = position * -1 + (self.length - 1) if self.scan.is_reverse else position
        return (*outer, along, *inner)

    def values(self, index: Index) -> list[Element]:
        return [self.lowering.element(operand, index) for operand in self.operands]

    def store(self, index: Index, elements: Sequence[Element]) -> None:
        offset = linear(index, self.dimensions)
        for buffer, element, shape in zip(self.outputs, elements, self.shapes, strict=True):
            store_element(self.builder, buffer, offset, element, shape.element_type)

    def load(self, index: Index) -> list[Element]:
        offset = linear(index, self.dimensions)
        pairs = zip(self.outputs, self.shapes, strict=True)
        return [load_element(self.builder, buffer, offset, shape.element_type) for buffer, shape in pairs]

    def combine(self, left: Carried, right: Carried) -> list[Value]:
        elements = (unflatten_elements(left, self.initial), unflatten_elements(right, self.initial))
        return flatten_elements(combine_elements(self.lowering, self.root.to_apply, *elements))

    @property
    def lanes(self) -> int:
        """The number of lanes of a vector of the widest elements, in registers and in memory."""
        types = [value.type for value in flatten_elements(self.initial)]
        types += [storage_type(shape.element_type) for shape in self.shapes]
        return min(self.builder.lanes(t) for t in types)

    # -- loops

    def scan_in_vectors(self) -> None:
        """Emits one task per row, in vectors along the row."""
        inner = (Affine(),) * len(self.inner)
        with self.builder.loop(math.prod(self.outer), AxisKind.PARALLEL) as row:
            outer = delinear(self.builder, row, self.outer)
            self.builder.scan(
                self.length,
                flatten_elements(self.initial),
                lambda position: flatten_elements(self.values(self.index(outer, position, inner))),
                self.combine,
                lambda position, results: self.store(
                    self.index(outer, position, inner), unflatten_elements(results, self.initial)
                ),
                width=self.lanes,
                identities=neutral_elements(self.builder, self.root.to_apply, self.initial),
            )

    def scan_rows_in_lanes(self) -> None:
        """Emits one task per vector of rows, a row in each lane."""
        rows, lanes = math.prod(self.outer), self.lanes
        with self.builder.loop(-(-rows // lanes), AxisKind.PARALLEL) as group, self.strip(group, rows, lanes) as row:
            self.scan_row(delinear(self.builder, row, self.outer), (Affine(),) * len(self.inner))

    def scan_row(self, outer: Index, inner: Index) -> None:
        def step(position: Affine, carried: Carried) -> Carried:
            index = self.index(outer, position, inner)
            after = self.combine(carried, flatten_elements(self.values(index)))
            self.store(index, unflatten_elements(after, self.initial))
            return after

        self.builder.reduce(self.length, flatten_elements(self.initial), step)

    def scan_rows(self) -> None:
        """Emits one task per strip of columns: each row from the previous one."""
        builder, size = self.builder, math.prod(self.inner)
        width = min(STRIP_ELEMENTS, size)
        strips = -(-size // width)
        with builder.loop(math.prod(self.outer) * strips, AxisKind.PARALLEL) as task:
            outer = delinear(builder, builder.quotient(task, strips), self.outer)
            number = builder.remainder(task, strips)
            with self.strip(number, size, width) as column:
                self.combine_row(self.index(outer, Affine(), delinear(builder, column, self.inner)), self.initial)
            with builder.loop(self.length - 1) as position, self.strip(number, size, width) as column:
                inner = delinear(builder, column, self.inner)
                self.combine_row(self.index(outer, position + 1, inner), self.load(self.index(outer, position, inner)))

    def combine_row(self, index: Index, before: Sequence[Element]) -> None:
        after = self.combine(flatten_elements(before), flatten_elements(self.values(index)))
        self.store(index, unflatten_elements(after, self.initial))

    @contextmanager
    def strip(self, number: Affine, size: int, width: int) -> Iterator[Affine]:
        """Opens a vector loop over one strip of a dimension; the last strip takes the rest."""
        start = number * width
        left = self.builder.value_of(Affine((), size) - start)
        end = self.builder.binary("smin", left, self.builder.constant(I64, width)) if size % width else width
        with self.builder.loop(end, AxisKind.VECTOR, width=self.lanes) as inner:
            limit_range(inner, width)
            yield start + inner
