"""Loops of kernels that poll for cancellation: which loops poll, and that results stay the same."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import ISAS, compile_for
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.llvm import safepoint_loops, safepoints
from xlapy.text import parse_hlo

CPU = xla.Client("cpu")
COMPUTATIONS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
odd { a = f32[] parameter(0) b = f32[] parameter(1) d = f32[] multiply(a, b) s = f32[] sine(d)
  ROOT c = f32[] add(s, b) }
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
strange { a = f32[] parameter(0) b = f32[] parameter(1) s = f32[] sine(a) t = f32[] sine(b)
  ROOT c = pred[] compare(s, t), direction=LT }
"""
BODIES = {
    "elementwise": "ROOT r = f32[3,1001] sine(x)",
    "reduce": "ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=add",
    "columns": "ROOT r = f32[1001] reduce(x, z), dimensions={0}, to_apply=add",
    "general reducer": "ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=odd",
    "sort": "ROOT r = f32[3,1001] sort(x), dimensions={1}, to_apply=less",
    "merge": "ROOT r = f32[3,1001] sort(x), dimensions={1}, to_apply=strange",
    "cumulative": "ROOT r = f32[3,1001] reduce-window(x, z), window={size=1x1001 pad=0_0x1000_0}, to_apply=add",
    "window": "ROOT r = f32[3,334] reduce-window(x, z), window={size=1x7 stride=1x3 pad=0_0x3_3}, to_apply=add",
    "product": "ROOT r = f32[3,3] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    "transposed": "t = f32[1001,3] transpose(x), dimensions={1,0} ROOT r = f32[1001,3] negate(t)",
}


def module(body: str) -> str:
    return f"HloModule m\n{COMPUTATIONS}ENTRY e {{ x = f32[3,1001] parameter(0) z = f32[] constant(0) {body} }}"


def kernels_poll(llvm: str) -> bool:
    """Tells whether a kernel of a program polls, given its LLVM text."""
    functions = llvm.split("define ")
    return any("@xlapy_poll" in function for function in functions if function.startswith("internal void @kernel"))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_kernels_that_poll_compute_the_same(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(0).standard_normal((3, 1001)).astype(np.float32)
    expected = np.asarray(CPU.compile(module(body))(array))
    monkeypatch.setattr(safepoint_loops, "MIN_POLLED_LOOP_CYCLES", 4)
    monkeypatch.setattr(safepoints, "MIN_POLLED_PARALLEL_CYCLES", 4)
    monkeypatch.setattr(safepoint_loops, "POLL_INTERVAL", 64)
    assert kernels_poll(compile_module(parse_hlo(module(body))).llvm)
    np.testing.assert_array_equal(np.asarray(CPU.compile(module(body))(array)), expected)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("f32[] parameter(0) ROOT r = f32[1048576] broadcast(x), dimensions={}", False),
        ("f32[100000,100] parameter(0) ROOT r = f32[100000,100] sine(x)", False),
        ("f32[8192,8192] parameter(0) ROOT r = f32[8192,8192] transpose(x), dimensions={1,0}", False),
        ("f32[512,512] parameter(0) ROOT r = f32[512,512] dot(x, x), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0}", False),
        ("f32[8192,8192] parameter(0) ROOT r = f32[8192,8192] dot(x, x), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0}", True),
        ("f32[1000000] parameter(0) ROOT r = f32[1000000] sort(x), dimensions={0}, to_apply=less", True),
        ("f32[1024] parameter(0) ROOT r = f32[1024] sort(x), dimensions={0}, to_apply=less", False),
        ("f32[6400,1024] parameter(0) ROOT r = f32[6400,1024] sort(x), dimensions={1}, to_apply=strange", False),
    ],
)  # fmt: skip
def test_only_long_kernels_poll(body: str, expected: bool, isa: str) -> None:
    compiled = compile_for(isa, f"HloModule m\n{COMPUTATIONS}ENTRY e {{ x = {body} }}")
    assert kernels_poll(compiled.llvm) is expected
