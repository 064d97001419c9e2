"""Emits the gradient of max-pooling: a select-and-scatter, with the pad before it and the slice after it.

Each element of the result collects the sources of the windows that contain it, instead of each window adding to the
elements that it contains. So nothing is read again that has been written, and nothing is initialized:

    for each block of rows of the result, a task
      for each window that reaches into the rows: selected[window] = the number of the selected element
      for each element of the rows
        total = initial value
        for each window that contains the element, in row-major order
          if selected[window] is the element's number in the window: total = scatter(total, source[window])

An element at position u, counted from the start of the padding, has quotient q and remainder r: u = q * stride + r.
Window q - j contains it at offset r + j * stride. Example, windows of 3 with stride 2: even positions are in windows q
(offset 0) and q - 1 (offset 2), odd ones in window q (offset 1). Elements of each remainder have code of their own.

| layout | vectors run along |
|---|---|
| channels last: windows have one element along the last dimension | channels |
| otherwise | quotients along the last dimension |

The order in which sources are combined is that of the windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import product
from math import prod

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.select_and_scatter.gathering_geometry import PooledGradient
from xlapy.codegen.emitters.select_and_scatter.selection import WindowSelection
from xlapy.codegen.region import kernel_builder, operand_source, result_buffer
from xlapy.loops import I32, Affine, AxisKind, Kernel, Value
from xlapy.lower import Lowering, store_element
from xlapy.lower.core import Element, Index, delinear, linear
from xlapy.lower.elementwise import select_element
from xlapy.lower.windows import window_span


def gathering_kernel(problem: PooledGradient) -> Kernel:
    """Returns the kernel."""
    return _Gathering(problem).kernel()


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of elements with equal remainders: its index but for the last component, its quotients and remainders along
    the dimensions from the one that is split on, and the place in scratch memory of its windows."""

    index: Index
    quotients: Index
    places: Index
    rests: tuple[int, ...]


class _Gathering:
    def __init__(self, problem: PooledGradient) -> None:
        region = problem.region
        self.dimensions, self.split, self.scatter = problem.dimensions, problem.split, problem.scatter
        self.builder = builder = kernel_builder(region.name, region.target)
        sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        self.lowering = Lowering(builder, sources)
        self.shape = region.root.shape
        self.output = result_buffer(builder, self.shape, "out0")
        self.selection = WindowSelection(problem.scatter, self.lowering)
        self.rows, self.lanes = problem.block(), problem.lanes
        self.sizes = problem.selected_sizes(self.rows)
        self.selected = builder.scratch("selected", I32, prod(self.sizes))
        self.inner = range(self.split + 1, len(self.dimensions) - 1)
        """The dimensions between the one that is split and the one in lanes."""
        self.last = self.dimensions[-1]

    def kernel(self) -> Kernel:
        builder, split = self.builder, self.dimensions[self.split]
        before = [d.size for d in self.dimensions[: self.split]]
        blocks = -(-split.quotients // self.rows)
        with builder.loop(prod(before) * blocks, AxisKind.PARALLEL) as task:
            *outer, block = delinear(builder, task, (*before, blocks))
            first = block * self.rows
            rows = block_extent(builder, first, split.quotients, self.rows)
            self.select(tuple(outer), first, rows)
            self.gather(tuple(outer), first, rows)
        return builder.kernel

    # -- which element each window selects

    def select(self, outer: Index, first: Affine, rows: int | Value) -> None:
        """Stores the selected number of each window that reaches into a block of rows."""
        builder, overlap = self.builder, self.dimensions[self.split].overlap
        count = rows + overlap if isinstance(rows, int) else builder.value_of(Affine.of(rows) + overlap)
        if isinstance(count, Value):
            count.range = (0, self.sizes[0])
        before = tuple(p + d.start for p, d in zip(outer, self.dimensions, strict=False))
        inner = [self.dimensions[d].reached for d in self.inner]
        with builder.loop(count) as row, builder.loop(prod(inner)) as number:
            places = (row, *delinear(builder, number, inner))
            numbers = (first + row, *places[1:])
            split = self.dimensions[self.split : -1]
            windows = tuple(n + d.first_window for n, d in zip(numbers, split, strict=True))
            self.select_row((*before, *windows), places)

    def select_row(self, windows: Index, places: Index) -> None:
        """Stores the selected numbers of the windows along the last dimension: at once where all meet data only."""
        builder, last, whole = self.builder, self.last, [d.whole_windows for d in self.dimensions[:-1]]
        begin, end = (0, last.size) if last.is_trivial else (w - last.first_window for w in last.whole_windows)
        if any(low >= high for low, high in whole) or end - begin < self.lanes:
            self.select_some(windows, places, 0, last.reached)
            return
        is_whole = self.lowering.in_bounds(windows, whole)
        inside = tuple(
            builder.clamped(builder.value_of(w - low), high - 1 - low) + low
            for w, (low, high) in zip(windows, whole, strict=True)
        )
        with self.where(is_whole):
            self.select_windows(inside, places, begin, end)
        with self.otherwise(is_whole):
            self.select_some(windows, places, begin, end)
        self.select_some(windows, places, 0, begin)
        self.select_some(windows, places, end, last.reached)

    def select_windows(self, windows: Index, places: Index, begin: int, end: int) -> None:
        """Selects in vectors; all windows exist."""
        with self.builder.loop(end - begin, AxisKind.VECTOR, width=self.lanes) as position:
            self.select_window((*windows, position + (begin + self.last.first_window)), (*places, position + begin))

    def select_some(self, windows: Index, places: Index, begin: int, end: int) -> None:
        """Selects in the windows that exist, one by one; in vectors if they do not extend over the last dimension."""
        builder, limits = self.builder, [(0, d.windows) for d in self.dimensions]
        kind, width = (AxisKind.VECTOR, self.lanes) if self.last.is_trivial else (AxisKind.SERIAL, 1)
        exists = self.lowering.in_bounds(windows, limits[:-1])
        with self.where(exists), builder.loop(end - begin, kind, width=width) as position:
            window, place = position + (begin + self.last.first_window), (*places, position + begin)
            is_one = self.lowering.in_bounds((window,), limits[-1:])
            with self.where(is_one):
                self.select_window((*windows, window), place)
            with self.otherwise(is_one):
                self.store_selected(place, builder.constant(I32, -1))
        with self.otherwise(exists), builder.loop(end - begin, AxisKind.VECTOR, width=self.lanes) as position:
            self.store_selected((*places, position + begin), builder.constant(I32, -1))

    def select_window(self, window: Index, place: Index) -> None:
        sizes = self.scatter.operands[0].shape.dimensions
        spans = [
            window_span(self.lowering, position, d.window, size)
            for position, d, size in zip(window, self.dimensions, sizes, strict=True)
        ]
        self.store_selected(place, self.selection.selected(spans))

    def store_selected(self, place: Index, number: Value) -> None:
        self.builder.store(self.selected, linear(place, self.sizes), number)

    # -- what each element collects

    def gather(self, outer: Index, first: Affine, rows: int | Value) -> None:
        """Computes the elements of a block of rows."""
        builder = self.builder
        inner = [self.dimensions[d].quotients for d in self.inner]
        split = self.dimensions[self.split : -1]
        with builder.loop(rows) as row, builder.loop(prod(inner)) as number:
            places = (row, *delinear(builder, number, inner))
            quotients = (first + row, *places[1:])
            rows_of_place: list[_Row] = []
            for rests in product(*(range(d.window.stride) for d in split)):
                at = (d.position(q, r) for d, q, r in zip(split, quotients, rests, strict=True))
                rows_of_place.append(_Row((*outer, *at), quotients, places, rests))
            is_whole = self.lowering.in_bounds(quotients, [d.whole_quotients for d in split])
            with self.where(is_whole):
                self.gather_rows(rows_of_place)
            with self.otherwise(is_whole):
                for each in rows_of_place:
                    limits = [(0, d.size) for d in split]
                    with self.where(self.lowering.in_bounds(each.index[self.split :], limits)):
                        self.gather_rows([each])

    def gather_rows(self, rows: Sequence[_Row]) -> None:
        """Computes the elements along the last dimension of rows with the same quotients."""
        builder, last = self.builder, self.last
        begin, end = last.whole_quotients
        if end - begin < self.lanes:
            begin = end = 0
        elements = list(product(rows, range(last.window.stride)))
        with builder.loop(end - begin, AxisKind.VECTOR, width=self.lanes) as position:
            found = [self.element(row, position + begin, rest) for row, rest in elements]
            for (row, rest), element in zip(elements, found, strict=True):
                self.store((*row.index, last.position(position + begin, rest)), element)
        for low, high in ((0, begin), (end, last.quotients)):
            with builder.loop(high - low) as position:
                for row, rest in elements:
                    at = last.position(position + low, rest)
                    with self.where(self.lowering.in_bounds((at,), [(0, last.size)])):
                        self.store((*row.index, at), self.element(row, position + low, rest))

    def element(self, row: _Row, last: Affine, rest: int) -> Element:
        """Combines the initial value with the sources of the windows that select an element.

        last, rest: its quotient and remainder along the last dimension.
        """
        builder, dimensions = self.builder, self.dimensions[self.split :]
        quotients, places, rests = (*row.quotients, last), (*row.places, last), (*row.rests, rest)
        total = self.lowering.element(self.selection.initial, ())
        before = tuple(p + d.start for p, d in zip(row.index[: self.split], self.dimensions, strict=False))
        choices = [d.window_offsets(rest) for d, rest in zip(dimensions, rests, strict=True)]
        sizes = [d.window.size for d in dimensions]
        for windows in product(*choices):
            number = linear(tuple(Affine((), offset) for _, offset in windows), sizes).constant
            steps = list(zip(dimensions, [j for j, _ in windows], strict=True))
            place = tuple(p + (d.overlap - j) for p, (d, j) in zip(places, steps, strict=True))
            window = tuple(q + (d.first_quotient - j) for q, (d, j) in zip(quotients, steps, strict=True))
            chosen = builder.load(self.selected, linear(place, self.sizes))
            is_selected = builder.compare("eq", chosen, builder.constant(I32, number))
            with self.lowering.where(is_selected):
                source = self.lowering.element(self.selection.source, (*before, *window))
            total = select_element(builder, is_selected, self.selection.combined(total, source), total)
        return total

    def store(self, index: Index, element: Element) -> None:
        place = linear(index, self.shape.dimensions)
        store_element(self.builder, self.output, place, element, self.shape.element_type)

    # -- branches

    def where(self, condition: Value | None) -> AbstractContextManager[None]:
        """A branch that runs if a condition is true; None is always true."""
        return nullcontext() if condition is None else self.builder.branch(condition)

    @contextmanager
    def otherwise(self, condition: Value | None) -> Iterator[None]:
        """A branch that runs if a condition is false; its code is dropped if the condition is None, always true."""
        if condition is None:
            with self.builder.loop(0):
                yield
            return
        with self.builder.branch(self.builder.logical_not(condition)):
            yield
