"""Large reductions in two steps: which are split, how, and that the result is the same."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.transforms.split_reductions import SplitReductions
from xlapy.hlo.verify import verify
from xlapy.testing.program_tolerance import program_tolerance


def module(shape: str, result: str, dimensions: str, body: str = "add(a, b)", init: str = "3") -> xla.Module:
    t = shape.partition("[")[0]
    return xla.parse_hlo(
        f"HloModule m\nf {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n ROOT r = {t}[] {body} }}\n"
        f"ENTRY e {{ x = {shape} parameter(0)\n init = {t}[] constant({init})\n"
        f" ROOT r = {result} reduce(x, init), dimensions={{{dimensions}}}, to_apply=f }}"
    )


def reductions(changed: xla.Module) -> list[tuple[str, tuple[int, ...]]]:
    entry = changed.entry_computation
    return [(i.operands[0].shape.to_text(layout=False), i.dimensions) for i in entry if i.op is xla.opcodes.REDUCE]


@pytest.mark.parametrize(
    ("shape", "result", "dimensions", "expected"),
    [
        ("f32[1024,512]", "f32[]", "0,1", [("f32[1024,512]", (1,)), ("f32[1024]", (0,))]),
        ("f32[262144]", "f32[]", "0", [("f32[64,4096]", (1,)), ("f32[64]", (0,))]),
        ("f32[512,1024]", "f32[1024]", "0", [("f32[8,64,1024]", (1,)), ("f32[8,1024]", (0,))]),
        ("f32[32,28,28,128]", "f32[128]", "0,1,2", [("f32[32,28,28,128]", (1, 2)), ("f32[32,128]", (0,))]),
        ("f32[512,4,4,64]", "f32[64]", "0,1,2", [("f32[16,32,4,4,64]", (1, 2, 3)), ("f32[16,64]", (0,))]),
        ("f32[4,256,256]", "f32[256]", "0,1", [("f32[4,256,256]", (1,)), ("f32[4,256]", (0,))]),
        ("f32[9000,1000]", "f32[1000]", "0", [("f32[8,1125,1000]", (1,)), ("f32[8,1000]", (0,))]),
        ("f32[40000,1000]", "f32[1000]", "0", [("f32[20,2000,1000]", (1,)), ("f32[20,1000]", (0,))]),
        ("f32[64,1,64,100]", "f32[1,100]", "0,2", [("f32[64,1,64,100]", (2,)), ("f32[64,1,100]", (0,))]),
        ("s32[1,300,1000]", "s32[1,1000]", "1", [("s32[1,10,30,1000]", (2,)), ("s32[1,10,1000]", (1,))]),
    ],
)
def test_large_reductions_are_split(shape, result, dimensions, expected):
    changed = module(shape, result, dimensions)
    assert SplitReductions().run(changed)
    verify(changed)
    assert reductions(changed) == expected


@pytest.mark.parametrize(
    ("shape", "result", "dimensions", "body"),
    [
        ("f32[100,100]", "f32[100]", "0", "add(a, b)"),  # too small
        ("f32[512,1024]", "f32[512]", "1", "add(a, b)"),  # enough rows for all threads
        ("f32[512,1024]", "f32[1024]", "0", "subtract(a, b)"),  # the order matters
        ("f32[524287]", "f32[]", "0", "add(a, b)"),  # a prime size
        ("f32[64,4,64,64]", "f32[4,64]", "0,2", "add(a, b)"),  # the rows of a column are not adjacent
        ("f32[3,524287,2]", "f32[2]", "0,1", "add(a, b)"),  # a prime size
    ],
)
def test_other_reductions_are_not_split(shape, result, dimensions, body):
    unchanged = module(shape, result, dimensions, body)
    before = unchanged.to_text()
    assert not SplitReductions().run(unchanged)
    assert unchanged.to_text() == before


@pytest.mark.parametrize("body", ["add(a, b)", "maximum(a, b)", "minimum(b, a)"])
@pytest.mark.parametrize(
    ("shape", "result", "dimensions"),
    [
        ("f32[1024,512]", "f32[]", "0,1"),
        ("f32[262144]", "f32[]", "0"),
        ("f32[4096,64]", "f32[64]", "0"),
        ("bf16[2048,100]", "bf16[100]", "0"),
        ("s8[300,1000]", "s8[1000]", "0"),
        ("f64[64,4,600]", "f64[4]", "0,2"),
    ],
)
def test_the_result_is_the_same(shape, result, dimensions, body):
    given = module(shape, result, dimensions, body)
    parameter = given.entry_computation.parameters[0].shape
    rng = np.random.default_rng(0)
    numbers = rng.integers(-1, 2, parameter.dimensions)  # integer sums that bf16 represents exactly, in any order
    x = numbers if parameter.dtype.itemsize < 4 else rng.integers(-9, 9, parameter.dimensions) / 8
    x = x.astype(parameter.dtype)
    tolerance = program_tolerance(given, [x], flush_denormals=True)
    tolerance.assert_close(np.asarray(xla.Client("cpu").compile(given)(x)), shape)
