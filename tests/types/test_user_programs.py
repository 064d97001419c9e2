"""mypy and pyright see the public functions and types of xlapy, and flag names that do not exist."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("user_program.py")
ROOT = PROGRAM.parents[2]

WRONG = """
import xlapy as xla
from xlapy import ops

builder = xla.XlaBuilder("wrong")
x = ops.parameter(builder, 0, xla.Shape.parse("f32[]"), "x")
ops.addd(x, x)
xla.ops.mull(x, x)
xla.Instrution
ops.add(x)
x + "1"
x.astype("f32")
x[0].shapes
"""
"""Lines 7 to 13 each have one error."""


def mypy_lines(file: Path, tmp_path: Path) -> list[int]:
    """The lines of a file in which `mypy --strict` reports an error."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--show-absolute-path"]
    options = ["--config-file", "", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run([*command, *options, str(file)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    errors = [line.removeprefix(str(file)) for line in done.stdout.splitlines() if ": error:" in line]
    assert all(line.startswith(":") for line in errors), done.stdout
    return [int(line.split(":")[1]) for line in errors]


def pyright_lines(file: Path, tmp_path: Path) -> list[int]:
    """The lines of a file in which pyright, in its standard mode, reports an error."""
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "standard", "extraPaths": [str(ROOT)], "include": [str(file)]})
    )
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "--project",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"]


CHECKERS = [pytest.param(mypy_lines, id="mypy"), pytest.param(pyright_lines, id="pyright")]


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_correct_program_has_no_errors(checker, tmp_path: Path):
    assert checker(PROGRAM, tmp_path) == []


@pytest.mark.parametrize("checker", CHECKERS)
def test_unknown_names_and_missing_arguments_are_errors(checker, tmp_path: Path):
    file = tmp_path / "wrong.py"
    file.write_text(WRONG)
    assert checker(file, tmp_path) == [7, 8, 9, 10, 11, 12, 13]


def test_the_program_runs():
    done = subprocess.run([sys.executable, str(PROGRAM)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names, values = done.stdout.splitlines()
    opcodes = ["parameter", "broadcast", "parameter", "multiply", "constant", "broadcast", "add"]
    assert names == f"{opcodes} True True"
    assert values.endswith("[1.0, 3.0, 5.0, 7.0]")
