"""Moves the transposes of convolutions' results behind the operations that use them.

A network with channels first becomes a chain of canonical convolutions with transposes between them. Each transpose
moves behind the operations that can as well run in the other order of dimensions, so that it meets the opposite
transpose before the next convolution, and only those at the ends of the network are left:

    t = f32[8,64,56,56] transpose(c), dimensions={0,3,1,2}      c: the result of a convolution
    b = f32[8,64,56,56] broadcast(bias), dimensions={1}
    r = f32[8,64,56,56] add(t, b)

becomes

    b = f32[8,56,56,64] broadcast(bias), dimensions={3}
    s = f32[8,56,56,64] add(c, b)
    r = f32[8,64,56,56] transpose(s), dimensions={0,3,1,2}

An operation stays if an operand is a whole array in the order as written, or if its meaning depends on the order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.lower.reduction import can_be_reordered
from xlapy.opcodes.attributes.dimensions import PaddingConfig, SliceRanges, Window, WindowDimension
from xlapy.opcodes.movement import PadAttributes, SliceAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.opcodes.registry import Rules
from xlapy.passes.rewrite import Writer, replace_with_new

Order: TypeAlias = tuple[int, ...]
"""The dimensions of a transpose: dimension j of its result is dimension `order[j]` of its operand."""

MoveRule = Callable[["TransposeMover", Writer, Instruction, Order], Instruction | None]
"""Writes an operation on the operands of the transposes. Returns an instruction of the same value as the given one; or
None if it has to stay."""

MOVE_RULES: Rules[MoveRule] = Rules("transposes")


class TransposeMover:
    """Knows the transposes that move, and moves them behind the instructions of a computation, operands first."""

    def __init__(self) -> None:
        self._moving: dict[Instruction, Order] = {}

    def add(self, transpose: Instruction) -> None:
        """Adds a transpose of the result of a convolution."""
        if transpose.op is opcodes.TRANSPOSE:
            self._moving[transpose] = tuple(transpose.dimensions)

    def is_free(self, operand: Instruction, permutation: Sequence[int]) -> bool:
        """Whether a transpose of an operand would undo a transpose that moves."""
        order = self._moving.get(operand)
        return order is not None and [order[d] for d in permutation] == list(range(len(order)))

    def move(self, instruction: Instruction) -> bool:
        """Moves the transposes of the operands behind an instruction; returns whether it did."""
        orders = dict.fromkeys(self._moving[o] for o in instruction.operands if o in self._moving)
        arrays = (*instruction.operands, instruction)
        if len(orders) != 1 or instruction.has_control_edges or instruction.sharding is not None:
            return False
        if any(not a.shape.is_array or a.shape.is_dynamic for a in arrays):
            return False
        rule = _elementwise if instruction.op.elementwise else MOVE_RULES.table.get(instruction.op)
        if rule is None:
            return False
        write = Writer(instruction)
        made = rule(self, write, instruction, next(iter(orders)))
        if made is None:
            write.discard()
            return False
        replace_with_new(instruction, made)
        self.add(made)
        return True

    def reordered(self, write: Writer, operand: Instruction, order: Order) -> Instruction | None:
        """An operand in the order before the transpose: it costs nothing; None if there is none."""
        if not operand.shape.rank:
            return operand
        if operand in self._moving:
            return operand.operands[0]
        if operand.op is not opcodes.BROADCAST:
            return None
        dimensions = [order[d] for d in operand.dimensions]
        if dimensions != sorted(dimensions):
            return None
        return write.broadcast(operand.operands[0], _before(operand.shape, order), dimensions)


def _before(shape: Shape, order: Order) -> Shape:
    """The shape of an array before a transpose."""
    return shape.with_dimensions(_permuted(shape.dimensions, order))


def _permuted(values: Sequence[Any], order: Order) -> tuple[Any, ...]:
    """One value for each dimension before a transpose, given those after it."""
    return tuple(values[order.index(d)] for d in range(len(order)))


def _elementwise(mover: TransposeMover, write: Writer, instruction: Instruction, order: Order) -> Instruction | None:
    operands = [mover.reordered(write, o, order) for o in instruction.operands]
    given = [o for o in operands if o is not None]
    if len(given) < len(operands):
        return None
    made = write.add(
        instruction.op,
        *given,
        attributes=instruction.attributes,
        computations=instruction.computations,
        shape=_before(instruction.shape, order),
    )
    return write.transpose(made, order)


@MOVE_RULES.rule(opcodes.REDUCE)
def _reduce(mover: TransposeMover, write: Writer, instruction: Instruction, order: Order) -> Instruction | None:
    """The dimensions that stay keep the order that they have before the transpose."""
    if len(instruction.operands) > 2:
        return None
    operand, initial = instruction.operands
    (source,) = operand.operands
    reduced = {order[d] for d in instruction.dimensions}
    if not can_be_reordered(instruction.to_apply):
        return None
    kept = [d for d in range(len(order)) if d not in reduced]
    wanted = [order[d] for d in range(len(order)) if d not in instruction.dimensions]
    made = write.add(
        opcodes.REDUCE,
        source,
        initial,
        attributes=instruction.attributes.replace(dimensions=tuple(sorted(reduced))),
        computations=instruction.computations,
        shape=instruction.shape.with_dimensions([source.shape.dimensions[d] for d in kept]),
    )
    return made if kept == wanted else write.transpose(made, [kept.index(d) for d in wanted])


@MOVE_RULES.rule(opcodes.PAD)
def _pad(mover: TransposeMover, write: Writer, instruction: Instruction, order: Order) -> Instruction | None:
    padding = PaddingConfig(_permuted(instruction.attributes_as(PadAttributes).padding.dimensions, order))
    return _unary(write, instruction, order, instruction.attributes.replace(padding=padding))


@MOVE_RULES.rule(opcodes.SLICE)
def _slice(mover: TransposeMover, write: Writer, instruction: Instruction, order: Order) -> Instruction | None:
    ranges = instruction.attributes_as(SliceAttributes).ranges
    parts = (_permuted(values, order) for values in (ranges.starts, ranges.limits, ranges.strides))
    return _unary(write, instruction, order, instruction.attributes.replace(ranges=SliceRanges(*parts)))


@MOVE_RULES.rule(opcodes.REVERSE)
def _reverse(mover: TransposeMover, write: Writer, instruction: Instruction, order: Order) -> Instruction | None:
    dimensions = tuple(sorted(order[d] for d in instruction.dimensions))
    return _unary(write, instruction, order, instruction.attributes.replace(dimensions=dimensions))


@MOVE_RULES.rule(opcodes.CONCATENATE)
def _concatenate(mover: TransposeMover, write: Writer, instruction: Instruction, order: Order) -> Instruction | None:
    operands = [mover.reordered(write, o, order) for o in instruction.operands]
    given = [o for o in operands if o is not None]
    if len(given) < len(operands):
        return None
    attributes = instruction.attributes.replace(dimension=order[instruction.dimension])
    made = write.add(opcodes.CONCATENATE, *given, attributes=attributes, shape=_before(instruction.shape, order))
    return write.transpose(made, order)


@MOVE_RULES.rule(opcodes.REDUCE_WINDOW)
def _reduce_window(mover: TransposeMover, write: Writer, instruction: Instruction, order: Order) -> Instruction | None:
    if len(instruction.operands) > 2:
        return None
    window = _window_before(instruction, order)
    return None if window is None else _unary(write, instruction, order, instruction.attributes.replace(window=window))


@MOVE_RULES.rule(opcodes.SELECT_AND_SCATTER)
def _select_and_scatter(
    mover: TransposeMover, write: Writer, instruction: Instruction, order: Order
) -> Instruction | None:
    operand, source, initial = instruction.operands
    operands = [mover.reordered(write, o, order) for o in (operand, source)]
    given = [o for o in operands if o is not None]
    window = _window_before(instruction, order)
    if window is None or len(given) < 2:
        return None
    made = write.add(
        opcodes.SELECT_AND_SCATTER,
        *given,
        initial,
        attributes=instruction.attributes.replace(window=window),
        computations=instruction.computations,
        shape=_before(instruction.shape, order),
    )
    return write.transpose(made, order)


def _window_before(instruction: Instruction, order: Order) -> Window | None:
    """The window before a transpose; None if the elements of a window would be in another order."""
    dimensions = instruction.attributes_as(WindowAttributes).window.dimensions
    extended = [order[d] for d, w in enumerate(dimensions) if w != WindowDimension(size=1)]
    return Window(_permuted(dimensions, order)) if extended == sorted(extended) else None


def _unary(write: Writer, instruction: Instruction, order: Order, attributes: Any) -> Instruction | None:
    """An operation on a transposed array and scalars."""
    operand, *scalars = instruction.operands
    if any(o.shape.rank for o in scalars):
        return None
    made = write.add(
        instruction.op,
        operand.operands[0],
        *scalars,
        attributes=attributes,
        computations=instruction.computations,
        shape=_before(instruction.shape, order),
    )
    return write.transpose(made, order)
