"""`xlapy bisect`: the report, the folder, and the exit code. tests/debugging tests the bisection itself."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.debugging.test_bisecting import FAULTS, TEXT
from tests.tools.programs import environment
from xlapy.base.error_codes.building.python_calls import USER_CODE
from xlapy.tools.command_line import invoke


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.hlo").write_text(TEXT)
    return tmp_path / "m.hlo"


def test_a_wrong_pass_is_found_and_reproduced(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bisect", str(program), "--load", str(FAULTS), "--passes", "cse,tinker{how=change}"]
    assert invoke([*words, "--reduce", "20"]) == 1
    report = capsys.readouterr().out
    assert report.startswith(
        "pass run 1: tinker{how=change} at position 1 (its 1st run)\n"
        "  changes the result\n"
        "    result[0]: float32[4]: 4 of 4 elements differ by more than rounding errors"
    )
    assert (
        "the first instruction whose value differs:\n"
        "  - t = (f32[4], f32[4]) tuple(d, e) in main\n"
        "  + t = (f32[4], f32[4]) tuple(sum, e) in main\n"
        "    operand 0: d (subtract) -> sum (add)\n"
    ) in report
    assert "    - d = f32[4]{0} subtract(e, y)\n    + sum = f32[4]{0} add(e, y)\n" in report
    assert "reduced from 7 to " in report
    folder = program.parent / "xlapy-bisect-m"
    assert {path.name for path in folder.iterdir()} == {
        "README.md", "after.hlo", "arguments.npz", "before.hlo", "faults.py", "reduced.hlo", "reduced.npz", "run.sh",
    }  # fmt: skip
    assert report.endswith("written to xlapy-bisect-m: xlapy-bisect-m/run.sh shows it again\n")
    again = subprocess.run([folder / "run.sh"], env=environment(), capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert again.stdout.startswith("pass run 0: tinker{how=change} at position 1 (its 1st run)\n  changes the result\n")


def test_no_difference(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["bisect", str(program), "--passes", "cse,simplify,dce"]) == 0
    assert capsys.readouterr().out == "nothing is wrong: 3 runs of passes, 0 of which changed the program\n"
    assert os.listdir() == ["m.hlo"]


def test_wrong_usage(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["bisect", str(program), "--optimized", "--only", "3"]) == 2
    assert invoke(["bisect", str(program), "--load", "no.py"]) == 1
    assert f"no.py to load [{USER_CODE}]" in capsys.readouterr().err


@pytest.mark.slow
def test_wrong_code_of_a_kernel(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = program.with_name("broken_code.py")
    broken.write_bytes(FAULTS.read_bytes())
    assert invoke(["bisect", str(program), "--load", str(broken), "-o", "found"]) == 1
    report = capsys.readouterr().out
    assert report.startswith("no pass is faulty (")
    assert "the first instruction whose code is wrong, compiled alone:\n  d.fusion: " in report
    again = subprocess.run(["found/run.sh"], env=environment(), capture_output=True, text=True, check=False)
    assert again.returncode == 1 and "the fault is in code generation" in again.stdout
