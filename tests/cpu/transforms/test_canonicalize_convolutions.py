"""Convolutions in other orders of dimensions are transposed where that is worth it, and give the same results."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.transforms.canonicalize_convolutions import CanonicalizeConvolutions

RNG = np.random.default_rng(2)


def module(lhs: str, rhs: str, result: str, rest: str) -> xla.Module:
    return xla.parse_hlo(
        f"HloModule m\nENTRY e {{ a = {lhs} parameter(0)\n b = {rhs} parameter(1)\n"
        f" ROOT r = {result} convolution(a, b), {rest} }}",
        verify=True,
    )


WORTH_IT = {
    "bf01_oi01->bf01": (
        "f32[2,16,9,11] f32[24,16,3,3] f32[2,24,9,11]", "window={size=3x3 pad=1_1x1_1}", "b01f_01io->b01f",
    ),
    "b01f_01oi->b01f": (
        "f32[2,9,11,16] f32[3,3,24,16] f32[2,9,11,24]", "window={size=3x3 pad=1_1x1_1}", "b01f_01io->b01f",
    ),
    "fb01_io01->fb01": (
        "f32[4,20,9,11] f32[4,24,9,11] f32[24,20,3,3]", "window={size=9x11 pad=1_1x1_1}", "f01b_i01o->01bf",
    ),
    "bf0_oi0->bf0": (
        "f32[2,32,90] f32[32,1,9] f32[2,32,90]", "window={size=9 pad=4_4}, feature_group_count=32", "b0f_0io->b0f",
    ),
}  # fmt: skip


@pytest.mark.parametrize("labels", WORTH_IT)
def test_orders(labels: str):
    shapes, window, expected = WORTH_IT[labels]
    given = module(*shapes.split(), f"{window}, dim_labels={labels}")
    arrays = [RNG.integers(-2, 3, p.shape.dimensions).astype(np.float32) for p in given.entry_computation.parameters]
    before = np.asarray(xla.Client("interpreter").compile(given)(*arrays))
    assert CanonicalizeConvolutions().run(given)
    assert f"dim_labels={expected}" in given.to_text()
    assert not CanonicalizeConvolutions().run(given)
    np.testing.assert_array_equal(np.asarray(xla.Client("interpreter").compile(given)(*arrays)), before)
    np.testing.assert_array_equal(np.asarray(xla.Client("cpu").compile(given)(*arrays)), before)


@pytest.mark.parametrize(
    "shapes",
    [
        "f32[2,8,9,11] f32[4,8,1,1] f32[2,4,9,11]",  # few products for each element
        "f32[1,2,3,3] f32[4,2,3,3] f32[1,4,3,3]",  # a small one
        "f32[2,0,9,11] f32[4,0,3,3] f32[2,4,9,11]",  # no elements
    ],
)
def test_orders_that_stay(shapes: str):
    size = shapes.split()[1].rstrip("]").split(",")[-1]
    pad = (int(size) - 1) // 2
    given = module(
        *shapes.split(), f"window={{size={size}x{size} pad={pad}_{pad}x{pad}_{pad}}}, dim_labels=bf01_oi01->bf01"
    )
    assert not CanonicalizeConvolutions().run(given)
