"""Operations that only CHLO has become composites in portable artifacts, which readers without CHLO can expand."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jaxlib.mlir.dialects import stablehlo

import xlapy
from tests.raising import raises
from tests.stablehlo.importing.runner import run_with_xla
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.passes.composites import with_composites
from xlapy.runtime import Client
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_arguments import random_arguments
from xlapy.tools.formats import Format, write_module

FUNCTIONS = ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erf", "sinh"]

PROGRAM = """
HloModule m

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY e {
  x = f32[3,10] parameter(0)
  largest = (f32[3,4], s32[3,4]) topk(x), k=4, largest=true
  smallest = (f32[3,2], s32[3,2]) topk(x), k=2, largest=false
  a = f32[6,3] parameter(1)
  b = f32[2,3,4] parameter(2)
  sizes = s32[2] constant({2, 3})
  ragged = f32[6,4] ragged-dot(a, b, sizes), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0},
    rhs_group_dims={0}
  first = f32[6,3] erf(a)
  second = f32[6,3] erf(first)
  ROOT r = tuple(largest, smallest, ragged, second)
}
"""


def artifact(text: str) -> bytes:
    return write_module(xlapy.parse_hlo(text), Format.BYTECODE)


def function_text(name: str, t: str, size: int) -> str:
    return f"HloModule m\nENTRY e {{\n  x = {t}[{size}] parameter(0)\n  ROOT r = {t}[{size}] {name}(x)\n}}\n"


def test_readers_with_chlo_recover_the_operations() -> None:
    module = xlapy.parse_stablehlo(artifact(PROGRAM))
    names = [instruction.op.name for instruction in module.entry_computation]
    assert (names.count("topk"), names.count("erf"), names.count("call")) == (1, 2, 2)
    arguments = random_arguments([p.shape for p in module.entry_computation.parameters], 0)
    expected = Client("interpreter").compile(PROGRAM)(*arguments)
    flat = [np.asarray(v) for part in expected for v in (part if isinstance(part, tuple) else (part,))]
    assert_close(tuple(map(np.asarray, Client("interpreter").compile(module)(*arguments))), tuple(flat), rule="bits")


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_readers_without_chlo_run_the_decomposition(name: str, t: str) -> None:
    generator = np.random.default_rng(0)
    x = np.concatenate(
        [generator.uniform(-1, 1, 500), generator.standard_normal(500) * 5, [0, 1, -1, np.inf, 80, 1e-6]]
    )
    x = x.astype({"f32": np.float32, "f64": np.float64}[t])
    text = function_text(name, t, x.size)
    with jax.interpreters.mlir.make_ir_context() as context:
        read = str(stablehlo.deserialize_portable_artifact(context, artifact(text)))
    assert f'composite "chlo.{name}"' in read and f"@chlo.{name}.impl" in read
    call = read.replace(f'stablehlo.composite "chlo.{name}"', 'stablehlo.composite "other.function"')
    with np.errstate(all="ignore"):
        expected = np.asarray(Client("interpreter").compile(function_text(name, "f64", x.size))(x.astype(np.float64)))
        actual = np.asarray(Client("interpreter").compile(call)(x))
        np.testing.assert_allclose(actual, expected.astype(x.dtype), rtol=4 * np.finfo(x.dtype).eps, atol=0)
        np.testing.assert_allclose(
            np.asarray(run_with_xla(call, x)), actual, rtol=2e-6 if t == "f32" else 1e-12, atol=1e-30
        )


def test_programs_without_them_and_complex_functions_stay() -> None:
    module = xlapy.parse_hlo("HloModule m\nENTRY e {\n  x = f32[3] parameter(0)\n  ROOT r = f32[3] tanh(x)\n}\n")
    assert with_composites(module) is module
    with raises(xlapy.errors.UnsupportedError, codes.ARTIFACT_OPERATION, "chlo.sinh"):
        artifact(function_text("sinh", "c64", 3))
