"""What passes share when they change a module: who may be changed, what replaces what, the order of a schedule.

Owns: the rules of a replacement (shapes, layouts, control edges, shardings, metadata), `Writer`.
Must not know: what ops mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from xlapy.opcodes.registry import OpDef
from xlapy.opcodes.sources import ConstantAttributes
from xlapy.opcodes.tuples import GetTupleElementAttributes

_WRAPPERS = frozenset({opcodes.FUSION, opcodes.ASYNC_START})
"""Ops whose computations are a decision already taken: passes leave them as they are."""

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
"""Ops that read the layouts of their operands, or hand them to where they are read."""


def editable_computations(module: Module) -> list[Computation]:
    """The computations that a pass may change, callees first: all but those inside fusions and asynchronous calls, and
    those that nothing calls, which are dead."""
    alive = [c for c in computation_post_order(module) if c.callers or c.is_entry]
    return [c for c in alive if not any(i.op in _WRAPPERS for i in c.callers)]


def has_control_edges(instruction: Instruction) -> bool:
    return bool(instruction.control_predecessors or instruction.control_successors)


def is_dead(instruction: Instruction) -> bool:
    """Whether nothing reads an instruction or is ordered against it, and it is no root and no parameter."""
    return not (
        instruction.has_users or instruction.is_root or is_parameter(instruction) or has_control_edges(instruction)
    )


def remove_if_dead(instruction: Instruction) -> None:
    """Removes an instruction, and then those of its operands, that are dead and without side effects."""
    pending = [instruction]
    while pending:
        current = pending.pop()
        if current.parent is not None and is_dead(current) and not has_side_effect(current):
            pending += dict.fromkeys(current.operands)
            edit.remove(current)


# -- replacing


def can_stand_for(replacement: Instruction, instruction: Instruction, layout_sensitive: bool = False) -> bool:
    """Whether users of an instruction may read another one that is there already and has the same value.

    Annotations that would be lost, control edges, and a layout that somebody reads forbid it.
    """
    if has_control_edges(instruction) or not instruction.shape.compatible(replacement.shape):
        return False
    if instruction.sharding is not None and instruction.sharding != replacement.sharding:
        return False
    if instruction.frontend_attributes and instruction.frontend_attributes != replacement.frontend_attributes:
        return False
    if instruction.shape == replacement.shape:
        return True
    reads_layout = instruction.is_root or any(user.op in _LAYOUT_READERS for user in instruction.users)
    return not layout_sensitive and not reads_layout


def replace(instruction: Instruction, replacement: Instruction) -> None:
    """Gives every user the replacement, and removes what is dead then; `can_stand_for` must have allowed it.

    An instruction without metadata takes over those of the one that it replaces.
    """
    if replacement.metadata is None and not is_parameter(replacement):
        replacement.metadata = instruction.metadata
    edit.replace_uses(instruction, replacement)
    remove_if_dead(instruction)


def take_over(instruction: Instruction, replacement: Instruction) -> None:
    """`replace` by an instruction made for the purpose: it inherits annotations, control edges and effects."""
    inherit(instruction, replacement)
    replace(instruction, replacement)
    remove_replaced(instruction)


def remove_replaced(instruction: Instruction) -> None:
    """Removes an instruction without users whose effects another one has now."""
    if instruction.parent is None:
        return
    operands = instruction.operands
    edit.remove(instruction)
    for operand in dict.fromkeys(operands):
        remove_if_dead(operand)


def inherit(instruction: Instruction, replacement: Instruction) -> None:
    """Gives an instruction the annotations of another one, and moves that one's control edges to it."""
    replacement.sharding = instruction.sharding
    replacement.frontend_attributes = instruction.frontend_attributes
    replacement.original_value = instruction.original_value
    move_control_edges(instruction, replacement)


def move_control_edges(instruction: Instruction, replacement: Instruction) -> None:
    """Orders another instruction as this one was, which is not ordered any more."""
    before, after = instruction.control_predecessors, instruction.control_successors
    edit.remove_control_edges(instruction)
    for predecessor in before:
        edit.add_control_edge(predecessor, replacement)
    for successor in after:
        edit.add_control_edge(replacement, successor)


def remove_uncalled(computations: Iterable[Computation]) -> None:
    """Removes those of the computations that nothing calls any more, and what only they called."""
    pending = list(computations)
    while pending:
        computation = pending.pop()
        if computation.module is not None and not computation.callers and not computation.is_entry:
            called = called_computations(computation)
            edit.remove_computation(computation)
            pending += called


def settle(module: Module, changed: bool) -> bool:
    """Puts new instructions of a scheduled module into its order, each before the first that needs it; to be called at
    the end of a pass. Returns `changed`."""
    if changed and module.config.is_scheduled:
        for computation in module.computations:
            edit.reorder(computation, _dependencies_first(computation))
    return changed


def _dependencies_first(computation: Computation) -> list[Instruction]:
    """The instructions in their order, each after those that it depends on."""
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


# -- writing


class Writer:
    """Writes new instructions beside one that they are to replace, or into another computation; they have its metadata.

    >>> write = Writer(logistic)
    >>> denominator = write.add(opcodes.ADD, one, write.add(opcodes.EXPONENTIAL, negated))
    """

    def __init__(self, source: Instruction, computation: Computation | None = None) -> None:
        into = source.parent if computation is None else computation
        assert into is not None
        self.source = source
        self.computation = into
        self.made: list[Instruction] = []

    def add(
        self,
        op: OpDef,
        *operands: Instruction,
        attributes: Attributes | None = None,
        computations: Sequence[Computation] = (),
        shape: Shape | None = None,
    ) -> Instruction:
        """An instruction; its shape is inferred unless given. `ShapeError` if the operands are illegal."""
        made = edit.create(
            self.computation, op, operands, attributes, computations, shape=shape, metadata=self.source.metadata
        )
        self.made.append(made)
        return made

    def discard(self) -> None:
        """Removes again what nobody uses."""
        for instruction in reversed(self.made):
            if instruction.parent is not None and is_dead(instruction):
                edit.remove(instruction)
        self.made.clear()

    # -- values known now

    def literal(self, literal: Literal, shape: Shape | None = None) -> Instruction:
        """A constant, of the literal's shape or one that differs in layouts."""
        attributes = ConstantAttributes.make(literal=literal)
        return self.add(opcodes.CONSTANT, attributes=attributes, shape=shape or literal.shape)

    def scalar(self, value: complex, element_type: PrimitiveType) -> Instruction:
        """A constant of rank 0; the value is rounded to the element type."""
        shape = Shape.scalar(element_type)
        with np.errstate(all="ignore"):
            array = np.asarray(value).astype(shape.dtype)
        return self.literal(Literal.array_of(array))

    def filled(self, value: complex, shape: Shape) -> Instruction:
        """A constant of rank 0 broadcast to an array shape."""
        return self.broadcast(self.scalar(value, shape.element_type), shape)

    # -- movement

    def broadcast(self, operand: Instruction, shape: Shape, dimensions: Sequence[int] = ()) -> Instruction:
        """The operand repeated; itself where it has the shape already."""
        if operand.shape == shape and tuple(dimensions) == tuple(range(shape.rank)):
            return operand
        attributes = BroadcastAttributes.make(dimensions=tuple(dimensions))
        return self.add(opcodes.BROADCAST, operand, attributes=attributes, shape=shape)

    def reshape(self, operand: Instruction, shape: Shape) -> Instruction:
        """The operand with other dimensions; itself where it has the shape already."""
        if operand.shape == shape:
            return operand
        return self.add(opcodes.RESHAPE, operand, shape=shape)

    def transpose(self, operand: Instruction, permutation: Sequence[int], shape: Shape | None = None) -> Instruction:
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
        """Elements from `starts` up to before `limits`; strides are 1 unless given."""
        ranges = SliceRanges(tuple(starts), tuple(limits), tuple(strides) or (1,) * len(starts))
        return self.add(opcodes.SLICE, operand, attributes=SliceAttributes.make(ranges=ranges), shape=shape)

    def convert(self, operand: Instruction, element_type: PrimitiveType) -> Instruction:
        """The operand with other elements; itself where it has them already."""
        if operand.shape.element_type is element_type:
            return operand
        return self.add(opcodes.CONVERT, operand, shape=operand.shape.with_element_type(element_type))

    # -- tuples

    def element(self, operand: Instruction, index: int) -> Instruction:
        attributes: Any = GetTupleElementAttributes.make(index=index)
        return self.add(opcodes.GET_TUPLE_ELEMENT, operand, attributes=attributes)
