"""`xlapy convert`, and the file formats that all commands read."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest
from jaxlib.mlir.dialects import stablehlo

from tests import xla_reference
from tests.tools.programs import AXPY
from xlapy.hlo.module import Module
from xlapy.proto import HloProto, Snapshot
from xlapy.proto.messages import decode, encode
from xlapy.text import parse_hlo
from xlapy.tools.command_line import invoke
from xlapy.tools.formats import Format, format_of, format_of_content

MLIR = """
module @axpy {
  func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
    %a = stablehlo.constant dense<2.0> : tensor<3xf32>
    %0 = stablehlo.multiply %a, %x : tensor<3xf32>
    %1 = stablehlo.add %0, %y : tensor<3xf32>
    return %1 : tensor<3xf32>
  }
}
"""
OPEN = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    module = parse_hlo(AXPY)
    (tmp_path / "axpy.hlo").write_text(AXPY)
    (tmp_path / "axpy.pb").write_bytes(module.to_proto())
    (tmp_path / "axpy.hlo.pb").write_bytes(HloProto(module).to_proto())
    (tmp_path / "axpy.snapshot.pb").write_bytes(Snapshot(module).to_proto())
    (tmp_path / "axpy.mlir").write_text(MLIR)
    (tmp_path / "axpy.mlirbc").write_bytes(stablehlo.serialize_portable_artifact_str(MLIR, "1.0.0"))
    return tmp_path


FILES = ["axpy.hlo", "axpy.pb", "axpy.hlo.pb", "axpy.snapshot.pb", "axpy.mlir", "axpy.mlirbc"]


def ran(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert invoke(arguments) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


@pytest.mark.usefixtures("folder")
class TestFormats:
    @pytest.mark.parametrize("file", FILES)
    def test_every_command_reads_every_format(self, capsys, file):
        assert "sound" in ran(capsys, "opt", "--check", file)
        assert "[" in ran(capsys, "run", file, "--random", "0", "--platform", "interpreter")

    @pytest.mark.parametrize("file", FILES)
    def test_the_format_is_detected_from_the_content_if_the_name_has_none(self, folder, capsys, file):
        (folder / "unnamed").write_bytes((folder / file).read_bytes())
        assert "sound" in ran(capsys, "opt", "--check", "unnamed")

    @pytest.mark.parametrize("target", ["out.hlo", "out.pb", "out.hlo.pb", "out.pbtxt"])
    @pytest.mark.parametrize("file", FILES)
    def test_round_trip(self, folder, capsys, file, target):
        ran(capsys, "convert", file, target)
        ran(capsys, "convert", target, "back.hlo")
        expected = ran(capsys, "opt", file)
        assert (folder / "back.hlo").read_text().strip() == expected.strip()

    @pytest.mark.parametrize("target", ["out.mlir", "out.mlirbc"])
    @pytest.mark.parametrize("file", FILES)
    def test_stablehlo_computes_the_same(self, folder, capsys, file, target):
        ran(capsys, "convert", file, target)
        arguments = [target, "--random", "0", "--platform", "interpreter"]
        ours, expected = ran(capsys, "run", *arguments), ran(capsys, "run", file, *arguments[1:])
        assert ours.splitlines()[-1] == expected.splitlines()[-1]

    def test_stablehlo_is_preserved(self, folder, capsys):
        (folder / "open.mlir").write_text(OPEN)
        ran(capsys, "convert", "open.mlir", "open.mlirbc")
        ran(capsys, "convert", "open.mlirbc", "again.mlir")
        assert "tensor<?xf32>" in (folder / "again.mlir").read_text()

    def test_xla_reads_the_output(self, folder, capsys):
        ran(capsys, "convert", "axpy.mlir", "axpy2.pb")
        data = (folder / "axpy2.pb").read_bytes()
        printed = xla_reference.print_proto(data, print_large_constants=True)
        assert "multiply" in printed
        assert decode("HloModuleProto", data).name == "axpy"

    def test_the_buffer_assignment_of_a_dump_is_kept(self):
        whole = decode("HloProto", HloProto(parse_hlo(AXPY)).to_proto())
        whole.MergeFromString(b"\x1a\x03abc")  # field 3, which xlapy does not interpret
        again = HloProto.from_proto(encode(whole))
        assert again.rest == b"\x1a\x03abc"
        assert b"\x1a\x03abc" in again.to_proto()

    def test_standard_output_and_explicit_formats(self, folder, capsysbinary):
        assert invoke(["convert", "axpy.mlir", "-", "--to", "proto"]) == 0
        module = Module.from_proto(capsysbinary.readouterr().out)
        assert module.name == "axpy"
        (folder / "text.bin").write_text(AXPY)
        assert invoke(["convert", "text.bin", "-", "--from", "hlo", "--to", "hlo"]) == 0
        assert capsysbinary.readouterr().out.startswith(b"HloModule")

    def test_dynamic_sizes_are_specified(self, folder, capsys):
        (folder / "open.mlir").write_text(OPEN)
        assert "give the shapes of the arguments" in ran(capsys, "convert", "open.mlir", "open.hlo", code=1)
        ran(capsys, "convert", "open.mlir", "open.hlo", "--argument-shape", "f32[4]")
        assert "f32[4]" in (folder / "open.hlo").read_text()

    def test_refusals(self, folder, capsys):
        assert "tells no format: give --to" in ran(capsys, "convert", "axpy.hlo", "out", code=2)
        (folder / "bad.pb").write_bytes(b"\xff\xff\xff")
        assert "bad.pb: 3 bytes are no HloModuleProto" in ran(capsys, "opt", "bad.pb", code=1)
        (folder / "bad.pbtxt").write_text("name: 3 {")
        assert "bad.pbtxt: the text is no HloModuleProto" in ran(capsys, "opt", "bad.pbtxt", code=1)
        (folder / "bad.mlir").write_bytes(b"module \xff")
        assert "bad.mlir is not MLIR text: byte 7 is not UTF-8" in ran(capsys, "opt", "bad.mlir", code=1)
        (folder / "wrong.mlir").write_text(MLIR.replace("stablehlo.add %0, %y", "stablehlo.add %0"))
        assert "wrong.mlir:6:" in ran(capsys, "opt", "wrong.mlir", code=1)


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (AXPY.encode(), Format.HLO),
        (MLIR.encode(), Format.STABLEHLO),
        (b'\n# a comment\nname: "m"\n', Format.PROTO_TEXT),
        (b"hlo_module {\n}", Format.PROTO_TEXT),
        (b"ML\xefR\x05", Format.BYTECODE),
        (parse_hlo(AXPY).to_proto(), Format.PROTO),
        (b"", Format.HLO),
    ],
)
def test_content(data: bytes, form: Format) -> None:
    assert format_of_content(data) is form


def test_bytecode_is_read_under_any_name() -> None:
    assert format_of("model.mlir", b"ML\xefR\x05") is Format.BYTECODE
    assert format_of("dump.txt", MLIR.encode()) is Format.STABLEHLO
    assert format_of("dump.before.hlo.pb", b"") is Format.HLO_PROTO


def test_jax_exports_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exported = jax.export.export(jax.jit(lambda x: x * 2))(jax.ShapeDtypeStruct((3,), np.float32))
    (tmp_path / "f.mlirbc").write_bytes(exported.mlir_module_serialized)
    np.save(tmp_path / "x.npy", np.array([1, 2, 3], np.float32))
    printed = ran(capsys, "run", str(tmp_path / "f.mlirbc"), "--input", str(tmp_path / "x.npy"))
    assert "6" in printed
