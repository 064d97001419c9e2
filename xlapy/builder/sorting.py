"""Builder functions of sorting, and of selecting the largest or smallest elements.

Responsible for the builder functions of `opcodes/sorting.py`. Does not depend on how they are evaluated.
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
    """Sorts the operands along a dimension (-1: the last), all by the same permutation.

    A single operand gives an array of its shape; N operands of equal dimensions and any element types give a tuple of
    N. `comparator` takes 2 N scalars and returns pred[]: parameters 2k and 2k+1 are two elements of operand k, and the
    result is whether the first comes before the second. It must be a strict weak order: less-than, not less-or-equal;
    for floating-point numbers with NaN use `lt_total_order`. `is_stable` keeps the order of equivalent elements. Raises
    BuilderError at the caller's line if the shapes do not fit.
    """
    inputs = [operands] if isinstance(operands, XlaOp) else list(operands)
    builder = builder_of("sort", inputs)
    if dimension == -1:
        dimension = builder.get_shape(inputs[0]).rank - 1
    return builder.append(SORT, inputs, SortAttributes.make(dimension=dimension, is_stable=is_stable), (comparator,))


def top_k(operand: XlaOp, k: int, largest: bool = True, is_stable: bool = True) -> XlaOp:
    """Returns the `k` largest (or smallest) elements along the last dimension: a tuple of values and their s32 indices.

    Both have the operand's shape with last dimension k: for f32[2,9] and k=3, (f32[2,3], s32[2,3]). Values are in
    descending (ascending) order. If `is_stable`, the lower index comes first among equal elements. NaN counts as the
    largest number, and -0 as less than +0. Raises BuilderError if the operand is a scalar or has fewer than k elements.
    """
    return append(TOPK, (operand,), TopKAttributes.make(k=k, largest=largest, is_stable=is_stable))
