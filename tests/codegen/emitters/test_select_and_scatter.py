"""Select-and-scatter agrees with the interpreter, exactly: ties, NaN, padding, overlaps and windows of any size."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import limited_to
from tests.cpu.kernel_runner import run_kernel
from xlapy.codegen.emitters.select_and_scatter.scattering import scattering_kernel
from xlapy.codegen.target import Target
from xlapy.cpu.compiler import compile_module

RNG = np.random.default_rng(4)


def module(t: str, operand: str, source: str, window: str, select: str = "GE", scatter: str = "add") -> xla.Module:
    return xla.parse_hlo(
        f"HloModule m\n"
        f"select {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n"
        f" ROOT r = pred[] compare(a, b), direction={select} }}\n"
        f"scatter {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n ROOT r = {t}[] {scatter}(a, b) }}\n"
        f"ENTRY e {{ x = {t}[{operand}] parameter(0)\n s = {t}[{source}] parameter(1)\n init = {t}[] constant(3)\n"
        f" ROOT r = {t}[{operand}] select-and-scatter(x, s, init), window={{{window}}}, select=select,"
        f" scatter=scatter }}",
        verify=True,
    )


def arguments(given: xla.Module) -> list[np.ndarray]:
    shapes = [p.shape for p in given.entry_computation.parameters]
    return [RNG.integers(-3, 4, shape.dimensions).astype(shape.element_type.dtype) for shape in shapes]


def assert_equal_to_interpreter(given: xla.Module, *arrays: np.ndarray) -> None:
    ours, expected = (np.asarray(xla.Client(name).compile(given)(*arrays)) for name in ("cpu", "interpreter"))
    assert ours.dtype == expected.dtype
    np.testing.assert_array_equal(ours.astype(np.float64), expected.astype(np.float64))


CASES = {
    "overlapping": ("2,13,15,20", "2,7,8,20", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"),
    "adjacent": ("2,14,16,33", "2,7,8,33", "size=1x2x2x1 stride=1x2x2x1"),
    "stride one": ("2,9,8,17", "2,9,8,17", "size=1x3x3x1 pad=0_0x1_1x1_1x0_0"),
    "gaps": ("1,14,17,16", "1,3,4,16", "size=1x2x2x1 stride=1x5x5x1"),
    "more padding than window": ("1,3,4,16", "1,8,9,16", "size=1x2x2x1 pad=0_0x3_3x3_3x0_0"),
    "negative padding": ("1,9,11,16", "1,3,4,16", "size=1x3x3x1 stride=1x2x2x1 pad=0_0x-1_-1x-1_-1x0_0"),
    "channels first": ("2,5,13,15", "2,5,7,8", "size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1"),
    "many channels first": ("3,40,25,30", "3,40,12,15", "size=1x1x2x2 stride=1x1x2x2"),
    "windows over channels": ("3,9,20", "3,5,10", "size=1x3x2 stride=1x2x2 pad=0_0x1_1x0_0"),
    "many rows": ("1,60,300,64", "1,31,300,64", "size=1x4x1x1 stride=1x2x1x1 pad=0_0x2_2x0_0x0_0"),
    "holes": ("1,5,6,16", "1,6,6,16", "size=1x2x1x1 lhs_dilate=1x2x1x1 rhs_dilate=1x3x1x1"),
    "one dimension": ("40", "20", "size=3 stride=2 pad=1_0"),
    "one element per window": ("2,5,16", "2,5,16", "size=1x1x1"),
}


@pytest.mark.parametrize("t", ["f32", "s8", "bf16"])
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, t: str):
    given = module(t, *CASES[name])
    assert_equal_to_interpreter(given, *arguments(given))


@pytest.mark.parametrize("select", ["GE", "GT", "LT", "NE"])
@pytest.mark.parametrize("scatter", ["add", "subtract", "maximum", "multiply"])
def test_computations(select: str, scatter: str):
    given = module("f32", *CASES["overlapping"], select, scatter)
    x, s = arguments(given)
    x.flat[::7] = np.nan
    x.flat[::5] = -np.inf
    assert_equal_to_interpreter(given, x, s)


def test_blocks_of_rows_do_not_change_the_result():
    """Windows that reach into two tasks add to the rows of each once."""
    given = module("f32", *CASES["overlapping"])
    instruction = given.entry_computation.root_instruction
    small = Target(vector_bytes=64, vector_registers=32, l2_bytes=1 << 13)
    kernel = scattering_kernel(instruction, small)
    assert kernel.parallel_loop is not None and kernel.parallel_loop.extent > 2
    x, s = arguments(given)
    expected = np.asarray(xla.Client("interpreter").compile(given)(x, s))
    out = np.zeros_like(x)
    run_kernel(kernel, [x, s, np.asarray(3, np.float32), out])
    np.testing.assert_array_equal(out, expected)


def padded_module(t: str, operand: str, padding: str, source: str, window: str, limits: str, value: str) -> xla.Module:
    """A select-and-scatter of a padded array, whose result is sliced."""
    rows = [slice_.split(":") for slice_ in limits.strip("[]").split("], [")]
    sizes = ",".join(str(int(end) - int(start)) for start, end in rows)
    low_high = [[int(n) for n in edge.split("_")] for edge in padding.split("x")]
    padded = ",".join(str(int(n) + sum(e)) for n, e in zip(operand.split(","), low_high, strict=True))
    return xla.parse_hlo(
        f"HloModule m\n"
        f"select {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n"
        f" ROOT r = pred[] compare(a, b), direction=GE }}\n"
        f"scatter {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n ROOT r = {t}[] subtract(a, b) }}\n"
        f"ENTRY e {{ x = {t}[{operand}] parameter(0)\n s = {t}[{source}] parameter(1)\n init = {t}[] constant(3)\n"
        f" v = {t}[] {value}\n y = {t}[{padded}] pad(x, v), padding={padding}\n"
        f" z = {t}[{padded}] select-and-scatter(y, s, init), window={{{window}}}, select=select, scatter=scatter\n"
        f" ROOT r = {t}[{sizes}] slice(z), slice={{{limits}}} }}",
        verify=True,
    )


PADDED = {
    "channels last": (
        "2,13,15,20", "0_0x1_1x1_1x0_0", "2,7,8,20", "size=1x3x3x1 stride=1x2x2x1", "[0:2], [1:14], [1:16], [0:20]",
    ),
    "channels first": (
        "2,5,13,45", "0_0x0_0x1_1x1_1", "2,5,7,23", "size=1x1x3x3 stride=1x1x2x2", "[0:2], [0:5], [1:14], [1:46]",
    ),
    "part of the result": (
        "2,13,15,20", "0_0x1_2x0_1x0_0", "2,8,8,20", "size=1x2x2x1 stride=1x2x2x1", "[1:2], [3:10], [2:11], [3:20]",
    ),
    "stride three": ("3,9,50", "0_0x2_2x1_1", "3,13,17", "size=1x1x4 stride=1x1x3", "[0:3], [2:11], [1:51]"),
    "negative padding": (
        "2,13,15,20", "0_0x-1_1x-2_-1x0_0", "2,6,5,20", "size=1x3x3x1 stride=1x2x2x1", "[0:2], [0:13], [0:12], [0:20]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("isa", [None, "AVX2"])
@pytest.mark.parametrize("value", ["constant(-inf)", "constant(1)", "constant(nan)"])
@pytest.mark.parametrize("name", PADDED)
def test_padding_takes_part_in_the_selection(name: str, value: str, isa: str | None):
    given = padded_module("f32", *PADDED[name], value)
    x, s = arguments(given)
    x.flat[::7] = np.nan
    x.flat[100:160] = -np.inf
    with limited_to(isa) if isa else contextlib.nullcontext():
        compiled = compile_module(given)
        assert "gather-sources: chosen" in compiled.plans() and len(compiled.plans().split("chosen")) == 2
        assert_equal_to_interpreter(given, x, s)


def test_a_select_and_scatter_follows_the_plan_that_is_demanded():
    demanded = 'backend_config={"kernel_plan":{"strategy":"scatter-sources"}}'
    given = module("f32", *CASES["overlapping"])
    text = given.to_text().replace("scatter=%scatter", f"scatter=%scatter, {demanded}")
    changed = xla.parse_hlo(text)
    assert "gather-sources: not chosen" in compile_module(changed).plans()
    assert "scatter-sources: demanded by the module" in compile_module(changed).plans()
    assert_equal_to_interpreter(changed, *arguments(given))
