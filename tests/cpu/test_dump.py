"""The dump of the CPU compiler."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import pytest

import xlapy as xla
from xlapy.base import flags

PROGRAM = """HloModule shown
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[64,32] parameter(0)
  t = f32[32,64] transpose(x), dimensions={1,0}
  u = f32[64,32] transpose(t), dimensions={1,0}
  d = f32[64,64] dot(u, u), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  n = f32[64,64] sine(d)
  ROOT q = f32[64,64] dot(n, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Returns the texts of a dump, by the suffix of the file name."""
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"dump_to": str(tmp_path)}))
    xla.Client("cpu").compile(PROGRAM)
    return {path.name.removeprefix("module_0000.shown."): path.read_text() for path in tmp_path.iterdir()}


def test_modules_are_numbered_by_pass_and_only_those_that_changed(files: dict[str, str]):
    passes = sorted(name for name in files if name.startswith("pass_"))
    simplified = next(name for name in passes if name.endswith("after_simplify.txt"))
    assert "transpose" not in files[simplified] and "transpose" in files["before_optimizations.txt"]
    assert all(files[a] != files[b] for a, b in itertools.pairwise(passes))
    plans = re.findall(r", backend_config=\{.*\}", files["after_optimizations.txt"])
    assert plans and files[passes[-1]] == re.sub(r", backend_config=\{.*\}", "", files["after_optimizations.txt"])


def test_llvm_ir_is_dumped_before_and_after_optimization(files: dict[str, str]):
    assert "define i32 @xlapy_run" in files["ll"] and "define i32 @xlapy_run" in files["optimized.ll"]
    assert files["ll"] != files["optimized.ll"]
    assert "xlapy_run:" in files["s"]


def test_the_map_of_buffers_has_the_largest_first_and_a_total(files: dict[str, str]):
    head, titles, *rows = files["buffers.txt"].split("\n\n")[0].splitlines()
    assert titles.split() == ["bytes", "offset", "in", "use", "shape", "from", "to"]
    sizes = [int(row.split()[0]) for row in rows]
    assert sizes == sorted(sizes, reverse=True) and 64 * 64 * 4 in sizes
    assert head.endswith(f"for {len(sizes)} temporaries of {sum(sizes)} bytes")
    assert all(row.split()[1].startswith(("+", "@result")) and "-" in row.split()[2] for row in rows)


def test_the_map_of_buffers_has_what_is_live_at_the_peak(files: dict[str, str]):
    timeline, live = files["buffers.txt"].split("\n\n")[1].split("live at the peak:\n")
    head, *rows = timeline.splitlines()
    peak = re.fullmatch(r"peak of (\d+) bytes at position (\d+), .+", head)
    assert peak is not None
    sizes = [int(line.split()[0]) for line in live.splitlines()]
    assert sizes == sorted(sizes, reverse=True) and sum(sizes) == int(peak[1])
    (row,) = [row for row in rows if row.endswith("<- peak")]
    assert row.split()[:2] == [peak[2], peak[1]] and row.split()[2] == "#" * 40


def test_the_trace_has_every_pass_and_phase_inside_the_whole(files: dict[str, str]):
    events = json.loads(files["trace.json"])["traceEvents"]
    names = [event["name"] for event in events]
    for name in ("unfuse", "simplify", "fuse", "thunks and kernels", "buffers", "parse", "generate code", "link"):
        assert name in names
    whole = events[names.index("compile shown")]
    assert all(event["ph"] == "X" and event["dur"] >= 0 for event in events)
    assert all(event["ts"] >= whole["ts"] and event["dur"] <= whole["dur"] for event in events)
