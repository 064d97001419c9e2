"""Meaning of reduce, reduce-window, select-and-scatter, map and scan.

Owns: the order and precision in which elements are combined. Any computation is applied to whole arrays, adjacent elements
first, so that a computation that is associative but not commutative gives what the specification says; the initial value
enters once. Must not know: what the computations mean beyond `monoid`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import ml_dtypes
import numpy as np

from xlapy import ops
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.accumulate import accumulate
from xlapy.interpreter.batched import apply_scalars, monoid
from xlapy.interpreter.core import RULES, Array, Context, Value, evaluate_computation
from xlapy.ops.dimensions import Window, WindowDimension, dilated, strided

Arrays = list[Array]
Combine = Callable[[Arrays, Arrays], Arrays]


def wide_type(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The type that sums and products of a floating type are carried in, to be rounded once at the end."""
    if dtype.kind == "c":
        return np.dtype(np.complex128)
    return np.dtype(np.float64)


def _is_inexact(dtype: np.dtype[np.generic]) -> bool:
    if dtype.kind in "fc":
        return True
    try:
        ml_dtypes.finfo(dtype)
    except ValueError:
        return False
    return True


class Reducer:
    """A reducer made ready: how to combine whole arrays of values, and the types they are carried in."""

    def __init__(self, context: Context, computation: Computation, inits: Sequence[Array]) -> None:
        self._context = context
        self._computation = computation
        self._results = [init.dtype for init in inits]
        op = monoid(computation)
        self._wide = op in (ops.ADD, ops.MULTIPLY) and _is_inexact(inits[0].dtype)
        self._ufunc = np.add if op is ops.ADD else np.multiply
        self.inits = self.enter(inits)

    def enter(self, values: Sequence[Array]) -> Arrays:
        """Values as they are carried."""
        return [value.astype(wide_type(value.dtype)) if self._wide else value for value in values]

    def leave(self, values: Sequence[Array]) -> Arrays:
        """Carried values, rounded to the result's types."""
        return [value.astype(dtype, copy=False) for value, dtype in zip(values, self._results, strict=True)]

    def combine(self, left: Arrays, right: Arrays) -> Arrays:
        if self._wide:
            with np.errstate(all="ignore"):
                return [self._ufunc(left[0], right[0])]
        result = apply_scalars(self._context, self._computation, [*left, *right])
        return list(result) if isinstance(result, tuple) else [result]

    def fold(self, values: Arrays) -> Arrays:
        """Combines along the first axis, which has at least one element: neighbours, then neighbours of those."""
        if self._wide:
            with np.errstate(all="ignore"):
                return [self._ufunc.reduce(values[0], axis=0)]
        count = len(values[0])
        while count > 1:
            paired = count - count % 2
            folded = self.combine([v[0:paired:2] for v in values], [v[1:paired:2] for v in values])
            if count % 2:
                folded = [np.concatenate([f, v[-1:]]) for f, v in zip(folded, values, strict=True)]
            values, count = folded, (count + 1) // 2
        return [v[0] for v in values]


def _packed(instruction: Instruction, results: Sequence[Array]) -> Value:
    return tuple(results) if instruction.shape.is_tuple else results[0]


@RULES.rule(ops.REDUCE)
def _reduce(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Folds the reduced dimensions and combines with the initial values; without dimensions the operands come back."""
    operands, inits = values[: len(values) // 2], values[len(values) // 2 :]
    dimensions = sorted(instruction.dimensions)
    if not dimensions:
        return _packed(instruction, operands)
    reducer = Reducer(context, instruction.to_apply, inits)
    kept = [d for d in range(operands[0].ndim) if d not in dimensions]
    shape = tuple(operands[0].shape[d] for d in kept)
    count = int(np.prod([operands[0].shape[d] for d in dimensions], dtype=np.int64))
    if count == 0 or 0 in shape:
        return _packed(instruction, [np.broadcast_to(init, shape) for init in inits])
    rows = [operand.transpose(*dimensions, *kept).reshape(count, *shape) for operand in reducer.enter(operands)]
    return _packed(instruction, reducer.leave(reducer.combine(reducer.inits, reducer.fold(rows))))


@RULES.rule(ops.REDUCE_WINDOW)
def _reduce_window(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Folds each window dimension by dimension, the last first; padding and dilation holes contribute nothing."""
    operands, inits = values[: len(values) // 2], values[len(values) // 2 :]
    window: Window = instruction.window
    shape = window.output_sizes(operands[0].shape)
    if 0 in shape:
        return _packed(instruction, [np.broadcast_to(init, shape) for init in inits])
    reducer = Reducer(context, instruction.to_apply, inits)
    carried, filled = reducer.enter(operands), np.ones(shape, np.bool_)
    for axis in reversed(range(len(shape))):
        carried, present = _fold_axis(reducer.combine, carried, axis, window.dimensions[axis])
        filled &= present.reshape([-1 if d == axis else 1 for d in range(len(shape))])
    combined = reducer.combine(reducer.inits, carried)
    return _packed(instruction, reducer.leave([np.where(filled, c, i) for c, i in zip(combined, reducer.inits, strict=True)]))


def _fold_axis(combine: Combine, values: Arrays, axis: int, window: WindowDimension) -> tuple[Arrays, Array]:
    """Folds one dimension of every window; also tells which windows hold an element at all."""
    values = [np.moveaxis(v, axis, 0) for v in values]
    source = _padded_positions(values[0].shape[0], window)
    present = source >= 0
    if values[0].shape[0]:
        padded = [v[np.maximum(source, 0)] for v in values]
    else:
        padded = [np.zeros((len(source), *v.shape[1:]), v.dtype) for v in values]
    masked = partial(_masked_combine, combine)
    count = strided(len(source), window.dilated_size, window.stride)
    doublings = window.size.bit_length()
    if window.size * count <= 2 * doublings * len(source):
        folded, filled = _fold_directly(masked, padded, present, window, count)
    else:
        folded, filled = _fold_by_doubling(masked, padded, present, window, count)
    return [np.moveaxis(v, 0, axis) for v in folded], filled


def _padded_positions(size: int, window: WindowDimension) -> Array:
    """For each place of the padded, dilated base: the element that stands there, or -1."""
    length = max(dilated(size, window.base_dilation) + window.padding_low + window.padding_high, 0)
    place = np.arange(length, dtype=np.int64) - window.padding_low
    element, hole = np.divmod(place, window.base_dilation)
    return np.where((hole == 0) & (element >= 0) & (element < size), element, -1)


Masked = tuple[Arrays, Array]


def _masked_combine(combine: Combine, left: Masked, right: Masked) -> Masked:
    """Combines where both sides hold something; where one does, takes it. Masks run along the first axis."""
    (a, has_a), (b, has_b) = left, right
    both = combine(a, b)
    if has_a.all() and has_b.all():
        return both, has_a
    column = (-1, *[1] * (a[0].ndim - 1))
    use_a, use_b = has_a.reshape(column), has_b.reshape(column)
    merged = [np.where(use_a & use_b, c, np.where(use_a, x, y)) for c, x, y in zip(both, a, b, strict=True)]
    return merged, has_a | has_b


def _fold_directly(
    combine: Callable[[Masked, Masked], Masked], values: Arrays, present: Array, window: WindowDimension, count: int
) -> Masked:
    """One step a window element, on all windows at once."""

    def element(k: int) -> Masked:
        places = slice(k * window.window_dilation, k * window.window_dilation + (count - 1) * window.stride + 1, window.stride)
        return [v[places] for v in values], present[places]

    folded = element(0)
    for k in range(1, window.size):
        folded = combine(folded, element(k))
    return folded


def _fold_by_doubling(
    combine: Callable[[Masked, Masked], Masked], values: Arrays, present: Array, window: WindowDimension, count: int
) -> Masked:
    """Folds runs of 1, 2, 4 ... elements at every place, and puts each window together from such runs."""
    run: Masked = (values, present)
    folded: Masked | None = None
    length, taken = 1, 0  # the window's low bits first: runs are taken from the front in growing length
    while True:
        if window.size & length:
            begin = taken * window.window_dilation
            places = slice(begin, begin + (count - 1) * window.stride + 1, window.stride)
            piece = [v[places] for v in run[0]], run[1][places]
            folded = piece if folded is None else combine(folded, piece)
            taken += length
        if length * 2 > window.size:
            assert folded is not None
            return folded
        shift = length * window.window_dilation
        run = combine(([v[:-shift] for v in run[0]], run[1][:-shift]), ([v[shift:] for v in run[0]], run[1][shift:]))
        length *= 2


@RULES.rule(ops.SELECT_AND_SCATTER)
def _select_and_scatter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Each window selects one element, never padding; its source value is scattered there."""
    operand, source, init = values
    select, scatter = instruction.computations
    chosen = _selected(context, select, operand, instruction.window, source.shape)
    used = chosen >= 0
    start = np.full(operand.size, init)
    (result,) = accumulate(context, scatter, [start], chosen[used], [source[used]])
    return result.reshape(operand.shape)


def _selected(context: Context, select: Computation, operand: Array, window: Window, shape: tuple[int, ...]) -> Array:
    """The flat position in the operand that each window selects, -1 if it holds only padding.

    The element selected so far, which has the lower index, is the first parameter of `select`.
    """
    best = np.zeros(shape, operand.dtype)
    chosen = np.full(shape, -1, np.int64)
    if 0 in shape or not operand.size:
        return chosen
    flat = operand.reshape(-1)
    for offsets in np.ndindex(*window.sizes):
        position = np.zeros(shape, np.int64)
        inside = np.ones(shape, np.bool_)
        for axis, (d, k) in enumerate(zip(window.dimensions, offsets, strict=True)):
            source = _padded_positions(operand.shape[axis], d)
            places = source[np.arange(shape[axis]) * d.stride + k * d.window_dilation]
            column = places.reshape([-1 if a == axis else 1 for a in range(len(shape))])
            position = position * operand.shape[axis] + column
            inside &= column >= 0
        candidate = flat[np.where(inside, position, 0)]
        keep = apply_scalars(context, select, [best, candidate]) & (chosen >= 0)
        replace = inside & ~keep
        best = np.where(replace, candidate, best)
        chosen = np.where(replace, position, chosen)
    return chosen


@RULES.rule(ops.MAP)
def _map(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return np.broadcast_to(apply_scalars(context, instruction.to_apply, values), instruction.shape.dimensions)


@RULES.rule(ops.SCAN)
def _scan(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Runs the body once a slice along the dimension, from the first or, reversed, from the last."""
    carries = instruction.num_carries
    inputs = len(values) - carries
    axis = instruction.dimensions[0]
    state: list[Value] = list(values[inputs:])
    results = instruction.shape.tuple_shapes if instruction.shape.is_tuple else (instruction.shape,)
    outputs = [np.empty(s.dimensions, s.dtype) for s in results[: len(results) - carries]]
    size = (*values[:inputs], *outputs)[0].shape[axis]
    for i in reversed(range(size)) if instruction.is_reverse else range(size):
        slices = [v.take(i, axis) for v in values[:inputs]]
        returned = evaluate_computation(context, instruction.to_apply, [*slices, *state])
        returned = returned if isinstance(returned, tuple) else (returned,)
        for output, piece in zip(outputs, returned, strict=False):
            output[(slice(None),) * axis + (i,)] = piece
        state = list(returned[len(outputs) :])
    return _packed(instruction, [*outputs, *state])
