"""Which kernels are unrolled in the functions that contain them."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import KernelThunk, walk_thunks


def rotations(rows: int, columns: int) -> str:
    """Returns a loop that rotates its state by one row, ten times, and halves it."""
    shape = f"f32[{rows},{columns}]"
    return f"""HloModule rotations
condition {{
  s = (s32[], {shape}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT r = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], {shape}) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = {shape} get-tuple-element(s), index=1
  last = f32[1,{columns}] slice(x), slice={{[{rows - 1}:{rows}],[0:{columns}]}}
  rest = f32[{rows - 1},{columns}] slice(x), slice={{[0:{rows - 1}],[0:{columns}]}}
  turned = {shape} concatenate(last, rest), dimensions={{0}}
  half = f32[] constant(0.5)
  halves = {shape} broadcast(half), dimensions={{}}
  y = {shape} multiply(turned, halves)
  ROOT r = (s32[], {shape}) tuple(next, y)
}}
ENTRY e {{
  x = {shape} parameter(0)
  zero = s32[] constant(0)
  s = (s32[], {shape}) tuple(zero, x)
  w = (s32[], {shape}) while(s), condition=condition, body=body
  ROOT r = {shape} get-tuple-element(w), index=1
}}"""


@pytest.mark.parametrize(("rows", "columns", "unrolled"), [(64, 64, False), (67, 63, False), (8, 16, True)])
def test_long_kernels_are_unrolled_only_on_arrays_that_fit_stack_slots(rows, columns, unrolled):
    text = rotations(rows, columns)
    compiled = compile_module(xla.parse_hlo(text, verify=True))
    kernels = [thunk for thunk in walk_thunks(compiled.program.thunks) if isinstance(thunk, KernelThunk)]
    assert all(thunk.unrolled for thunk in kernels) == unrolled
    assert len(compiled.stages()["ll"].splitlines()) < 1000
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    found = np.asarray(xla.Client("cpu").compile(text)(x))
    np.testing.assert_array_equal(found, np.roll(x, 10, axis=0) / 1024)
