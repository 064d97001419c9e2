"""Reuse distances of a program's accesses, in bytes, and the levels of memory that follow from them."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import Instrument, compile_module
from xlapy.runtime import Client
from xlapy.runtime.machine import Bandwidth, Machine, Roofline
from xlapy.tools.profile.measuring import Measured
from xlapy.tools.profile.native import native_rows
from xlapy.tools.profile.reuse import Access, Sharing, reuse_distances
from xlapy.tools.profile.rows import Row, all_rows
from xlapy.tools.profile.session import Session

TWO = """HloModule two
less { p = f32[] parameter(0) q = f32[] parameter(1) ROOT r = pred[] compare(p, q), direction=LT }
ENTRY e { x = f32[1000] parameter(0)  a = f32[1000] sort(x), dimensions={0}, to_apply=less
  b = f32[1000] reverse(a), dimensions={0}  ROOT c = f32[1000] sort(b), dimensions={0}, to_apply=less }
"""
GATHER = """HloModule g
ENTRY e { x = f32[1000,16] parameter(0)  i = s32[10,1] parameter(1)
  ROOT r = f32[10,16] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
    index_vector_dim=1, slice_sizes={1,16} }"""
LOOP = """HloModule l
plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
below { s = (s32[], f32[1000], f32[1000]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(9)
  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[1000], f32[1000]) parameter(0)  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)
  v = f32[1000] get-tuple-element(s), index=1  w = f32[1000] get-tuple-element(s), index=2  j = s32[] add(i, one)
  o = f32[] constant(0)  total = f32[] reduce(w, o), dimensions={0}, to_apply=plus
  u = f32[1000] broadcast(total), dimensions={}  d = f32[1000] add(v, u)  e = f32[1000] add(w, d)
  ROOT r = (s32[], f32[1000], f32[1000]) tuple(j, v, e) }
ENTRY main { x = f32[1000] parameter(0)  y = f32[1000] parameter(1)  big = f32[90000] parameter(2)
  z = s32[] constant(0)  t = (s32[], f32[1000], f32[1000]) tuple(z, x, y)
  w = (s32[], f32[1000], f32[1000]) while(t), condition=below, body=body  v = f32[1000] get-tuple-element(w), index=2
  far = f32[90000] negate(big)  ROOT r = (f32[1000], f32[90000]) tuple(v, far) }"""


def accesses(text: str, moved: float | None = None) -> dict[str, list[Access]]:
    compiled = compile_module(xla.parse_hlo(text, verify=True))
    return {thunk.label: found for thunk, found in reuse_distances(compiled.program, lambda _: moved).items()}


def test_what_was_just_written_is_near_and_what_the_last_run_read_is_far():
    negate = "HloModule n\nENTRY e { x = f32[1000] parameter(0) ROOT b = f32[1000] negate(x) }"
    ((read, written),) = accesses(negate).values()
    assert (read.touched, read.distance, written.distance) == (4000, 8000, 8000)
    assert not read.is_written and written.is_written and not written.is_update


def test_an_array_read_in_the_next_kernel_is_nearer_than_an_argument():
    found = accesses(TWO)
    (read, *_) = found["b"]
    (argument, *_) = found["copy of a"]
    assert read.touched == 4000 and read.distance < argument.distance


def test_a_loop_keeps_its_arrays_near():
    """What lies between two runs of a loop does not count between its iterations."""
    found = accesses(LOOP)
    assert [access.distance for access in found["e.fusion"]] == [8000, 8000]
    assert {access.is_update for access in found["e.fusion"]} == {True, False}
    assert all(access.distance >= 720_000 for access in found["far"])


def test_the_table_of_a_gather_is_touched_in_part():
    table, indices, result = accesses(GATHER, 2 * 640 + 40)["r"]
    assert (table.touched, table.is_partial) == (640, True)
    assert (indices.touched, result.touched, result.is_partial) == (40, 640, False)
    assert table.distance == 1320


@pytest.mark.parametrize(("level_1", "expected"), [(1 << 20, "L1"), (1 << 10, "memory")])
def test_the_limit_is_that_of_the_level_where_the_data_lie(level_1: int, expected: str):
    bandwidths = (Bandwidth(1 << 12, 1e10, 1e10), Bandwidth(1 << 16, 1e9, 1e9))
    roofline = Roofline(1, {"f32": 1e18}, bandwidths if level_1 > 1 << 16 else bandwidths[1:])
    machine = Machine("m", roofline, roofline, caches=(level_1,))
    text = "HloModule n\nENTRY e { x = f32[500] parameter(0) ROOT b = f32[500] negate(x) }"
    compiled = compile_module(xla.parse_hlo(text), instrument=Instrument.COUNTS)
    measured = Measured(compiled, np.array([[1e-5, 1.0, 0.0]]), 1.0, 1.0, 0.0, 1)
    (row,) = native_rows(measured, machine)
    assert row.level == expected
    assert row.limit == pytest.approx(4000 / (1e10 if expected == "L1" else 1e9) / 1e-5)


def test_runs_of_a_session_wait_for_their_results(monkeypatch: pytest.MonkeyPatch):
    """Calls of long programs return before they finish."""
    executable = Client("cpu").compile(xla.parse_hlo("HloModule n\nENTRY e { ROOT x = f32[2] parameter(0) }"))
    waited: list[object] = []
    monkeypatch.setattr("xlapy.tools.profile.session.block_until_ready", waited.append)
    Session(executable, [[np.zeros(2, np.float32)]]).run(executable)
    assert len(waited) == 1
    assert [depth for depth, _ in all_rows([Row("a", "add", children=[Row("b", "add")])])] == [0, 1]


def test_other_devices_touch_memory_between_runs():
    """Two other devices on the same core touch 8,000 bytes each before the next run."""
    text = "HloModule n\nENTRY e { x = f32[1000] parameter(0) ROOT b = f32[1000] negate(x) }"
    program = compile_module(xla.parse_hlo(text, verify=True)).program
    (found,) = reuse_distances(program, lambda _: None, Sharing(between_runs=2.0)).values()
    assert [access.distance for access in found] == [8000 + 16_000, 8000 + 16_000]


def test_parts_of_an_array_are_as_far_as_the_first_one_and_other_devices_arrays_as_the_own_one():
    """Both halves of a gathered array of 2 MiB were written a run ago. Their sources, the operands of two devices, are
    read as if they were one own operand."""
    text = """HloModule g, replica_count=2
ENTRY e { x = f32[262144] parameter(0)  y = f32[524288] all-gather(x), replica_groups={}, dimensions={0}
  b = f32[1048576] parameter(1)  n = f32[1048576] negate(b)  ROOT t = (f32[524288], f32[1048576]) tuple(y, n) }"""
    program = compile_module(xla.parse_hlo(text, verify=True), replica_count=2).program

    def distances(sharing: Sharing) -> list[list[float]]:
        found = reuse_distances(program, lambda _: None, sharing, lambda one: dict.fromkeys(one.accesses, 1 << 20))
        return [[one.distance for one in accesses] for thunk, accesses in found.items() if thunk.op_name == "y"]

    first, second = [found for found in distances(Sharing(counts_parts=True)) if len(found) == 2]
    assert first[-1] == second[-1] > 2 << 20
    near = min(found[-1] for found in distances(Sharing()) if len(found) == 1)
    assert near < second[-1]
