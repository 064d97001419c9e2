"""Instrumented programs: their results and counts, and where the clock is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import Instrument, compile_module
from xlapy.cpu.program.counter_records import ProfilingCounter
from xlapy.cpu.program.profiling_counters import MAX_SHARED_STATEMENTS
from xlapy.cpu.program.thunks import ConditionalThunk, KernelThunk, WhileThunk
from xlapy.runtime.backends.cpu import CpuBackend, CpuProgram
from xlapy.runtime.engine.counters import CounterTable

PROGRAM = """HloModule clocked
double { a = f32[4] parameter(0)  ROOT b = f32[4] add(a, a) }
half { a = f32[4] parameter(0)  h = f32[] constant(0.5)  s = f32[4] broadcast(h), dimensions={}
  ROOT b = f32[4] multiply(a, s) }
body { s = (s32[], f32[4], f32[300,300]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  x = f32[300,300] get-tuple-element(s), index=2
  one = s32[] constant(1)  m = s32[] add(n, one)
  two = s32[] constant(2)  odd = s32[] remainder(n, two)
  w = f32[4] conditional(odd, v, v), branch_computations={double, half}
  y = f32[300,300] tanh(x)
  ROOT t = (s32[], f32[4], f32[300,300]) tuple(m, w, y) }
condition { s = (s32[], f32[4], f32[300,300]) parameter(0)  n = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(7)  ROOT less = pred[] compare(n, limit), direction=LT }
ENTRY e {
  v = f32[4] parameter(0)
  x = f32[300,300] parameter(1)
  y = f32[300,300] exponential(x)
  zero = s32[] constant(0)
  start = (s32[], f32[4], f32[300,300]) tuple(zero, v, y)
  ROOT end = (s32[], f32[4], f32[300,300]) while(start), condition=condition, body=body
}"""
SHORT = """HloModule short
body { s = (s32[], f32[4]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)  m = s32[] add(n, one)
  w = f32[4] sqrt(v)
  ROOT t = (s32[], f32[4]) tuple(m, w) }
condition { s = (s32[], f32[4]) parameter(0)  n = s32[] get-tuple-element(s), index=0
  limit = s32[] constant(50)  ROOT less = pred[] compare(n, limit), direction=LT }
ENTRY e {
  v = f32[4] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[4]) tuple(zero, v)
  ROOT end = (s32[], f32[4]) while(start), condition=condition, body=body
}"""
V = np.array([1, 2, 3, 4], np.float32)
X = np.linspace(-1, 1, 90000, dtype=np.float32).reshape(300, 300)


def instrumented(instrument: Instrument, text: str = PROGRAM) -> CpuProgram:
    backend, module = CpuBackend(), xla.parse_hlo(text)
    return backend.compile_instrumented(backend.compile(module), module, instrument)


def counted(
    program: CpuProgram, runs: int = 1, values: Sequence[Any] = (V, X)
) -> tuple[CounterTable, list[ProfilingCounter]]:
    for _ in range(runs):
        program.execute(values)
    (counts,) = program.call.counter_tables()
    clocks = program.compiled.program.counters
    assert clocks is not None
    return counts, clocks.all


@pytest.mark.parametrize("instrument", Instrument)
def test_it_computes_the_same_bits(instrument):
    plain = CpuBackend().compile(xla.parse_hlo(PROGRAM)).execute([V, X])
    found = instrumented(instrument).execute([V, X])
    assert [np.asarray(leaf).tobytes() for leaf in found] == [np.asarray(leaf).tobytes() for leaf in plain]


def test_loops_branches_and_kernels_are_counted():
    counts, clocks = counted(instrumented(Instrument.COUNTS), runs=3)
    (loop,) = [clock for clock in clocks if isinstance(clock.thunks[0], WhileThunk)]
    condition, body = loop.nested
    assert condition == []  # a short condition: its time counts as the loop's
    assert counts.figures[loop.number, 1] == 3
    assert {int(counts.figures[clock.number, 1]) for clock in body} == {21}
    (branch,) = [clock for clock in body if isinstance(clock.thunks[0], ConditionalThunk)]
    assert [[int(counts.figures[clock.number, 1]) for clock in inner] for inner in branch.nested] == [[12], [9]]
    assert all(clock.in_loop for clock in body) and not loop.in_loop


def test_the_body_takes_no_longer_than_its_loop():
    counts, clocks = counted(instrumented(Instrument.COUNTS))
    ticks = counts.figures[:, 0]
    loop = next(clock for clock in clocks if isinstance(clock.thunks[0], WhileThunk))
    inner = sum(int(ticks[clock.number]) for clock in loop.nested[1])
    assert 0 < inner <= ticks[loop.number]


def test_short_kernels_share_a_counter_up_to_a_limit():
    lines = ["x0 = f32[16] parameter(0)"]
    for n in range(90):  # concatenations do not fuse with those that they are sliced from
        lines.append(f"a{n} = f32[8] slice(x{n}), slice={{[4:12]}}")
        lines.append(f"x{n + 1} = f32[16] concatenate(a{n}, a{n}), dimensions={{0}}")
    text = "HloModule m\nENTRY e {\n" + "\n".join(lines[:-1]) + "\nROOT " + lines[-1] + "\n}"
    program = compile_module(xla.parse_hlo(text), instrument=Instrument.COUNTS).program
    assert program.counters is not None
    lengths = [sum(thunk.statements for thunk in clock.thunks) for clock in program.counters.all]
    longest = max(thunk.statements for clock in program.counters.all for thunk in clock.thunks)
    assert len(lengths) > 1 and all(length >= MAX_SHARED_STATEMENTS for length in lengths[:-1])
    assert max(lengths) < MAX_SHARED_STATEMENTS + longest


def test_thunks_of_short_iterations_are_counted_but_not_timed():
    counts, clocks = counted(instrumented(Instrument.COUNTS, SHORT), values=[V])
    _, loop, body = clocks  # the first copies the initial state
    assert loop.nested == [[], [body]] and not body.is_timed and len(body.thunks) == 2
    assert counts.figures[body.number].tolist() == [0, 50, 0]
    assert counts.figures[loop.number, 0] > 0


def test_threads_time_their_chunks():
    program = instrumented(Instrument.COUNTS)
    counts, clocks = counted(program)
    spread = [clock for clock in clocks if isinstance(clock.thunks[0], KernelThunk) and clock.thunks[0].op_name == "y"]
    assert spread and all(counts.figures[clock.number, 2] > 0 for clock in spread)
    counts.clear()
    assert not counts.figures.any()


def test_events_have_threads_and_times():
    counts, clocks = counted(instrumented(Instrument.EVENTS))
    events = counts.events
    whole = events[events[:, 1] == 0]
    assert len(set(whole[:, 2])) == 1  # thunks begin and end on the caller's thread
    assert [int((whole[:, 0] == clock.number).sum()) for clock in clocks] == counts.figures[:, 1].tolist()
    pieces = events[events[:, 1] == 1]
    for clock, _, _, begin, end in pieces.tolist():
        around = whole[whole[:, 0] == clock]
        assert any(b <= begin <= end <= e for b, e in around[:, 3:].tolist())


def test_events_in_loops_leave_room_for_others():
    text = PROGRAM.replace("constant(7)", "constant(60000)").replace("[300,300]", "[3,3]")
    program = instrumented(Instrument.EVENTS, text)
    program.execute([V, X[:3, :3].copy()])
    (counts,) = program.call.counter_tables()
    clocks = program.compiled.program.counters
    assert clocks is not None
    loop = next(clock for clock in clocks.top_level if isinstance(clock.thunks[0], WhileThunk))
    assert len(counts.events) < 60000 * 4
    assert (counts.events[:, 0] == loop.number).sum() == 1


def test_programs_without_instrumentation_do_not_read_the_clock():
    compiled = compile_module(xla.parse_hlo(PROGRAM))
    functions = re.findall(r"^define internal \w+ @(?:part|kernel).*?^}", compiled.llvm, re.MULTILINE | re.DOTALL)
    assert compiled.program.counters is None
    assert functions and not any("readcyclecounter" in function for function in functions)
