"""`xlapy run` under mpirun: one report of all processes, the comparison with one process, and errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import xlapy as xla
from tests.processes import Finished, run_job
from xlapy.base.error_codes.execution.devices import RUN_DEVICES
from xlapy.base.error_codes.interfaces.commands import INPUT_GIVEN
from xlapy.runtime import Executable
from xlapy.tools.command_line import invoke
from xlapy.tools.run.processes import RunProcesses
from xlapy.tools.run.single_process import compare_with_single_process

SUM = """HloModule m, num_partitions=4
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { p = f32[64] parameter(0)
  s = f32[64] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
  n = u32[] partition-id() ROOT t = (f32[64], u32[]) tuple(s, n) }
"""
FED = """HloModule m, replica_count=2
ENTRY e { k = token[] after-all() i = (s32[], token[]) infeed(k) x = s32[] get-tuple-element(i), index=0
  o = token[] outfeed(x, k) ROOT y = s32[] negate(x) }
"""


def run(folder: Path, *arguments: str, program: str = SUM) -> Finished:
    """`mpirun -n 2 xlapy run`."""
    (folder / "program.hlo").write_text(program)
    return run_job(Path("-m"), 2, "xlapy", "run", str(folder / "program.hlo"), *arguments)


def alone(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str, program: str = SUM) -> str:
    (folder / "alone.hlo").write_text(program)
    assert invoke(["run", str(folder / "alone.hlo"), *arguments]) == 0
    return capsys.readouterr().out


def test_the_report_is_that_of_one_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(tmp_path, "--random", "3", "--print")
    assert (found.code, found.errors) == (0, "")
    assert found.output == alone(capsys, tmp_path, "--random", "3", "--print")


def test_feeds_of_devices_of_several_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "0.npy", np.int32(7))
    np.save(tmp_path / "1.npy", np.int32(8))
    feeds = [word for n in (0, 1) for word in ("--infeed", f"{n}={tmp_path / f'{n}.npy'}")]
    found = run(tmp_path, *feeds, "--save", str(tmp_path / "out.npz"), "--print", program=FED)
    assert (found.code, found.errors) == (0, "")
    with np.load(tmp_path / "out.npz") as saved:
        assert {name: int(saved[name]) for name in saved} == {"device0_result0": -7, "device1_result0": -8}
    expected = alone(capsys, tmp_path, *feeds, "--print", program=FED)
    assert found.output.splitlines()[1:] == expected.splitlines() and "device 1: outfeed 0: s32[] 8" in expected


def test_the_comparison_with_one_process(tmp_path: Path) -> None:
    found = run(tmp_path, "--random", "0", "--compare", "single")
    assert (found.code, found.errors) == (0, "")
    assert found.output == "the results of 4 devices in 2 processes have the same bits as those of one process\n"


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        ([], f"[{INPUT_GIVEN}]", 1),
        (["--random", "0", "--num-partitions", "5"], f"[{RUN_DEVICES}]", 1),
        (["--random", "0", "--trace"], "--trace runs in one process", 2),
        (["--no-such-option"], "No such option", 2),
    ],
    ids=["no arguments", "devices that the processes cannot share", "trace", "unknown option"],
)
def test_errors_are_reported_once(tmp_path: Path, arguments: list[str], message: str, code: int) -> None:
    found = run(tmp_path, *arguments)
    assert (found.code, found.output) == (code, "")
    assert found.errors.count(message) == 1 and "Traceback" not in found.errors


# -- without mpirun


def program() -> Executable:
    return xla.Client("cpu", devices=4).compile(SUM)


def results(of: Executable) -> list[list[np.ndarray]]:
    rows = of.execute_sharded([[np.arange(64, dtype=np.float32) * n] for n in range(4)])
    return [[np.array(leaf) for leaf in row] for row in rows]


def test_results_that_differ_in_one_bit(capsys: pytest.CaptureFixture[str]) -> None:
    executable = program()
    arrays = dict(enumerate(results(executable)))
    assert compare_with_single_process(RunProcesses(None), executable, arrays, results) == 0
    assert capsys.readouterr().out == (
        "the results of 4 devices in 1 process have the same bits as those of one process\n"
    )
    arrays[2][0] = arrays[2][0].copy()
    arrays[2][0].view(np.uint32)[5] ^= 1
    assert compare_with_single_process(RunProcesses(None), executable, arrays, results) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("device 2, process 0: result 0: 1 of 64 elements differ; the first at [5] is 30.0000")
    assert first.endswith("in one process 30.0") and "differ from those of one process" in last


def test_signs_of_zeros_and_shapes_differ(capsys: pytest.CaptureFixture[str]) -> None:
    executable = program()
    arrays = dict(enumerate(results(executable)))
    arrays[0][0], arrays[1][1] = -arrays[0][0] * 0, np.uint32([1])
    expected = [[arrays[n][0] * 0 + 0.0 if n == 0 else arrays[n][0], np.array(n, np.uint32)] for n in range(4)]
    expected[0][0] = np.zeros(64, np.float32)
    assert compare_with_single_process(RunProcesses(None), executable, arrays, lambda _: expected) == 1
    output = capsys.readouterr().out
    assert "device 0, process 0: result 0: 64 of 64 elements differ; the first at [0] is -0.0, in one" in output
    assert "device 1, process 0: result 1: uint32[1], in one process uint32[]" in output


def test_a_failing_action_of_this_process() -> None:
    with pytest.raises(ZeroDivisionError):
        RunProcesses(None).together("a division", lambda: 1 // 0)
    assert RunProcesses(None).together("a division", lambda: 4 // 2) == 2
