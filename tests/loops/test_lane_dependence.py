"""Values of vector loops that differ between lanes."""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.loops import F32, Affine, AxisKind, Builder, For, Value
from xlapy.loops.lane_dependence import varying_values


def test_values_depend_on_the_axis_through_what_a_loop_carries():
    """What a value is computed from differs between lanes from the third iteration on."""
    b = Builder("carried")
    source, target = b.buffer("x", F32, 64), b.buffer("y", F32, 64, written=True)
    early: list[Value] = []
    with b.loop(64, AxisKind.VECTOR, width=16) as lane:

        def body(_: Affine, carried: Sequence[Value]) -> list[Value]:
            first, second, third, same = carried
            early.extend([b.unary("neg", first), b.unary("neg", same)])
            return [second, third, b.load(source, lane), b.add(same, same)]

        results = b.reduce(5, [b.constant(F32, n) for n in range(4)], body)
        b.store(target, lane, b.add(results[0], results[3]))
    (vector,) = b.kernel.body.statements
    assert isinstance(vector, For)
    found = varying_values(vector)
    assert {early[0], *results[:3]} <= found
    assert early[1] not in found and results[3] not in found
