"""`xlapy profile`: rows from profiling counters, their shares of the roofline, output formats, the command."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import xlapy as xla
from tests.raising import raises
from tests.tools.pages import Page, rendered
from tests.tools.programs import COUNT_TO_3
from xlapy.base.error_codes.interfaces import commands as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.cpu.compiler import Instrument, compile_module
from xlapy.custom_calls.registry import register_custom_call_target, unregister_custom_call_target
from xlapy.runtime import Client
from xlapy.runtime.machine import Bandwidth, Machine, Roofline
from xlapy.tools.command_line import invoke
from xlapy.tools.profile import session
from xlapy.tools.profile.interpreted import Stopwatch
from xlapy.tools.profile.measuring import Measured, fastest_runs
from xlapy.tools.profile.native import native_rows
from xlapy.tools.profile.page import profile_page
from xlapy.tools.profile.report import Profile, figures_text, print_rows, time_text
from xlapy.tools.profile.rows import Row, all_rows, merged, rows_by_instruction, shares_by
from xlapy.tools.profile.session import profile_of, session_of

ONE = Roofline(1, {"f32": 1e9, "f64": 5e8}, (Bandwidth(1 << 14, 4e9, 2e9), Bandwidth(1 << 17, 1e9, 5e8)))
ALL = Roofline(2, {"f32": 2e9, "f64": 1e9}, (Bandwidth(1 << 14, 8e9, 4e9), Bandwidth(1 << 17, 1e9, 5e8)))
MACHINE = Machine("test", ONE, ALL)
FAST = Roofline(1, {"f32": 1e18, "f64": 1e18}, (Bandwidth(1 << 14, 1e18, 1e18),))
"""A machine that is so fast that no time is its limit."""

ROWS = """HloModule rows

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY main {
  x = f32[64,128] parameter(0)
  w = f32[128,256] parameter(1)
  d = f32[64,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={op_name="jit(f)/dot" source_file="f.py" source_line=12}
  e = f32[64,256] exponential(d), metadata={source_file="f.py" source_line=13}
  zero = f32[] constant(0)
  ROOT s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add, metadata={source_file="f.py" source_line=14}
}
"""

LOOP = """HloModule loop
body { s = (s32[], f32[64,64], f32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  v = f32[64,64] get-tuple-element(s), index=1
  w = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)  m = s32[] add(n, one)
  p = f32[64,64] dot(v, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[4] negate(w)
  ROOT r = (s32[], f32[64,64], f32[4]) tuple(m, p, t) }
condition { s = (s32[], f32[64,64], f32[4]) parameter(0)  n = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(5)  ROOT less = pred[] compare(n, limit), direction=LT }
ENTRY main {
  v = f32[64,64] parameter(0)
  w = f32[4] parameter(1)
  i = s32[] constant(0)
  start = (s32[], f32[64,64], f32[4]) tuple(i, v, w)
  ROOT end = (s32[], f32[64,64], f32[4]) while(start), condition=condition, body=body
}
"""


@pytest.fixture(autouse=True)
def machine(monkeypatch) -> list[bool]:
    """Replaces the measured roofline; records whether a new measurement was requested."""
    requests: list[bool] = []

    def limits(*, anew: bool) -> Machine:
        requests.append(anew)
        return MACHINE

    monkeypatch.setattr(session, "machine_roofline", limits)
    return requests


def profiled(text: str, platform: str = "cpu") -> Profile:
    return profile_of(session_of(Client(platform).compile(text), (), None), 2)


def by_name(rows: list[Row]) -> dict[str, Row]:
    return {row.name: row for _, row in all_rows(rows)}


def measured(text: str, seconds: float, runs: dict[str, float], clock_reading_seconds: float = 0.0) -> Measured:
    """Builds a measurement in which every counter has this total; `runs` gives the executions of an instruction's
    thunks by name, by default 1.
    """
    compiled = compile_module(xla.parse_hlo(text), instrument=Instrument.COUNTS)
    counters = compiled.program.counters
    assert counters is not None
    figures = np.array([
        [seconds, max(runs.get(getattr(thunk, "op_name", ""), 1) for thunk in counter.thunks), 0.0]
        for counter in counters.all
    ])  # fmt: skip
    return Measured(compiled, figures, 1.0, 1.0, clock_reading_seconds, 1)


class TestRows:
    def test_bytes_and_operations_of_a_kernel(self):
        found = by_name(native_rows(measured(ROWS, 1e-3, {}), MACHINE))
        dot = found["d"]
        assert (dot.opcode, dot.seconds, dot.executions, dot.source) == ("dot", 1e-3, 1, "f.py:12")
        assert (dot.read, dot.written) == (4 * (64 * 128 + 128 * 256), 4 * 64 * 256)
        assert dot.flops == 2 * 64 * 128 * 256 <= dot.computed < 1.1 * dot.flops
        assert dot.per_second(dot.moved) == dot.moved / 1e-3
        fusion = found["s.fusion"]
        assert fusion.inside == "exponential, reduce"
        assert fusion.computed > fusion.flops  # an exponential counts as many operations

    def test_the_limit_follows_from_memory_and_arithmetic(self):
        dot = by_name(native_rows(measured(ROWS, 1e-2, {}), MACHINE))["d"]
        assert dot.memory_seconds == dot.read / 1e9 + dot.written / 5e8
        assert dot.arithmetic_seconds == pytest.approx(dot.operations["f32"] / 1e9, rel=0.1)
        assert dot.minimum_seconds == max(dot.memory_seconds, dot.arithmetic_seconds)
        assert (dot.limit, dot.bound) == (dot.minimum_seconds / 1e-2, "compute")
        slow = by_name(native_rows(measured(ROWS, 10.0, {}), MACHINE))["d"]
        assert slow.bound == "overhead"

    def test_parallel_kernels_use_the_roofline_of_all_threads(self):
        taken = measured(ROWS, 1e-2, {})
        taken.figures[:, 2] = 1.5e-2
        dot = by_name(native_rows(taken, MACHINE))["d"]
        assert dot.threads == 1.5 and dot.is_parallel
        assert dot.arithmetic_seconds == pytest.approx(dot.operations["f32"] / 2e9, rel=0.1)

    def test_library_calls_name_the_function(self):
        text = "HloModule m\nENTRY e { x = f32[8,8] parameter(0)\n ROOT c = f32[8,8] cholesky(x), lower=true }"
        calls = [row for row in native_rows(measured(text, 1e-3, {}), MACHINE) if row.opcode == "custom-call"]
        (row,) = calls
        assert re.fullmatch(r"lapack_[sd]potrf_ffi", row.inside)

    def test_loops_have_trip_counts_and_nested_rows(self):
        runs = {"p": 5.0, "m.fusion": 5.0, "t": 5.0, "m": 5.0}
        found = by_name(native_rows(measured(LOOP, 1e-3, runs), MACHINE))
        loop = found["end"]
        assert (loop.iterations, loop.executions, loop.opcode) == (5, 1, "while")
        assert {child.name for child in loop.children} >= {"p", "t"}
        assert loop.moved == sum(child.moved for child in loop.children)
        assert found["p"].executions == 5 and found["p"].flops == 5 * 2 * 64**3

    def test_the_cost_of_reading_the_clock_is_subtracted(self):
        runs = {"p": 5.0, "m.fusion": 5.0, "t": 5.0, "m": 5.0}
        taken = measured(LOOP, 1e-3, runs, clock_reading_seconds=1e-6)
        assert taken.compiled.program.counters is not None
        (loop,) = [clock for clock in taken.compiled.program.counters.all if clock.nested]
        taken.figures[loop.number, 0] = 1e-2
        found = by_name(native_rows(taken, Machine("fast", FAST, FAST)))
        assert found["p"].seconds == pytest.approx(1e-3 - 5e-6)
        readings = 1 + sum(taken.figures[one.number, 1] for inner in loop.nested for one in inner)
        assert readings > 5 and found["end"].seconds == pytest.approx(1e-2 - 1e-6 * readings)

    def test_no_more_is_subtracted_than_the_limit_allows(self):
        """The cost of reading the clock is an estimate, and a kernel cannot take less than its limit."""
        taken = measured(LOOP, 2.7e-3, {"p": 5.0}, clock_reading_seconds=1e-4)
        found = by_name(native_rows(taken, MACHINE))["p"]
        assert 2.2e-3 < found.seconds == found.minimum_seconds < 2.7e-3 and found.limit == 1.0

    def test_a_loop_takes_at_least_the_time_of_what_it_contains(self):
        """The estimated cost of reading the clock is subtracted more often from the loop."""
        found = by_name(native_rows(measured(LOOP, 1e-3, {"p": 5.0}, clock_reading_seconds=1e-5), MACHINE))
        assert found["end"].seconds == pytest.approx(sum(child.seconds for child in found["end"].children))
        assert found["end"].seconds > found["p"].seconds > 0

    def test_the_time_of_short_iterations_is_divided_among_their_thunks(self):
        (row,) = [row for row in native_rows(measured(COUNT_TO_3, 1e-3, {}), MACHINE) if row.iterations is not None]
        (child,) = row.children
        assert row.seconds == 1e-3 and 0 < child.seconds < 1e-3  # the rest is the time of the condition

    def test_times_of_thunks_and_of_the_whole_come_from_the_same_runs(self):
        walls = [10.0, 4.0, *[9.0] * 8, 6.0]  # two of eleven runs count
        figures = [np.array([[wall - 1, 1]]) for wall in walls]
        figures[0] = np.array([[0.5, 1]])  # the shortest time of the thunk is in the slowest run
        wall, mean = fastest_runs(walls, figures)
        assert wall == 5 and mean.tolist() == [[4, 1]]

    def test_rows_with_one_name_are_combined(self):
        rows = merged([
            Row("a", "add", seconds=1.0, executions=2, read=10, threads=1),
            Row("b", "add", seconds=5.0),
            Row("a", "add", seconds=3.0, executions=1, read=5, threads=2, operations={"f32": 4.0}),
        ])  # fmt: skip
        assert [row.name for row in rows] == ["b", "a"]
        assert (rows[1].seconds, rows[1].executions, rows[1].read, rows[1].threads) == (4.0, 3, 15, 1.75)
        assert rows[1].operations == {"f32": 4.0}


class TestShares:
    def test_the_time_of_a_fusion_is_divided_by_the_work_inside(self):
        found = profile(native_rows(measured(ROWS, 1e-3, {}), MACHINE))
        shares = {share.name: share for share in found.shares("source")}
        assert set(shares) == {"f.py:12", "f.py:13", "f.py:14"}
        assert shares["f.py:12"].seconds == 1e-3
        assert shares["f.py:13"].seconds + shares["f.py:14"].seconds == pytest.approx(1e-3)
        assert shares["f.py:13"].seconds > shares["f.py:14"].seconds  # exponentials cost more than additions
        assert shares["f.py:13"].rows == {"s.fusion"}

    def test_opcodes_are_those_inside_fusions(self):
        found = profile(native_rows(measured(ROWS, 1e-3, {}), MACHINE)).shares("opcode")
        assert {share.name for share in found} == {"dot", "exponential", "reduce"}
        assert sum(share.seconds for share in found) == pytest.approx(2e-3)

    def test_times_without_an_instruction_have_no_source_line(self):
        assert [share.name for share in shares_by([Row("x", "copy", seconds=1.0)], "source", {})] == ["(no line)"]


def profile(rows: list[Row], wall: float = 4e-3) -> Profile:
    module = compile_module(xla.parse_hlo(ROWS)).module
    return Profile(module, "cpu", rows_in(module, rows), wall, wall * 1.01, 7, MACHINE)


def rows_in(module: xla.Module, rows: list[Row]) -> list[Row]:
    """Returns the same rows for another copy of their module."""
    instructions = {one.name: one for one in module.instructions()}
    for row in rows:
        row.instruction = instructions[row.name]
    return rows


class TestForms:
    def test_json(self):
        found = profile(native_rows(measured(ROWS, 1e-3, {}), MACHINE)).to_json()
        found = json.loads(json.dumps(found))
        rows = {row["name"]: row for row in found["rows"]}
        assert rows["d"]["share"] == 0.25 and rows["d"]["framework"] == "jit(f)/dot"
        assert rows["s.fusion"]["inside"] == "exponential, reduce" and rows["s.fusion"]["depth"] == 0
        assert found["machine"]["one"]["operations"]["f32"] == 1e9
        assert found["thunk_seconds"] == 2e-3 and found["seconds"] == 4e-3

    def test_the_table_has_the_slowest_rows(self):
        runs = {"p": 5.0}
        rows = native_rows(measured(LOOP, 1e-3, runs), MACHINE)
        console = Console(width=160, record=True, file=io.StringIO())
        found = Profile(compile_module(xla.parse_hlo(LOOP)).module, "cpu", rows, 1e-2, 1e-2, 1, MACHINE)
        print_rows(console, found, 2)
        lines = console.export_text().splitlines()
        assert lines[0].split()[:3] == ["instruction", "ms", "share"]
        assert len(lines) == 4 and lines[-1].endswith(f"more (--top {len(list(all_rows(rows)))})")

    def test_the_summary_accounts_for_the_total_time(self):
        first, second = profile(native_rows(measured(ROWS, 1e-3, {}), MACHINE)).summary
        assert first == ("rows on cpu, 7 runs: 4 ms per run, 2 ms (50.0%) in thunks, 2 ms outside; measuring adds 1.0%")
        assert second == "test, 2 threads: memory 1 GB/s, f32 2 and f64 1 GFLOP/s at most"

    def test_formatted_numbers(self):
        row = Row("a", "add", seconds=2e-3, executions=1, read=1e6, written=1e6, flops=4e6, memory_seconds=1e-3)
        row.minimum_seconds = 1e-3
        assert figures_text(row) == "2 ms, 1 run, 1 GB/s, 2 GFLOP/s, 50% of the limit (memory)"
        assert [time_text(t) for t in (2.0, 0.0125, 3.25e-6)] == ["2 s", "12.5 ms", "3.25 us"]

    def test_the_page_is_self_contained_and_escapes_names(self):
        found = profile(native_rows(measured(ROWS, 1e-3, {}), MACHINE))
        found.rows[0].name = found.module.name = "</script><script>alert(1)</script>"
        text = profile_page(found)
        page = Page(text)
        assert text.isascii() and "alert(1)</script>" not in text
        assert [tag for tag, given in page.elements if "src" in given or "href" in given or tag == "link"] == []
        assert page.json("profile")["module"] == found.module.name

    def test_the_page_in_a_browser(self, tmp_path):
        (tmp_path / "page.html").write_text(profile_page(profile(native_rows(measured(ROWS, 1e-3, {}), MACHINE))))
        page = rendered(tmp_path / "page.html")
        ids = [given.get("id") or "" for _, given in page.elements]
        assert [id for id in ids if id.startswith("row-")] == ["row-0", "row-1"]
        assert sorted(id for id in ids if id.startswith("point-")) == ["point-0", "point-1"]
        roofs = [given for tag, given in page.elements if tag == "path"]
        # a line for each level of memory that this processor has, and f32 on all threads and on one
        assert len(roofs) == len(MACHINE.levels(MACHINE.all)) + 2


class TestPlatforms:
    def test_on_cpu(self, machine):
        found = profiled(LOOP)
        rows = by_name(found.rows)
        assert found.platform == "cpu" and found.runs == 2 and machine == [False]
        assert rows["end"].iterations == 5 and rows["p"].executions == 5
        assert 0 < rows["p"].seconds <= rows["end"].seconds < found.instrumented_wall

    def test_on_the_interpreter(self):
        found = profiled(LOOP, "interpreter")
        rows = by_name(found.rows)
        assert found.machine is None and rows["end"].iterations == 5
        assert {"p", "t", "less"} <= {child.name for child in rows["end"].children}
        assert (rows["p"].executions, rows["p"].flops) == (5, 5 * 2 * 64**3)
        assert 0 < found.thunk_seconds <= found.wall

    def test_calls_at_the_interpreters_depth_limit(self):
        depth = 1500
        inner = "c0 { p0 = f32[] parameter(0)\n ROOT r0 = f32[] negate(p0) }\n"
        calls = "".join(
            f"c{n} {{ p{n} = f32[] parameter(0)\n ROOT r{n} = f32[] call(p{n}), to_apply=c{n - 1} }}\n"
            for n in range(1, depth)
        )
        entry = f"ENTRY e {{ p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=c{depth - 1} }}\n"
        found = profiled(f"HloModule deep\n{inner}{calls}{entry}", "interpreter")
        depths = [level for level, row in all_rows(found.rows) if row.opcode == "negate"]
        assert depths == [depth]

    def test_several_devices(self):
        text = """HloModule m, replica_count=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[100] parameter(0)  ROOT s = f32[100] all-reduce(x), replica_groups={}, to_apply=add }"""
        executable = Client("cpu", devices=2).compile(text)
        found = profile_of(session_of(executable, (), None), 2)
        assert found.devices == 2
        assert all(row.executions == 1 for row in found.rows if row.opcode == "all-reduce")
        assert any(row.opcode == "all-reduce" for row in found.rows)

    def test_donated_arguments_are_preserved(self):
        entry = "ENTRY e { x = f32[64] parameter(0)\n ROOT y = f32[64] add(x, x) }"
        text = f"HloModule i, input_output_alias={{ {{}}: (0, {{}}) }}\n{entry}"
        found = session_of(Client("cpu").compile(text), (), 0)
        before = np.array(found.arguments[0][0])
        profile_of(found, 2)
        np.testing.assert_array_equal(found.arguments[0][0], before)

    def test_a_stopwatch_starts_at_the_start_of_a_run(self):
        watch, instruction = Stopwatch(), xla.parse_hlo(ROWS).entry_computation.root_instruction
        watch.start()
        watch.observe(instruction, (), None)
        assert 0 < watch.seconds[instruction] < 1 and watch.executions == {instruction: 1}

    def test_rows_by_instruction_add_up_all_rows(self):
        instruction = xla.parse_hlo(ROWS).entry_computation.root_instruction
        inside = Row("s", "reduce", instruction, seconds=1.0)
        copies = Row("copy of s", "copy", instruction, seconds=0.5)
        found = rows_by_instruction([Row("loop", "while", children=[inside]), copies])
        assert list(found) == ["s"] and found["s"].seconds == 1.5


class TestCommand:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Iterator[str]:
        (tmp_path / "rows.hlo").write_text(ROWS)
        yield str(tmp_path / "rows.hlo")

    def test_table(self, file, capsys):
        assert invoke(["profile", file, "--repeat", "2"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("rows on cpu, 2 runs: ")
        assert {line.split()[0] for line in lines[4:]} == {"d", "s.fusion"}

    def test_by_source(self, file, capsys):
        assert invoke(["profile", file, "--repeat", "2", "--by", "source"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert {line.split()[0] for line in lines[4:]} == {"f.py:12", "f.py:13", "f.py:14"}

    def test_json_and_a_new_roofline_measurement(self, file, capsys, machine):
        assert invoke(["profile", file, "--repeat", "2", "--json", "--remeasure"]) == 0
        assert {row["name"] for row in json.loads(capsys.readouterr().out)["rows"]} == {"d", "s.fusion"}
        assert machine == [True]

    def test_given_arguments(self, file, tmp_path, capsys):
        np.savez(tmp_path / "in.npz", x=np.ones((64, 128), np.float32), w=np.ones((128, 256), np.float32))
        assert invoke(["profile", file, "--repeat", "1", "--input", str(tmp_path / "in.npz")]) == 0
        assert invoke(["profile", file, "--input", str(tmp_path / "in.npz"), "--random", "1"]) == 2

    def test_compiled_files(self, file, tmp_path, capsys):
        assert invoke(["compile", file, "-o", str(tmp_path / "rows.xla")]) == 0
        assert invoke(["profile", str(tmp_path / "rows.xla"), "--repeat", "1"]) == 0
        assert "s.fusion" in capsys.readouterr().out

    def test_page_and_timeline(self, file, tmp_path, capsys):
        page, trace = tmp_path / "page.html", tmp_path / "trace.json"
        assert invoke(["profile", file, "--repeat", "2", "--html", str(page), "--perfetto", str(trace)]) == 0
        assert len(Page(page.read_text("ascii")).json("profile")["rows"]) == 2
        found = json.loads(trace.read_text())
        events = [event for event in found["traceEvents"] if event["ph"] == "X"]
        thunks = [event for event in events if event["cat"] == "thunk"]
        assert [event["name"] for event in thunks] == ["d", "s.fusion"]
        assert thunks[0]["args"]["source"] == "f.py:12" and thunks[0]["tid"] == 1
        assert thunks[0]["ts"] >= 0 and thunks[0]["ts"] + thunks[0]["dur"] <= thunks[1]["ts"] + 0.01
        names = [event["args"]["name"] for event in found["traceEvents"] if event["ph"] == "M"]
        assert names[0] == "caller" and found["otherData"] == {"lost": False}

    def test_a_timeline_needs_cpu(self, file, tmp_path, capsys):
        arguments = ["profile", file, "--platform", "interpreter", "--perfetto", str(tmp_path / "t.json")]
        assert invoke(arguments) == 2
        assert "--perfetto shows runs on cpu, rows runs on the interpreter" in capsys.readouterr().err

    def test_an_invalid_file(self, tmp_path, capsys):
        (tmp_path / "wrong.hlo").write_text("HloModule m\nENTRY e { ROOT x = f32[2] add(y, y) }")
        assert invoke(["profile", str(tmp_path / "wrong.hlo")]) == 1
        assert "wrong.hlo:2" in capsys.readouterr().err
        assert invoke(["profile", str(tmp_path / "absent.hlo")]) == 1

    def test_wrong_arguments_are_an_error(self, file, tmp_path):
        np.save(tmp_path / "in.npy", np.ones(3, np.float32))
        with raises(InvalidArgumentError, codes.INPUT_FILES, "2 arrays"):
            session_of(Client("cpu").compile(ROWS), (str(tmp_path / "in.npy"),), None)


def test_instructions_that_the_host_computes_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a loop: three calls of a Python function, and none of a native form."""
    monkeypatch.setattr(session, "machine_roofline", lambda anew: MACHINE)
    call = 'after = s32[] custom-call(before), custom_call_target="increased"'
    text = COUNT_TO_3.replace("after = s32[] add(before, one)", call).replace(
        "parameter(0)\n  ROOT c", "constant(0)\n  ROOT c"
    )
    register_custom_call_target("increased", lambda x: x + np.int32(1), platform="cpu")
    try:
        profile = profile_of(session_of(Client("cpu").compile(text), (), 0), 5)
    finally:
        unregister_custom_call_target("increased", "cpu")
    (callback,) = profile.host_callbacks
    assert (callback.name, callback.opcode, callback.executions) == ("after.1", "custom-call", 3)
    assert callback.reason == "its target is a function of Python"
    assert 0 < callback.seconds < profile.instrumented_wall
    (line,) = [line for line in profile.summary if line.startswith("the host computes")]
    assert line.startswith("the host computes after.1 (custom-call) 3 times per run, ")
    (listed,) = profile.to_json()["host_callbacks"]
    assert (listed["name"], listed["executions"], listed["reason"]) == ("after.1", 3, callback.reason)
    assert profile_of(session_of(Client("cpu").compile(ROWS), (), 0), 2).host_callbacks == []
