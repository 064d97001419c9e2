"""Definitions of dot, ragged-dot and scaled-dot: sums of products.

Sums are exact for integers, and in f64 or c128 for other types, term by term in row-major order of the contracting
dimensions; the result is rounded once. Another order of the terms, and rounding to the element type (at least f32) at
every step, is what platforms may differ by.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import BF16, PRED, Array, PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.contraction import (
    ContractionAttributes,
    RaggedDotAttributes,
    RaggedMode,
    group_prefix,
    higher_precision_type,
    ragged_mode,
)
from xlapy.reference.conversion import converted
from xlapy.reference.core import defines
from xlapy.reference.elements import Index, array_of_shape, element, indices, number, sizes_at, type_of, with_values

Factors = tuple[Any, ...]


def sum_of_products(terms: Iterable[Factors], types: Sequence[PrimitiveType], result: PrimitiveType) -> Any:
    """Adds products of elements of the given types and returns an element of type `result`.

    Sums of integers wrap. If the result is pred, or an integer where a factor is floating-point, the sum is first
    converted to the more precise of the factors' types.
    """
    inexact = [t for t in (*types, result) if t.is_floating or t.is_complex]
    by_factors = result is PRED or (bool(inexact) and result.is_integral)
    sum_type = reduce(higher_precision_type, types) if by_factors else result
    wide: Callable[[Any], Any] = int
    if inexact:
        wide = np.complex128 if any(t.is_complex for t in inexact) else np.float64
    total: Any = wide(0)
    for factors in terms:
        total = total + reduce(operator.mul, [wide(number(factor)) for factor in factors])
    return converted(element(total, sum_type), result)


@defines(opcodes.DOT)
def dot(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    """result[b, m, n] = sum over k of lhs[b, m, k] * rhs[b, k, n], for several dimensions each of b, m, n and k."""
    types, attributes = [type_of(lhs), type_of(rhs)], instruction.attributes_as(ContractionAttributes)

    def element_at(index: Index) -> Any:
        terms = ((lhs[left], rhs[right]) for left, right in contracted_pairs(attributes, lhs, rhs, index))
        return sum_of_products(terms, types, instruction.shape.element_type)

    return array_of_shape(instruction.shape, element_at)


def contracted_pairs(
    attributes: ContractionAttributes, lhs: Array, rhs: Array, index: Index
) -> Iterable[tuple[Index, Index]]:
    """Yields the indices of the factors of a result element, which has the dimensions batch, lhs free, rhs free."""
    batch, rows = len(attributes.lhs_batch_dims), attributes.lhs_free_dims(lhs.ndim)
    columns = attributes.rhs_free_dims(rhs.ndim)
    left = with_values((0,) * lhs.ndim, (*attributes.lhs_batch_dims, *rows), index[: batch + len(rows)])
    right = with_values(
        (0,) * rhs.ndim, (*attributes.rhs_batch_dims, *columns), (*index[:batch], *index[batch + len(rows) :])
    )
    for k in indices(sizes_at(lhs, attributes.lhs_contracting_dims)):
        yield (
            with_values(left, attributes.lhs_contracting_dims, k),
            with_values(right, attributes.rhs_contracting_dims, k),
        )


@defines(opcodes.SCALED_DOT)
def scaled_dot(instruction: Instruction, lhs: Array, rhs: Array, lhs_scale: Array, rhs_scale: Array) -> Array:
    """A dot in which every factor is multiplied by the scale of its block."""
    types = [type_of(array) for array in (lhs, rhs, lhs_scale, rhs_scale)]
    attributes = instruction.attributes_as(ContractionAttributes)

    def element_at(index: Index) -> Any:
        pairs = contracted_pairs(attributes, lhs, rhs, index)
        terms = ((lhs[i], *scale_at(lhs, lhs_scale, i), rhs[j], *scale_at(rhs, rhs_scale, j)) for i, j in pairs)
        return sum_of_products(terms, types, instruction.shape.element_type)

    return array_of_shape(instruction.shape, element_at)


def scale_at(operand: Array, scale: Array, index: Index) -> Factors:
    """Returns the scale of an element; none if a scale of one bf16 stands for a larger bf16 operand without a scale."""
    is_absent = scale.size == 1 != operand.size and type_of(scale) is type_of(operand) is BF16
    if is_absent or scale.ndim != operand.ndim:
        return ()
    blocks = zip(index, operand.shape, scale.shape, strict=True)
    return (scale[tuple(i // (size // count) for i, size, count in blocks)],)


@defines(opcodes.RAGGED_DOT)
def ragged_dot(instruction: Instruction, lhs: Array, rhs: Array, group_sizes: Array) -> Array:
    """A dot in which the positions of one lhs dimension are in consecutive groups, of the given sizes.

    Free dimension: the slice of rhs for the group of the row. Contracting dimension: result[g] sums the terms of group
    g. Batch dimension: an ordinary dot. Positions beyond the last group contribute 0.
    """
    attributes = instruction.attributes_as(RaggedDotAttributes)
    mode, types = ragged_mode(attributes), [type_of(lhs), type_of(rhs)]

    def group_at(left: Index) -> int:
        """The group of an element of lhs: how many groups end before it. The number of groups if it is in none."""
        prefix = tuple(left[d] for d in group_prefix(attributes, lhs.ndim)) if group_sizes.ndim > 1 else ()
        ends = accumulate(number(group_sizes[(*prefix, group)]) for group in range(group_sizes.shape[-1]))
        return sum(end <= left[attributes.lhs_ragged_dims[0]] for end in ends)

    def terms_of(index: Index) -> Iterable[Factors]:
        wanted = None
        if mode is RaggedMode.CONTRACTING:
            wanted, index = index[0], index[1:]
        elif mode is RaggedMode.FREE:
            place = _position_of_group(attributes, lhs, rhs)
            index = (*index[:place], 0, *index[place:])
        for left, right in contracted_pairs(attributes, lhs, rhs, index):
            group = group_at(left)
            if group == group_sizes.shape[-1] or wanted not in (None, group):
                continue
            chosen = [group] if mode is RaggedMode.FREE else []
            yield lhs[left], rhs[with_values(right, attributes.rhs_group_dims, chosen)]

    return array_of_shape(
        instruction.shape, lambda index: sum_of_products(terms_of(index), types, instruction.shape.element_type)
    )


def _position_of_group(attributes: RaggedDotAttributes, lhs: Array, rhs: Array) -> int:
    """Returns the dimension that the group dimension of rhs would have in the result of an ordinary dot."""
    before = len(attributes.lhs_batch_dims) + len(attributes.lhs_free_dims(lhs.ndim))
    return before + attributes.rhs_free_dims(rhs.ndim).index(attributes.rhs_group_dims[0])
