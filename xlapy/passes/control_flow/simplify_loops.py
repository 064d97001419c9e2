"""The pass that makes loops carry and do less.

Owns: loops that run at most once, elements of the state that do not change or that nobody needs.
Must not know: what bodies compute; instructions that do not depend on the state (`hoist_loop_invariants`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.analysis.constants import has_all_elements
from xlapy.analysis.effects import Effects
from xlapy.analysis.loops import TupleLoop, known_trip_count
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.registry import Effect
from xlapy.passes.control_flow.inline_calls import inline_call, keeps_annotations
from xlapy.passes.rewrite import (
    Writer,
    can_replace,
    editable_computations,
    has_control_edges,
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


@dataclass(frozen=True)
class SimplifyLoops:
    """Removes loops that run at most once, and elements of states that do not change or that nobody needs.

    A loop that never runs is its initial value, one that runs once its body. An element that the body hands through is
    read before the loop; inside, if it is a constant, as a constant. An element that neither the condition nor a side
    effect nor a reader behind the loop depends on goes.
    """

    name: ClassVar[str] = "simplify-loops"

    def run(self, module: Module) -> bool:
        changed = False
        while _simplify_all(module):  # what one loop hands through may be the start of another
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
    if _run_at_most_once(loop, effects):
        remove_uncalled_computations(called)
        return True
    seen = TupleLoop.of(loop)
    if seen is None:
        return False
    changed = _read_before(seen)
    if loop.parent is None:  # nobody read anything else
        return True
    constants = _constants(seen)
    if constants:
        seen = _with_own_computations(seen)
        changed |= _put_constants_into(seen, constants)
    changed |= _drop_unneeded(seen, effects)
    remove_uncalled_computations(called)
    return changed


# -- loops that run at most once


def _run_at_most_once(loop: Instruction, effects: Effects) -> bool:
    condition, body = loop.computations
    if effects.of_computation(condition) is not Effect.PURE:
        return False
    count = known_trip_count(loop, max_trip_count=1)
    (init,) = loop.operands
    if count == 0 and not has_control_edges(loop) and can_replace(init, loop):
        edit.replace_uses(loop, init)
        remove_replaced(loop)
        return True
    if count != 1:
        return False
    call = Writer(loop).add(opcodes.CALL, init, computations=[body], shape=loop.shape)
    replace_with_new(loop, call)
    if keeps_annotations(call):
        inline_call(call)
    return True


# -- elements that do not change


def _read_before(seen: TupleLoop) -> bool:
    """Readers behind the loop of elements that do not change read them before it."""
    changed = False
    for reader in seen.loop.users:
        if reader.op is not opcodes.GET_TUPLE_ELEMENT or is_dead(reader) or not seen.is_invariant(reader.tuple_index):
            continue
        (init,) = seen.loop.operands
        if init.op is opcodes.TUPLE:
            source = init.operands[reader.tuple_index]
            if can_replace(source, reader):
                replace_with_existing(reader, source)
                changed = True
        elif not has_control_edges(reader):
            replace_with_new(reader, Writer(reader).get_tuple_element(init, reader.tuple_index))
            changed = True
    return changed


def _constants(seen: TupleLoop) -> dict[int, Instruction]:
    """Elements that do not change, are constant, and are read by more than the body's root."""
    (init,) = seen.loop.operands
    if init.op is not opcodes.TUPLE:
        return {}
    found: dict[int, Instruction] = {}
    for index, value in enumerate(init.operands):
        known = value.op is opcodes.CONSTANT and has_all_elements(value.literal)
        if known and seen.is_invariant(index) and _inner_readers(seen, index):
            found[index] = value
    return found


def _inner_readers(seen: TupleLoop, index: int) -> list[Instruction]:
    """The instructions that read an element inside and do more than hand it through."""
    root = seen.body.root_instruction
    readers = [e for c in (seen.condition, seen.body) for e in seen.element_reads(c) if e.tuple_index == index]
    return [e for e in readers if e.is_root or any(user is not root for user in e.users)]


def _put_constants_into(seen: TupleLoop, constants: dict[int, Instruction]) -> bool:
    """Only the body's root goes on to read the element."""
    root = seen.body.root_instruction
    changed = False
    for index, constant in constants.items():
        for element in _inner_readers(seen, index):
            if has_control_edges(element) or element.sharding is not None:
                continue
            copy = Writer(element).add(opcodes.CONSTANT, attributes=constant.attributes, shape=element.shape)
            edit.replace_uses(element, copy)
            if element.parent is seen.body:
                edit.replace_operand(root, index, element)
            remove_if_dead(element)
            changed = True
    return changed


def _with_own_computations(seen: TupleLoop) -> TupleLoop:
    """The loop with condition and body that nothing else calls."""
    own: list[Computation] = []
    for computation in (seen.condition, seen.body):
        shared = len(computation.callers) > 1 or seen.condition is seen.body
        assert computation.module is not None
        own.append(edit.clone_computation(computation, computation.module) if shared else computation)
    if own != [seen.condition, seen.body]:
        edit.set_computations(seen.loop, own)
    return TupleLoop(seen.loop, *own)


# -- elements that nobody needs


def _drop_unneeded(seen: TupleLoop, effects: Effects) -> bool:
    needed = _needed(seen, effects)
    if needed is None or not needed or len(needed) == seen.element_count or seen.loop.sharding is not None:
        return False
    kept = sorted(needed)
    loop = seen.loop
    shape = Shape.tuple(loop.shape.tuple_shapes[index] for index in kept)
    condition = _with_elements(seen.condition, kept, shape, is_body=False)
    body = _with_elements(seen.body, kept, shape, is_body=True)
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


def _needed(seen: TupleLoop, effects: Effects) -> set[int] | None:
    """The elements that a reader, the condition or an effect depends on; None if the state is taken whole."""
    loop = seen.loop
    if loop.is_root or any(user.op is not opcodes.GET_TUPLE_ELEMENT for user in loop.users):
        return None
    needed = {reader.tuple_index for reader in loop.users if not is_dead(reader)}
    needed |= {element.tuple_index for element in seen.element_reads(seen.condition)}
    reads, effectful = _dependencies(seen, effects)
    needed |= effectful
    pending = list(needed)
    while pending:
        added = reads[pending.pop()] - needed
        needed |= added
        pending += added
    return needed


def _dependencies(seen: TupleLoop, effects: Effects) -> tuple[list[set[int]], set[int]]:
    """For each element, those that its next value depends on; and those that effects in the body depend on.

    Sets are bits of an integer while they are gathered.
    """
    (parameter,) = seen.body.parameters
    root = seen.body.root_instruction
    bits: dict[Instruction, int] = {}
    effectful = 0
    for instruction in post_order(seen.body):
        found = 0
        for operand in instruction.operands:
            found |= bits[operand]
        if instruction.op is opcodes.GET_TUPLE_ELEMENT and instruction.operands[0] is parameter:
            found = 1 << instruction.tuple_index
        bits[instruction] = found
        if instruction is not root and (effects.has_side_effect(instruction) or has_control_edges(instruction)):
            effectful |= found
    return [_members(bits[value]) for value in root.operands], _members(effectful)


def _members(bits: int) -> set[int]:
    return {index for index in range(bits.bit_length()) if bits >> index & 1}


def _with_elements(computation: Computation, kept: Sequence[int], shape: Shape, is_body: bool) -> Computation:
    """A copy of a condition or body for a state of some elements only."""
    (parameter,) = computation.parameters
    root = computation.root_instruction

    def bind(write: Writer, parameters: Sequence[Instruction]) -> Values:
        places = {index: place for place, index in enumerate(kept)}
        users = [user for user in parameter.users if user.tuple_index in places]
        return {user: write.get_tuple_element(parameters[0], places[user.tuple_index]) for user in users}

    def finish(write: Writer, values: Values) -> Instruction:
        if not is_body:
            return values[root]
        return write.add(opcodes.TUPLE, *[values[root.operands[index]] for index in kept], shape=shape)

    return clone_with_signature(computation, [shape], bind, finish)
