"""Kernels that cannot poll are known without a second estimate of their loops."""

from __future__ import annotations

import math

import pytest

from xlapy.cpu.llvm.safepoint_loops import loops_with_polls, may_poll
from xlapy.loops import F32, AxisKind, Builder, Kernel
from xlapy.loops.cost import KernelCost


def kernel(extent: int, *, endless: bool = False) -> Kernel:
    b = Builder("sums")
    target = b.buffer("y", F32, 4, written=True)
    with b.loop(4, AxisKind.PARALLEL) as row, b.loop(extent) as number:
        value = b.convert("sitofp", b.value_of(number), F32)
        if endless:
            (value,) = b.while_loop(
                [value], lambda v: b.compare("olt", v[0], b.constant(F32, 1)), lambda v: v, is_bounded=False
            )
        b.store(target, row, value)
    return b.kernel


@pytest.mark.parametrize(
    ("built", "polls"),
    [(kernel(100), False), (kernel(1 << 26), True), (kernel(2, endless=True), True)],
    ids=["short", "long", "endless"],
)
def test_kernels_with_polls_may_poll(built, polls):
    assert bool(loops_with_polls(built)) is polls
    assert may_poll(built, math.ceil(KernelCost(built).cycles)) is polls
