"""Reduce, reduce-window, select-and-scatter, map and scan.

Responsible for the order in which elements are combined: sequentially in row-major order, with the accumulator on the
left, each step rounded to the element type; the initial value comes first and is used once. Sums and products of
floating-point numbers use XLA:CPU's tree of blocks, so that results are bitwise equal to XLA:CPU's. Where the order
does not change the result, neighbors are combined in pairs. Every called computation is applied to whole arrays. Does
not depend on what the computations mean beyond `monoid` and `is_associative_selection`.
Source: Reduce, ReduceWindow, SelectAndScatter, Map, Scan of the specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import F8E8M0FNU, PrimitiveType
from xlapy.base.rounding import round_to
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import monoid
from xlapy.hlo.selections import is_associative_selection
from xlapy.interpreter.batching.scalar_computations import apply_reducer, apply_scalar_computation
from xlapy.interpreter.core import RULES, Array, Context, Value, evaluate_computation
from xlapy.interpreter.kernels.accumulate import accumulate
from xlapy.opcodes.attributes.dimensions import Window, WindowDimension, dilated, strided
from xlapy.opcodes.reduction import ScanAttributes, WindowAttributes
from xlapy.opcodes.requirements import elements_of

_ROUNDED_OPS = (opcodes.ADD, opcodes.MULTIPLY)
"""The monoids that round floating-point numbers, so that the order of their elements changes the result."""
_BLOCK_ELEMENTS = 32
"""XLA:CPU sums long dimensions in blocks of this many elements, and then the sums of the blocks."""

Arrays = list[Array]
Combine = Callable[[Arrays, Arrays], Arrays]


class Reducer:
    """Applies a reducer: combines whole arrays of values, and folds sequences of them.

    Every step rounds to the element type. `ufunc` is NumPy's function for sums and products of floating-point numbers,
    whose last bits depend on the order.
    """

    def __init__(self, context: Context, computation: Computation, inits: Sequence[Array]) -> None:
        self._context = context
        self._computation = computation
        self.inits: Arrays = list(inits)
        op = monoid(computation)
        element_type = PrimitiveType.from_dtype(inits[0].dtype)
        rounds = op in _ROUNDED_OPS and (element_type.is_floating or element_type.is_complex)
        self.is_reassociable = not rounds if op is not None else is_associative_selection(computation)
        # blocks of sums are padded with zeros, which f8e8m0fnu does not have
        in_blocks = rounds and element_type is not F8E8M0FNU
        self.ufunc: np.ufunc | None = (np.add if op is opcodes.ADD else np.multiply) if in_blocks else None

    def combine(self, left: Arrays, right: Arrays) -> Arrays:
        """Applies the reducer to accumulators on the left and values on the right; the arrays broadcast together."""
        if self.ufunc is not None:
            with np.errstate(all="ignore"):
                return [self.ufunc(left[0], right[0])]
        return apply_reducer(self._context, self._computation, left, right)

    def widen(self, values: Array) -> Array:
        """Converts values to float64 or complex128 if their sums and products are to be rounded once, at the end."""
        if self.ufunc is None:
            return values
        return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)

    def fold(self, values: Arrays) -> Arrays:
        """Combines along the first axis, which has at least one element: sequentially if the order changes the result,
        else in pairs, then in pairs of those."""
        if self.ufunc is not None:
            return [_accumulated(self.ufunc, values[0])]
        if self.is_reassociable:
            return self._fold_in_pairs(values)
        folded = [v[0] for v in values]
        for index in range(1, len(values[0])):
            folded = self.combine(folded, [v[index] for v in values])
        return folded

    def _fold_in_pairs(self, values: Arrays) -> Arrays:
        """Combines neighbors along the first axis until one element is left."""
        count = len(values[0])
        while count > 1:
            paired = count - count % 2
            folded = self.combine([v[0:paired:2] for v in values], [v[1:paired:2] for v in values])
            if count % 2:
                folded = [np.concatenate([f, v[-1:]]) for f, v in zip(folded, values, strict=True)]
            values, count = folded, (count + 1) // 2
        return [v[0, ...] for v in values]


def _packed(instruction: Instruction, results: Sequence[Value]) -> Value:
    values = [np.asarray(r) if isinstance(r, np.generic) else r for r in results]
    return tuple(values) if instruction.shape.is_tuple else values[0]


@RULES.rule(opcodes.REDUCE)
def reduce(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Folds the reduced dimensions and combines the initial values with the result.

    If one element is reduced to each result element, it is returned without the initial value: XLA requires initial
    values to be identities and leaves them out.
    """
    operands = values[: len(values) // 2]
    if math.prod(operands[0].shape[d] for d in instruction.dimensions) != 1:
        return reduce_with_inits(context, instruction, values)
    kept = [size for d, size in enumerate(operands[0].shape) if d not in instruction.dimensions]
    return _packed(instruction, [operand.reshape(kept) for operand in operands])


def reduce_with_inits(context: Context, instruction: Instruction, values: Sequence[Array]) -> Value:
    """Folds the reduced dimensions, of which the initial values are the first elements."""
    operands, inits = values[: len(values) // 2], values[len(values) // 2 :]
    dimensions = sorted(instruction.dimensions)
    kept = [d for d in range(operands[0].ndim) if d not in dimensions]
    shape = tuple(operands[0].shape[d] for d in kept)
    count = math.prod(operands[0].shape[d] for d in dimensions)
    if count == 0 or 0 in shape:
        return _packed(instruction, [np.broadcast_to(init, shape) for init in inits])
    reducer = Reducer(context, instruction.to_apply, inits)
    arranged = [operand.transpose(*dimensions, *kept) for operand in operands]
    if reducer.ufunc is not None and count > 1:
        sizes = [operands[0].shape[d] for d in dimensions if operands[0].shape[d] > 1]
        arranged = [_fold_blocks(reducer.ufunc, arranged[0].reshape(*sizes, -1))]
    rows = [array.reshape(-1, *shape) for array in arranged]
    first = [np.broadcast_to(init, (1, *shape)) for init in inits]
    return _packed(instruction, reducer.fold([np.concatenate(pair) for pair in zip(first, rows, strict=True)]))


def _fold_blocks(ufunc: np.ufunc, values: Array) -> Array:
    """Folds all dimensions but the last in blocks of up to 32 elements, until none is longer than that.

    Blocks are aligned like windows with SAME padding: 40 elements are two blocks of 20, with 12 padding elements before
    and 12 after.
    """
    rank = values.ndim - 1
    while max(values.shape[:rank]) > _BLOCK_ELEMENTS:
        widths = [min(size, _BLOCK_ELEMENTS) for size in values.shape[:rank]]
        missing = [-size % width for size, width in zip(values.shape, widths, strict=False)]
        around = [(total // 2, total - total // 2) for total in missing] + [(0, 0)]
        neutral = -0.0 if ufunc is np.add else 1
        padded = np.pad(values, around, constant_values=values.dtype.type(neutral)) if any(missing) else values
        counts = [size // width for size, width in zip(padded.shape, widths, strict=False)]
        split = padded.reshape(*(n for pair in zip(counts, widths, strict=True) for n in pair), values.shape[-1])
        inner, outer = range(1, 2 * rank, 2), range(0, 2 * rank, 2)
        blocks = split.transpose(*inner, *outer, 2 * rank)
        values = _accumulated(ufunc, blocks.reshape(-1, *counts, values.shape[-1]))
    return values


def _accumulated(ufunc: np.ufunc, values: Array) -> Array:
    """Folds the first axis sequentially; `ufunc.reduce` would add in pairs."""
    with np.errstate(all="ignore"):
        return np.asarray(ufunc.accumulate(values, axis=0)[-1])


@RULES.rule(opcodes.REDUCE_WINDOW)
def reduce_window(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Folds the elements of each window, without padding and dilation holes.

    A window over an array of rank 0 returns the operand, like a reduce of no dimensions.
    """
    operands, inits = values[: len(values) // 2], values[len(values) // 2 :]
    window: Window = instruction.attributes_as(WindowAttributes).window
    shape = window.output_sizes(operands[0].shape)
    if not shape:
        return _packed(instruction, operands)
    if not operands[0].size or 0 in shape:
        return _packed(instruction, [np.broadcast_to(init, shape) for init in inits])
    window = window.without_padding_elements(operands[0].shape)
    reducer = Reducer(context, instruction.to_apply, inits)
    is_rounded_once = reducer.ufunc is not None and max(window.sizes) > _BLOCK_ELEMENTS
    if not (reducer.is_reassociable or is_rounded_once):
        return _packed(instruction, _fold_in_order(reducer, operands, window, shape))
    return _packed(instruction, _fold_by_dimensions(reducer, operands, window, shape))


def _fold_in_order(reducer: Reducer, operands: Sequence[Array], window: Window, shape: tuple[int, ...]) -> Arrays:
    """Combines the elements of each window in row-major order: one step per element, on all windows at once."""
    positions = _padded_operand(operands[0].shape, window)
    holes = bool((positions < 0).any())
    elements = [operand.reshape(-1) for operand in operands]
    folded = [np.broadcast_to(init, shape) for init in reducer.inits]
    for offsets in np.ndindex(*window.sizes):
        position = positions[_window_slices(window, offsets, shape)]
        new = reducer.combine(folded, [e[position] for e in elements])
        if holes:
            new = [np.where(position >= 0, value, old) for value, old in zip(new, folded, strict=True)]
        folded = new
    return folded


def _fold_by_dimensions(reducer: Reducer, operands: Sequence[Array], window: Window, shape: tuple[int, ...]) -> Arrays:
    """Folds one dimension after the other, the last first; sums and products are rounded once, at the end."""
    carried, inits, filled = [*map(reducer.widen, operands)], [*map(reducer.widen, reducer.inits)], np.ones(shape, bool)
    for axis in reversed(range(len(shape))):
        carried, present = _fold_axis(reducer.combine, carried, axis, window.dimensions[axis])
        filled &= _along(present, axis, len(shape))
    combined = reducer.combine(inits, carried)
    results = [np.where(filled, value, init) for value, init in zip(combined, inits, strict=True)]
    return [_rounded(result, init.dtype) for result, init in zip(results, reducer.inits, strict=True)]


def _rounded(values: Array, dtype: np.dtype[Any]) -> Array:
    if values.dtype == dtype:
        return values
    return values.astype(dtype) if dtype.kind == "c" else round_to(values, dtype)


def _along(vector: Array, axis: int, rank: int) -> Array:
    """Reshapes a vector to an array of the rank that extends along one axis."""
    return vector.reshape([-1 if d == axis else 1 for d in range(rank)])


def _fold_axis(combine: Combine, values: Arrays, axis: int, window: WindowDimension) -> tuple[Arrays, Array]:
    """Folds one dimension of every window; also returns which windows contain an element."""
    if window == WindowDimension(1):
        return values, np.ones(values[0].shape[axis], np.bool_)
    values = [np.moveaxis(v, axis, 0) for v in values]
    source = _padded_positions(values[0].shape[0], window)
    padded: Masked = [v[np.maximum(source, 0)] for v in values], source >= 0
    masked = partial(_masked_combine, combine)
    count = strided(len(source), window.dilated_size, window.stride)
    doublings = window.size.bit_length()
    if window.size * count <= 2 * doublings * len(source):
        folded, filled = _fold_directly(masked, padded, window, count)
    else:
        folded, filled = _fold_by_doubling(masked, padded, window, count)
    return [np.moveaxis(v, 0, axis) for v in folded], filled


def _padded_positions(size: int, window: WindowDimension) -> Array:
    """Returns, for each position of the padded, dilated base area, the index of the element there, or -1."""
    length = max(dilated(size, window.base_dilation) + window.padding_low + window.padding_high, 0)
    position = np.arange(length, dtype=np.int64) - window.padding_low
    element, hole = np.divmod(position, window.base_dilation)
    return np.where((hole == 0) & (element >= 0) & (element < size), element, -1)


Masked = tuple[Arrays, Array]
"""Arrays of values, and a mask along their first axis: whether there is a value."""


def _masked_combine(combine: Combine, left: Masked, right: Masked) -> Masked:
    """Combines values where both sides have one; else takes the value of the side that has one."""
    (a, has_a), (b, has_b) = left, right
    both = combine(a, b)
    if has_a.all() and has_b.all():
        return both, has_a
    use_a, use_b = _along(has_a, 0, a[0].ndim), _along(has_b, 0, a[0].ndim)
    merged = [np.where(use_a & use_b, c, np.where(use_a, x, y)) for c, x, y in zip(both, a, b, strict=True)]
    return merged, has_a | has_b


def _strided(run: Masked, begin: int, count: int, stride: int) -> Masked:
    """Returns `count` values from `begin` on, with the stride."""
    chosen = slice(begin, begin + (count - 1) * stride + 1, stride)
    return [v[chosen] for v in run[0]], run[1][chosen]


def _fold_directly(
    combine: Callable[[Masked, Masked], Masked], padded: Masked, window: WindowDimension, count: int
) -> Masked:
    """Combines one window element after the other, on all windows at once."""
    folded = _strided(padded, 0, count, window.stride)
    for k in range(1, window.size):
        folded = combine(folded, _strided(padded, k * window.window_dilation, count, window.stride))
    return folded


def _fold_by_doubling(
    combine: Callable[[Masked, Masked], Masked], padded: Masked, window: WindowDimension, count: int
) -> Masked:
    """Folds runs of 1, 2, 4 ... elements from every position on, and combines such runs to each window.

    Example: a window of 6 elements is a run of 2 from its start and a run of 4 from its third element on.
    """
    run, length, taken = padded, 1, 0
    folded: Masked | None = None
    while True:
        if window.size & length:
            piece = _strided(run, taken * window.window_dilation, count, window.stride)
            folded = piece if folded is None else combine(folded, piece)
            taken += length
        if length * 2 > window.size:
            assert folded is not None
            return folded
        shift = length * window.window_dilation
        rest = len(run[1]) - shift
        run = combine(_strided(run, 0, rest, 1), _strided(run, shift, rest, 1))
        length *= 2


@RULES.rule(opcodes.SELECT_AND_SCATTER)
def select_and_scatter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Selects one operand element per window, never padding, and combines the window's source value into its position.

    Windows are processed in row-major order.
    """
    operand, source, init = values
    select, scatter = instruction.computations
    chosen = _selected(context, select, operand, instruction.attributes_as(WindowAttributes).window, source.shape)
    used = chosen >= 0
    start = np.broadcast_to(init, operand.shape).reshape(-1)
    (result,) = accumulate(context, scatter, [start], chosen[used], [source[used]])
    return result.reshape(operand.shape)


def _selected(context: Context, select: Computation, operand: Array, window: Window, shape: tuple[int, ...]) -> Array:
    """Returns the flat position in the operand that each window selects, -1 if the window contains only padding.

    The elements of a window are compared in row-major order with the element selected so far, which is the first
    parameter of `select`. The order matters, because NaN makes comparisons intransitive.
    """
    chosen = np.full(shape, -1, np.int64)
    if not chosen.size or not operand.size:
        return chosen
    window = window.without_padding_elements(operand.shape)
    positions = _padded_operand(operand.shape, window)
    elements = operand.reshape(-1)
    best = np.zeros(shape, operand.dtype)
    for offsets in np.ndindex(*window.sizes):
        position = positions[_window_slices(window, offsets, shape)]
        candidate = elements[position]
        keep = apply_scalar_computation(context, select, [best, candidate]) & (chosen >= 0)
        replace = ~keep & (position >= 0)
        best = np.where(replace, candidate, best)
        chosen = np.where(replace, position, chosen)
    return chosen


def _window_slices(window: Window, offsets: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    """Returns the positions in the padded base area of the element at `offsets` of every window."""
    return tuple(
        slice(k * d.window_dilation, k * d.window_dilation + (count - 1) * d.stride + 1, d.stride)
        for k, d, count in zip(offsets, window.dimensions, shape, strict=True)
    )


def _padded_operand(sizes: Sequence[int], window: Window) -> Array:
    """Returns, for each position of the padded base area, the flat position in the operand of its element, or -1."""
    flat = np.zeros((), np.int64)
    inside = np.ones((), np.bool_)
    for axis, (size, dimension) in enumerate(zip(sizes, window.dimensions, strict=True)):
        source = _along(_padded_positions(size, dimension), axis, len(sizes))
        flat = flat * size + source
        inside = inside & (source >= 0)
    return np.where(inside, flat, -1)


@RULES.rule(opcodes.MAP)
def map_(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Applies the computation to the elements at each index; a scalar beside arrays is used at every index."""
    return apply_scalar_computation(context, instruction.to_apply, values)


@RULES.rule(opcodes.SCAN)
def scan(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Evaluates the body once per slice along the dimension, from the first or, if reversed, from the last."""
    attributes = instruction.attributes_as(ScanAttributes)
    carries, axis = attributes.num_carries, instruction.dimensions[0]
    inputs, state = values[: len(values) - carries], list(values[len(values) - carries :])
    results = elements_of(instruction.shape)
    outputs = [np.empty(s.dimensions, s.dtype) for s in results[: len(results) - carries]]
    size = (*inputs, *outputs)[0].shape[axis]
    for i in reversed(range(size)) if attributes.is_reverse else range(size):
        index: Any = (*[slice(None)] * axis, i, ...)
        returned = evaluate_computation(context, instruction.to_apply, [*[v[index] for v in inputs], *state])
        returned = returned if isinstance(returned, tuple) else (returned,)
        for output, piece in zip(outputs, returned, strict=False):
            output[index] = piece
        state = list(returned[len(outputs) :])
    return _packed(instruction, [*outputs, *state])
