"""`xlapy bench`: its figures, and programs that one of the two compilers rejects."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.tools.programs import AXPY
from xlapy.base import flags
from xlapy.base.error_codes.interfaces.commands import COMPILED_FOR_TIMING
from xlapy.runtime import Client
from xlapy.tools.bench import bound_call
from xlapy.tools.command_line import invoke

# XLA:CPU rejects a bitcast that changes the order of elements; cpu runs it.
BITCAST = """HloModule turned
ENTRY e {
  x = f32[2,3]{1,0} parameter(0)
  ROOT r = f32[3,2]{0,1} bitcast(x)
}"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "axpy.hlo").write_text(AXPY)
    (tmp_path / "turned.hlo").write_text(BITCAST)
    return tmp_path


def test_times_of_both_and_a_program_that_xla_rejects(folder, capsys):
    assert invoke(["bench", "turned.hlo", "axpy.hlo", "--runs", "1", "--json", "times.json"]) == 0
    captured = capsys.readouterr()
    assert "turned.hlo: XLA:CPU does not run it: " in captured.err
    title, turned, axpy = captured.out.splitlines()
    assert " ".join(title.split()) == "program compile run GB/s XLA compile XLA run XLA / xlapy"
    assert turned.split()[-3:] == ["-", "-", "-"]
    alone, found = json.loads((folder / "times.json").read_text())
    assert alone["xla_run_seconds"] is None
    assert alone["xla_refusal"] in captured.err
    assert (found["file"], found["xla_refusal"]) == ("axpy.hlo", None)
    assert found["bytes"] >= 3 * 3 * 4
    assert found["live_bytes"] == 3 * 4 and found["xla_live_bytes"] >= 3 * 4
    assert alone["live_bytes"] == 6 * 4 and alone["xla_live_bytes"] is None
    for name in ("compile_seconds", "run_seconds", "xla_compile_seconds", "xla_run_seconds"):
        assert 1e-7 < found[name] < 100
    assert float(axpy.split()[-1]) == pytest.approx(found["xla_run_seconds"] / found["run_seconds"], abs=0.006)


def test_without_xla(folder, capsys):
    assert invoke(["bench", "turned.hlo", "--runs", "1", "--against", "nothing"]) == 0
    title, turned = capsys.readouterr().out.splitlines()
    assert title.split() == ["program", "compile", "run", "GB/s"]
    assert turned.split()[0] == "turned.hlo"


@pytest.mark.slow
def test_a_crash_of_xla_does_not_end_the_command(folder, capfd):
    optimized = Path(__file__).parents[1] / "programs" / "heat_equation.optimized.hlo"
    assert invoke(["bench", str(optimized), "axpy.hlo", "--runs", "1"]) == 0
    captured = capfd.readouterr()
    assert f"{optimized}: XLA:CPU does not run it: it ended its process" in captured.err
    first, second = captured.out.splitlines()[-2:]
    assert first.split()[-3:] == ["-", "-", "-"]
    assert second.split()[0] == "axpy.hlo"


def test_a_timed_call_waits_for_its_results():
    """Calls of long programs return before the results are there."""
    client = Client("cpu")
    executable = client.compile(
        "HloModule large\nENTRY e {\n  a = f32[900,900] parameter(0)\n  ROOT d = f32[900,900] dot(a, a), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}"
    )
    argument = np.ones((900, 900), np.float32)
    assert not executable(client.device_put(argument)).is_ready()
    assert bound_call(client, executable, [argument])().is_ready()


def test_donated_arguments(folder, capsys):
    """Every call gets new copies of arguments that the program overwrites."""
    text = "HloModule updated, input_output_alias={ {}: (0, {}, may-alias) }\nENTRY e {\n  a = f32[100] parameter(0)\n"
    (folder / "updated.hlo").write_text(text + "  ROOT s = f32[100] add(a, a)\n}")
    assert invoke(["bench", "updated.hlo", "--runs", "2"]) == 0
    captured = capsys.readouterr()
    assert captured.err.strip() == ""
    assert float(captured.out.splitlines()[1].split()[-1]) > 0


def test_an_invalid_program(folder, capsys):
    (folder / "wrong.hlo").write_text("HloModule wrong\nENTRY e { ROOT r = f32[] ad() }")
    assert invoke(["bench", "wrong.hlo"]) == 1
    assert "xlapy: wrong.hlo:2:" in capsys.readouterr().err


def test_the_cache_flag_is_rejected(folder, capsys, monkeypatch):
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"cache_dir": str(folder)}))
    assert invoke(["bench", "axpy.hlo"]) == 1
    assert capsys.readouterr().err == (
        f"xlapy: programs would come from the cache: unset the flag cache_dir [{COMPILED_FOR_TIMING}]\n"
    )


def test_programs_that_the_machine_cannot_run_are_refused_before_anything_is_allocated(folder, capsys):
    (folder / "several.hlo").write_text(AXPY.replace("HloModule axpy", "HloModule axpy, num_partitions=2"))
    assert invoke(["bench", "several.hlo", "--against", "nothing"]) == 1
    assert "several.hlo runs on 2 devices" in capsys.readouterr().err
    (folder / "huge.hlo").write_text(AXPY.replace("f32[3]", "f32[1000000000000]"))
    assert invoke(["bench", "huge.hlo", "--against", "nothing"]) == 1
    assert "huge.hlo takes at least 2" in capsys.readouterr().err
