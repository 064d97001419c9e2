"""Rewrites of reductions. None reorders a floating-point sum, because that would round differently."""

from __future__ import annotations

import dataclasses
from math import prod
from typing import Any

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS, identity_of, monoid
from xlapy.opcodes.attributes.dimensions import PaddingDimension, Window, WindowDimension
from xlapy.opcodes.movement import PadAttributes
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.passes.algebra.core import REWRITES, has_one_user, is_number, splat
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.REDUCE)
def reduce_of_at_most_one_element(write: Writer, instruction: Instruction) -> Instruction | None:
    """A reduce of one element for each result -> a reshape of the operand; of no element -> the initial value."""
    count = len(instruction.operands) // 2
    operands, inits = instruction.operands[:count], instruction.operands[count:]
    sizes = operands[0].shape.dimensions
    reduced = prod(sizes[d] for d in instruction.dimensions)
    if reduced > 1:
        return None
    shapes = instruction.shape.tuple_shapes if instruction.shape.is_tuple else (instruction.shape,)
    if reduced == 0:
        results = [write.broadcast(init, shape) for init, shape in zip(inits, shapes, strict=True)]
    else:
        results = [write.reshape(operand, shape) for operand, shape in zip(operands, shapes, strict=True)]
    return write.add(opcodes.TUPLE, *results, shape=instruction.shape) if instruction.shape.is_tuple else results[0]


@REWRITES.rule(opcodes.REDUCE)
def reduce_of_reduce(write: Writer, instruction: Instruction) -> Instruction | None:
    """max(max(x)) -> max(x) over the dimensions of both; likewise min, and, or, and sums of integers."""
    if len(instruction.operands) != 2:
        return None
    inner, init = instruction.operands
    if inner.op is not opcodes.REDUCE or len(inner.operands) != 2 or not has_one_user(inner):
        return None
    op = monoid(instruction.to_apply)
    if op is None or op is not monoid(inner.to_apply) or not _can_merge(op, init, inner.operands[1]):
        return None
    kept = [d for d in range(inner.operands[0].shape.rank) if d not in inner.dimensions]
    if not inner.operands[0].shape.size:
        return None
    dimensions = tuple(sorted({*inner.dimensions, *(kept[d] for d in instruction.dimensions)}))
    attributes = instruction.attributes.replace(dimensions=dimensions)
    return write.add(
        opcodes.REDUCE,
        inner.operands[0],
        init,
        attributes=attributes,
        computations=instruction.computations,
        shape=instruction.shape,
    )


def _can_merge(op: object, outer: Instruction, inner: Instruction) -> bool:
    """Returns whether one reduction with the outer initial value gives the same as two."""
    if op in IDEMPOTENT_OPS:
        return outer is inner
    return op is opcodes.ADD and outer.shape.element_type.is_integral and is_number(splat(inner), 0)


@REWRITES.rule(opcodes.REDUCE_WINDOW)
def reduce_window_of_pad(write: Writer, instruction: Instruction) -> Instruction | None:
    """A reduce-window of a pad with the initial value, an identity -> a padded window over the pad's operand.

    The gradient of average-pooling has this form. Elements that the window meets in its padding are left out instead of
    combined. Interior padding becomes a dilated base area, if the window moves by single elements.
    """
    if len(instruction.operands) != 2:
        return None
    pad, init = instruction.operands
    op = monoid(instruction.to_apply)
    if pad.op is not opcodes.PAD or op is None or not has_one_user(pad):
        return None
    values = [splat(pad.operands[1]), splat(init)]
    if not all(_is_identity(op, instruction, value) for value in values) or not _are_equal(*values):
        return None
    window = instruction.attributes_as(WindowAttributes).window
    padding = pad.attributes_as(PadAttributes).padding.dimensions
    dimensions = [_padded_window(w, p) for w, p in zip(window.dimensions, padding, strict=True)]
    if any(d is None for d in dimensions):
        return None
    attributes = instruction.attributes.replace(window=Window(tuple(d for d in dimensions if d is not None)))
    return write.add(
        opcodes.REDUCE_WINDOW,
        pad.operands[0],
        init,
        attributes=attributes,
        computations=instruction.computations,
        shape=instruction.shape,
    )


@REWRITES.rule(opcodes.REDUCE_WINDOW)
@REWRITES.rule(opcodes.SELECT_AND_SCATTER)
def window_larger_than_its_base(write: Writer, instruction: Instruction) -> Instruction | None:
    """A window some of whose elements always lie in the padding -> one without them, so that no loop visits them."""
    window = instruction.attributes_as(WindowAttributes).window
    smaller = window.without_padding_elements(instruction.operands[0].shape.dimensions)
    if smaller == window:
        return None
    return write.add(
        instruction.op,
        *instruction.operands,
        attributes=instruction.attributes.replace(window=smaller),
        computations=instruction.computations,
        shape=instruction.shape,
    )


def _is_identity(op: OpDef, instruction: Instruction, value: Any | None) -> bool:
    """Returns whether combining with a number changes no result that started from it: 0 for sums, of either sign."""
    identity = identity_of(instruction.to_apply)
    return is_number(value, identity) or (op is opcodes.ADD and (is_number(value, 0.0) or is_number(value, -0.0)))


def _are_equal(left: Any | None, right: Any | None) -> bool:
    return left is not None and right is not None and left.tobytes() == right.tobytes()


def _padded_window(w: WindowDimension, padding: PaddingDimension) -> WindowDimension | None:
    """Returns a window over a padded dimension as one over the dimension; None if it would need two dilations."""
    if padding == PaddingDimension(0, 0):
        return w
    if w.base_dilation > 1 or (padding.interior and (w.stride > 1 or w.window_dilation > 1)):
        return None
    low, high = w.padding_low + padding.low, w.padding_high + padding.high
    return dataclasses.replace(w, padding_low=low, padding_high=high, base_dilation=padding.interior + 1)
