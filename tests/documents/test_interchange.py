"""The commands, the program and the message of docs/how-to/interchange.md work and print the output shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jaxlib.mlir.dialects import stablehlo

from xlapy.base.errors import ParseError
from xlapy.stablehlo.parse import parse_stablehlo
from xlapy.tools.command_line import invoke
from xlapy.tools.formats import Format, format_of_name

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "interchange.md").read_text()
MLIR = "func.func @main(%x: tensor<4x3xf32>) -> tensor<4x3xf32> { return %x : tensor<4x3xf32> }"


def _blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.mlirbc").write_bytes(stablehlo.serialize_portable_artifact_str(MLIR, "1.0.0"))
    Path("open.mlir").write_text(MLIR.replace("4x3", "?x3"))
    for line in _blocks("sh")[0].splitlines():
        assert invoke([word.strip("'") for word in line.split()[1:]]) == 0, capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {
        *("model.mlirbc", "model.hlo", "model.mlir", "open.mlir", "fixed.hlo"),
    }


def test_the_python_program_works(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = _blocks("python")
    exec(code, {})
    printed = capsys.readouterr().out
    assert "ENTRY %main" in printed
    assert "stablehlo.add" in printed
    assert "[0. 1. 2.]" in printed


def test_the_message() -> None:
    (code,) = _blocks("python")
    text = code.split('"""')[1].replace(
        "%2 = stablehlo.add %1, %0 : tensor<2x3xf32>", _blocks("")[0].splitlines()[1].strip()
    )
    text = text.lstrip("\n").replace("return %2 : tensor<2x3xf32>", "return %2 : tensor<2x4xf32>")
    with pytest.raises(ParseError) as caught:
        parse_stablehlo(text)
    assert str(caught.value).rstrip() == _blocks("")[0].rstrip()


def test_the_table_lists_every_format() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \|", PAGE, re.MULTILINE)
    assert [name for name, _ in rows] == [form.value for form in Format]
    for name, endings in rows:
        for ending in re.findall(r"`(\.[a-z.]+)`", endings):
            assert format_of_name(f"x{ending}") is Format(name)
