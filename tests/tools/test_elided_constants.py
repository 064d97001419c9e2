"""Commands that compile fill constants written `{...}` with made-up values and warn, or refuse them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.raising import raises
from xlapy import opcodes
from xlapy.base.element_types import ALL_TYPES
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.text import parse_hlo
from xlapy.tools.command_line import invoke
from xlapy.tools.elided_constants import FILL, REFUSE, provide_elided_constants

TEXT = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  c = f32[4] constant({...})
  d = f32[4] constant({...})
  i = s8[2,3] constant({...})
  t = (f32[3], (pred[5])) constant({...})
  whole = s32[2] constant({7, 8})
  a = f32[4] add(p, c)
  b = f32[4] subtract(a, d)
  ROOT r = (f32[4], s8[2,3], (f32[3], (pred[5])), s32[2]) tuple(b, i, t, whole)
}
"""
WARNING = (
    "xlapy: warning: constants written {...} get made-up values, so results are meaningless: c, d, i and 1 more; "
    "--elided-constants=refuse refuses them\n"
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "m.hlo").write_text(TEXT)
    return str(tmp_path / "m.hlo")


@pytest.mark.parametrize(
    "command",
    ["run FILE --random 0", "show FILE --optimized", "show FILE --platform interpreter", "compile FILE -o m.xla",
     "explain b FILE", "profile FILE --repeat 1", "convert FILE m.mlir", "convert FILE m.mlirbc"],
)  # fmt: skip
def test_commands(
    file: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    words = command.replace("FILE", file).split()
    assert invoke(words) == 0
    assert WARNING in capsys.readouterr().err
    assert invoke([*words, "--elided-constants=refuse"]) == 1
    assert capsys.readouterr().err == (
        "xlapy: c (constant) is written {...}, so its elements are unknown; print the program with "
        f"print_large_constants=True [{codes.ELIDED_CONSTANT}]\n"
    )


def test_a_tree_shows_them_as_they_are_written(file: str, capsys: pytest.CaptureFixture[str]):
    assert invoke(["show", file]) == 0
    shown = capsys.readouterr()
    assert "c = f32[4]{0} constant({...})" in shown.out
    assert shown.err == ""


def literals(text: str, choice: str = FILL) -> dict[str, Literal]:
    module = parse_hlo(text)
    provide_elided_constants(module, choice)
    return {i.name: i.literal for i in module.instructions() if i.op is opcodes.CONSTANT}


def test_the_values_depend_on_the_position_only():
    first, second = literals(TEXT), literals(TEXT.replace("m\n", "other\n"))
    assert first == second
    assert first["c"] != first["d"]
    assert np.array_equal(first["whole"].array, [7, 8])
    assert not any(literal.is_elided for literal in first.values())
    with raises(UnsupportedError, codes.ELIDED_CONSTANT, "c (constant)"):
        literals(TEXT, REFUSE)


@pytest.mark.parametrize("name", [t.text for t in ALL_TYPES if t.is_array])
def test_the_values_are_finite_numbers_of_the_type(name: str):
    literal = literals(f"ENTRY e {{ ROOT c = {name}[50]{{0}} constant({{...}}) }}")["c"]
    assert literal.shape == Shape.parse(f"{name}[50]")
    values = literal.array.astype(np.complex128 if literal.shape.element_type.is_complex else np.float64)
    assert np.isfinite(values).all()
    assert np.abs(values).max() <= 128
    assert len(set(values.tolist())) > 1


def test_constants_larger_than_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "large.hlo").write_text("ENTRY e { ROOT c = f32[1000000,1000000,1000] constant({...}) }")
    assert invoke(["run", str(tmp_path / "large.hlo")]) == 1
    assert "xlapy: out of memory: the elided constants of module_e take 4.0 PB" in capsys.readouterr().err


def test_conversions_keep_elided_constants_where_the_format_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source, proto, text = (tmp_path / name for name in ("m.hlo", "m.pb", "again.hlo"))
    source.write_text(TEXT)
    assert invoke(["convert", str(source), str(proto)]) == 0
    assert invoke(["convert", str(proto), str(text), "--elided-constants=refuse"]) == 0
    assert text.read_text().count("{...}") == 5
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("constant", ["f32[4]{0} constant({...})", "(f32[2]{0}, (pred[5]{0})) constant({...})"])
def test_export_refuses_elided_constants(constant: str):
    module = parse_hlo(f"ENTRY e {{ ROOT c = {constant} }}")
    with raises(UnsupportedError, codes.ELIDED_CONSTANT, "c (constant)", "{...}"):
        module.to_stablehlo()
