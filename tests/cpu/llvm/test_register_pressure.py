"""Constants of epilogues stay behind the loops whose sums fill the registers."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module

HIDDEN = 'asm sideeffect "", "=r,0"'

PRODUCT = (
    "a = {t}[8,64] parameter(0)  b = {t}[64,64] parameter(1)  "
    "d = {t}[8,64] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
)


def module(t: str, *lines: str) -> xla.Module:
    return xla.parse_hlo("\n".join(["HloModule m", "ENTRY e {", *(line.format(t=t) for line in lines), "}"]))


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_coefficients_of_an_epilogue_are_hidden(t: str) -> None:
    text = compile_module(module(t, PRODUCT, "ROOT r = {t}[8,64] tanh(d)")).llvm
    assert text.count(HIDDEN) >= 4


@pytest.mark.parametrize(
    "lines",
    [
        ("a = {t}[8,64] parameter(0)", "ROOT r = {t}[8,64] tanh(a)"),
        (PRODUCT, "ROOT r = {t}[8,64] negate(d)"),
    ],
    ids=["no loop before", "no constants"],
)
def test_other_constants_are_known_to_llvm(lines: tuple[str, ...]) -> None:
    assert HIDDEN not in compile_module(module("f32", *lines)).llvm


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("op", ["tanh", "logistic", "exponential", "erf", "log-plus-one"])
def test_epilogues_give_what_kernels_of_their_own_give(t: str, op: str) -> None:
    fused = module(t, PRODUCT, f"ROOT r = {{t}}[8,64] {op}(d)")
    product, apart = (
        module(t, PRODUCT.replace("  d =", "  ROOT d =")),
        module(t, "d = {t}[8,64] parameter(0)", f"ROOT r = {{t}}[8,64] {op}(d)"),
    )
    generator, client = np.random.default_rng(5), xla.Client("cpu")
    dtype = np.dtype({"f32": np.float32, "f64": np.float64}[t])
    a, b = (generator.standard_normal(shape).astype(dtype) for shape in ((8, 64), (64, 64)))
    a[1, 3], a[2, 5], b[7] = np.nan, np.inf, 0
    expected = client.compile(apart)(client.compile(product)(a, b))
    np.testing.assert_array_equal(np.asarray(client.compile(fused)(a, b)), np.asarray(expected))
