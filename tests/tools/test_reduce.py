"""`xlapy reduce`: the user's check decides, even if it misbehaves, and the smallest program so far is always on
disk."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tests.tools.programs import COUNT_TO_3
from xlapy.text import parse_hlo
from xlapy.tools.command_line import invoke

PROGRAM = """HloModule big
ENTRY e {
  a = f32[4,4] parameter(0)
  b = f32[4,4] parameter(1)
  c = f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="here"}
  d = f32[4,4] tanh(c)
  e.1 = f32[4,4] add(d, a)
  ROOT t = (f32[4,4], f32[4,4]) tuple(e.1, b)
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "big.hlo").write_text(PROGRAM)
    return tmp_path / "big.hlo"


def check(tmp_path: Path, body: str) -> str:
    script = tmp_path / "check.sh"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    return str(script)


def test_the_interesting_part_remains(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = program.with_suffix(".reduced.hlo")
    assert invoke(["reduce", str(program), "--check", check(program.parent, "grep -q 'tanh(' $1")]) == 0
    assert capsys.readouterr().out == f"6 instructions reduced to 2: {output}\n"
    module = parse_hlo(output.read_text())
    assert [i.op.name for i in module.instructions()] == ["constant", "tanh"]
    assert module.entry_computation.root_instruction.shape.size == 1


def test_the_exit_code_the_output_and_the_file_placeholder(program: Path) -> None:
    script = check(program.parent, 'grep "dot(" "$2" > /dev/null && echo found it && exit 7; exit 1')
    words = ["reduce", str(program), "--check", f"{script} first {{file}}", "--expect-exit", "7"]
    output = program.parent / "out.hlo"
    assert invoke([*words, "--match", "found it", "-o", str(output)]) == 0
    assert [i.op.name for i in parse_hlo(output.read_text()).instructions()][-1] == "dot"


def test_a_crash_can_be_the_interesting_property(program: Path) -> None:
    script = check(program.parent, 'grep -q "add(" "$1" && kill -6 $$; exit 0')
    assert invoke(["reduce", str(program), "--check", script, "--expect-exit", "-6"]) == 0
    assert "add(" in program.with_suffix(".reduced.hlo").read_text()


def test_a_hanging_check_is_killed_with_its_children(program: Path) -> None:
    """The check hangs on every program without a dot."""
    script = check(program.parent, 'grep -q "dot(" "$1" && exit 0; sleep 300 & wait')
    start = time.monotonic()
    assert invoke(["reduce", str(program), "--check", script, "--timeout", "0.3"]) == 0
    assert time.monotonic() - start < 60
    assert [i.op.name for i in parse_hlo(program.with_suffix(".reduced.hlo").read_text()).instructions()][-1] == "dot"


def test_a_check_that_fails_on_the_original(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["reduce", str(program), "--check", "false"]) == 1
    message = capsys.readouterr().err
    assert f"the check does not find {program} interesting to begin with: false" in message
    assert not program.with_suffix(".reduced.hlo").exists()


def test_a_command_that_does_not_exist(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["reduce", str(program), "--check", "/no/such/command"]) == 1
    assert "/no/such/command" in capsys.readouterr().err
    assert invoke(["reduce", str(program), "--check", "'"]) == 2


def test_an_interrupted_search_leaves_the_smallest_program(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marker = program.parent / "count"
    body = f'echo x >> {marker}; [ $(wc -l < {marker}) -eq 5 ] && kill -2 {os.getpid()}; grep -q "tanh(" "$1"'
    assert invoke(["reduce", str(program), "--check", check(program.parent, body)]) == 0
    assert "interrupted" in capsys.readouterr().err
    best = parse_hlo(program.with_suffix(".reduced.hlo").read_text())
    assert 2 <= best.instruction_count < 7 and "tanh(" in best.to_text()


def test_programs_with_computations(tmp_path: Path) -> None:
    (tmp_path / "loop.hlo").write_text(COUNT_TO_3)
    run = f"{sys.executable} -m xlapy run {{file}} --random 0"
    output = tmp_path / "least.hlo"
    assert (
        invoke(["reduce", str(tmp_path / "loop.hlo"), "--check", run, "--match", "result: s32[]", "-o", str(output)])
        == 0
    )
    assert parse_hlo(output.read_text()).instruction_count == 1
