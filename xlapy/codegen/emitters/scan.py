"""Emits cumulative reductions (scans): a running value along one dimension, in time linear in the size of the array.

- Along the contiguous dimension, reducers that may be reordered run in vectors: each vector is scanned in registers
  (`Builder.scan`). Other reducers run element by element, with one row in each lane.
  A few long rows are scanned in blocks, which are tasks: a kernel combines the elements of each block, another one
  finds the value before each block, and a third one scans the blocks.
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
from xlapy.loops import I1, I64, Affine, AxisKind, Buffer, Builder, Kernel, Value
from xlapy.loops.reduction_order import accumulator_vectors
from xlapy.lower import Element, Lowering, load_element, store_element
from xlapy.lower.core import Index, delinear, flatten_elements, linear
from xlapy.lower.cumulative import Cumulative, cumulative
from xlapy.lower.element_types import ComplexElement, storage_type
from xlapy.lower.reduction import Carried, combine_elements, neutral_elements, unflatten_elements

BLOCK_ELEMENTS = 1 << 13
"""The number of elements of a block of a long row: its second reading is from the cache of the core."""

MIN_BLOCKED_LENGTH = 1 << 17
"""The smallest length of rows that are scanned in blocks: with two processors, 65,536 f32 take 1.1x of the time, a
million 0.7x."""

MAX_BLOCKED_ROWS = 4
"""The number of rows from which on rows are tasks themselves."""

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
        emitter = _ScanEmitter(region, scan)
        if not emitter.has_long_rows:
            return [emitter.build()]
        if region.target.processors == 1:
            return [_BlockedScan(region, scan).one_task_per_row()]
        kernels = [_BlockedScan(region, scan, has_totals=True) for _ in range(3)]
        return [kernels[0].combine_blocks(), kernels[1].combine_totals(), kernels[2].scan_blocks()]


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

    @property
    def has_long_rows(self) -> bool:
        """Whether there are few contiguous rows, which are long, of reducers that allow any grouping."""
        types = [value.type for value in flatten_elements(self.initial)]
        is_plain = self.scan.can_be_reordered and I1 not in types and len(types) == len(self.initial)
        rows = math.prod(self.outer)
        return is_plain and math.prod(self.inner) == 1 and rows < MAX_BLOCKED_ROWS and self.length >= MIN_BLOCKED_LENGTH

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
        with self.builder.loop(math.prod(self.outer), AxisKind.PARALLEL) as row:
            self.scan_part(row, Affine(), self.length, flatten_elements(self.initial))

    def scan_part(self, row: Affine, first: Affine, count: int, before: Carried) -> None:
        """Scans `count` elements of a row from `first` on in vectors. before: the running values before them."""
        outer, inner = delinear(self.builder, row, self.outer), (Affine(),) * len(self.inner)
        self.builder.scan(
            count,
            before,
            lambda position: flatten_elements(self.values(self.index(outer, first + position, inner))),
            self.combine,
            lambda position, results: self.store(
                self.index(outer, first + position, inner), unflatten_elements(results, self.initial)
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


class _BlockedScan(_ScanEmitter):
    """A kernel of a scan of long rows in blocks.

    has_totals: whether the kernel has a temporary for each running value, with an entry for each complete block that
    another one follows, and for the first value of the row: first the combination of the elements of a block, then the
    running value before the block.
    """

    def __init__(self, region: Region, scan: Cumulative, *, has_totals: bool = False) -> None:
        super().__init__(region, scan)
        self.blocks = -(-self.length // BLOCK_ELEMENTS)
        self.totals: list[Buffer] = []
        if has_totals:
            size = math.prod(self.outer) * self.blocks
            types = [value.type for value in flatten_elements(self.initial)]
            self.totals = [self.builder.buffer(f"totals{n}", t, size, written=True) for n, t in enumerate(types)]

    def one_task_per_row(self) -> Kernel:
        """Combines and scans each block in turn."""
        builder = self.builder

        def block(number: Affine, before: Carried) -> list[Value]:
            first = number * BLOCK_ELEMENTS
            self.scan_part(row, first, BLOCK_ELEMENTS, before)
            return self.combine(before, self.total(row, first))

        with builder.loop(math.prod(self.outer), AxisKind.PARALLEL) as row:
            before = builder.reduce(self.blocks - 1, flatten_elements(self.initial), block)
            first = (self.blocks - 1) * BLOCK_ELEMENTS
            self.scan_part(row, Affine((), first), self.length - first, before)
        return builder.kernel

    def total(self, row: Affine, first: Affine) -> list[Value]:
        """The combination of the elements of a complete block."""
        outer, inner = delinear(self.builder, row, self.outer), (Affine(),) * len(self.inner)
        identities = neutral_elements(self.builder, self.root.to_apply, self.initial)
        return self.builder.reduce(
            BLOCK_ELEMENTS,
            identities,
            lambda position, carried: self.combine(
                carried, flatten_elements(self.values(self.index(outer, first + position, inner)))
            ),
            kind=AxisKind.VECTOR,
            width=self.lanes,
            accumulators=accumulator_vectors(BLOCK_ELEMENTS, self.lanes, sums=len(identities)),
            identities=identities,
            combine=self.combine,
        )

    def combine_blocks(self) -> Kernel:
        """Combines the elements of each complete block that another one follows."""
        count = self.blocks - 1
        with self.builder.loop(math.prod(self.outer) * count, AxisKind.PARALLEL) as number:
            row, block = delinear(self.builder, number, (math.prod(self.outer), count))
            self.store_totals(row, block, self.total(row, block * BLOCK_ELEMENTS))
        return self.builder.kernel

    def combine_totals(self) -> Kernel:
        """Replaces the combination of each block by the running value before it."""
        builder = self.builder

        def block(number: Affine, before: Carried) -> list[Value]:
            total = self.load_totals(row, number)
            self.store_totals(row, number, before)
            return self.combine(before, total)

        with builder.loop(math.prod(self.outer)) as row:
            last = builder.reduce(self.blocks - 1, flatten_elements(self.initial), block)
            self.store_totals(row, Affine((), self.blocks - 1), last)
        return builder.kernel

    def scan_blocks(self) -> Kernel:
        """Scans each block."""
        builder, blocks = self.builder, self.blocks
        rest = self.length - (blocks - 1) * BLOCK_ELEMENTS
        with builder.loop(math.prod(self.outer) * blocks, AxisKind.PARALLEL) as number:
            row, block = delinear(builder, number, (math.prod(self.outer), blocks))
            before, first = self.load_totals(row, block), block * BLOCK_ELEMENTS
            if rest == BLOCK_ELEMENTS:
                self.scan_part(row, first, rest, before)
            else:
                is_last = builder.compare("eq", builder.value_of(block), builder.constant(I64, blocks - 1))
                for condition, count in ((builder.logical_not(is_last), BLOCK_ELEMENTS), (is_last, rest)):
                    with builder.branch(condition):
                        self.scan_part(row, first, count, before)
        return builder.kernel

    def load_totals(self, row: Affine, block: Affine) -> list[Value]:
        return [self.builder.load(totals, row * self.blocks + block) for totals in self.totals]

    def store_totals(self, row: Affine, block: Affine, values: Carried) -> None:
        for totals, value in zip(self.totals, values, strict=True):
            self.builder.store(totals, row * self.blocks + block, value)
