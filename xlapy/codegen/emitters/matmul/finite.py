"""Checks that a block of an operand is finite: infinity times a zero that pads the other operand would be NaN."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy.base.element_types import PrimitiveType
from xlapy.loops import I1, Affine, AxisKind, Builder, Value
from xlapy.lower import Element
from xlapy.lower.core import flatten_elements
from xlapy.lower.element_types import register_type


def all_finite(
    builder: Builder, t: PrimitiveType, element: Callable[[Affine, Affine], Element], size: tuple[int, int]
) -> Value:
    """Returns an I1: whether `element(row, column)` is finite for all rows and columns below `size`.

    Columns run in vectors. The sum of the products of all elements with zero is zero, unless one of them is infinite or
    NaN. Integers are always finite.
    """
    rows, columns = size
    zero, yes = builder.zero(register_type(t)), builder.constant(I1, 1)
    if not zero.type.is_float:
        return yes

    def column(position: Affine, carried: Sequence[Value]) -> list[Value]:
        def step(row: Affine, sums: Sequence[Value]) -> list[Value]:
            (total,) = sums
            for value in flatten_elements([element(row, position)]):
                total = builder.fma(value, zero, total)
            return [total]

        (total,) = builder.reduce(rows, [zero], step)
        return [builder.binary("and", carried[0], builder.compare("ord", total, total))]

    (result,) = builder.reduce(
        columns,
        [yes],
        column,
        kind=AxisKind.VECTOR,
        width=min(builder.lanes(zero.type), 1 << (columns - 1).bit_length()),
        identities=[yes],
        combine=lambda left, right: [builder.binary("and", left[0], right[0])],
    )
    return result
