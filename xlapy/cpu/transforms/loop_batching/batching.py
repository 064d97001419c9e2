"""Writes instructions for all iterations of a loop at once: each value gets one more dimension, in front.

A value that is the same in all iterations keeps its shape. Responsible for the rules of each operation. Does not depend
on which instructions are worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.analysis.counted_loops import counter_of
from xlapy.analysis.loops import TupleLoop
from xlapy.base.element_types import PRED
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension
from xlapy.opcodes.contraction import DotAttributes
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.movement import (
    DimensionAttributes,
    DimensionsAttributes,
    DynamicSliceAttributes,
    PadAttributes,
    SliceAttributes,
)
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.passes.rewrite import Writer, remove_uncalled_computations

MAX_LOOP_INSTRUCTIONS = 200
"""The largest loop with a computed number of iterations that is batched; LLVM's time grows faster than its length."""


@dataclass(frozen=True, slots=True)
class Batched:
    """The value of an instruction in all iterations."""

    value: Instruction
    varies: bool
    """Whether `value` has a dimension of iterations in front. Otherwise, it is the same in all of them."""


Values = Mapping[Instruction, "Batched | tuple[Batched, ...]"]
"""The values of instructions of a computation; that of a tuple is a value for each element."""

_SCALARS: Mapping[object, Sequence[int]] = {opcodes.CLAMP: (0, 2), opcodes.SELECT: (0,)}
"""The operands of elementwise operations that may be scalars where the result is an array."""


class NotBatchableError(Exception):
    """An operation has no form for all iterations at once."""


class Batcher:
    """Writes the instructions of one computation, for `count` iterations.

    is_elementwise: whether a loop that has been written treats its elements separately. A loop with a computed number
    of iterations must: otherwise, all elements would wait for the one that needs the most iterations.
    """

    def __init__(self, write: Writer, count: int, is_elementwise: Callable[[Instruction], bool]) -> None:
        self.write, self.count, self.is_elementwise = write, count, is_elementwise
        self.computations: list[Computation] = []
        """The conditions and bodies written so far."""

    def batch(self, one: Instruction, values: Values) -> Batched | tuple[Batched, ...]:
        """Writes an instruction, given the values of its operands. Raises `NotBatchableError`."""
        if one.has_control_edges or one.shape.is_dynamic:
            raise NotBatchableError(one.name)
        found = [values[operand] for operand in one.operands]
        if one.op is opcodes.TUPLE:
            return tuple(self.one(value) for value in found)
        if one.op is opcodes.GET_TUPLE_ELEMENT:
            (source,) = found
            if not isinstance(source, tuple):
                raise NotBatchableError(one.name)
            return source[one.tuple_index]
        if one.op is opcodes.WHILE:
            return self._while(one, found[0])
        operands = [self.one(value) for value in found]
        if not one.shape.is_array:
            raise NotBatchableError(one.name)
        if not any(operand.varies for operand in operands):
            if one.op.family not in ("elementwise", "movement", "reduction", "contraction", "indexing", "sources"):
                raise NotBatchableError(one.name)
            copied = edit.clone_instruction(one, self.write.computation, [operand.value for operand in operands])
            self.write.created.append(copied)
            return Batched(copied, False)
        if one.op.elementwise:
            return Batched(self._elementwise(one, operands), True)
        rule = _RULES.get(one.op)
        if rule is None:
            raise NotBatchableError(one.name)
        return Batched(rule(self, one, operands), True)

    def one(self, value: Batched | tuple[Batched, ...]) -> Batched:
        if isinstance(value, tuple):
            raise NotBatchableError("a tuple")
        return value

    # -- shapes

    def shape(self, one: Instruction) -> Shape:
        """The shape of the values of an instruction."""
        return one.shape.with_dimensions((self.count, *one.shape.dimensions))

    def spread(self, operand: Batched, dimensions: Sequence[int] | None = None) -> Instruction:
        """Returns the values of an operand with the dimension of iterations, which is written if it is missing.

        dimensions: those of an array to which a scalar operand is broadcast.
        """
        value, shape = operand.value, operand.value.shape
        own = shape.dimensions[1:] if operand.varies else shape.dimensions
        wanted = own if dimensions is None else tuple(dimensions)
        if operand.varies and own == wanted:
            return value
        first = (0,) if operand.varies else ()
        kept = range(1, 1 + len(own)) if own == wanted else ()
        return self.write.broadcast(value, shape.with_dimensions((self.count, *wanted)), (*first, *kept))

    def _elementwise(self, one: Instruction, operands: Sequence[Batched]) -> Instruction:
        dimensions = one.shape.dimensions
        if any(operand.shape.rank not in (0, len(dimensions)) for operand in one.operands):
            raise NotBatchableError(one.name)  # a bitcast-convert to elements of another size
        spread: list[Instruction] = []
        for position, operand in enumerate(operands):
            may_be_scalar = position in _SCALARS.get(one.op, ())
            is_scalar = may_be_scalar and not operand.varies and not operand.value.shape.rank
            spread.append(operand.value if is_scalar else self.spread(operand, dimensions))
        return self.write.add(one.op, *spread, attributes=one.attributes, shape=self.shape(one))

    # -- loops

    def _while(self, loop: Instruction, initial: Batched | tuple[Batched, ...]) -> tuple[Batched, ...]:
        view = TupleLoop.of(loop)
        if view is None or not isinstance(initial, tuple) or loop.shape.is_dynamic:
            raise NotBatchableError(loop.name)
        if any(not shape.is_array for shape in loop.shape.tuple_shapes):
            raise NotBatchableError(loop.name)
        if not any(value.varies for value in initial):
            raise NotBatchableError(loop.name)
        varies = _varying_state(view, [value.varies for value in initial])
        counter = counter_of(loop)
        if counter is not None and not varies[counter.number]:
            return self._rewritten(view, initial, varies, None)
        is_short = sum(len(computation) for computation in loop.computations) <= MAX_LOOP_INSTRUCTIONS
        if any(_divides_in_one_lane(one) for computation in loop.computations for one in computation):
            raise NotBatchableError(loop.name)
        changing = [number for number in range(view.element_count) if not view.is_invariant(number)]
        if not is_short or any(loop.shape.tuple_shapes[number].rank for number in changing):
            raise NotBatchableError(loop.name)
        return self._rewritten(view, initial, [v or n in changing for n, v in enumerate(varies)], view.condition)

    def _rewritten(
        self,
        view: TupleLoop,
        initial: Sequence[Batched],
        varies: Sequence[bool],
        tested: Computation | None,
    ) -> tuple[Batched, ...]:
        """Writes a loop for all iterations of the outer loop, with the elements of its state that vary batched.

        tested: the condition if it differs between the iterations. The loop then runs until it holds for none, and
        keeps the state where it does not hold.
        """
        loop, write = view.loop, self.write
        start = [self.spread(v) if varying else v.value for v, varying in zip(initial, varies, strict=True)]
        state = Shape.tuple([value.shape for value in start])
        body = self._computation(view.body, state, varies)
        condition = self._computation(view.condition, state, varies)
        try:
            following = [body.batcher.one(v) for v in body.tuple_values(view.body.root_instruction)]
            if tested is None:
                root = condition.batcher.one(condition.value(view.condition.root_instruction))
                if root.varies:
                    raise NotBatchableError(loop.name)
            else:
                root = Batched(condition.any_of(view.condition.root_instruction), False)
                holds = body.extended(view.condition)
                following = [
                    Batched(body.selected(holds, value, number), True) if varying else value
                    for number, (value, varying) in enumerate(zip(following, varies, strict=True))
                ]
            spread = [body.batcher.spread(v) if w else v.value for v, w in zip(following, varies, strict=True)]
            if any(value.varies and not varying for value, varying in zip(following, varies, strict=True)):
                raise NotBatchableError(loop.name)
        except NotBatchableError:
            remove_uncalled_computations([body.write.computation, condition.write.computation])
            raise
        edit.set_root(body.write.computation, body.write.add(opcodes.TUPLE, *spread, shape=state))
        edit.set_root(condition.write.computation, root.value)
        tuple_ = write.add(opcodes.TUPLE, *start, shape=state)
        called = [condition.write.computation, body.write.computation]
        self.computations += called
        made = write.add(opcodes.WHILE, tuple_, computations=called, shape=state)
        if tested is not None and not self.is_elementwise(made):
            raise NotBatchableError(loop.name)
        return tuple(Batched(write.get_tuple_element(made, n), varying) for n, varying in enumerate(varies))

    def _computation(self, original: Computation, state: Shape, varies: Sequence[bool]) -> _Copy:
        assert original.module is not None
        into = edit.add_computation(original.module, original.name)
        attributes = ParameterAttributes.make(number=0)
        parameter = edit.create(into, opcodes.PARAMETER, attributes=attributes, shape=state)
        write = Writer(original.root_instruction, into)
        return _Copy(Batcher(write, self.count, self.is_elementwise), original, parameter, varies)


class _Copy:
    """A condition or a body of a loop that is written for all iterations of an outer loop."""

    def __init__(self, batcher: Batcher, original: Computation, parameter: Instruction, varies: Sequence[bool]) -> None:
        self.batcher, self.write, self.varies = batcher, batcher.write, varies
        self.state = [self.write.get_tuple_element(parameter, number) for number in range(len(varies))]
        self._values: dict[Instruction, Batched | tuple[Batched, ...]] = {}
        self._original = original

    def value(self, root: Instruction) -> Batched | tuple[Batched, ...]:
        """Writes a root of the original, or of the condition beside it, with everything it needs."""
        computation = root.parent
        assert computation is not None
        (parameter,) = computation.parameters
        for one in post_order(computation):
            if one is parameter:
                continue
            if one.op is opcodes.GET_TUPLE_ELEMENT and one.operands[0] is parameter:
                self._values[one] = Batched(self.state[one.tuple_index], self.varies[one.tuple_index])
            else:
                self._values[one] = self.batcher.batch(one, self._values)
        return self._values[root]

    def tuple_values(self, root: Instruction) -> tuple[Batched, ...]:
        found = self.value(root)
        assert isinstance(found, tuple)
        return found

    def extended(self, condition: Computation) -> Instruction:
        """Writes the condition of each iteration into the body."""
        return self.batcher.spread(self.batcher.one(self.value(condition.root_instruction)))

    def selected(self, holds: Instruction, value: Batched, number: int) -> Instruction:
        """Writes an element of the next state: the value where the condition holds, else the element before."""
        before = self.state[number]
        if value.value is before:
            return before
        return self.write.add(opcodes.SELECT, holds, self.batcher.spread(value), before, shape=before.shape)

    def any_of(self, root: Instruction) -> Instruction:
        """Writes whether the condition holds in any iteration."""
        holds = self.batcher.spread(self.batcher.one(self.value(root)))
        module, scalar = self.write.computation.module, Shape.scalar(PRED)
        assert module is not None
        reducer = edit.add_computation(module, "any")
        both = [
            edit.create(reducer, opcodes.PARAMETER, attributes=ParameterAttributes.make(number=n), shape=scalar)
            for n in range(2)
        ]
        edit.set_root(reducer, edit.create(reducer, opcodes.OR, both))
        false = self.write.scalar(False, PRED)
        attributes = opcodes.REDUCE.attributes.make(dimensions=(0,))
        return self.write.add(opcodes.REDUCE, holds, false, attributes=attributes, computations=[reducer])


def _divides_in_one_lane(one: Instruction) -> bool:
    """Whether an instruction divides integers that processors divide in one lane only. Several iterations at once would
    take the time of the longest of them, and gain nothing."""
    if one.op not in (opcodes.DIVIDE, opcodes.REMAINDER) or not one.shape.element_type.is_integral:
        return False
    return one.shape.element_type.bits == 64 and one.operands[1].op is not opcodes.CONSTANT


def _varying_state(view: TupleLoop, initial: Sequence[bool]) -> list[bool]:
    """Returns which elements of the state of an inner loop vary, given which of the initial ones do."""
    varies = list(initial)
    (parameter,) = view.body.parameters
    while True:
        differs: dict[Instruction, bool] = {}
        for one in post_order(view.body):
            is_element = one.op is opcodes.GET_TUPLE_ELEMENT and one.operands[0] is parameter
            operands = (differs[operand] for operand in one.operands if operand is not parameter)
            differs[one] = varies[one.tuple_index] if is_element else any(operands)
        following = [v or differs[view.next_element(number)] for number, v in enumerate(varies)]
        if following == varies:
            return varies
        varies = following


# -- rules for operations of which some operand varies


def _broadcast(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    dimensions = (0, *(d + 1 for d in one.dimensions))
    return batcher.write.broadcast(operands[0].value, batcher.shape(one), dimensions)


def _reshape(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    return batcher.write.reshape(operands[0].value, batcher.shape(one))


def _transpose(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    return batcher.write.transpose(operands[0].value, (0, *(d + 1 for d in one.dimensions)), batcher.shape(one))


def _reverse(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    attributes = DimensionsAttributes.make(dimensions=tuple(d + 1 for d in one.dimensions))
    return batcher.write.add(opcodes.REVERSE, operands[0].value, attributes=attributes, shape=batcher.shape(one))


def _slice(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    ranges = one.attributes_as(SliceAttributes).ranges
    starts, limits = (0, *ranges.starts), (batcher.count, *ranges.limits)
    return batcher.write.slice(operands[0].value, starts, limits, (1, *ranges.strides), batcher.shape(one))


def _pad(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    operand, filling = operands
    if filling.varies:
        raise NotBatchableError(one.name)
    padding = one.attributes_as(PadAttributes).padding.dimensions
    attributes = PadAttributes.make(padding=PaddingConfig((PaddingDimension(0, 0), *padding)))
    shape = batcher.shape(one)
    return batcher.write.add(opcodes.PAD, operand.value, filling.value, attributes=attributes, shape=shape)


def _concatenate(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    attributes = DimensionAttributes.make(dimension=one.dimension + 1)
    spread = [batcher.spread(operand) for operand in operands]
    return batcher.write.add(opcodes.CONCATENATE, *spread, attributes=attributes, shape=batcher.shape(one))


def _copy(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    return operands[0].value


def _reduce(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    value, initial = operands
    if initial.varies:
        raise NotBatchableError(one.name)
    attributes = one.attributes.replace(dimensions=tuple(d + 1 for d in one.dimensions))
    return batcher.write.add(
        opcodes.REDUCE,
        value.value,
        initial.value,
        attributes=attributes,
        computations=one.computations,
        shape=batcher.shape(one),
    )


def _dynamic_slice(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    """A slice at the same place in all iterations, or a gather."""
    write, (operand, *starts) = batcher.write, operands
    if len(starts) != operand.value.shape.rank - operand.varies or any(s.value.shape.rank > s.varies for s in starts):
        raise NotBatchableError(one.name)  # the older form, with a vector of indices
    sizes = one.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes
    if not any(start.varies for start in starts):
        zero = write.scalar(0, starts[0].value.shape.element_type)
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=(batcher.count, *sizes))
        places = [start.value for start in starts]
        shape = batcher.shape(one)
        return write.add(opcodes.DYNAMIC_SLICE, operand.value, zero, *places, attributes=attributes, shape=shape)
    if operand.varies:
        raise NotBatchableError(one.name)
    moving = [d for d, whole in enumerate(operand.value.shape.dimensions) if sizes[d] < whole]
    if not moving:
        return batcher.spread(operand)
    columns = [
        write.reshape(spread, spread.shape.with_dimensions((batcher.count, 1)))
        for spread in (batcher.spread(starts[d]) for d in moving)
    ]
    indices = columns[0]
    if len(columns) > 1:
        indices = write.add(opcodes.CONCATENATE, *columns, attributes=DimensionAttributes.make(dimension=1))
    gathering = GatherAttributes.make(
        offset_dims=tuple(range(1, 1 + len(sizes))),
        collapsed_slice_dims=(),
        start_index_map=tuple(moving),
        index_vector_dim=1,
        slice_sizes=tuple(sizes),
    )
    return write.add(opcodes.GATHER, operand.value, indices, attributes=gathering, shape=batcher.shape(one))


def _gather(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    operand, indices = operands
    attributes = one.attributes_as(GatherAttributes)
    if operand.varies or attributes.operand_batching_dims:
        raise NotBatchableError(one.name)
    moved = attributes.replace(
        offset_dims=tuple(d + 1 for d in attributes.offset_dims),
        index_vector_dim=attributes.index_vector_dim + 1,
        indices_are_sorted=False,
    )
    return batcher.write.add(opcodes.GATHER, operand.value, indices.value, attributes=moved, shape=batcher.shape(one))


def _dot(batcher: Batcher, one: Instruction, operands: Sequence[Batched]) -> Instruction:
    """A dot of more rows if only the left operand varies, else a batch of dots."""
    if len(operands) != 2:
        raise NotBatchableError(one.name)
    left, right = operands
    attributes = one.attributes_as(DotAttributes)
    shifted = attributes.replace(
        lhs_contracting_dims=tuple(d + 1 for d in attributes.lhs_contracting_dims),
        lhs_batch_dims=tuple(d + 1 for d in attributes.lhs_batch_dims),
    )
    if not right.varies and not attributes.lhs_batch_dims:
        return batcher.write.add(opcodes.DOT, left.value, right.value, attributes=shifted, shape=batcher.shape(one))
    shifted = shifted.replace(
        rhs_contracting_dims=tuple(d + 1 for d in attributes.rhs_contracting_dims),
        lhs_batch_dims=(0, *shifted.lhs_batch_dims),
        rhs_batch_dims=(0, *(d + 1 for d in attributes.rhs_batch_dims)),
    )
    both = [batcher.spread(operand) for operand in operands]
    return batcher.write.add(opcodes.DOT, *both, attributes=shifted, shape=batcher.shape(one))


_RULES: Mapping[object, Callable[[Batcher, Instruction, Sequence[Batched]], Instruction]] = {
    opcodes.BROADCAST: _broadcast,
    opcodes.CONCATENATE: _concatenate,
    opcodes.COPY: _copy,
    opcodes.DOT: _dot,
    opcodes.DYNAMIC_SLICE: _dynamic_slice,
    opcodes.GATHER: _gather,
    opcodes.PAD: _pad,
    opcodes.REDUCE: _reduce,
    opcodes.RESHAPE: _reshape,
    opcodes.REVERSE: _reverse,
    opcodes.SLICE: _slice,
    opcodes.TRANSPOSE: _transpose,
}
