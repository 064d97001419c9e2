"""StableHLO programs are recognized by their first characters."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy
from tests.raising import raises
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo.recognition import is_bytecode, is_stablehlo_text

MODULE = "module @m {\n  func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }\n}"


@pytest.mark.parametrize(
    "text",
    [
        MODULE,
        f"// a comment\n\n  {MODULE}",
        "module attributes {a.b} { }",
        '#loc = loc("x")\nmodule { }',
        '"builtin.module"() ({ }) : () -> ()',
        "builtin.module { }",
        "func.func @main() { return }",
        "!t = tensor<2xf32>\nfunc.func @main() { return }",
    ],
)
def test_stablehlo(text: str) -> None:
    assert is_stablehlo_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "HloModule m\nENTRY e { ROOT c = s32[] constant(3) }",
        "// a comment\nHloModule module",
        "ENTRY e { ROOT c = s32[] constant(3) }",
        "%module (x: f32[]) -> f32[] {\n ROOT %x = f32[] parameter(0)\n}",
        "",
        "garbage",
    ],
)
def test_hlo(text: str) -> None:
    assert not is_stablehlo_text(text)


def test_bytecode() -> None:
    assert is_bytecode(b"ML\xefR\x05")
    assert not is_bytecode(b"\x0a\x04main")


def test_a_client_compiles_text_and_bytecode() -> None:
    from jaxlib.mlir.dialects import stablehlo

    x = np.array([1, 2], np.float32)
    client = xlapy.Client("interpreter")
    for program in (MODULE, stablehlo.serialize_portable_artifact_str(MODULE, "1.0.0")):
        np.testing.assert_array_equal(np.asarray(client.compile(program)(x)), x)
    with raises(xlapy.errors.InvalidArgumentError, codes.SOURCE_FORMAT, "byte 0"):
        xlapy.parse_stablehlo(b"\xff\xfe")
