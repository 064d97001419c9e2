"""The option --load: each command that compiles a program can register the targets of its custom calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import xlapy as xla
from xlapy.tools.command_line import invoke

CALLS = """HloModule calls
ENTRY main {
  x = f32[4] parameter(0)
  ROOT y = f32[4] custom-call(x), custom_call_target="test_loading.twice"
}
"""
TARGET = "import xlapy\n\nxlapy.register_custom_call_target('test_loading.twice', lambda x: x * 2)\n"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The file that registers the target. A file is loaded once per process, so each test has another one."""
    monkeypatch.chdir(tmp_path)
    Path("calls.hlo").write_text(CALLS)
    file = f"{tmp_path.name}.py"
    Path(file).write_text(TARGET)
    yield file
    xla.unregister_custom_call_target("test_loading.twice")


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("run calls.hlo --random 0", "result: f32[4] [ 0.25"),
        ("compile calls.hlo -o calls.xla", "compiled calls"),
        ("profile calls.hlo --repeat 2", "test_loading.twice"),
        ("show calls.hlo --optimized", 'custom_call_target="test_loading.twice"'),
        ("explain y calls.hlo", 'custom_call_target="test_loading.twice"'),
        ("explain calls.hlo", "y f32[4]  test_loading.twice"),
        ("tune calls.hlo --time-limit 0", "calls: "),
    ],
    ids=lambda text: text.split()[0],
)
def test_a_command_registers_targets_first(
    file: str, command: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([*command.split(), "--load", file]) == 0
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "compile", "profile", "show", "explain", "tune", "opt"])
def test_a_file_that_does_not_exist_is_named(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    xla.register_custom_call_target("test_loading.twice", lambda x: x)
    assert invoke([command, "calls.hlo", "--load", "no_such_file.py"]) == 1
    assert "no_such_file.py" in capsys.readouterr().err
