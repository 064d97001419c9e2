"""Operations run on arrays of the largest rank that the interpreter accepts, which is below NumPy's limit."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.runtime.limits import MAX_RANK

SHAPE = f"f32[{','.join('1' * MAX_RANK)}]"
ALL = ",".join(map(str, range(MAX_RANK)))
ONES = ",".join("1" * MAX_RANK)
WINDOW = f"window={{size={'x'.join('1' * MAX_RANK)}}}"

BODIES = {
    "broadcast": f"{SHAPE} broadcast(one), dimensions={{}}",
    "clamp": f"{SHAPE} clamp(zero, x, one)",
    "dynamic-slice": f"{SHAPE} dynamic-slice(x{', i' * MAX_RANK}), dynamic_slice_sizes={{{ONES}}}",
    "dynamic-update-slice": f"{SHAPE} dynamic-update-slice(x, x{', i' * MAX_RANK})",
    "gather": f"{SHAPE} gather(x, place), offset_dims={{{ALL}}}, collapsed_slice_dims={{}}, start_index_map={{0}}, "
    f"index_vector_dim=0, slice_sizes={{{ONES}}}",
    "map": f"{SHAPE} map(x, x), dimensions={{{ALL}}}, to_apply=larger",
    "pad": f"{SHAPE} pad(x, zero), padding={'x'.join(['0_0_1'] * MAX_RANK)}",
    "reduce": f"f32[] reduce(x, zero), dimensions={{{ALL}}}, to_apply=sum",
    "reduce-window": f"{SHAPE} reduce-window(x, zero), {WINDOW}, to_apply=sum",
    "scatter": f"{SHAPE} scatter(zeros, place, x), update_window_dims={{{ALL}}}, inserted_window_dims={{}}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=sum",
    "select-and-scatter": f"{SHAPE} select-and-scatter(x, x, zero), {WINDOW}, select=at_least, scatter=sum",
    "sort": f"{SHAPE} sort(x), dimensions={{0}}, to_apply=at_least",
    "transpose": f"{SHAPE} transpose(x), dimensions={{{','.join(map(str, reversed(range(MAX_RANK))))}}}",
}


@pytest.mark.parametrize("op", BODIES)
def test_ops_run_at_the_largest_rank(op: str):
    text = f"""HloModule ranks
sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }}
larger {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }}
at_least {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GE }}
ENTRY main {{
  x = {SHAPE} parameter(0)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  i = s32[] constant(0)
  place = s32[1] constant({{0}})
  zeros = {SHAPE} broadcast(zero), dimensions={{}}
  ROOT r = {BODIES[op]}
}}
"""
    result = np.asarray(xla.Client("interpreter").compile(text)(np.ones((1,) * MAX_RANK, np.float32)))
    assert result.size == 1
    assert result.item() == 1
