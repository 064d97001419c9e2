"""Windows at the edges of their base area agree with the interpreter, with and without vectors along them."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module
from xlapy.testing.comparison import assert_close

SHAPE = (2, 6, 9, 40)


def module(window: str, body: str, t: str) -> xla.Module:
    dimensions = ",".join(map(str, SHAPE))
    return xla.parse_hlo(
        f"HloModule m\nf {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n ROOT r = {t}[] {body} }}\n"
        f"ENTRY e {{ x = {t}[{dimensions}] parameter(0)\n init = {t}[] constant(2)\n"
        f" ROOT r = {t}[{result_of(window)}] reduce-window(x, init), window={{{window}}}, to_apply=f }}"
    )


def result_of(window: str) -> str:
    fields = dict(part.split("=") for part in window.split())

    def numbers(name: str, default: str) -> list[str]:
        return fields.get(name, "x".join([default] * 4)).split("x")

    sizes = []
    for size, n, stride, pad, base, dilation in zip(
        SHAPE, numbers("size", "1"), numbers("stride", "1"), numbers("pad", "0_0"), numbers("lhs_dilate", "1"),
        numbers("rhs_dilate", "1"), strict=True,
    ):  # fmt: skip
        padded = (size - 1) * int(base) + 1 + sum(map(int, pad.split("_")))
        sizes.append(max(0, (padded - (int(n) - 1) * int(dilation) - 1) // int(stride) + 1))
    return ",".join(map(str, sizes))


@pytest.mark.parametrize(("t", "body"), [("f32", "maximum(a, b)"), ("s32", "subtract(a, b)"), ("bf16", "add(a, b)")])
@pytest.mark.parametrize(
    "window",
    [
        "size=1x3x3x1 pad=0_0x1_1x1_1x0_0",
        "size=1x3x2x1 stride=1x2x3x1 pad=0_0x0_1x1_0x0_0",
        "size=1x1x3x3 pad=0_0x0_0x1_1x1_1",
        "size=1x1x2x2 stride=1x1x2x2",
        "size=1x2x2x1 pad=0_0x4_5x3_2x0_0",  # windows entirely in the padding
        "size=2x3x3x1 pad=0_0x-1_-1x-1_2x0_0",
        "size=1x3x2x1 pad=0_0x2_2x1_1x0_0 rhs_dilate=1x2x3x1",
        "size=1x3x2x1 pad=0_0x2_2x1_1x0_0 lhs_dilate=1x2x3x1",
        "size=1x1x1x11 pad=0_0x0_0x0_0x5_5",
        "size=1x6x9x1",
        "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0",
        "size=1x3x2x1 pad=0_0x2_1x1_2x0_0 lhs_dilate=1x2x2x1",  # every phase of a dilated area
        "size=1x1x3x3 stride=1x1x1x2 pad=0_0x0_0x1_1x1_1",
        "size=1x1x1x3 stride=1x1x1x2 pad=0_0x0_0x0_0x2_3",
        "size=1x1x1x3 stride=1x1x1x2 pad=0_0x0_0x0_0x-1_0 rhs_dilate=1x1x1x4",
    ],
)
def test_windows(window: str, t: str, body: str):
    given = module(window, body, t)
    x = np.random.default_rng(0).integers(-4, 5, SHAPE).astype(given.entry_computation.parameters[0].shape.dtype)
    ours, theirs = (np.asarray(xla.Client(name).compile(given)(x)) for name in ("cpu", "interpreter"))
    assert_close(ours, theirs, rule="exact", where=window)


def test_overlapping_windows_prefetch_the_next_row():
    overlapping, disjoint = "size=1x3x3x1 pad=0_0x1_1x1_1x0_0", "size=1x2x3x1 stride=1x2x3x1"
    loops = [compile_module(module(window, "maximum(a, b)", "f32")).loops() for window in (overlapping, disjoint)]
    assert "prefetch in0[" in loops[0] and "prefetch" not in loops[1]


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -1.5]


@pytest.mark.parametrize(
    "window",
    [
        "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0",
        "size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1",
        "size=1x2x2x2 pad=0_0x1_1x0_1x1_-3",
        "size=1x1x3x4 stride=1x1x1x5 pad=0_0x0_0x2_2x3_3",
        "size=1x1x2x3 pad=0_0x0_0x0_0x-2_4 rhs_dilate=1x1x1x7",
        "size=1x1x4x2 stride=1x1x3x2 pad=0_0x0_0x3_3x45_0",  # columns of padding alone
    ],
)
@pytest.mark.parametrize(
    ("t", "op", "initial"),
    [
        ("f32", "maximum", "-inf"),
        ("f16", "minimum", "inf"),
        ("f8e4m3fn", "maximum", "-448"),
        ("f64", "maximum", "parameter(1)"),
        ("s8", "maximum", "-128"),
        ("u16", "and", "65535"),
    ],
)
def test_extrema_of_special_values(window: str, t: str, op: str, initial: str):
    dimensions = ",".join(map(str, SHAPE))
    init = initial if "parameter" in initial else f"constant({initial})"
    given = xla.parse_hlo(
        f"HloModule m\nf {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n ROOT r = {t}[] {op}(a, b) }}\n"
        f"ENTRY e {{ x = {t}[{dimensions}] parameter(0)\n init = {t}[] {init}\n"
        f" ROOT r = {t}[{result_of(window)}] reduce-window(x, init), window={{{window}}}, to_apply=f }}"
    )
    random = np.random.default_rng(0)
    values = random.choice(SPECIAL if t[0] == "f" else np.arange(0, 100), SHAPE)
    arguments = [values.astype(p.shape.dtype) for p in given.entry_computation.parameters[:1]]
    arguments += [np.asarray(0.5, p.shape.dtype) for p in given.entry_computation.parameters[1:]]
    ours, theirs = (np.asarray(xla.Client(name).compile(given)(*arguments)) for name in ("cpu", "interpreter"))
    assert_close(ours, theirs, rule="exact", where=window)
    if t[0] == "f":
        assert (np.signbit(ours.astype(np.float64)) == np.signbit(theirs.astype(np.float64)))[
            ~np.isnan(ours.astype(np.float64))
        ].all()


AVERAGE = """HloModule average
f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[2,9,13,40] parameter(0)
  y = f32[RESULT] parameter(1)
  zero = f32[] constant(0)
  nine = f32[] constant(9)
  all = f32[RESULT] broadcast(nine), dimensions={}
  sums = f32[RESULT] reduce-window(x, zero), window={WINDOW}, to_apply=f
  mean = f32[RESULT] divide(sums, all)
  ROOT r = f32[RESULT] add(mean, y)
}"""


@pytest.mark.parametrize(
    ("window", "result"),
    [
        ("size=1x3x3x1 pad=0_0x1_1x1_1x0_0", "2,9,13,40"),
        ("size=1x1x3x3 stride=1x1x2x1 pad=0_0x0_0x1_1x1_1", "2,9,7,40"),
        ("size=1x3x2x1 pad=0_0x2_2x1_1x0_0 lhs_dilate=1x3x1x1", "2,27,14,40"),
        ("size=1x3x3x3 pad=0_0x1_1x1_1x1_1 lhs_dilate=1x3x1x2", "2,25,13,79"),  # without a kernel for pooling
    ],
)
def test_elementwise_operations_are_part_of_the_kernel(window: str, result: str):
    text = AVERAGE.replace("WINDOW", window).replace("RESULT", result)
    given = xla.parse_hlo(text)
    x, y = (
        np.random.default_rng(n).standard_normal(p.shape.dimensions).astype(np.float32)
        for n, p in enumerate(given.entry_computation.parameters)
    )
    assert len(compile_module(given).loops().split("kernel ")) == 2
    ours, theirs = (np.asarray(xla.Client(name).compile(given)(x, y)) for name in ("cpu", "interpreter"))
    assert_close(ours, theirs, where=window)
