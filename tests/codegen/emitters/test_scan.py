"""Cumulative reductions: which windows are recognized, and that running values equal the reductions of the windows."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.kernel_runner import run_kernel
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program import builder
from xlapy.cpu.target import host_target
from xlapy.loops import F32, Builder, Kernel, evaluate, print_kernel
from xlapy.lower.cumulative import Cumulative, cumulative
from xlapy.testing.program_tolerance import program_tolerance

LOG_SUM = "d = f32[] subtract(a, b)\n e = f32[] abs(d)\n n = f32[] negate(e)\n x = f32[] exponential(n)\n"
LOG_SUM += " l = f32[] log-plus-one(x)\n m = f32[] maximum(a, b)\n ROOT r = f32[] add(m, l)"


def module(shape: str, window: str, body: str, result: str = "") -> xla.Module:
    t = shape.partition("[")[0]
    init = "(1, 2)" if t == "c64" else "1"
    return xla.parse_hlo(
        f"HloModule m\nf {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n {body} }}\n"
        f"ENTRY e {{ x = {shape} parameter(0)\n y = {shape} multiply(x, x)\n init = {t}[] constant({init})\n"
        f" ROOT r = {result or shape} reduce-window(y, init), window={{{window}}}, to_apply=f }}"
    )


def op(name: str, t: str) -> str:
    return f"ROOT r = {t}[] {name}(a, b)"


@pytest.mark.parametrize(
    ("window", "body", "expected"),
    [
        ("size=1x9 pad=0_0x8_0", op("add", "f32"), Cumulative(1, False, True)),
        ("size=5x1 pad=0_4x0_0", op("maximum", "f32"), Cumulative(0, True, True)),
        ("size=12x1 pad=11_0x0_0", op("subtract", "f32"), Cumulative(0, False, False)),
        ("size=5x1 pad=0_4x0_0", op("subtract", "f32"), None),  # from the end, the order differs
        ("size=1x8 pad=0_0x7_0", op("add", "f32"), None),  # does not reach back to the first
        ("size=1x9 pad=0_0x4_4", op("add", "f32"), None),
        ("size=5x9 pad=4_0x8_0", op("add", "f32"), None),
    ],
)
def test_recognition(window: str, body: str, expected: Cumulative | None):
    given = module("f32[5,9]", window, body, result="f32[5,9]")
    assert cumulative(given.entry_computation.root_instruction) == expected


@pytest.mark.parametrize(
    ("shape", "window"),
    [
        ("3,37", "size=1x37 pad=0_0x36_0"),
        ("3,37", "size=1x37 pad=0_0x0_36"),
        ("300,5", "size=300x1 pad=299_0x0_0"),
        ("2,19,300", "size=1x19x1 pad=0_0x0_18x0_0"),
        ("2,19,300", "size=1x25x1 pad=0_0x24_0x0_0"),
        ("70,4,1", "size=1x4x1 pad=0_0x3_0x0_0"),
        ("64", "size=64 pad=63_0"),
    ],
)
@pytest.mark.parametrize(
    ("t", "body"),
    [
        ("f32", op("add", "f32")), ("f64", op("multiply", "f64")), ("s8", op("add", "s8")), ("u64", op("xor", "u64")),
        ("f16", op("maximum", "f16")), ("s32", op("subtract", "s32")), ("f32", LOG_SUM), ("c64", op("add", "c64")),
    ],
)  # fmt: skip
def test_running_values_equal_the_reductions_of_the_windows(shape: str, window: str, t: str, body: str):
    given = module(f"{t}[{shape}]", window, body)
    parameter = given.entry_computation.parameters[0].shape
    rng = np.random.default_rng(3)
    x = rng.integers(0, 3, parameter.dimensions).astype(parameter.dtype)
    if t == "f64":
        x = rng.uniform(0.9, 1.1, parameter.dimensions)
    tolerance = program_tolerance(given, [x], flush_denormals=True)
    tolerance.assert_close(np.asarray(xla.Client("cpu").compile(given)(x)), shape)


def running_sums(extent: int, *, backwards: bool = False) -> Kernel:
    builder = Builder("sums")
    source = builder.buffer("in", F32, extent)
    target = builder.buffer("out", F32, extent, written=True)
    zero = builder.zero(F32)

    def place(position):
        return position * -1 + (extent - 1) if backwards else position

    builder.scan(
        extent,
        [builder.constant(F32, 5)],
        lambda position: [builder.load(source, place(position))],
        lambda left, right: [builder.add(left[0], right[0])],
        lambda position, sums: builder.store(target, place(position), sums[0]),
        width=8,
        identities=[zero],
    )
    return builder.kernel


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("extent", [3, 8, 29])
def test_a_scan_in_vectors(extent: int, backwards: bool):
    kernel = running_sums(extent, backwards=backwards)
    x = np.arange(extent, dtype=np.float32)
    expected = 5 + (np.cumsum(x[::-1])[::-1] if backwards else np.cumsum(x))
    evaluated, run = np.zeros_like(x), np.zeros_like(x)
    evaluate(kernel, {"in": x, "out": evaluated})
    run_kernel(kernel, [x, run])
    np.testing.assert_array_equal(evaluated, expected)
    np.testing.assert_array_equal(run, expected)
    assert "scan of" in print_kernel(kernel)


@pytest.mark.parametrize("is_reverse", [False, True])
@pytest.mark.parametrize(("rows", "length"), [(1, 1 << 17), (1, 140001), (3, (1 << 17) + 1), (2, 17 << 13)])
@pytest.mark.parametrize("processors", [1, 4])
@pytest.mark.parametrize(("t", "name"), [("s32", "add"), ("f32", "add"), ("f64", "maximum"), ("bf16", "minimum")])
def test_long_rows_are_scanned_in_blocks(
    t: str, name: str, processors: int, rows: int, length: int, is_reverse: bool, monkeypatch: pytest.MonkeyPatch
):
    target = dataclasses.replace(host_target(), processors=processors)
    monkeypatch.setattr(builder, "host_target", lambda: target)
    padding = f"0_{length - 1}" if is_reverse else f"{length - 1}_0"
    given = module(f"{t}[{rows},{length}]", f"size=1x{length} pad=0_0x{padding}", op(name, t))
    assert loops_of(given).count("kernel ") == (3 if processors > 1 else 1)
    parameter = given.entry_computation.parameters[0].shape
    x = np.random.default_rng(length).integers(-9, 10, parameter.dimensions).astype(parameter.dtype)
    one = np.ones((rows, 1), parameter.dtype)
    along = np.concatenate([one, (x * x)[:, ::-1] if is_reverse else x * x], 1)
    expected = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}[name].accumulate(along, 1)[:, 1:]
    found = np.asarray(xla.Client("cpu").compile(given)(x))
    np.testing.assert_array_equal(found[:, ::-1] if is_reverse else found, expected)  # sums of f32 are exact here


def test_shorter_and_more_rows_are_not_scanned_in_blocks():
    for shape, window in (
        ("1,131071", "size=1x131071 pad=0_0x131070_0"),
        ("4,131072", "size=1x131072 pad=0_0x131071_0"),
    ):
        assert loops_of(module(f"f32[{shape}]", window, op("add", "f32"))).count("kernel ") == 1


def test_blocks_have_the_same_bits_for_any_number_of_processors(monkeypatch: pytest.MonkeyPatch):
    given = module("f32[200003]", "size=200003 pad=200002_0", op("add", "f32"))
    x = np.random.default_rng(0).standard_normal(200003).astype(np.float32)
    found = set[bytes]()
    for processors in (1, 2, 16):
        target = dataclasses.replace(host_target(), processors=processors)
        monkeypatch.setattr(builder, "host_target", lambda target=target: target)
        found.add(np.asarray(xla.Client("cpu").compile(given)(x)).tobytes())
    assert len(found) == 1


def test_producers_are_fused_into_the_kernel():
    text = module("f32[8,64]", "size=1x64 pad=0_0x63_0", op("add", "f32"))
    assert "scan of" in loops_of(text)
    assert loops_of(text).count("kernel ") == 1


def loops_of(given: xla.Module) -> str:
    return compile_module(given).loops()
