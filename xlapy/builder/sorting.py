"""Sorting and selection of the largest or smallest elements.

Owns: the builder functions of `opcodes/sorting.py`. Must not know: how they are evaluated.
Source: Sort, TopK of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.builder.core.builder import append, builder_of
from xlapy.builder.core.computation import XlaComputation
from xlapy.builder.core.op import XlaOp
from xlapy.opcodes.sorting import SORT, TOPK, SortAttributes, TopKAttributes


def sort(
    operands: XlaOp | Sequence[XlaOp], comparator: XlaComputation, dimension: int = -1, is_stable: bool = False
) -> XlaOp:
    """The operands sorted along a dimension (-1: the last), all by the same permutation.

    One operand, bare or in a list, gives an array of its shape; N of equal dimensions and any element types give a
    tuple of N. `comparator`: 2 N scalars to pred[]; parameters 2k and 2k+1 are two elements of operand k, the result
    says whether the first comes before the second. It must be a strict weak order: less-than, not less-or-equal; for
    floating-point numbers with NaN use `lt_total_order`. `is_stable` keeps the order of elements that are equal to it.
    Raises BuilderError at the caller's line when the shapes do not fit.
    """
    inputs = [operands] if isinstance(operands, XlaOp) else list(operands)
    builder = builder_of("sort", inputs)
    if dimension == -1:
        dimension = builder.get_shape(inputs[0]).rank - 1
    return builder.append(SORT, inputs, SortAttributes.make(dimension=dimension, is_stable=is_stable), (comparator,))


def top_k(operand: XlaOp, k: int, largest: bool = True, is_stable: bool = True) -> XlaOp:
    """The `k` largest (or smallest) elements along the last dimension: a tuple of values and their s32 indices.

    Both have the shape of the operand with its last dimension made k: for f32[2,9] and k=3 (f32[2,3], s32[2,3]). Values
    are in descending (ascending) order; of equal elements the lower index comes first if `is_stable`. NaN counts as the
    largest number, and -0 as less than +0. Raises BuilderError if the operand is a scalar or has fewer than k elements.
    """
    return append(TOPK, (operand,), TopKAttributes.make(k=k, largest=largest, is_stable=is_stable))
