"""What docs/how-to/interchange.md shows works, and docs/reference/formats.md lists all formats and files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jaxlib.mlir.dialects import stablehlo

from xlapy.base.errors import ParseError
from xlapy.codegen.tuning import parse_tuning
from xlapy.cpu.compiler import compile_module
from xlapy.stablehlo.parse import parse_stablehlo
from xlapy.text import parse_hlo
from xlapy.tools.command_line import invoke
from xlapy.tools.formats import Format, format_of_name

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "how-to" / "interchange.md").read_text()
FORMATS = (DOCS / "reference" / "formats.md").read_text()
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
    rows = re.findall(r"^\| `([a-z-]+)` \| (.*?) \|", FORMATS.partition("## Arguments")[0], re.MULTILINE)
    assert [name for name, _ in rows] == [form.value for form in Format]
    for name, endings in rows:
        for ending in re.findall(r"`(\.[a-z.]+)`", endings):
            assert format_of_name(f"x{ending}") is Format(name)


def test_the_page_lists_every_file_of_a_compilation() -> None:
    section = FORMATS.partition("## Files of a compilation")[2].partition("## Tuning files")[0]
    listed = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE)))
    module = parse_hlo("HloModule m  ENTRY e { x = f32[3] parameter(0)  ROOT y = f32[3] add(x, x) }")
    assert {name for name in listed if "pass_" not in name} == {*compile_module(module).stages()}


def test_the_tuning_file_is_read() -> None:
    (text,) = re.findall(r"```text\n(\{.*?\})\n```", FORMATS, re.DOTALL)
    (kernel,) = parse_tuning(text.replace("0f3c...", "0f3c" * 8), "the page")
    assert (kernel.instructions, kernel.plan.strategy) == ("AVX512_BF16", "direct-gemm")
