"""A network with channels first is transposed at its ends only, and computes what it computed before."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.transforms.canonicalize_convolutions import CanonicalizeConvolutions
from xlapy.passes.pipeline import Pipeline
from xlapy.passes.remove_dead_code import RemoveDeadCode
from xlapy.passes.simplify import Simplify

RNG = np.random.default_rng(5)

PROGRAMS = """
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] add(a, b) }
maximum { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] maximum(a, b) }
last { a = f32[] parameter(0)
 ROOT r = f32[] parameter(1) }
ge { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=GE }
"""

LABELS = "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"


def network(body: str, size: str = "9,11", result: str = "f32[2,16,9,11]", labels: str = LABELS) -> xla.Module:
    """A convolution of 16 features, operations on its result `c`, and a convolution of what they call `d`."""
    return xla.parse_hlo(
        f"HloModule m\n{PROGRAMS}\nENTRY e {{ x = f32[2,16,9,11] parameter(0)\n k = f32[16,16,3,3] parameter(1)\n"
        f" v = f32[16] parameter(2)\n zero = f32[] constant(0)\n low = f32[] constant(-inf)\n one = f32[] constant(1)\n"
        f" c = f32[2,16,9,11] convolution(x, k), {LABELS}\n{body}\n"
        f" ROOT r = {result} convolution(d, k), {labels} }}",
        verify=True,
    )


CHAINS = {
    "bias and activation": network(
        "b = f32[2,16,9,11] broadcast(v), dimensions={1}\n y = f32[2,16,9,11] add(c, b)\n"
        " z = f32[2,16,9,11] broadcast(zero), dimensions={}\n d = f32[2,16,9,11] maximum(y, z)"
    ),
    "residual": network(
        f"c2 = f32[2,16,9,11] convolution(c, k), {LABELS}\n p = pred[2,16,9,11] compare(c, c2), direction=GT\n"
        " d = f32[2,16,9,11] select(p, c, c2)"
    ),
    "scalars": network("d = f32[2,16,9,11] clamp(zero, c, one)"),
    "pooling": network(
        "d = f32[2,16,4,5] reduce-window(c, low), window={size=1x1x3x3 stride=1x1x2x2}, to_apply=maximum",
        result="f32[2,16,4,5]",
    ),
    "gradient of pooling": network(
        "y = f32[2,16,9,11] select-and-scatter(c, s, zero), window={size=1x1x3x3 stride=1x1x3x2}, select=ge,"
        " scatter=add\n d = f32[2,16,9,11] negate(y)".replace(
            "y = ", "s = f32[2,16,3,5] slice(c), slice={[0:2], [0:16], [0:9:3], [1:11:2]}\n y = "
        )
    ),
    "pad, slice, reverse": network(
        "y = f32[2,16,12,10] pad(c, one), padding=0_0x0_0x1_2x-1_0\n"
        " z = f32[2,16,9,5] slice(y), slice={[0:2], [0:16], [2:11], [0:10:2]}\n"
        " d = f32[2,16,9,5] reverse(z), dimensions={1,3}",
        result="f32[2,16,9,5]",
    ),
    "concatenation": network(
        "y = f32[2,8,9,11] slice(c), slice={[0:2], [0:8], [0:9], [0:11]}\n"
        " d = f32[2,16,9,11] concatenate(y, y), dimensions={1}"
    ),
    "statistics": network(
        "s = f32[16] reduce(c, zero), dimensions={0,2,3}, to_apply=add\n"
        " b = f32[2,16,9,11] broadcast(s), dimensions={1}\n d = f32[2,16,9,11] subtract(c, b)"
    ),
    "statistics of rows": network(
        "s = f32[2,16,9] reduce(c, zero), dimensions={3}, to_apply=add\n n = f32[2,16,9] negate(s)\n"
        " m = f32[2,16] reduce(n, zero), dimensions={2}, to_apply=add\n"
        " b = f32[2,16,9,11] broadcast(m), dimensions={0,1}\n d = f32[2,16,9,11] subtract(c, b)"
    ),
}


def transposes(given: xla.Module) -> list[str]:
    """The shapes of transposed arrays of the size of activations, after the passes."""
    Pipeline([CanonicalizeConvolutions(), Simplify(), RemoveDeadCode()]).run(given)
    found = [i for i in given.entry_computation if i.op is xla.opcodes.TRANSPOSE and 3 not in i.shape.dimensions]
    return [i.operands[0].name for i in found]


@pytest.mark.parametrize("name", CHAINS)
def test_chains_are_transposed_at_their_ends(name: str):
    given = CHAINS[name]
    arrays = [RNG.integers(-2, 3, p.shape.dimensions).astype(np.float32) for p in given.entry_computation.parameters]
    before = np.asarray(xla.Client("interpreter").compile(given)(*arrays))
    np.testing.assert_array_equal(np.asarray(xla.Client("cpu").compile(given)(*arrays)), before)
    found = transposes(given)
    assert len(found) == 2 and found[0] == "x", found
    np.testing.assert_array_equal(np.asarray(xla.Client("interpreter").compile(given)(*arrays)), before)


@pytest.mark.parametrize(
    "body",
    [
        "w = f32[2,16,9,11] parameter(3)\n d = f32[2,16,9,11] add(c, w)",  # an array in the order as written
        "s = f32[2,16,9,11] reduce-window(c, zero), window={size=1x2x2x1 pad=0_0x1_0x1_0x0_0}, to_apply=last\n"
        " d = f32[2,16,9,11] negate(s)",  # the windows have an order
        "s = f32[16] reduce(c, zero), dimensions={0,2,3}, to_apply=last\n"
        " b = f32[2,16,9,11] broadcast(s), dimensions={1}\n d = f32[2,16,9,11] negate(b)",  # so has the reduction
    ],
)
def test_operations_that_depend_on_the_order_stay(body: str):
    given = network(body)
    arrays = [RNG.integers(-2, 3, p.shape.dimensions).astype(np.float32) for p in given.entry_computation.parameters]
    before = np.asarray(xla.Client("interpreter").compile(given)(*arrays))
    assert len(transposes(given)) > 2
    np.testing.assert_array_equal(np.asarray(xla.Client("interpreter").compile(given)(*arrays)), before)


HOLES = {
    "gradient of stride two": ("f32[2,5,6,20]", "f32[2,10,11,24]", "size=1x1 pad=0_1x0_0 lhs_dilate=2x2"),
    "cropped": ("f32[2,5,6,20]", "f32[2,8,18,24]", "size=1x1 pad=-1_0x3_-1 lhs_dilate=2x3"),
    "one dimension": ("f32[2,5,6,20]", "f32[2,9,6,24]", "size=1x3 pad=0_0x1_1 lhs_dilate=2x1"),
    "both kinds": ("f32[2,5,6,20]", "f32[2,9,11,24]", "size=1x3 pad=0_0x1_1 lhs_dilate=2x2"),
}


@pytest.mark.parametrize("special", [0.0, np.inf, np.nan])
@pytest.mark.parametrize("name", HOLES)
def test_windows_of_one_element_have_no_holes(name: str, special: float):
    lhs, result, window = HOLES[name]
    size = window.split()[0].removeprefix("size=").replace("x", ",")
    given = xla.parse_hlo(
        f"HloModule m\nENTRY e {{ a = {lhs} parameter(0)\n b = f32[{size},20,24] parameter(1)\n"
        f" ROOT r = {result} convolution(a, b), window={{{window}}}, dim_labels=b01f_01io->b01f }}",
        verify=True,
    )
    arrays = [RNG.integers(-2, 3, p.shape.dimensions).astype(np.float32) for p in given.entry_computation.parameters]
    arrays[1].flat[0] = special
    before = np.asarray(xla.Client("interpreter").compile(given)(*arrays))
    np.testing.assert_array_equal(np.asarray(xla.Client("cpu").compile(given)(*arrays)), before)
    assert CanonicalizeConvolutions().run(given)
    assert not CanonicalizeConvolutions().run(given)
    np.testing.assert_array_equal(np.asarray(xla.Client("interpreter").compile(given)(*arrays)), before)
