"""Computes what does not depend on earlier iterations of a loop for all iterations at once, before the loop.

The body of a loop on small values runs one number at a time. What depends only on the number of the iteration, and on
values that no iteration changes, runs in vectors:

    body: x = f32[1] dynamic-slice(f32[2000] xs, i)  y = f32[1] tanh(x)  s <- s * y
    ->    before the loop: ys = f32[2000] tanh(xs)
          body: y = f32[1] dynamic-slice(ys, i)  s <- s * y

An element of the state to which each iteration adds a row that it computes so is written as a whole, and a loop that
only has such elements, as `jax.lax.map` makes it, disappears. Loops inside the body become loops on arrays, whose
iterations run for all iterations of the outer loop.

Responsible for what is worth it. `batching` has the rules of each operation. Does not depend on kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from xlapy import opcodes
from xlapy.analysis.cost import MAX_RECOMPUTED_COST, STORED_ELEMENT_COST, element_cost, element_count
from xlapy.analysis.counted_loops import Counter, counter_of, exact_trip_count
from xlapy.analysis.integer_ranges import integer_range
from xlapy.analysis.loops import TupleLoop
from xlapy.base.element_types import S32
from xlapy.base.shape import Shape
from xlapy.cpu.transforms.loop_batching.batching import Batched, Batcher, NotBatchableError
from xlapy.cpu.transforms.loop_batching.iteration_numbers import Steps, fits, iteration_numbers
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.movement import DimensionsAttributes, DynamicSliceAttributes
from xlapy.opcodes.sources import IotaAttributes
from xlapy.passes.control_flow.hoist_loop_invariants import extensible_loop, rewrite_loops
from xlapy.passes.rewrite import (
    Writer,
    is_dead,
    remove_if_dead,
    remove_replaced,
    remove_uncalled_computations,
    replace_with_new,
    transfer_annotations,
)
from xlapy.passes.signature import Values, clone_with_signature, tuple_elements

MIN_TRIPS: Final = 8
"""The smallest number of iterations that are batched: those of a vector of f64."""

MAX_ELEMENTS: Final = 64
"""The largest number of elements that a batched instruction has in one iteration. Larger arrays fill vectors in the
loop, too, and stay in the caches there."""

MAX_BYTES: Final = 1 << 20
"""The largest size in bytes of the values of an instruction in all iterations, which are stored and loaded again."""

MIN_COST: Final = 2 * STORED_ELEMENT_COST
"""The least cost of computing an element that is computed before the loop, which stores it and loads it again."""

UNKNOWN_TRIPS: Final = 8
"""The assumed trip count of an inner loop whose end is computed."""

_MOVEMENTS = frozenset(
    {
        opcodes.BROADCAST,
        opcodes.CONCATENATE,
        opcodes.CONSTANT,
        opcodes.COPY,
        opcodes.DYNAMIC_SLICE,
        opcodes.GET_TUPLE_ELEMENT,
        opcodes.IOTA,
        opcodes.PAD,
        opcodes.RESHAPE,
        opcodes.REVERSE,
        opcodes.SLICE,
        opcodes.TRANSPOSE,
        opcodes.TUPLE,
    }
)
"""Operations that cost nothing by themselves."""


@dataclass(frozen=True)
class BatchIterations:
    """Computes values that depend only on the number of the iteration for all iterations at once."""

    name: ClassVar[str] = "batch-iterations"
    is_elementwise: Callable[[Instruction], bool] = lambda _: True
    """Whether a loop treats the elements of its state separately, each of them with iterations of its own."""

    def run(self, module: Module) -> bool:
        return rewrite_loops(module, lambda loop: _batch(loop, self.is_elementwise))


def _batch(loop: Instruction, is_elementwise: Callable[[Instruction], bool]) -> bool:
    view, counter = extensible_loop(loop), counter_of(loop)
    if view is None or counter is None or counter.trip_count < MIN_TRIPS or loop.has_control_edges:
        return False
    if any(reader.has_control_edges for reader in loop.users):
        return False
    if not all(shape.is_array for shape in loop.shape.tuple_shapes):
        return False
    batch = _LoopBatch(view, counter, is_elementwise)
    changed = batch.run()
    batch.write.discard()
    remove_uncalled_computations(batch.batcher.computations)
    return changed


@dataclass
class _LoopBatch:
    """The values of a loop's body that are computed for all iterations at once."""

    view: TupleLoop
    counter: Counter
    is_elementwise: Callable[[Instruction], bool]
    write: Writer = field(init=False)
    batcher: Batcher = field(init=False)
    values: dict[Instruction, Batched | tuple[Batched, ...]] = field(default_factory=dict)
    costs: dict[Instruction, int] = field(default_factory=dict)
    """The cost of the values of one iteration, with the values that they are computed from."""

    def __post_init__(self) -> None:
        self.write = Writer(self.view.loop)
        self.batcher = Batcher(self.write, self.counter.trip_count, self.is_elementwise)
        self.numbers = iteration_numbers(self.view, self.counter.trip_count)
        self.initial = tuple_elements(self.write, self.view.loop.operands[0])

    def run(self) -> bool:
        """Rewrites the loop if that is worth it; returns whether it is."""
        if not any(self._own_cost(one) for one in self.view.body):
            return False
        for one in post_order(self.view.body):
            self._batch_one(one)
        rows = dict(self._rows())
        changing = [n for n in range(self.view.element_count) if not self.view.is_invariant(n)]
        is_map = all(n in rows or self._is_number(n) for n in changing)
        if not is_map:
            rows = {n: update for n, update in rows.items() if self._is_worthwhile(update)}
        carried = [] if abs(self.counter.step) != 1 else self._carried(rows)
        if not rows and not carried:
            return False
        self._rewrite(rows, carried)
        return True

    # -- values of all iterations

    def _batch_one(self, one: Instruction) -> None:
        if one is self.view.body.root_instruction:
            return
        (parameter,) = self.view.body.parameters
        steps = self.numbers.get(one)
        if steps is not None and steps.step:
            self.values[one] = Batched(self._all_numbers(one.shape, steps), True)
            self.costs[one] = 0
            return
        if one.op is opcodes.GET_TUPLE_ELEMENT and one.operands[0] is parameter:
            if self.view.is_invariant(one.tuple_index):
                self.values[one] = Batched(self.initial[one.tuple_index], False)
                self.costs[one] = 0
            return
        if one is parameter or any(operand not in self.values for operand in one.operands):
            return
        try:
            found = self._slice_of_rows(one) or self.batcher.batch(one, self.values)
        except NotBatchableError:
            return
        every = found if isinstance(found, tuple) else (found,)
        if any(value.varies and not self._is_small(value.value.shape) for value in every):
            return
        self.values[one] = found
        self.costs[one] = min(1 << 20, self._own_cost(one) + sum(self.costs[operand] for operand in set(one.operands)))

    def _is_small(self, shape: Shape) -> bool:
        return shape.size <= MAX_ELEMENTS * self.counter.trip_count and shape.byte_size <= MAX_BYTES

    def _all_numbers(self, shape: Shape, steps: Steps) -> Instruction:
        """Writes the numbers `first`, `first + step`, ..., in arrays of one element or as scalars."""
        write, wide = self.write, shape.with_dimensions((self.counter.trip_count, *shape.dimensions))
        numbers = write.add(opcodes.IOTA, attributes=IotaAttributes.make(iota_dimension=0), shape=wide)
        if steps.step != 1:
            numbers = write.add(opcodes.MULTIPLY, numbers, write.splat(steps.step, wide))
        return write.add(opcodes.ADD, numbers, write.splat(steps.first, wide)) if steps.first else numbers

    def _slice_of_rows(self, one: Instruction) -> Batched | None:
        """Writes the rows that a dynamic-slice takes of an array one after the other, as a slice; None for others."""
        if one.op is not opcodes.DYNAMIC_SLICE:
            return None
        array, sizes = self.values[one.operands[0]], one.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes
        first = self._first_row(one.operands[1:], one.operands[0].shape, sizes)
        if first is None or isinstance(array, tuple) or array.varies:
            return None
        low, is_backward = first
        dimensions = one.operands[0].shape.dimensions
        count = self.counter.trip_count
        rows = array.value
        if count < dimensions[0]:
            starts = (low, *[0] * (len(dimensions) - 1))
            rows = self.write.slice(rows, starts, (low + count, *dimensions[1:]))
        if is_backward:
            attributes = DimensionsAttributes.make(dimensions=(0,))
            rows = self.write.add(opcodes.REVERSE, rows, attributes=attributes)
        return Batched(self.write.reshape(rows, self.batcher.shape(one)), True)

    def _first_row(self, starts: Sequence[Instruction], whole: Shape, sizes: Sequence[int]) -> tuple[int, bool] | None:
        """Returns the first of the rows that slices take, and whether they go backward; None unless each iteration
        takes the next whole row."""
        if len(starts) != whole.rank or any(start.shape.rank for start in starts):
            return None
        steps = self.numbers.get(starts[0])
        if steps is None or abs(steps.step) != 1 or sizes[0] != 1 or tuple(sizes[1:]) != whole.dimensions[1:]:
            return None
        low, high = steps.bounds(self.counter.trip_count)
        return (low, steps.step < 0) if low >= 0 and high < whole.dimensions[0] else None

    # -- what is worth it

    def _own_cost(self, one: Instruction) -> int:
        """The cost of an instruction in one iteration, as far as vectors of several iterations make it cheaper."""
        if one.op is opcodes.WHILE:
            count = exact_trip_count(one)
            trips = UNKNOWN_TRIPS if count is None else count
            return min(1 << 20, trips * sum(self._own_cost(inner) for inner in one.computations[1]))
        if not one.shape.is_array or one in self.numbers:
            return 0
        if one.op is opcodes.DYNAMIC_SLICE:
            starts = one.operands[1:]
            return 0 if all(start in self.numbers for start in starts) else element_cost(one) * one.shape.size
        if one.op in _MOVEMENTS or one.shape.size > MAX_ELEMENTS:
            return 0
        if one.op in (opcodes.REDUCE, opcodes.DOT):
            return element_count(one.operands[0].shape)
        if one.op in (opcodes.DIVIDE, opcodes.REMAINDER) and one.shape.element_type.is_integral:
            divisor = integer_range(one.operands[1])
            if divisor is not None and divisor[0] == divisor[1]:  # a multiplication and a shift
                return MAX_RECOMPUTED_COST * one.shape.size
        return element_cost(one) * one.shape.size

    def _is_worthwhile(self, one: Instruction) -> bool:
        return self.costs[one] >= MIN_COST * one.shape.size

    def _is_number(self, number: int) -> bool:
        """Whether an element of the state counts iterations."""
        following = self.view.next_element(number)
        return following in self.numbers

    def _rows(self) -> Iterator[tuple[int, Instruction]]:
        """Yields the elements of the state of which each iteration writes the next row, and the row."""
        for number in range(self.view.element_count):
            update = self.view.next_element(number)
            if update.op is not opcodes.DYNAMIC_UPDATE_SLICE:
                continue
            array, row, *starts = update.operands
            is_element = array.op is opcodes.GET_TUPLE_ELEMENT and array.operands[0] is self.view.body.parameters[0]
            if not is_element or array.tuple_index != number or set(array.users) != {update}:
                continue
            readers = [*self.view.element_reads(self.view.condition), *self.view.element_reads(self.view.body)]
            if any(one is not array and one.tuple_index == number and not is_dead(one) for one in readers):
                continue
            is_only_state = self.view.body.root_instruction.operands.count(update) == 1 == len(update.users)
            if not is_only_state or update.has_control_edges:
                continue
            value = self.values.get(row)
            is_next = self._first_row(starts, array.shape, row.shape.dimensions) is not None
            if is_next and isinstance(value, Batched) and value.varies:
                yield number, row

    def _carried(self, rows: dict[int, Instruction]) -> list[Instruction]:
        """Returns the values that are computed before the loop, and that the rest of the body uses."""
        written = {self.view.next_element(number) for number in rows}
        needed: set[Instruction] = set()
        carried: list[Instruction] = []
        for one in reversed(list(post_order(self.view.body))):
            if one in written or (one in self.values and one not in needed):
                continue
            value = self.values.get(one)
            is_free = one.op in (opcodes.BROADCAST, opcodes.RESHAPE)
            if isinstance(value, Batched) and value.varies and not is_free and self._is_worthwhile(one):
                carried.append(one)
            else:
                needed.update(one.operands)
        return carried

    # -- the new loop

    def _rewrite(self, rows: dict[int, Instruction], carried: Sequence[Instruction]) -> None:
        view, loop, write = self.view, self.view.loop, self.write
        called = loop.computations
        before = [self.batcher.spread(self.batcher.one(self.values[one])) for one in carried]
        shape = Shape.tuple([*loop.shape.tuple_shapes, *(value.shape for value in before)])
        init = write.add(opcodes.TUPLE, *self.initial, *before, shape=shape)
        condition = self._with_state(view.condition, shape, rows, (), is_body=False)
        body = self._with_state(view.body, shape, rows, carried, is_body=True)
        made = write.add(opcodes.WHILE, init, computations=[condition, body], shape=shape)
        write.created.remove(made)  # it may have side effects
        made.backend_config = loop.backend_config
        transfer_annotations(loop, made)
        whole = {number: self._all_rows(number, row) for number, row in rows.items()} | self._last_numbers()
        for reader in loop.users:
            if is_dead(reader):
                edit.remove(reader)
            elif view.is_invariant(reader.tuple_index):
                edit.replace_uses(reader, self.initial[reader.tuple_index])
                edit.remove(reader)
            elif reader.tuple_index in whole:
                replace_with_new(reader, whole[reader.tuple_index])
            else:
                replace_with_new(reader, Writer(reader).get_tuple_element(made, reader.tuple_index))
        remove_if_dead(made)
        if loop.parent is not None:
            remove_replaced(loop)
        remove_uncalled_computations([*called, condition, body])

    def _last_numbers(self) -> dict[int, Instruction]:
        """Writes the counters of the loop after it."""
        found: dict[int, Instruction] = {}
        for element in self.view.element_reads(self.view.body):
            steps = self.numbers.get(element)
            if steps is not None:
                last = Steps(steps.first + steps.step * self.counter.trip_count, 0)
                if fits(last, element.shape.element_type, 1):
                    found[element.tuple_index] = self.write.scalar(last.first, element.shape.element_type)
        return {n: value for n, value in found.items() if value.shape.compatible(self.initial[n].shape)}

    def _all_rows(self, number: int, row: Instruction) -> Instruction:
        """Writes an element of the state after the loop, of which each iteration writes a row."""
        write, array = self.write, self.initial[number]
        update = self.view.next_element(number)
        first = self._first_row(update.operands[2:], array.shape, row.shape.dimensions)
        assert first is not None
        low, is_backward = first
        count, dimensions = self.counter.trip_count, array.shape.dimensions
        rows = write.reshape(
            self.batcher.one(self.values[row]).value, array.shape.with_dimensions((count, *dimensions[1:]))
        )
        if is_backward:
            rows = write.add(opcodes.REVERSE, rows, attributes=DimensionsAttributes.make(dimensions=(0,)))
        if count == dimensions[0]:
            return rows
        t = update.operands[2].shape.element_type
        starts = [write.scalar(low if d == 0 else 0, t) for d in range(len(dimensions))]
        return write.add(opcodes.DYNAMIC_UPDATE_SLICE, array, rows, *starts, shape=array.shape)

    def _with_state(
        self,
        computation: Computation,
        shape: Shape,
        rows: dict[int, Instruction],
        carried: Sequence[Instruction],
        is_body: bool,
    ) -> Computation:
        """Returns a copy of condition or body for the new state, in which the body reads the carried values."""
        (parameter,), root = computation.parameters, computation.root_instruction
        count = self.view.element_count

        def bind(write: Writer, parameters: Sequence[Instruction]) -> Values:
            (state,) = parameters
            bound = {element: write.get_tuple_element(state, element.tuple_index) for element in parameter.users}
            if carried:
                place = self._iteration(write, write.get_tuple_element(state, self.counter.number))
                for position, one in enumerate(carried):
                    bound[one] = _row(write, write.get_tuple_element(state, count + position), place, one.shape)
            return bound

        def finish(write: Writer, values: Values) -> Instruction:
            if not is_body:
                return values[root]
            (state,) = write.computation.parameters
            following = [
                write.get_tuple_element(state, number)
                if number in rows or number >= count
                else values[root.operands[number]]
                for number in range(len(shape.tuple_shapes))
            ]
            return write.add(opcodes.TUPLE, *following, shape=shape)

        return clone_with_signature(computation, [shape], bind, finish)

    def _iteration(self, write: Writer, counted: Instruction) -> Instruction:
        """Writes the number of the iteration, from 0, given the loop's counter."""
        first, step = self.counter.first, self.counter.step
        if step == 1 and not first:
            return counted
        if not fits(Steps(self.counter.trip_count - 1, 0), counted.shape.element_type, 1):  # s8 from -100 to 99
            counted = write.add(opcodes.CONVERT, counted, shape=Shape.scalar(S32))
        start = write.scalar(first, counted.shape.element_type)
        pair = (counted, start) if step == 1 else (start, counted)
        return write.add(opcodes.SUBTRACT, *pair)


def _row(write: Writer, array: Instruction, place: Instruction, shape: Shape) -> Instruction:
    """Writes the value of one iteration."""
    attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=(1, *shape.dimensions))
    zeros = [write.scalar(0, place.shape.element_type) for _ in shape.dimensions]
    taken = array.shape.with_dimensions((1, *shape.dimensions))
    one = write.add(opcodes.DYNAMIC_SLICE, array, place, *zeros, attributes=attributes, shape=taken)
    return write.reshape(one, shape)
