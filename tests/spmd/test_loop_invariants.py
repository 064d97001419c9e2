"""Collectives of arrays that a loop only reads run once, before the loop."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.spmd.sharded_runs import run_sharded
from xlapy.hlo.module import Module
from xlapy.spmd import partition

HEAD = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
below { s = (s32[], f32[8,4], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }
"""
STATE = "sharding={{replicated}, {devices=[4,1]<=[4]}, {replicated}}"
BODY = """step {{ s = (s32[], f32[8,4], f32[4]) parameter(0), {state}
  i = s32[] get-tuple-element(s), index=0
  table = f32[8,4] get-tuple-element(s), index=1
  last = f32[4] get-tuple-element(s), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  zero = s32[] constant(0)
  {rows}
  row = f32[1,4] dynamic-slice(turned, j, zero), dynamic_slice_sizes={{1,4}}
  flat = f32[4] reshape(row)
  total = f32[4] add(flat, last)
  ROOT t = (s32[], f32[8,4], f32[4]) tuple(j, {following}, total), {state} }}
"""
ENTRY = f"""ENTRY e {{ x = f32[8,4] parameter(0), sharding={{devices=[4,1]<=[4]}}
  zero = s32[] constant(0)
  none = f32[4] constant({{0,0,0,0}})
  t = (s32[], f32[8,4], f32[4]) tuple(zero, x, none), {STATE}
  w = (s32[], f32[8,4], f32[4]) while(t), condition=below, body=step, {STATE}
  ROOT r = f32[4] get-tuple-element(w), index=2, sharding={{replicated}} }}"""


def collectives_in_loops(module: Module) -> list[str]:
    bodies = [i.computations[1] for i in module.instructions() if i.op.name == "while"]
    return [i.op.name for body in bodies for i in body if i.op.family == "collectives" and i.operands]


def loop(rows: str, following: str) -> str:
    return HEAD + BODY.format(state=STATE, rows=rows, following=following) + ENTRY


WHOLE = 'turned = f32[8,4] custom-call(table), custom_call_target="Sharding", sharding={replicated}'


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_an_array_that_a_loop_only_reads_is_gathered_before_it(platform: str) -> None:
    given = np.arange(32, dtype=np.float32).reshape(8, 4)
    module, results = run_sharded(loop(WHOLE, "table"), 4, [given], platform)
    np.testing.assert_array_equal(results[0], given[1:4].sum(0))
    assert collectives_in_loops(module) == []
    assert [i.op.name for i in module.entry_computation if i.op.name == "all-gather"] == ["all-gather"]


def test_an_array_that_a_loop_changes_is_gathered_in_it() -> None:
    rows = f"next = f32[8,4] add(table, table), sharding={{devices=[4,1]<=[4]}}\n{WHOLE}"
    module, _ = run_sharded(loop(rows, "next"), 4, [np.arange(32, dtype=np.float32).reshape(8, 4)])
    assert collectives_in_loops(module) == ["all-gather"]


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_an_array_that_a_loop_reads_in_slices_is_gathered_before_it(platform: str) -> None:
    given = np.arange(32, dtype=np.float32).reshape(8, 4)
    text = loop("", "table").replace("dynamic-slice(turned", "dynamic-slice(table")
    module, results = run_sharded(text, 4, [given], platform)
    np.testing.assert_array_equal(results[0], given[1:4].sum(0))
    assert collectives_in_loops(module) == []


def test_a_large_array_of_which_a_loop_reads_little_stays_split() -> None:
    """To gather 64 MB takes longer than to send two rows of 16 bytes."""
    text = (
        loop("", "table").replace("dynamic-slice(turned", "dynamic-slice(table").replace("constant(3)", "constant(2)")
    )
    module = xla.parse_hlo(text.replace("f32[8,4]", "f32[4194304,4]"))
    partition(module, 4)
    assert collectives_in_loops(module) == ["all-reduce"]
