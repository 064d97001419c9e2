"""The meaning of the contractions: dot, ragged-dot and scaled-dot.

Source: Dot, DotGeneral, ScaledDot of the specification; `chlo.ragged_dot` of StableHLO. The arithmetic of sums is
`interpreter/accumulation.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.accumulation import Accumulator
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.ops.contraction import (
    DOT, RAGGED_DOT, SCALED_DOT, ContractionAttributes, RaggedDotAttributes, RaggedMode, ragged_mode,
)  # fmt: skip


def _accumulator(instruction: Instruction) -> Accumulator:
    lhs, rhs = instruction.operands[0].shape, instruction.operands[1].shape
    return Accumulator.of(lhs.element_type, rhs.element_type, instruction.shape.element_type)


def _sizes(operand: Array, dimensions: Sequence[int]) -> tuple[int, ...]:
    return tuple(operand.shape[d] for d in dimensions)


def _contract(accumulator: Accumulator, lhs: Array, rhs: Array, attrs: ContractionAttributes) -> Array:
    """Sums of products of widened operands, of dimensions batch, lhs free, rhs free."""
    lhs_free, rhs_free = attrs.lhs_free_dims(lhs.ndim), attrs.rhs_free_dims(rhs.ndim)
    batch = _sizes(lhs, attrs.lhs_batch_dims)
    terms = math.prod(_sizes(lhs, attrs.lhs_contracting_dims))
    rows, columns = _sizes(lhs, lhs_free), _sizes(rhs, rhs_free)
    left = lhs.transpose(*attrs.lhs_batch_dims, *lhs_free, *attrs.lhs_contracting_dims)
    right = rhs.transpose(*attrs.rhs_batch_dims, *attrs.rhs_contracting_dims, *rhs_free)
    sums = accumulator.matmul(
        left.reshape(math.prod(batch), math.prod(rows), terms), right.reshape(math.prod(batch), terms, math.prod(columns))
    )
    return sums.reshape(*batch, *rows, *columns)


@RULES.rule(DOT)
def _dot(_: Context, instruction: Instruction, values: Sequence[Value]) -> Array:
    """Precision and algorithm are requests that the most exact arithmetic fulfils."""
    accumulator = _accumulator(instruction)
    lhs, rhs = map(accumulator.widen, values)
    return accumulator.narrow(_contract(accumulator, lhs, rhs, instruction.attributes))


# Scaled dot


def _scaled(operand: Array, scale: Array) -> Array:
    """Each element times the scale of its block; a scale of a single element where the operand has more means none."""
    if scale.ndim != operand.ndim or (scale.dtype.name == "bfloat16" and scale.size == 1 and operand.size != 1):
        return operand.astype(np.float64)
    factors = scale.astype(np.float64)
    for dimension, size in enumerate(operand.shape):
        factors = np.repeat(factors, size // scale.shape[dimension], axis=dimension)
    return operand.astype(np.float64) * factors


@RULES.rule(SCALED_DOT)
def _scaled_dot(_: Context, instruction: Instruction, values: Sequence[Value]) -> Array:
    lhs, rhs, lhs_scale, rhs_scale = values
    accumulator = _accumulator(instruction)
    sums = _contract(accumulator, _scaled(lhs, lhs_scale), _scaled(rhs, rhs_scale), instruction.attributes)
    return accumulator.narrow(sums)


# Ragged dot


def _groups(group_sizes: Array, size: int) -> Array:
    """The group that each index of the ragged dimension falls in (the number of groups: in none), `[..., size]`.

    Groups lie one after the other from index 0: sizes 2, 1 of a dimension of 4 give 0, 0, 1, 2.
    """
    ends = np.cumsum(group_sizes.astype(np.int64), axis=-1)
    return np.sum(ends[..., None, :] <= np.arange(size)[:, None], axis=-1)


def _spread_groups(groups: Array, own: Sequence[int], result: Sequence[int]) -> Array:
    """`groups`, whose dimensions are those of lhs listed last in `own`, as an array that broadcasts over `result`."""
    named = list(own)[len(own) - groups.ndim :]
    sizes = dict(zip(named, groups.shape, strict=True))
    ordered = groups.transpose(sorted(range(groups.ndim), key=lambda i: list(result).index(named[i])))
    return ordered.reshape([sizes.get(d, 1) for d in result])


@RULES.rule(RAGGED_DOT)
def _ragged_dot(_: Context, instruction: Instruction, values: Sequence[Value]) -> Array:
    attrs: RaggedDotAttributes = instruction.attributes
    accumulator = _accumulator(instruction)
    lhs, rhs = accumulator.widen(values[0]), accumulator.widen(values[1])
    groups = _groups(values[2], lhs.shape[attrs.lhs_ragged_dims[0]])
    count = values[2].shape[-1]
    match ragged_mode(attrs):
        case RaggedMode.FREE:
            sums = _ragged_free(accumulator, lhs, rhs, groups, attrs)
        case RaggedMode.CONTRACTING:
            sums = _ragged_contracting(accumulator, lhs, rhs, groups, count, attrs)
        case RaggedMode.BATCH:
            sums = _ragged_batch(accumulator, lhs, rhs, groups < count, attrs)
    return accumulator.narrow(sums)
