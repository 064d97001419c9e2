"""What benchmarks say about limits, and about modules that they do not measure."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xlapy as xla
from benchmarks import xla_modules
from benchmarks.limits import Limit, limit_of, shortfalls
from xlapy.runtime.machine import Bandwidth, Machine, Roofline
from xlapy.tools.bench import Measured

ONE = Roofline(1, {"f32": 1e6, "f64": 1e6}, (Bandwidth(1 << 14, 1e6, 1e6),))
MACHINE = Machine("test", ONE, ONE)
"""A machine that computes a million operations and moves a million bytes in a second, so that no time is less."""

ADD = """HloModule sums
ENTRY e { x = f32[1000] parameter(0)
  y = f32[1000] parameter(1)
  ROOT r = f32[1000] add(x, y) }"""
DOT = """HloModule dots
ENTRY e { x = f32[64,64] parameter(0)
  ROOT r = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


def test_the_limit_is_the_longer_one_of_memory_and_arithmetic():
    client = xla.Client("cpu")
    add = limit_of(client.compile(ADD), [np.ones(1000, np.float32)] * 2, MACHINE)
    assert add.bound == "memory" and add.seconds == pytest.approx(12e-3) and add.amount == 12_000
    assert add.text == "0.012 MB at 0.001 GB/s, memory"
    dot = limit_of(client.compile(DOT), [np.ones((64, 64), np.float32)], MACHINE)
    assert dot.bound == "compute" and dot.amount == pytest.approx(2 * 64**3, rel=0.05)
    assert dot.seconds == pytest.approx(dot.amount / 1e6)
    assert Limit(0.0).is_reached(1.0) and Limit(0.0).text == "-"


def test_rows_below_their_share_are_listed_the_lowest_first():
    memory, compute = Limit(0.84, "memory", 1e9, "L3", "loss 1"), Limit(0.84, "compute", 1e9, "", "loss 2")
    lines = shortfalls({"a": (memory, 1.0), "b": (compute, 1.0), "c": (memory, 2.0), "d": (Limit(0.0), 1.0)})
    assert lines[0] == "0 of 2 memory-bound rows reach 85% of the limit"
    assert [line.split(":")[0] for line in lines[1:3]] == ["  c", "  a"]
    assert "84% of 1e+03 MB at 1.19 GB/s, L3; loss 1" in lines[2]
    assert lines[3:] == ["1 of 1 compute-bound rows reach 80% of the limit"]


def figures(run: float, xla_run: float | None) -> Measured:
    xla_compile = None if xla_run is None else 2.0
    return Measured("f", 1.0, run, xla_compile, xla_run, 1.0, 100, None if xla_run is None else 50, None)


def test_means_leave_out_modules_that_xla_does_not_run():
    measured = {
        "sort_full": figures(1.0, 8.0),
        "mean": figures(1.0, 2.0),
        "sum": figures(2.0, 1.0),
        "x": figures(1, None),
    }
    run, plain, compiled, in_sum, live = xla_modules.summary(measured)
    assert f"geometric mean {math.cbrt(8.0):.2f} of 3 modules, lowest 0.50 (sum), 1 below 1" in run
    assert "geometric mean 1.00 of 2 modules" in plain
    assert "geometric mean 2.00" in compiled and "3.00 s, XLA 6.00 s (0.50x)" in in_sum and "mean 0.50" in live
    assert xla_modules.summary({"x": figures(1.0, None)}) == ["XLA runs none of the modules"]


@pytest.mark.slow
def test_modules_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "add.hlo").write_text(ADD)
    (tmp_path / "bad.hlo").write_text("HloModule")
    (tmp_path / "huge.hlo").write_text(ADD.replace("1000", "1000000000000"))
    (tmp_path / "several.hlo").write_text(ADD.replace("HloModule sums", "HloModule sums, replica_count=2"))
    (tmp_path / "notes.md").write_text("no module")
    figures = tmp_path / "figures.json"
    monkeypatch.setattr(sys, "argv", ["xla_modules", str(tmp_path), "--runs", "1", "--json", str(figures)])
    with pytest.raises(SystemExit) as ended:
        xla_modules.main()
    assert not ended.value.code
    shown = capsys.readouterr().out
    assert "lowest" in shown and "several.hlo runs on 2 devices" in shown and "huge.hlo takes at least" in shown
    found = json.loads(figures.read_text())
    assert found["measured"].keys() == {"add"} and found["left out"].keys() == {"bad", "huge", "several"}


def test_programs_of_several_devices_are_measured_by_name_and_kept_in_a_file(tmp_path: Path):
    table = tmp_path / "table.md"
    table.write_text("| all-reduce, 4 MB | 3.000 | 1.000 | 3.00 | 5 | 5 | 1 all-reduce |\n")
    command = [sys.executable, "-m", "benchmarks.multi_device", "--runs", "1", "--output", str(table), "--append"]
    subprocess.run([*command, "one addition"], check=True, capture_output=True, timeout=120)
    lines = table.read_text().splitlines()
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| all-reduce, 4 MB", "| one addition"]
    assert lines[2].endswith("| 3.00 | 5 | 5 | 1 all-reduce |") and lines[-3].startswith(
        "- collectives: geometric mean"
    )
    refused = subprocess.run([*command, "sorting"], check=False, capture_output=True, text=True, timeout=120)
    assert refused.returncode == 2 and "unknown program 'sorting'; known are along, windows" in refused.stderr
