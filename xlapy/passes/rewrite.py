"""Helpers that passes share: which computations may change, replacing instructions, writing new ones, schedules.

Responsible for the rules of a replacement (shapes, layouts, control edges, shardings, metadata) and for `Writer`. Does
not depend on the meaning of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.analysis.effects import has_side_effect
from xlapy.base.element_types import PrimitiveType
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import called_computations, computation_post_order
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.attributes.dimensions import SliceRanges
from xlapy.opcodes.movement import BroadcastAttributes, DimensionsAttributes, SliceAttributes
from xlapy.opcodes.registry import AsyncRole, OpDef
from xlapy.opcodes.sources import ConstantAttributes
from xlapy.opcodes.tuples import GetTupleElementAttributes

_WRAPPERS = frozenset({opcodes.FUSION, opcodes.ASYNC_START})
"""Operations whose computations passes leave as they are, because an earlier pass decided what is in them."""

_LAYOUT_READERS = frozenset(
    {
        opcodes.BITCAST,
        opcodes.COPY,
        opcodes.CUSTOM_CALL,
        opcodes.FUSION,
        opcodes.ASYNC_START,
        opcodes.OUTFEED,
        opcodes.SEND,
        opcodes.CALL,
        opcodes.WHILE,
        opcodes.CONDITIONAL,
        opcodes.TUPLE,
    }
)
"""Operations that depend on the layouts of their operands, or pass them on to operations that do."""


def editable_computations(module: Module) -> list[Computation]:
    """Returns the computations that a pass may change, callees before callers.

    Omits those called by fusions and asynchronous operations, and those without callers, which are dead.
    """
    alive = [c for c in computation_post_order(module) if c.callers or c.is_entry]
    return [c for c in alive if not any(i.op in _WRAPPERS for i in c.callers)]


def is_dead(instruction: Instruction) -> bool:
    """Returns whether an instruction has no users and no control edges, and is neither a root nor a parameter."""
    return not (
        instruction.has_users or instruction.is_root or is_parameter(instruction) or instruction.has_control_edges
    )


def is_unneeded(instruction: Instruction, has_effect: Callable[[Instruction], bool] = has_side_effect) -> bool:
    """Returns whether an instruction is dead, has no side effect, and is not the only end of an asynchronous operation
    that stays."""
    return is_dead(instruction) and _may_end_unseen(instruction, has_effect)


def _may_end_unseen(instruction: Instruction, has_effect: Callable[[Instruction], bool]) -> bool:
    if has_effect(instruction):
        return False
    if instruction.op.async_role not in (AsyncRole.UPDATE, AsyncRole.DONE) or not instruction.operands:
        return True  # a done without operands is one whose start has been replaced
    begun = instruction.operands[0]
    return begun.user_count > 1 or (not begun.has_control_edges and _may_end_unseen(begun, has_effect))


def remove_if_dead(instruction: Instruction) -> None:
    """Removes an instruction if it is unneeded, and then its operands likewise."""
    pending = [instruction]
    while pending:
        current = pending.pop()
        if current.parent is not None and is_unneeded(current):
            pending += dict.fromkeys(current.operands)
            edit.remove(current)


# -- replacing instructions


def can_replace(replacement: Instruction, instruction: Instruction, layout_sensitive: bool = False) -> bool:
    """Returns whether an existing instruction with the same value may replace another one.

    It may not if the instruction has control edges, has annotations that would be lost, or has another layout that its
    users depend on.
    """
    if instruction.has_control_edges or not instruction.shape.compatible(replacement.shape):
        return False
    if instruction.sharding is not None and instruction.sharding != replacement.sharding:
        return False
    if instruction.frontend_attributes and instruction.frontend_attributes != replacement.frontend_attributes:
        return False
    if instruction.shape == replacement.shape:
        return True
    reads_layout = instruction.is_root or any(user.op in _LAYOUT_READERS for user in instruction.users)
    return not layout_sensitive and not reads_layout


def replace_with_existing(instruction: Instruction, replacement: Instruction) -> None:
    """Replaces the uses of an instruction by an existing one and removes what is dead then.

    `can_replace` must be true. A replacement without metadata gets the metadata of the instruction.
    """
    if replacement.metadata is None and not is_parameter(replacement):
        replacement.metadata = instruction.metadata
    edit.replace_uses(instruction, replacement)
    remove_if_dead(instruction)


def replace_with_new(instruction: Instruction, replacement: Instruction) -> None:
    """Replaces an instruction by a new one, which gets its annotations and control edges and has its side effects."""
    transfer_annotations(instruction, replacement)
    replace_with_existing(instruction, replacement)
    remove_replaced(instruction)


def remove_replaced(instruction: Instruction) -> None:
    """Removes an instruction without users even if it has side effects, because a replacement has them now."""
    if instruction.parent is None:
        return
    operands = instruction.operands
    edit.remove(instruction)
    for operand in dict.fromkeys(operands):
        remove_if_dead(operand)


def transfer_annotations(instruction: Instruction, replacement: Instruction) -> None:
    """Copies the annotations of an instruction to its replacement, and moves its control edges there."""
    replacement.sharding = instruction.sharding
    replacement.frontend_attributes = instruction.frontend_attributes
    replacement.original_value = instruction.original_value
    move_control_edges(instruction, replacement)


def move_control_edges(instruction: Instruction, replacement: Instruction) -> None:
    """Moves the control edges of an instruction to its replacement."""
    before, after = instruction.control_predecessors, instruction.control_successors
    edit.remove_control_edges(instruction)
    for predecessor in before:
        edit.add_control_edge(predecessor, replacement)
    for successor in after:
        edit.add_control_edge(replacement, successor)


def remove_uncalled_computations(computations: Iterable[Computation]) -> None:
    """Removes those of the computations that have no callers any more, and the computations that only they called."""
    pending = list(computations)
    while pending:
        computation = pending.pop()
        if computation.module is not None and not computation.callers and not computation.is_entry:
            called = called_computations(computation)
            edit.remove_computation(computation)
            pending += called


def update_schedule(module: Module, changed: bool) -> bool:
    """Inserts new instructions into the schedule of a scheduled module, each before the first that depends on it.

    Passes call it at the end, with whether they changed the module. Returns `changed`.
    """
    if changed and module.config.is_scheduled:
        for computation in module.computations:
            edit.reorder(computation, _dependencies_first(computation))
    return changed


def _dependencies_first(computation: Computation) -> list[Instruction]:
    """Returns the instructions in their order, but each after those that it depends on."""
    placed: dict[Instruction, None] = {}
    for instruction in computation:
        stack = [instruction]
        while stack:
            current = stack[-1]
            missing = [i for i in (*current.operands, *current.control_predecessors) if i not in placed]
            if missing and current not in placed:
                stack += reversed(missing)
            else:
                placed[stack.pop()] = None
    return list(placed)


# -- writing instructions


def bridge_control_edges(instruction: Instruction) -> None:
    """Replaces the control edges of an instruction by edges from its predecessors to its successors."""
    before, after = instruction.control_predecessors, instruction.control_successors
    edit.remove_control_edges(instruction)
    for predecessor in before:
        for successor in after:
            edit.add_control_edge(predecessor, successor)


class Writer:
    """Writes new instructions, into the computation of the instruction that they replace or into another one.

    source: the instruction that they replace; they get its metadata. created: the instructions written so far.

    >>> write = Writer(logistic)
    >>> denominator = write.add(opcodes.ADD, one, write.add(opcodes.EXPONENTIAL, negated))
    """

    def __init__(self, source: Instruction, computation: Computation | None = None) -> None:
        into = source.parent if computation is None else computation
        assert into is not None
        self.source = source
        self.computation = into
        self.created: list[Instruction] = []

    def add(
        self,
        op: OpDef,
        *operands: Instruction,
        attributes: Attributes | None = None,
        computations: Sequence[Computation] = (),
        shape: Shape | None = None,
    ) -> Instruction:
        """Writes an instruction and infers its shape unless given. Raises `ShapeError` for illegal operands."""
        made = edit.create(
            self.computation, op, operands, attributes, computations, shape=shape, metadata=self.source.metadata
        )
        self.created.append(made)
        return made

    def discard(self) -> None:
        """Removes the written instructions that have no users."""
        for instruction in reversed(self.created):
            if instruction.parent is not None and is_dead(instruction):
                edit.remove(instruction)
        self.created.clear()

    # -- constants

    def constant(self, literal: Literal, shape: Shape | None = None) -> Instruction:
        """Writes a constant of the literal's shape, or of one that differs in layouts only."""
        attributes = ConstantAttributes.make(literal=literal)
        return self.add(opcodes.CONSTANT, attributes=attributes, shape=shape or literal.shape)

    def scalar(self, value: complex, element_type: PrimitiveType) -> Instruction:
        """Writes a constant of rank 0, with the value rounded to the element type."""
        shape = Shape.scalar(element_type)
        with np.errstate(all="ignore"):
            array = np.asarray(value).astype(shape.dtype)
        return self.constant(Literal.array_of(array))

    def splat(self, value: complex, shape: Shape) -> Instruction:
        """Writes a broadcast of a constant scalar to an array shape."""
        return self.broadcast(self.scalar(value, shape.element_type), shape)

    # -- movement

    def broadcast(self, operand: Instruction, shape: Shape, dimensions: Sequence[int] = ()) -> Instruction:
        """Writes a broadcast; returns the operand itself if it has the shape already."""
        if operand.shape == shape and tuple(dimensions) == tuple(range(shape.rank)):
            return operand
        attributes = BroadcastAttributes.make(dimensions=tuple(dimensions))
        return self.add(opcodes.BROADCAST, operand, attributes=attributes, shape=shape)

    def reshape(self, operand: Instruction, shape: Shape) -> Instruction:
        """Writes a reshape; returns the operand itself if it has the shape already."""
        if operand.shape == shape:
            return operand
        return self.add(opcodes.RESHAPE, operand, shape=shape)

    def transpose(self, operand: Instruction, permutation: Sequence[int], shape: Shape | None = None) -> Instruction:
        """Writes a transpose; dimension i of the result is dimension `permutation[i]` of the operand."""
        attributes = DimensionsAttributes.make(dimensions=tuple(permutation))
        return self.add(opcodes.TRANSPOSE, operand, attributes=attributes, shape=shape)

    def slice(
        self,
        operand: Instruction,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] = (),
        shape: Shape | None = None,
    ) -> Instruction:
        """Writes a slice of the elements from `starts` up to, not including, `limits`; strides are 1 unless given."""
        ranges = SliceRanges(tuple(starts), tuple(limits), tuple(strides) or (1,) * len(starts))
        return self.add(opcodes.SLICE, operand, attributes=SliceAttributes.make(ranges=ranges), shape=shape)

    def convert(self, operand: Instruction, element_type: PrimitiveType) -> Instruction:
        """Writes a conversion; returns the operand itself if it has the element type already."""
        if operand.shape.element_type is element_type:
            return operand
        return self.add(opcodes.CONVERT, operand, shape=operand.shape.with_element_type(element_type))

    # -- tuples

    def get_tuple_element(self, operand: Instruction, index: int) -> Instruction:
        """Writes a get-tuple-element."""
        attributes: Any = GetTupleElementAttributes.make(index=index)
        return self.add(opcodes.GET_TUPLE_ELEMENT, operand, attributes=attributes)
