"""`xlapy fuzz`: output, files, and exit codes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.tools.programs import xlapy
from xlapy.base.error_codes.interfaces.commands import CHOICE
from xlapy.debugging.fuzzing.campaign import Fault, Finding, Settings
from xlapy.debugging.fuzzing.differential import Verdict
from xlapy.debugging.fuzzing.mutations import texts_in
from xlapy.runtime import platform_names
from xlapy.tools.command_line import invoke
from xlapy.tools.fuzz.folder import read_finding, write_finding

ELEMENT = """HloModule m

ENTRY e {
  p = (f32[2], bf16[]) parameter(0)
  ROOT x = f32[2] get-tuple-element(p), index=0
}
"""


def test_modules_are_compared_and_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["fuzz", "--seeds", "0-3", "--size", "8", "--families", "elementwise,movement", "--types", "f32,s8"]
    assert invoke([*words, "--jobs", "2", "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "operation" in printed and "constant" in printed
    assert printed.splitlines()[-1].startswith("4 modules against xla: ")
    assert " differ" not in printed
    assert not (tmp_path / "out").exists()


def test_against_a_platform_there_are_no_known_divergences(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["fuzz", "--seed", "3", "--against", "interpreter"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("1 modules against interpreter: ") and last.endswith(" agree, 0 known divergence")


def test_a_time_limit_is_respected(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["fuzz", "--time", "0", "--seed", "5"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("0 modules")


@pytest.mark.parametrize("platform", ["xla", "cpu"])
def test_mutated_texts_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path, platform: str) -> None:
    (tmp_path / "more.cc").write_text('const char* a = R"(HloModule m ENTRY e { ROOT p = f32[] parameter(0) })";')
    assert texts_in(tmp_path) == ["HloModule m ENTRY e { ROOT p = f32[] parameter(0) }"]
    command = ["fuzz", "--mutate", "--seeds", "0-1", "--corpus", str(tmp_path), "--against", platform]
    assert invoke(command) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("40 mutated texts of ") and last.endswith("0 faults")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "9-3"], "'9-3' is not a range of seeds such as 0-99"),
        (["--seeds", "1-2", "--seed", "3"], "give --seeds, or --seed and --time"),
        (["--seed", "1", "--families", "nothing"], "no family 'nothing'; there are elementwise"),
        (["--seed", "1", "--types", "f31"], "f31"),
        (["--seed", "1", "--types", "token"], "token is not a type of array elements"),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert invoke(["fuzz", *words]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_implementation(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["fuzz", "--seed", "1", "--against", "nowhere"]) == 1
    expected = f"xlapy: no implementation 'nowhere'; there are {', '.join(['xla', *platform_names()])} [{CHOICE}]\n"
    assert "cpu, interpreter" in expected
    assert capsys.readouterr().err == expected


def test_a_folder_reproduces_a_fault(tmp_path: Path) -> None:
    argument = (np.array([1, 2], np.float32), np.array(3, ml_dtypes.bfloat16))
    fault = Fault(7, Verdict.DIFFERS, "get-tuple-element", "what differs")
    finding = Finding(fault, "the original", ELEMENT, (argument,), argument[0], None, "what is left of it")
    settings = Settings("interpreter")
    folder = write_finding(tmp_path, finding, settings)
    assert folder.name == "seed7-differ-get-tuple-element"
    assert write_finding(tmp_path, finding, settings).name == f"{folder.name}-1"
    assert sorted(file.name for file in folder.iterdir()) == [
        "README.md", "arguments.npz", "interpreter.npz", "module.hlo", "original.hlo", "run.sh",
    ]  # fmt: skip
    text, (arguments,) = read_finding(folder)
    assert text == ELEMENT and arguments[0].tolist() == [1, 2] and arguments[1] == 3
    assert arguments[1].dtype == argument[1].dtype
    readme = (folder / "README.md").read_text()
    assert "what is left of it" in readme and "xlapy fuzz --replay . --against interpreter" in readme
    done = subprocess.run([folder / "run.sh"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "agree: x: f32[2] get-tuple-element((f32[2], bf16[])): \n")
    assert xlapy("run", str(folder / "module.hlo"), "--input", str(folder / "arguments.npz")).returncode == 0
