"""Contractions: dot, ragged-dot and scaled-dot.

Responsible for the elements that are multiplied and added. Does not depend on the type that sums are accumulated in
(`kernels/sums_of_products.py`).
Source: Dot, DotGeneral, ScaledDot of the specification; `chlo.ragged_dot` of StableHLO.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlapy.base.element_types import BF16
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.interpreter.kernels.sums_of_products import Accumulator
from xlapy.opcodes.contraction import (
    DOT,
    RAGGED_DOT,
    SCALED_DOT,
    ContractionAttributes,
    RaggedDotAttributes,
    RaggedMode,
    group_prefix,
    ragged_mode,
)


def _accumulator(instruction: Instruction, operands: int = 2) -> Accumulator:
    """Returns the accumulator for an instruction that multiplies its first `operands` operands."""
    types = [operand.shape.element_type for operand in instruction.operands[:operands]]
    return Accumulator.of(types, instruction.shape.element_type)


def _sizes(operand: Array, dimensions: Sequence[int]) -> tuple[int, ...]:
    return tuple(operand.shape[d] for d in dimensions)


def _contract(accumulator: Accumulator, lhs: Array, rhs: Array, attrs: ContractionAttributes) -> Array:
    """Returns the sums of products of widened operands, with dimensions (batch, lhs free, rhs free)."""
    lhs_free, rhs_free = attrs.lhs_free_dims(lhs.ndim), attrs.rhs_free_dims(rhs.ndim)
    batch, rows, columns = _sizes(lhs, attrs.lhs_batch_dims), _sizes(lhs, lhs_free), _sizes(rhs, rhs_free)
    count, terms = math.prod(batch), math.prod(_sizes(lhs, attrs.lhs_contracting_dims))
    left = lhs.transpose(*attrs.lhs_batch_dims, *lhs_free, *attrs.lhs_contracting_dims)
    right = rhs.transpose(*attrs.rhs_batch_dims, *attrs.rhs_contracting_dims, *rhs_free)
    sums = accumulator.matmul(
        left.reshape(count, math.prod(rows), terms), right.reshape(count, terms, math.prod(columns))
    )
    return sums.reshape((*batch, *rows, *columns))


@RULES.rule(DOT)
def dot(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Contracts two operands, in the most exact arithmetic, which satisfies every precision and algorithm."""
    accumulator = _accumulator(instruction)
    lhs, rhs = map(accumulator.widen, values)
    return accumulator.narrow(_contract(accumulator, lhs, rhs, instruction.attributes_as(ContractionAttributes)))


# -- scaled dot


def _scaled(accumulator: Accumulator, operand: Array, scale: Array) -> Array:
    """Multiplies each element by the scale of its block.

    A single bf16 scale for a larger bf16 operand means that the operand has no scale.
    """
    product = accumulator.widen(operand)
    unscaled = scale.size == 1 and operand.size != 1 and scale.dtype == operand.dtype == BF16.dtype
    if unscaled or scale.ndim != operand.ndim:
        return product
    factors = accumulator.widen(scale)
    for dimension, size in enumerate(operand.shape):
        factors = np.repeat(factors, size // scale.shape[dimension], axis=dimension)
    return product * factors


@RULES.rule(SCALED_DOT)
def scaled_dot(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    lhs, rhs, lhs_scale, rhs_scale = values
    accumulator = _accumulator(instruction, 4)
    left, right = _scaled(accumulator, lhs, lhs_scale), _scaled(accumulator, rhs, rhs_scale)
    return accumulator.narrow(_contract(accumulator, left, right, instruction.attributes_as(ContractionAttributes)))


# -- ragged dot


def _groups(group_sizes: Array, size: int) -> Array:
    """Returns the group of each index of the ragged dimension, `[..., size]`; an index in no group has the group count.

    Groups are consecutive from index 0. Example: the sizes 2, 1 in a dimension of 4 give the groups 0, 0, 1, 2.
    """
    ends = np.cumsum(group_sizes.astype(np.int64), axis=-1)
    return np.sum(ends[..., None, :] <= np.arange(size)[:, None], axis=-1)


def _aligned(groups: Array, attrs: RaggedDotAttributes, rank: int, dimensions: Sequence[int]) -> Array:
    """Reshapes `groups` to broadcast with an array whose dimension i is dimension `dimensions[i]` of lhs (-1: of none).

    `rank` is the rank of lhs.
    """
    own = (*group_prefix(attrs, rank), *attrs.lhs_ragged_dims)[-groups.ndim :]
    sizes = dict(zip(own, groups.shape, strict=True))
    order = sorted(range(groups.ndim), key=lambda i: dimensions.index(own[i]))
    return groups.transpose(order).reshape([sizes.get(d, 1) for d in dimensions])


@RULES.rule(RAGGED_DOT)
def ragged_dot(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Contracts group by group; indices of the ragged dimension beyond the last group contribute nothing."""
    attrs: RaggedDotAttributes = instruction.attributes_as(RaggedDotAttributes)
    accumulator = _accumulator(instruction)
    lhs, rhs = accumulator.widen(values[0]), accumulator.widen(values[1])
    group_sizes = values[2]
    groups = _groups(group_sizes, lhs.shape[attrs.lhs_ragged_dims[0]])
    evaluate = {
        RaggedMode.FREE: _ragged_free,
        RaggedMode.CONTRACTING: _ragged_contracting,
        RaggedMode.BATCH: _ragged_batch,
    }[ragged_mode(attrs)]
    count = group_sizes.shape[-1]
    if count == 0:
        return np.zeros(instruction.shape.dimensions, instruction.shape.dtype)
    return accumulator.narrow(evaluate(accumulator, lhs, rhs, groups, count, attrs))


def _result_dimensions(lhs: Array, attrs: ContractionAttributes, count: int) -> list[int]:
    """Returns, for each of `count` result dimensions, the dimension of lhs that it comes from, or -1."""
    own = [*attrs.lhs_batch_dims, *attrs.lhs_free_dims(lhs.ndim)]
    return own + [-1] * (count - len(own))


def _ragged_free(
    accumulator: Accumulator, lhs: Array, rhs: Array, groups: Array, count: int, attrs: RaggedDotAttributes
) -> Array:
    """`[b,m,k] [g,b,k,n] -> [b,m,n]`: each row of lhs is multiplied by the rhs of its own group."""
    (group_dim,) = attrs.rhs_group_dims
    axis = lhs.ndim - len(attrs.lhs_contracting_dims) + attrs.rhs_free_dims(rhs.ndim).index(group_dim)
    parts = [_contract(accumulator, lhs, rhs.take([g], group_dim), attrs).squeeze(axis) for g in range(count)]
    owner = _aligned(groups, attrs, lhs.ndim, _result_dimensions(lhs, attrs, parts[0].ndim))
    zero = accumulator.dtype.type(0)
    return np.select([owner == g for g in range(count)], parts, zero)


def _ragged_contracting(
    accumulator: Accumulator, lhs: Array, rhs: Array, groups: Array, count: int, attrs: RaggedDotAttributes
) -> Array:
    """`[b,m,k] [b,k,n] -> [g,b,m,n]`: each group sums over its own range of the contracting dimension."""
    pairs = dict(zip(attrs.rhs_batch_dims, attrs.lhs_batch_dims, strict=True))
    pairs |= dict(zip(attrs.rhs_contracting_dims, attrs.lhs_contracting_dims, strict=True))
    left = _aligned(groups, attrs, lhs.ndim, range(lhs.ndim))
    right = _aligned(groups, attrs, lhs.ndim, [pairs.get(d, -1) for d in range(rhs.ndim)])
    zero = accumulator.dtype.type(0)
    parts = [
        _contract(accumulator, np.where(left == group, lhs, zero), np.where(right == group, rhs, zero), attrs)
        for group in range(count)
    ]
    return np.stack(parts)


def _ragged_batch(
    accumulator: Accumulator, lhs: Array, rhs: Array, groups: Array, count: int, attrs: RaggedDotAttributes
) -> Array:
    """`[b,m,k] [b,k,n] -> [b,m,n]`: batches in no group give zeros."""
    sums = _contract(accumulator, lhs, rhs, attrs)
    owner = _aligned(groups, attrs, lhs.ndim, _result_dimensions(lhs, attrs, sums.ndim))
    return np.where(owner < count, sums, accumulator.dtype.type(0))
