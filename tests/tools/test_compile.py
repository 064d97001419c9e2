"""`xlapy compile`, `xlapy run` on compiled files, and `xlapy cache`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xlapy as xla
from tests.tools.programs import AXPY
from xlapy.base import flags
from xlapy.runtime.backends import cpu
from xlapy.tools.command_line import invoke

X = np.array([1, 2, 3], np.float32)
Y = np.array([10, 20, 30], np.float32)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "axpy.hlo").write_text(AXPY)
    np.savez("arguments.npz", np.float32(2), X, Y)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = invoke(arguments)
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 1) -> str:
    assert invoke(arguments) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


def test_a_compiled_file_runs_without_compiling(folder, capsys, monkeypatch):
    assert printed(capsys, "compile", "axpy.hlo", "-o", "axpy.xla").startswith("compiled axpy to axpy.xla, ")
    monkeypatch.setattr(cpu, "compile_module", lambda *_: pytest.fail("it is compiled"))
    assert printed(capsys, "run", "axpy.xla", "--input", "arguments.npz") == "result: f32[3] [12., 24., 36.]\n"


def test_a_compiled_file_is_compared_with_the_interpreter(folder, capsys):
    printed(capsys, "compile", "axpy.hlo", "-o", "axpy.xla")
    output = printed(capsys, "run", "axpy.xla", "--input", "arguments.npz", "--compare", "interpreter")
    assert output.startswith("cpu and the interpreter agree: all results")


def test_the_number_of_devices_is_that_of_compilation(folder, capsys):
    (folder / "id.hlo").write_text("HloModule id\nENTRY e { ROOT r = u32[] replica-id() }")
    printed(capsys, "compile", "id.hlo", "-o", "id.xla", "--num-replicas", "2")
    assert printed(capsys, "run", "id.xla") == "device 0: result: u32[] 0\ndevice 1: result: u32[] 1\n"
    message = refused(capsys, "run", "id.xla", "--num-replicas", "3", code=2)
    assert "id.xla is compiled: it runs on the replicas and partitions that it was compiled for" in message


def test_donations_are_those_of_compilation(folder, capsys):
    printed(capsys, "compile", "axpy.hlo", "-o", "axpy.xla", "--donate", "1")
    client = xla.Client("cpu")
    given = client.device_put(X)
    np.testing.assert_array_equal(client.deserialize(Path("axpy.xla").read_bytes())(2.0, given, Y), 2 * X + Y)
    assert given.is_deleted()


def test_damaged_files_and_files_of_other_platforms(folder, capsys):
    printed(capsys, "compile", "axpy.hlo", "-o", "axpy.xla")
    whole = Path("axpy.xla").read_bytes()
    Path("half.xla").write_bytes(whole[: len(whole) // 2])
    assert "xlapy: half.xla: the executable is damaged" in refused(capsys, "run", "half.xla")
    assert "was compiled for the platform cpu, this client is for interpreter" in refused(
        capsys, "run", "axpy.xla", "--platform", "interpreter"
    )
    assert "axpy.xla is compiled: xlapy run takes it" in refused(capsys, "opt", "axpy.xla")


def test_programs_that_cannot_be_compiled_leave_no_file(folder, capsys):
    (folder / "call.hlo").write_text('HloModule c\nENTRY e { ROOT r = f32[] custom-call(), custom_call_target="none" }')
    assert "r (custom-call)" in refused(capsys, "compile", "call.hlo", "-o", "call.xla")
    assert not Path("call.xla").exists()


def test_the_cache_is_listed_measured_and_emptied(folder, capsys, monkeypatch):
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"cache_dir": str(folder / "cache")}))
    xla.Client("cpu").compile(AXPY)
    key, *_, name = printed(capsys, "cache", "list").split()
    assert name == "axpy" and list((folder / "cache").glob(f"{key}*.xla"))
    assert printed(capsys, "cache", "size").startswith("1 programs, ")
    assert printed(capsys, "cache", "clear") == "removed 1 programs\n"
    for arguments in (["--dir", str(folder / "cache"), "list"], ["list", "--dir", str(folder / "cache")]):
        assert printed(capsys, "cache", *arguments) == ""


def test_no_cache(folder, capsys):
    assert "no cache is in use: set XLAPY_FLAGS=--cache_dir=DIR" in refused(capsys, "cache", "list")
    (folder / "open").mkdir(mode=0o755)
    (folder / "open").chmod(0o755)
    assert "has mode 0755" in refused(capsys, "cache", "--dir", str(folder / "open"), "size")
    assert "has mode 0755" in refused(capsys, "cache", "clear", "--dir", str(folder / "open"))
