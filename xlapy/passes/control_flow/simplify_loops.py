"""The pass that simplifies loops: trip counts of at most one, invariant and unused elements of the state.

Loop-invariant instructions are moved by `hoist_loop_invariants.py`. Does not depend on what bodies compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.analysis.constants import has_all_elements
from xlapy.analysis.counted_loops import exact_trip_count
from xlapy.analysis.effects import Effects
from xlapy.analysis.loops import TupleLoop, known_trip_count
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module, ShapeIndex
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.registry import Effect
from xlapy.passes.control_flow.inline_calls import inline_call_with_annotations, keeps_annotations
from xlapy.passes.rewrite import (
    Writer,
    can_replace,
    editable_computations,
    is_dead,
    remove_if_dead,
    remove_replaced,
    remove_uncalled_computations,
    replace_with_existing,
    replace_with_new,
    transfer_annotations,
    update_schedule,
)
from xlapy.passes.signature import Values, clone_with_signature, tuple_elements

MAX_UNROLLED_TRIPS = 8
"""The largest trip count of a loop that is unrolled."""

MAX_UNROLLED_INSTRUCTIONS = 256
"""The largest number of instructions of an unrolled loop: its code takes longer to compile."""

MAX_UNROLLED_STATE_BYTES = 512
"""The largest array in the state of an unrolled loop. Iterations on larger ones take longer than their control flow."""


_WITHOUT_CODE = frozenset(
    {opcodes.BROADCAST, opcodes.CONSTANT, opcodes.GET_TUPLE_ELEMENT, opcodes.PARAMETER, opcodes.RESHAPE, opcodes.TUPLE}
)


@dataclass(frozen=True)
class SimplifyLoops:
    """Removes loops that run at most once, and elements of their states that are invariant or unused.

    A loop that never runs is replaced by its initial value, one that runs once by its body. A loop in a loop that runs
    a few times on small arrays, as the rounds of a generator of random numbers, is unrolled. Users of an invariant
    element use its initial value instead; inside the loop they do if it is constant. An element on which neither the
    condition, nor a side effect, nor a user after the loop depends is removed.
    """

    name: ClassVar[str] = "simplify-loops"

    def run(self, module: Module) -> bool:
        changed = False
        while _simplify_all(module):  # a value that one loop passed on may be the initial state of another
            changed = True
        return update_schedule(module, changed)


def _simplify_all(module: Module) -> bool:
    effects = Effects(module)
    changed = False
    for computation in editable_computations(module):
        for instruction in [i for i in computation if i.op is opcodes.WHILE and computation.module is module]:
            changed |= instruction.parent is not None and _simplify(instruction, effects)
    return changed


def _simplify(loop: Instruction, effects: Effects) -> bool:
    if is_dead(loop) or loop.shape.is_dynamic:
        return False
    called = loop.computations
    if _run_at_most_once(loop, effects) or _unroll(loop, effects):
        remove_uncalled_computations(called)
        return True
    view = TupleLoop.of(loop)
    if view is None:
        return False
    changed = _replace_invariant_results(view)
    if loop.parent is None:  # it had no other users
        return True
    constants = _invariant_constants(view)
    if constants:
        view = _with_own_computations(view)
        changed |= _copy_constants_into(view, constants)
    changed |= _remove_unused_elements(view, effects)
    remove_uncalled_computations(called)
    return changed


# -- loops that run at most once


def _run_at_most_once(loop: Instruction, effects: Effects) -> bool:
    condition, body = loop.computations
    if effects.of_computation(condition) is not Effect.PURE:
        return False
    count = known_trip_count(loop, max_trip_count=1)
    (init,) = loop.operands
    if count == 0 and not loop.has_control_edges and can_replace(init, loop):
        edit.replace_uses(loop, init)
        remove_replaced(loop)
        return True
    if count != 1:
        return False
    call = Writer(loop).add(opcodes.CALL, init, computations=[body], shape=loop.shape)
    replace_with_new(loop, call)
    if keeps_annotations(call):
        inline_call_with_annotations(call)
    return True


def _unroll(loop: Instruction, effects: Effects) -> bool:
    """Replaces a loop in a loop by its iterations, if they are few and short."""
    condition, body = loop.computations
    if loop.parent is None or not any(caller.op is opcodes.WHILE for caller in loop.parent.callers):
        return False
    count = exact_trip_count(loop)
    if count is None or not 1 < count <= MAX_UNROLLED_TRIPS:
        return False
    if count * sum(inner.op not in _WITHOUT_CODE for inner in body) > MAX_UNROLLED_INSTRUCTIONS:
        return False
    is_plain = all(not inner.computations and not inner.has_control_edges for inner in body)
    if not is_plain or effects.of_computation(condition) is not Effect.PURE or loop.has_control_edges:
        return False
    if effects.of_computation(body) is not Effect.PURE or not all(map(_is_small, loop.shape.leaves())):
        return False
    (value,), writer = loop.operands, Writer(loop)
    calls: list[Instruction] = []
    for _ in range(count):
        value = writer.add(opcodes.CALL, value, computations=[body], shape=loop.shape)
        calls.append(value)
    replace_with_new(loop, value)
    for call in calls:
        if keeps_annotations(call):
            inline_call_with_annotations(call)
    return True


def _is_small(leaf: tuple[ShapeIndex, Shape]) -> bool:
    _, shape = leaf
    return shape.is_array and shape.size * shape.element_type.byte_size <= MAX_UNROLLED_STATE_BYTES


# -- invariant elements


def _replace_invariant_results(view: TupleLoop) -> bool:
    """Replaces invariant elements of the result by their initial values."""
    changed = False
    for reader in view.loop.users:
        if reader.op is not opcodes.GET_TUPLE_ELEMENT or is_dead(reader) or not view.is_invariant(reader.tuple_index):
            continue
        (init,) = view.loop.operands
        if init.op is opcodes.TUPLE:
            source = init.operands[reader.tuple_index]
            if can_replace(source, reader):
                replace_with_existing(reader, source)
                changed = True
        elif not reader.has_control_edges:
            replace_with_new(reader, Writer(reader).get_tuple_element(init, reader.tuple_index))
            changed = True
    return changed


def _invariant_constants(view: TupleLoop) -> dict[int, Instruction]:
    """Returns the invariant elements with constant initial values that have users besides the body's root."""
    (init,) = view.loop.operands
    if init.op is not opcodes.TUPLE:
        return {}
    found: dict[int, Instruction] = {}
    for index, value in enumerate(init.operands):
        known = value.op is opcodes.CONSTANT and has_all_elements(value.literal)
        if known and view.is_invariant(index) and _inner_uses(view, index):
            found[index] = value
    return found


def _inner_uses(view: TupleLoop, index: int) -> list[Instruction]:
    """Returns the get-tuple-elements of an element in condition and body that have users besides the body's root."""
    root = view.body.root_instruction
    readers = [e for c in (view.condition, view.body) for e in view.element_reads(c) if e.tuple_index == index]
    return [e for e in readers if e.is_root or any(user is not root for user in e.users)]


def _copy_constants_into(view: TupleLoop, constants: dict[int, Instruction]) -> bool:
    """Replaces uses of invariant elements by copies of the constants, except in the body's root."""
    root = view.body.root_instruction
    changed = False
    for index, constant in constants.items():
        for element in _inner_uses(view, index):
            if element.has_control_edges or element.sharding is not None:
                continue
            copy = Writer(element).add(opcodes.CONSTANT, attributes=constant.attributes, shape=element.shape)
            edit.replace_uses(element, copy)
            if element.parent is view.body:
                edit.replace_operand(root, index, element)
            remove_if_dead(element)
            changed = True
    return changed


def _with_own_computations(view: TupleLoop) -> TupleLoop:
    """Gives the loop copies of its condition and body if they have other callers."""
    own: list[Computation] = []
    for computation in (view.condition, view.body):
        shared = len(computation.callers) > 1 or view.condition is view.body
        assert computation.module is not None
        own.append(edit.clone_computation(computation, computation.module) if shared else computation)
    if own != [view.condition, view.body]:
        edit.set_computations(view.loop, own)
    return TupleLoop(view.loop, *own)


# -- unused elements


def _remove_unused_elements(view: TupleLoop, effects: Effects) -> bool:
    needed = _needed(view, effects)
    if needed is None or not needed or len(needed) == view.element_count or view.loop.sharding is not None:
        return False
    kept = sorted(needed)
    loop = view.loop
    shape = Shape.tuple(loop.shape.tuple_shapes[index] for index in kept)
    condition = _with_elements(view.condition, kept, shape, is_body=False)
    body = _with_elements(view.body, kept, shape, is_body=True)
    write = Writer(loop)
    values = tuple_elements(write, loop.operands[0])
    init = write.add(opcodes.TUPLE, *[values[index] for index in kept], shape=shape)
    made = write.add(opcodes.WHILE, init, computations=[condition, body], shape=shape)
    made.backend_config = loop.backend_config
    transfer_annotations(loop, made)
    for reader in loop.users:
        if is_dead(reader):
            edit.remove(reader)
        else:
            replace_with_new(reader, Writer(reader).get_tuple_element(made, kept.index(reader.tuple_index)))
    for value in (*write.created, *values):
        remove_if_dead(value)
    if loop.parent is not None:
        remove_replaced(loop)
    return True


def _needed(view: TupleLoop, effects: Effects) -> set[int] | None:
    """Returns the elements on which a user, the condition or a side effect depends; None if the state is used whole."""
    loop = view.loop
    if loop.is_root or any(user.op is not opcodes.GET_TUPLE_ELEMENT for user in loop.users):
        return None
    needed = 0
    for reader in (*(user for user in loop.users if not is_dead(user)), *view.element_reads(view.condition)):
        needed |= 1 << reader.tuple_index
    reads, effectful = _dependencies(view, effects)
    needed |= effectful
    pending = needed
    while pending:
        index = pending.bit_length() - 1
        added = reads[index] & ~needed
        needed |= added
        pending = pending ^ 1 << index | added
    return {index for index in range(view.element_count) if needed >> index & 1}


def _dependencies(view: TupleLoop, effects: Effects) -> tuple[list[int], int]:
    """Returns the elements on which the next value of each element depends, and those on which side effects depend.

    Sets of elements are bit masks.
    """
    (parameter,) = view.body.parameters
    root = view.body.root_instruction
    bits: dict[Instruction, int] = {}
    effectful = 0
    for instruction in post_order(view.body):
        found = 0
        for operand in instruction.operands:
            found |= bits[operand]
        if instruction.op is opcodes.GET_TUPLE_ELEMENT and instruction.operands[0] is parameter:
            found = 1 << instruction.tuple_index
        bits[instruction] = found
        if instruction is not root and (effects.has_side_effect(instruction) or instruction.has_control_edges):
            effectful |= found
    return [bits[value] for value in root.operands], effectful


def _with_elements(computation: Computation, kept: Sequence[int], shape: Shape, is_body: bool) -> Computation:
    """Returns a copy of a condition or body for a state of the kept elements only."""
    (parameter,) = computation.parameters
    root = computation.root_instruction

    def bind(write: Writer, parameters: Sequence[Instruction]) -> Values:
        positions = {index: position for position, index in enumerate(kept)}
        users = [user for user in parameter.users if user.tuple_index in positions]
        return {user: write.get_tuple_element(parameters[0], positions[user.tuple_index]) for user in users}

    def finish(write: Writer, values: Values) -> Instruction:
        if not is_body:
            return values[root]
        return write.add(opcodes.TUPLE, *[values[root.operands[index]] for index in kept], shape=shape)

    return clone_with_signature(computation, [shape], bind, finish)
