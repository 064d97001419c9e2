"""The command line as a whole: exit codes, streams, signals, internal errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.tools.programs import AXPY, FOREVER, SEVEN, command, environment, xlapy
from xlapy import opcodes
from xlapy.base.error_codes.execution.running import OUT_OF_MEMORY
from xlapy.base.error_codes.interfaces.commands import STANDARD_INPUT
from xlapy.interpreter import RULES
from xlapy.tools.command_line import COMMANDS, cli, invoke

# -- in this process


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]):
    assert invoke(["--help"]) == 0
    output = capsys.readouterr().out
    assert all(f"\n  {name} " in output for name in COMMANDS)
    assert max(map(len, output.splitlines())) <= 80
    assert "..." not in output.partition("Commands:")[2]


def test_help_loads_no_command():
    call = "from xlapy.tools.command_line import invoke; invoke(['--help'])"
    code = f"import sys; {call}; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert "xlapy.tools.command_line" in loaded
    assert not [name for name in COMMANDS if f"xlapy.tools.{name}" in loaded]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], name: str):
    assert invoke([name, "-h"]) == 0
    output = capsys.readouterr().out
    assert f"Usage: xlapy {name} [OPTIONS]" in output
    assert [line for line in output.splitlines() if len(line) > 80] == []
    assert cli.get_command(None, name) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize("arguments", [[], ["bogus"], ["run"], ["opt"], ["--bogus"], ["opt", "a", "b"]])
def test_wrong_usage_exits_with_2(capsys: pytest.CaptureFixture[str], arguments: list[str]):
    assert invoke(arguments) == 2
    assert "Usage: xlapy" in capsys.readouterr().err


def test_a_missing_file(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert invoke(["opt", str(tmp_path / "none.hlo")]) == 1
    assert capsys.readouterr().err == f"xlapy: {tmp_path}/none.hlo: No such file or directory\n"


def test_a_directory_is_not_a_program(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert invoke(["run", str(tmp_path)]) == 2
    assert "is a directory" in capsys.readouterr().err


def test_a_program_error_has_its_position(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "a.hlo").write_text(AXPY.replace("multiply(wide, x)", "multiply(wide, z)"))
    assert invoke(["opt", str(tmp_path / "a.hlo")]) == 1
    first, line, caret = capsys.readouterr().err.splitlines()
    assert first.startswith(f"xlapy: {tmp_path}/a.hlo:8:35: instruction 'z' is not defined before this place")
    assert line[caret.index("^")] == "z"


def test_unknown_flags_in_the_environment(tmp_path: Path):
    (tmp_path / "seven.hlo").write_text(SEVEN)
    done = subprocess.run(
        command("run", str(tmp_path / "seven.hlo")),
        env={**environment(), "XLAPY_FLAGS": "--check_nan"}, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.decode().startswith("xlapy: there is no flag --check_nan; did you mean --check_nans or --check_")


# -- internal errors


def broken(*_: Any) -> NoReturn:
    raise ZeroDivisionError("a bug")


class TestInternalErrors:
    @pytest.fixture(autouse=True)
    def bug(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setitem(RULES.table, opcodes.ADD, broken)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "sub").mkdir()
        (tmp_path / "sub" / "axpy.hlo").write_text(AXPY)

    def test_they_leave_a_folder_that_reproduces_the_error(self, capsys, tmp_path):
        assert invoke(["run", "sub/axpy.hlo", "--random", "3", "--platform", "interpreter"]) == 1
        first, second = capsys.readouterr().err.splitlines()
        assert first == "xlapy: internal error: ZeroDivisionError: a bug"
        (folder,) = tmp_path.glob("xlapy-failure-*")
        assert second == f"xlapy: a folder that reproduces it was written to {folder}; please report it"
        assert "in broken" in (folder / "error.txt").read_text()
        assert "numpy " in (folder / "versions.txt").read_text()
        replay = subprocess.run([folder / "command.sh"], cwd="/", env=environment(), capture_output=True, check=False)
        assert replay.returncode == 0, replay.stderr  # only this process has the bug
        assert b"result: f32[3]" in replay.stdout

    def test_standard_input_is_kept(self, capsys, tmp_path, monkeypatch):
        with (tmp_path / "sub" / "axpy.hlo").open() as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            assert invoke(["run", "-", "--random", "3", "--platform", "interpreter"]) == 1
        (folder,) = tmp_path.glob("xlapy-failure-*")
        assert (folder / "stdin.hlo").read_text() == AXPY
        replay = subprocess.run([folder / "command.sh"], cwd="/", env=environment(), capture_output=True, check=False)
        assert replay.returncode == 0, replay.stderr
        assert b"result: f32[3]" in replay.stdout

    def test_a_folder_that_cannot_be_written(self, capsys, monkeypatch):
        def full(*_: Any, **__: Any) -> NoReturn:
            raise OSError(28, "No space left on device", "/somewhere")

        monkeypatch.setattr("tempfile.mkdtemp", full)
        assert invoke(["run", "sub/axpy.hlo", "--random", "3", "--platform", "interpreter"]) == 1
        assert capsys.readouterr().err == (
            "xlapy: internal error: ZeroDivisionError: a bug\n"
            "xlapy: a folder that reproduces it could not be written: /somewhere: No space left on device\n"
        )

    def test_out_of_memory_is_not_an_internal_error(self, capsys, monkeypatch, tmp_path):
        def exhausted(*_: Any) -> NoReturn:
            raise MemoryError("Unable to allocate 1 TiB")

        monkeypatch.setitem(RULES.table, opcodes.ADD, exhausted)
        assert invoke(["run", "sub/axpy.hlo", "--random", "3", "--platform", "interpreter"]) == 1
        assert capsys.readouterr().err == (
            f"xlapy: sum (add): out of memory for a value of shape f32[3] [{OUT_OF_MEMORY}]\n"
        )
        assert list(tmp_path.glob("xlapy-failure-*")) == []


# -- as a process


def test_python_m_is_the_same_command_line():
    done = xlapy("--version")
    assert done.returncode == 0
    assert done.stdout.decode().startswith("xlapy, version ")


def test_programs_come_from_standard_input_and_go_to_standard_output():
    done = xlapy("opt", "-", input=SEVEN.encode())
    assert done.returncode == 0
    again = xlapy("run", "-", input=done.stdout)
    assert (again.returncode, again.stdout, again.stderr) == (0, b"result: s32[] 7\n", b"")


def test_empty_and_closed_standard_input():
    empty = xlapy("run", "-", input=b"")
    assert empty.returncode == 1
    assert empty.stderr.startswith(b"xlapy: <stdin>:1:1: expected a shape or an operation, found the end of the text")
    closed = subprocess.run(
        ["sh", "-c", f'exec "{sys.executable}" -m xlapy run - <&-'], env=environment(), capture_output=True, check=False
    )
    assert (closed.returncode, closed.stderr.decode()) == (1, f"xlapy: standard input is closed [{STANDARD_INPUT}]\n")


def test_a_closed_output_pipe_is_not_reported(tmp_path: Path):
    lines = "\n".join(f"  k{i} = s32[] constant({i})" for i in range(20_000))
    (tmp_path / "long.hlo").write_text(f"HloModule long\nENTRY main {{\n{lines}\n}}\n")
    process = subprocess.Popen(
        command("opt", str(tmp_path / "long.hlo")), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) in (0, 1)  # the message depends on the version of click


def test_a_full_disk_is_reported():
    with open("/dev/full", "wb") as full:
        done = xlapy("opt", "-", input=SEVEN.encode(), stdout=full)
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_results_may_go_to_devices(tmp_path: Path):
    (tmp_path / "seven.hlo").write_text(SEVEN)
    done = xlapy("run", str(tmp_path / "seven.hlo"), "--save", "/dev/null")
    assert done.returncode == 0, done.stderr
    assert Path("/dev/null").is_char_device()
    done = xlapy("opt", str(tmp_path / "seven.hlo"), "-o", "/dev/stdout")
    assert done.stdout.startswith(b"HloModule seven")


def test_an_endless_loop_is_interrupted(tmp_path: Path):
    (tmp_path / "forever.hlo").write_text(FOREVER)
    process = subprocess.Popen(
        command("run", str(tmp_path / "forever.hlo"), "--trace=start"), env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"main: start = s32[] constant -> 0\n"  # the next statement starts the loop
    time.sleep(0.2)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert (process.returncode, error.strip()) == (130, b"xlapy: interrupted")
