"""Whether a block of an operand holds an infinity or NaN: its products with zeros in place of nothing would be NaN.

Must not know: which operand it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy.base.element_types import PrimitiveType
from xlapy.loops import I1, Affine, AxisKind, Builder, Value
from xlapy.lower import Element
from xlapy.lower.element_types import register_type
from xlapy.lower.reduction import flat


def all_finite(
    builder: Builder, t: PrimitiveType, element: Callable[[Affine, Affine], Element], size: tuple[int, int]
) -> Value:
    """An I1: whether `element(line, lane)` is finite for all so many lines and lanes, these in vectors.

    It adds up products with zero: a sum of zeros, unless one of them is NaN. Whole numbers all are finite.
    """
    lines, lanes = size
    zero, yes = builder.zero(register_type(t)), builder.constant(I1, 1)
    if not zero.type.is_float:
        return yes

    def column(lane: Affine, carried: Sequence[Value]) -> list[Value]:
        def step(line: Affine, sums: Sequence[Value]) -> list[Value]:
            (total,) = sums
            for value in flat([element(line, lane)]):
                total = builder.fma(value, zero, total)
            return [total]

        (total,) = builder.reduce(lines, [zero], step)
        return [builder.binary("and", carried[0], builder.compare("ord", total, total))]

    (result,) = builder.reduce(
        lanes,
        [yes],
        column,
        kind=AxisKind.VECTOR,
        width=min(builder.lanes(zero.type), 1 << (lanes - 1).bit_length()),
        identities=[yes],
        combine=lambda left, right: [builder.binary("and", left[0], right[0])],
    )
    return result
