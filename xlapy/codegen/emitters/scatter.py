"""Emits scatter: for each index vector, in row-major order, combines its whole window of updates with the operand.

The operand is updated in place. A window that is not entirely inside the operand is skipped. The elements of one window
are distinct, so its last dimension may run in vectors. Does not decide in which memory the operand is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.analysis.integer_ranges import integer_range, is_within
from xlapy.base.element_types import F32, F64
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.region import kernel_builder, operand_source, result_buffer
from xlapy.codegen.target import Target
from xlapy.hlo.computation import is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, AxisKind, Buffer, Kernel, Location, Value
from xlapy.loops.types import I32, I64, integer_type
from xlapy.lower import Element, Lowering, components, load_element, storage_type, store_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.indexing import vector_component
from xlapy.lower.movement import conjunction
from xlapy.opcodes.indexing import ScatterAttributes, window_dims_to_operand_dims

MIN_VECTOR_ELEMENTS = 2
"""Windows with a shorter last dimension are combined element by element."""

MIN_TASK_ROW_BYTES = 512
"""The bytes of a window's row, at least, that one task combines if the columns of wide windows are split into tasks:
threads then seldom write to one cache line, and reading the index vectors once for each task costs little."""

MIN_DIVIDED_UPDATES = 1 << 13
"""The updates from which on the range of targets is divided among tasks."""

MIN_DIVIDED_WINDOW_BYTES = 64
"""The bytes of a window from which on the range of targets is divided whatever its size: a cache line of updates, which
only one task reads. Of smaller windows, each task reads nearly all lines, which is as long as the update of targets in
the level-2 cache: a million f32 into 16,384 take 1.1 to 1.4x the time on two processors, into a million 0.3 to 0.5x."""

MAX_RANGES = 8
"""The largest number of ranges: each task reads all index vectors."""

LISTED_UPDATES = 1 << 11
"""The largest number of updates whose positions a task lists at once."""

MIN_UPDATES_PER_EXTREME = 8
"""The updates of each maximum or minimum from which on most do not change it, so that a branch is predicted."""


@dataclass(frozen=True, slots=True)
class ScatterKernels:
    """The kernels of a scatter, in the order in which they run.

    All have the buffers of the indices, the updates and the targets, then those of the temporaries. temporaries: the
    size of each in bytes.
    """

    kernels: tuple[Kernel, ...]
    temporaries: tuple[int, ...] = ()


def scatter_kernel(instruction: Instruction, target: Target) -> Kernel:
    """Returns the kernel that combines the updates with the targets. Buffers: indices, updates, targets."""
    return ScatterEmitter(instruction, target).build()


class ScatterEmitter:
    """A kernel of a scatter."""

    def __init__(self, instruction: Instruction, target: Target) -> None:
        count = len(instruction.operands) // 2
        self.instruction = instruction
        self.operands = instruction.operands[:count]
        self.indices, *self.updates = instruction.operands[count:]
        self.attrs: ScatterAttributes = instruction.attributes_as(ScatterAttributes)
        self.shape = self.operands[0].shape.dimensions
        self.builder = kernel_builder(instruction.name, target)
        self.processors, self.l2_bytes = target.processors, target.l2_bytes
        inputs = enumerate(instruction.operands[count:])
        self.lowering = Lowering(self.builder, {o: operand_source(self.builder, o, f"in{n}") for n, o in inputs})
        self.targets = [result_buffer(self.builder, o.shape, f"out{n}") for n, o in enumerate(self.operands)]

        update = self.updates[0].shape.dimensions
        self.rows = [size for d, size in enumerate(update) if d not in self.attrs.update_window_dims]
        """The sizes of the dimensions of the index vectors."""
        self.window = [update[d] for d in self.attrs.update_window_dims]
        self.sizes = self.window_sizes()
        """The size of a window in each operand dimension."""

    @property
    def fits(self) -> bool:
        """Whether windows are not larger than the operand."""
        return all(size <= whole for size, whole in zip(self.sizes, self.shape, strict=True))

    def batch(self, row: Affine) -> Index:
        """The index of an index vector by its number."""
        return delinear(self.builder, row, self.rows)

    def build(self) -> Kernel:
        batches = self.leading_batching_dims()
        divided = self.divided_component() if self.fits and not batches and self.column_tasks < 2 else None
        if divided is not None:
            self.range_tasks(divided)
            return self.builder.kernel
        with self.task_loop(math.prod(self.rows[:batches]) if self.fits else 0) as (task, first, columns):
            outer = delinear(self.builder, task, self.rows[:batches])
            with self.builder.loop(math.prod(self.rows[batches:])) as row:
                self.update((*outer, *delinear(self.builder, row, self.rows[batches:])), first, columns)
        return self.builder.kernel

    def update(self, batch: Index, first_column: Affine, columns: int | Value) -> None:
        """Combines columns of one window, if it is inside the operand."""
        starts, condition = self.starts(batch, self.sizes)
        if condition is None:
            self.combine_window(batch, starts, first_column, columns)
            return
        with self.builder.branch(condition):
            self.combine_window(batch, starts, first_column, columns)

    # -- tasks of ranges of targets

    def divided_component(self) -> int | None:
        """The component of index vectors for whose dimension tasks have a range each; None if there is none.

        A window has one element along the dimension, so no two tasks have targets in common.
        """
        found = [
            (self.shape[dimension], -component)
            for component, dimension in enumerate(self.attrs.scatter_dims_to_operand_dims)
            if self.sizes[dimension] == 1
        ]
        size, component = max(found, default=(1, 0))
        if self.processors == 1 or size == 1 or self.updates[0].shape.size < MIN_DIVIDED_UPDATES:
            return None
        element = self.operands[0].shape.element_type.byte_size
        is_worth_it = (
            self.attrs.indices_are_sorted
            or math.prod(self.window) * element >= MIN_DIVIDED_WINDOW_BYTES
            or math.prod(self.shape) * element >= self.l2_bytes
        )
        return -component if is_worth_it else None

    def range_tasks(self, component: int) -> None:
        """Emits one task per range of targets.

        A task reads all index vectors, lists the positions of those in its range, in order, and then combines their
        windows. So each target gets its updates in their order.
        """
        builder, count = self.builder, math.prod(self.rows)
        size = self.shape[self.attrs.scatter_dims_to_operand_dims[component]]
        width = -(-size // min(self.processors, MAX_RANGES))
        block = min(LISTED_UPDATES, count)
        positions = builder.scratch("positions", I32, block)
        with builder.loop(-(-size // width), AxisKind.PARALLEL) as task:
            first = builder.value_of(task * width)
            extent = block_extent(builder, task * width, size, width)
            limit = builder.constant(I64, extent) if isinstance(extent, int) else extent
            with builder.loop(-(-count // block)) as number:
                start = number * block

                extent = block_extent(builder, start, count, block)
                length = self.list_positions(component, start, extent, (first, limit), positions)
                length.range = (0, block)
                with builder.loop(length) as entry:
                    position = builder.convert("zext", builder.load(positions, entry), I64)
                    position.range = (0, block - 1)
                    columns = self.window[-1] if self.window else 1
                    self.update(self.batch(start + Affine.of(position)), Affine(), columns)

    def list_positions(
        self, component: int, start: Affine, count: int | Value, limits: tuple[Value, Value], positions: Buffer
    ) -> Value:
        """Lists the index vectors from `start` on, `count` at most, with a component in a range; returns their number.

        limits: the first number of the range, and how many numbers it has.
        """
        builder, (first, extent) = self.builder, limits
        source = self.lowering.source(self.indices)
        is_vector_of_numbers = len(self.attrs.scatter_dims_to_operand_dims) == 1
        if is_vector_of_numbers and source is not None and source.buffer.type in (I32, I64):
            place = Location(source.buffer, start)
            return builder.positions_in(limits, place, count, Location(positions, Affine()))

        def listed(position: Affine, lengths: Sequence[Value]) -> list[Value]:
            batch = self.batch(start + position)
            index = vector_component(batch, self.attrs.index_vector_dim, component, self.indices.shape.rank)
            target = builder.sub(self.signed(self.lowering.value(self.indices, index)), first)
            number = builder.convert("trunc", builder.value_of(position), I32)
            builder.store(positions, Affine.of(lengths[0]), number)
            is_listed = builder.compare("ult", target, extent)
            return [builder.add(lengths[0], builder.convert("zext", is_listed, I64))]

        (length,) = builder.reduce(count, [builder.zero(I64)], listed)
        return length

    def leading_batching_dims(self) -> int:
        """The number of leading dimensions of the index vectors that are batching dimensions of the operand too."""
        vector_dim = self.attrs.index_vector_dim
        batching = {d if d < vector_dim else d - 1 for d in self.attrs.scatter_indices_batching_dims}
        return next(d for d in itertools.count() if d not in batching)

    @contextmanager
    def task_loop(self, batches: int) -> Iterator[tuple[Affine, Affine, int | Value]]:
        """Opens the parallel loop; yields the batch, and the first column and the number of columns of each window.

        A task is a batch, or some columns of all windows. Tasks have no targets in common, so each target gets its
        updates in the same order for any number of threads.
        """
        columns, tasks = self.window[-1] if self.window else 1, self.column_tasks
        if batches != 1 or tasks < 2:
            with self.builder.loop(batches, AxisKind.PARALLEL if batches > 1 else AxisKind.SERIAL) as batch:
                yield batch, Affine(), columns
            return
        lanes = min(self.builder.lanes(storage_type(o.shape.element_type)) for o in self.operands)
        width = -(-columns // (tasks * lanes)) * lanes
        with self.builder.loop(-(-columns // width), AxisKind.PARALLEL) as task:
            first = task * width
            yield Affine(), first, block_extent(self.builder, first, columns, width)

    @property
    def column_tasks(self) -> int:
        """The number of tasks, at most, among which the columns of each window are divided.

        Windows that start at any column have no two tasks: a target may be in different columns of two windows.
        """
        dimensions = window_dims_to_operand_dims(len(self.shape), self.attrs)
        if not dimensions or dimensions[-1] in self.attrs.scatter_dims_to_operand_dims:
            return 1
        columns = self.window[-1]
        smallest = min(storage_type(o.shape.element_type).byte_size for o in self.operands)
        return min(self.processors, columns * smallest // MIN_TASK_ROW_BYTES)

    def window_sizes(self) -> list[int]:
        """The window's size in each operand dimension."""
        sizes = [1] * len(self.shape)
        for size, dimension in zip(self.window, window_dims_to_operand_dims(len(self.shape), self.attrs), strict=True):
            sizes[dimension] = size
        return sizes

    def starts(self, batch: Index, sizes: list[int]) -> tuple[list[Affine], Value | None]:
        """Returns the start of a window and the condition that it is inside the operand; None if it always is."""
        attrs, starts, condition = self.attrs, [Affine()] * len(self.shape), None
        for component, dimension in enumerate(attrs.scatter_dims_to_operand_dims):
            component_index = vector_component(batch, attrs.index_vector_dim, component, self.indices.shape.rank)
            start = self.signed(self.lowering.value(self.indices, component_index))
            limit = self.shape[dimension] - sizes[dimension]
            starts[dimension] = Affine.of(start)
            if is_within(integer_range(self.indices), 0, limit):
                continue
            inside = self.builder.compare("ule", start, self.builder.constant(I64, limit))
            condition = conjunction(self.builder, condition, inside)
        for dimension, batching in zip(attrs.input_batching_dims, attrs.scatter_indices_batching_dims, strict=True):
            starts[dimension] = batch[batching if batching < attrs.index_vector_dim else batching - 1]
        return starts, condition

    def signed(self, value: Value) -> Value:
        """An index as an I64. An index of u64 beyond that range becomes negative, which is outside as well."""
        t = self.indices.shape.element_type
        return self.builder.convert("sext" if t.is_signed else "zext", value, I64)

    def combine_window(self, batch: Index, starts: list[Affine], first_column: Affine, columns: int | Value) -> None:
        """Emits the combination of columns of one window, element by element or in vectors along its last dimension."""
        window = self.window
        outer, inner = math.prod(window[:-1]), window[-1] if window else 1
        lanes = min(self.builder.lanes(storage_type(o.shape.element_type)) for o in self.operands)
        is_complex = any(components(o.shape.element_type) > 1 for o in self.operands)
        # a window of 9 elements is a vector of 8 and an element
        width = 1 if is_complex or inner < MIN_VECTOR_ELEMENTS else min(lanes, 1 << inner.bit_length() - 1)
        kind = AxisKind.VECTOR if width > 1 else AxisKind.SERIAL
        with self.builder.loop(outer) as first:
            outer_offsets = delinear(self.builder, first, window[:-1])
            with self.builder.loop(columns, kind, width=width) as column:
                last = first_column + column
                self.element(batch, starts, (*outer_offsets, last) if window else ())

    def element(self, batch: Index, starts: list[Affine], offsets: Index) -> None:
        target, source_index = list(starts), self.update_index(batch, offsets)
        dimensions = window_dims_to_operand_dims(len(self.shape), self.attrs)
        for window_offset, dimension in zip(offsets, dimensions, strict=True):
            target[dimension] = target[dimension] + window_offset
        offset = linear(tuple(target), self.shape)
        types = [o.shape.element_type for o in self.operands]
        pairs = zip(self.targets, types, strict=True)
        current = [load_element(self.builder, buffer, offset, t) for buffer, t in pairs]
        values = [self.lowering.element(update, source_index) for update in self.updates]
        with self.where_it_changes(current[0], values[0]):
            results = self.combined(current, values)
            for buffer, t, element in zip(self.targets, types, results, strict=True):
                store_element(self.builder, buffer, offset, element, t)

    @contextmanager
    def where_it_changes(self, current: Element, update: Element) -> Iterator[None]:
        """Opens a branch for the updates of a maximum or minimum that may change it, which few of many do.

        A load of an element that the updates just before have stored waits for that store, or is repeated.
        """
        are_many = self.updates[0].shape.size >= MIN_UPDATES_PER_EXTREME * math.prod(self.shape)
        if self.builder.block.in_vector or not self.is_extreme or not are_many:
            yield
            return
        assert isinstance(current, Value) and isinstance(update, Value)
        beyond = "lt" if self.instruction.to_apply.root_instruction.op is opcodes.MAXIMUM else "gt"
        is_within = self.builder.compare(f"o{beyond}", update, current)
        with self.builder.branch(self.builder.logical_not(is_within), is_cold=True):
            yield

    @property
    def is_extreme(self) -> bool:
        """Whether the computation is the maximum or minimum of two floats."""
        root, t = self.instruction.to_apply.root_instruction, self.operands[0].shape.element_type
        is_extreme = root.op in (opcodes.MAXIMUM, opcodes.MINIMUM) and all(map(is_parameter, root.operands))
        return is_extreme and len(set(root.operands)) == 2 and t in (F32, F64)

    def combined(self, current: list[Element], updates: list[Element]) -> list[Element]:
        """Applies the computation of the scatter to current values and updates."""
        if self.is_extreme:
            is_maximum = self.instruction.to_apply.root_instruction.op is opcodes.MAXIMUM
            return [self.extreme(is_maximum, current[0], updates[0])]
        result = self.lowering.apply(self.instruction.to_apply, [*current, *updates])
        return result if isinstance(result, list) else [result]

    def extreme(self, is_maximum: bool, current: Element, update: Element) -> Element:
        """Returns the maximum or minimum, NaN if one of the two is NaN, with -0 below +0.

        Consecutive updates of one element wait for each other. So all that depends only on the update is computed
        beside: between the current value and the result are one comparison, one operation on bits and one selection.
        """
        assert isinstance(current, Value) and isinstance(update, Value)
        b, integer = self.builder, integer_type(update.type.bits)
        chosen = b.select(b.compare("ogt" if is_maximum else "olt", update, current), update, current)
        # of equal values the current one is chosen, which may be a zero of the other sign
        sign = b.constant(integer, -(1 << update.type.bits - 1))
        zero, none = b.zero(integer), b.constant(integer, -1)
        bits = b.bitcast(update, integer)
        if is_maximum:
            mask = b.select(b.compare("eq", bits, zero), b.constant(integer, (1 << update.type.bits - 1) - 1), none)
            signed = b.binary("and", b.bitcast(chosen, integer), mask)
        else:
            signed = b.binary("or", b.bitcast(chosen, integer), b.select(b.compare("eq", bits, sign), sign, zero))
        is_nan = b.compare("uno", update, update)
        return b.select(is_nan, update, b.bitcast(signed, update.type))

    def update_index(self, batch: Index, offsets: Index) -> Index:
        rows, inner = iter(batch), iter(offsets)
        rank = len(batch) + len(offsets)
        return tuple(next(inner) if d in self.attrs.update_window_dims else next(rows) for d in range(rank))
