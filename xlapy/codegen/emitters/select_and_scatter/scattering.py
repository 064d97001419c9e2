"""Emits select-and-scatter, the gradient of max-pooling.

    for each block of rows of the result, a task
      set the rows to the initial value
      for each window that reaches into the rows, in row-major order
        select an element: the offset of the window at which it is
        combine the element at this offset with the source's, if it is in the rows

Channels, a last dimension along which windows have one element, run in vectors. Rows are a block of the first dimension
that windows extend over; a window that reaches into two blocks is selected from twice, so that tasks do not depend on
each other. Each element is combined with the source in the order of the windows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.select_and_scatter.selection import WindowSelection, axis_kind
from xlapy.codegen.region import kernel_builder, operand_source, result_buffer
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I64, Affine, AxisKind, Kernel, Value
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Lowering, load_element, storage_type, store_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.movement import conjunction
from xlapy.lower.windows import Span, span_positions, window_span
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.reduction import WindowAttributes


def scattering_kernel(instruction: Instruction, target: Target) -> Kernel:
    """Returns the kernel. Buffers: operand, source, initial value, result."""
    return _SelectAndScatter(instruction, target).build()


class _SelectAndScatter:
    def __init__(self, instruction: Instruction, target: Target) -> None:
        self.instruction = instruction
        self.operand, self.source, self.initial = instruction.operands
        self.builder = kernel_builder(instruction.name, target)
        operands = enumerate(dict.fromkeys(instruction.operands))
        self.lowering = Lowering(self.builder, {o: operand_source(self.builder, o, f"in{n}") for n, o in operands})
        self.selection = WindowSelection(instruction, self.lowering)
        self.output = result_buffer(self.builder, instruction.shape, "out0")
        self.windows = instruction.attributes_as(WindowAttributes).window.dimensions
        self.sizes, self.positions = self.operand.shape.dimensions, self.source.shape.dimensions
        rank, t = len(self.sizes), instruction.shape.element_type
        in_vectors = rank > 0 and _is_trivial(self.windows[-1]) and not t.is_complex
        widest = max(storage_type(o.shape.element_type).byte_size for o in instruction.operands)
        self.lanes = max(1, target.vector_bytes // widest) if in_vectors else 1
        last = rank - 1 if in_vectors else rank
        split = next((d for d in range(last) if not _is_trivial(self.windows[d])), 0)
        self.split = split
        """The dimension whose blocks are tasks; the dimensions before it are trivial."""
        self.inner = range(split + 1, last)
        row_bytes = math.prod(self.sizes[split + 1 :]) * t.byte_size
        can_split = rank > 0 and self.windows[split].base_dilation == self.windows[split].window_dilation == 1
        rows = self.sizes[split] if rank else 1
        most = max(1, target.l2_bytes // 2 // max(1, row_bytes), 2 * self.windows[split].size) if can_split else rows
        self.block = balanced_size(rows, most)
        self.rows = rows

    def build(self) -> Kernel:
        builder = self.builder
        if not self.sizes:
            self.scalar()
            return builder.kernel
        blocks = -(-self.rows // self.block)
        before = self.sizes[: self.split]
        with builder.loop(math.prod(before) * blocks, AxisKind.PARALLEL) as task:
            *outer, block = delinear(builder, task, (*before, blocks))
            first = block * self.block
            count = block_extent(builder, first, self.rows, self.block)
            self.initialize(tuple(outer), first, count)
            begin, windows = self.window_range(first, count)
            with builder.loop(windows) as number:
                for index in self.each_index((*outer, begin + number), [self.positions[d] for d in self.inner]):
                    self.window(index, first, count)
        return builder.kernel

    def scalar(self) -> None:
        """The only element is selected."""
        values = [self.lowering.element(o, ()) for o in (self.initial, self.source)]
        store_element(
            self.builder, self.output, Affine(), self.selection.combined(*values), self.instruction.shape.element_type
        )

    def each_index(self, begin: Index, sizes: Sequence[int]) -> Iterator[Index]:
        """Emits loops over the inner dimensions and over the last one, which may run in vectors."""
        builder = self.builder
        with builder.loop(math.prod(sizes)) as position:
            index = (*begin, *delinear(builder, position, sizes))
            if len(index) == len(self.sizes):
                yield index
                return
            with builder.loop(self.sizes[-1], AxisKind.VECTOR, width=self.lanes) as lane:
                yield (*index, lane)

    def initialize(self, outer: Index, first: Affine, count: int | Value) -> None:
        """Sets the rows of a task to the initial value."""
        t = self.instruction.shape.element_type
        with self.builder.loop(count) as row:
            for index in self.each_index((*outer, first + row), [self.sizes[d] for d in self.inner]):
                store_element(
                    self.builder, self.output, linear(index, self.sizes), self.lowering.element(self.initial, ()), t
                )

    def window_range(self, first: Affine, count: int | Value) -> tuple[Affine, int | Value]:
        """The windows that reach into rows: the first one, and how many."""
        builder, w, positions = self.builder, self.windows[self.split], self.positions[self.split]
        if self.block == self.rows:
            return Affine(), positions
        end_row = first + count if isinstance(count, int) else first + Affine.of(count)

        def windows_before(row: Affine) -> Affine:
            """The number of windows that start before a row."""
            distance = row + (w.padding_low + w.stride - 1)
            lift = max(0, -(-(w.size - w.padding_low) // w.stride))
            whole = builder.quotient(distance + lift * w.stride, w.stride) - lift
            return builder.clamped(builder.value_of(whole), positions)

        begin = windows_before(first - (w.size - 1))
        windows = builder.value_of(windows_before(end_row) - begin)
        windows.range = (0, positions)
        return begin, windows

    # -- one window

    def window(self, index: Index, first: Affine, count: int | Value) -> None:
        """Selects an element of a window, and combines it with the source's if it is in the rows."""
        builder, t = self.builder, self.instruction.shape.element_type
        spans = [window_span(self.lowering, *given) for given in zip(index, self.windows, self.sizes, strict=True)]
        chosen = self.selection.selected(spans)
        source = self.lowering.element(self.source, index)
        for offsets in self.each_offset(spans, ()):
            at, condition = span_positions(self.lowering, spans, offsets)
            if self.block < self.rows:
                inside = builder.compare("ult", builder.value_of(at[self.split] - first), _extent(self, count))
                condition = conjunction(builder, condition, inside)
            mask = conjunction(builder, condition, builder.compare("eq", chosen, self.selection.number(spans, offsets)))
            place = linear(at, self.sizes)
            before = load_element(builder, self.output, place, t, condition)
            store_element(builder, self.output, place, self.selection.combined(before, source), t, mask)

    @contextmanager
    def _loop(self, count: int | Value) -> Iterator[Affine]:
        if count == 1:
            yield Affine()
            return
        with self.builder.loop(count, axis_kind(count)) as position:
            yield position

    def each_offset(self, spans: Sequence[Span], offsets: Index) -> Iterator[Index]:
        """Emits loops over the offsets of a window; yields them."""
        if len(offsets) == len(spans):
            yield offsets
            return
        with self._loop(spans[len(offsets)].count) as offset:
            yield from self.each_offset(spans, (*offsets, offset))


def _is_trivial(w: WindowDimension) -> bool:
    return w == WindowDimension(size=1)


def _extent(emitter: _SelectAndScatter, count: int | Value) -> Value:
    return emitter.builder.constant(I64, count) if isinstance(count, int) else count
