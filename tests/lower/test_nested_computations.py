"""Computations that are applied to elements and hold more than elementwise operations, on cpu and on the interpreter.

A reducer, comparator or map body may itself contain a reduction, a matrix product, a loop, a branch or a call. What it
computes depends on its two elements, so nothing of it may run before the loop that provides them.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.testing.program_tolerance import program_tolerance, sharded_tolerances
from xlapy.testing.random_arguments import random_arguments

HELPERS = """
add { a = T[] parameter(0)  b = T[] parameter(1)  ROOT c = T[] add(a, b) }
largest { a = T[] parameter(0)  b = T[] parameter(1)  ROOT c = T[] maximum(a, b) }
half_sum { a = T[] parameter(0)  b = T[] parameter(1)  h = T[] constant(2)  c = T[] add(a, b)
  ROOT d = T[] divide(c, h) }
first { a = T[] parameter(0)  b = T[] parameter(1)  ROOT c = T[] add(a, a) }
second { a = T[] parameter(0)  b = T[] parameter(1)  o = T[] constant(1)  ROOT c = T[] subtract(b, o) }
pair_first { p = (T[], T[]) parameter(0)  ROOT a = T[] get-tuple-element(p), index=0 }
pair_sum { p = (T[], T[]) parameter(0)  a = T[] get-tuple-element(p), index=0  b = T[] get-tuple-element(p), index=1
  ROOT c = T[] add(a, b) }
ascending { a = T[] parameter(0)  b = T[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }
twice { s = (s32[], T[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(2)
  ROOT c = pred[] compare(i, n), direction=LT }
step { s = (s32[], T[]) parameter(0)  i = s32[] get-tuple-element(s), index=0  v = T[] get-tuple-element(s), index=1
  o = s32[] constant(1)  j = s32[] add(i, o)  h = T[] constant(2)  w = T[] divide(v, h)  x = T[] add(w, h)
  ROOT c = (s32[], T[]) tuple(j, x) }
nested_sum { a = T[] parameter(0)  b = T[] parameter(1)  v = T[3] broadcast(b), dimensions={}  z = T[] constant(0)
  s = T[] reduce(v, z), dimensions={0}, to_apply=add  ROOT c = T[] add(a, s) }
"""

ARRAYS = """u = T[3] broadcast(b), dimensions={}  k = T[3] constant({1, 2, 3})  v = T[3] add(u, k)  z = T[] constant(0)
  """

EXPRESSIONS = {
    "reduce": ARRAYS + "s = T[] reduce(v, z), dimensions={0}, to_apply=add",
    "reduce in any order": ARRAYS + "s = T[] reduce(v, a), dimensions={0}, to_apply=half_sum",
    "reduce of rows": """u = T[2,9] broadcast(b), dimensions={}  z = T[] constant(0)
  w = T[2] reduce(u, z), dimensions={1}, to_apply=largest  s = T[] reduce(w, a), dimensions={0}, to_apply=add""",
    "reduce of two": ARRAYS
    + """m = (T[], T[]) reduce(v, k, z, a), dimensions={0}, to_apply=two
  s = T[] get-tuple-element(m), index=1""",
    "reduce in reduce": ARRAYS + "s = T[] reduce(v, a), dimensions={0}, to_apply=nested_sum",
    "reduce of constants": """k = T[3] constant({1, 2, 3})  z = T[] constant(0)
  t = T[] reduce(k, z), dimensions={0}, to_apply=half_sum  s = T[] add(t, b)""",
    "long reduce": """u = T[200] broadcast(b), dimensions={}  i = T[200] iota(), iota_dimension=0
  v = T[200] multiply(u, i)  z = T[] constant(0)  t = T[] reduce(v, z), dimensions={0}, to_apply=largest
  n = T[] constant(100)  s = T[] divide(t, n)""",
    "reduce-window": ARRAYS
    + """w = T[2] reduce-window(v, z), window={size=2}, to_apply=add
  t = T[1] slice(w), slice={[1:2]}  s = T[] reshape(t)""",
    "dot": ARRAYS + "s = T[] dot(v, k), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "convolution": ARRAYS
    + """lhs = T[1,1,3] reshape(v)  rhs = T[1,1,3] reshape(k)
  c = T[1,1,1] convolution(lhs, rhs), window={size=3}, dim_labels=bf0_io0->bf0  s = T[] reshape(c)""",
    "gather": ARRAYS
    + """i = s32[1] constant({1})
  s = T[] gather(v, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=0,
    slice_sizes={1}""",
    "scatter": ARRAYS
    + """i = s32[1] constant({1})
  w = T[3] scatter(v, i, a), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0},
    index_vector_dim=0, to_apply=add
  s = T[] reduce(w, z), dimensions={0}, to_apply=add""",
    "dynamic-slice": ARRAYS
    + """i = s32[] convert(a)  d = T[1] dynamic-slice(v, i), dynamic_slice_sizes={1}
  s = T[] reshape(d)""",
    "dynamic-update-slice": ARRAYS
    + """i = s32[] convert(a)  o = T[1] reshape(a)  d = T[3] dynamic-update-slice(k, o, i)
  s = T[] reduce(d, b), dimensions={0}, to_apply=add""",
    "sort": ARRAYS
    + """r = T[1] reshape(a)  j = T[4] concatenate(v, r), dimensions={0}
  o = T[4] sort(j), dimensions={0}, to_apply=ascending  t = T[1] slice(o), slice={[1:2]}  s = T[] reshape(t)""",
    "movement": ARRAYS
    + """m = T[1,3] reshape(v)  p = T[2,3] pad(m, a), padding=0_1x0_0  t = T[3,2] transpose(p), dimensions={1,0}
  e = T[3,2] reverse(t), dimensions={0}  s = T[] reduce(e, z), dimensions={0,1}, to_apply=half_sum""",
    "while": """z = s32[] constant(0)  t = (s32[], T[]) tuple(z, b)
  w = (s32[], T[]) while(t), condition=twice, body=step  s = T[] get-tuple-element(w), index=1""",
    "conditional": """p = pred[] compare(a, b), direction=LT  t = (T[], T[]) tuple(a, b)
  s = T[] conditional(p, t, t), true_computation=pair_first, false_computation=pair_sum""",
    "call": "s = T[] call(a, b), to_apply=nested_sum",
    "map": ARRAYS
    + "m = T[3] map(v, k), dimensions={0}, to_apply=nested_sum  s = T[] reduce(m, z), dimensions={0}, to_apply=add",
    "tuple": "t = (T[], T[]) tuple(b, a)  o = (T[], T[]) opt-barrier(t)  s = T[] get-tuple-element(o), index=0",
}

USERS = {
    "reduce of rows": "ROOT r = T[5] reduce(x, z), dimensions={1}, to_apply=apply",
    "reduce of columns": "ROOT r = T[7] reduce(x, z), dimensions={0}, to_apply=apply",
    "reduce of all": "ROOT r = T[] reduce(x, z), dimensions={0,1}, to_apply=apply",
    "fused reduce": """e = T[5,7] add(x, y)  n = T[5,7] negate(e)  m = T[5] reduce(n, z), dimensions={1}, to_apply=apply
  ROOT r = T[5] negate(m)""",
    "reduce-window": "ROOT r = T[4,6] reduce-window(x, z), window={size=2x2}, to_apply=apply",
    "map": "ROOT r = T[5,7] map(x, y), dimensions={0,1}, to_apply=apply",
    "scatter": """i = s32[3,1] constant({{1}, {0}, {1}})  u = T[3,7] slice(y), slice={[0:3], [0:7]}
  ROOT r = T[5,7] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=apply""",
    "select-and-scatter": """u = T[4,6] slice(y), slice={[0:4], [0:6]}
  ROOT r = T[5,7] select-and-scatter(x, u, z), window={size=2x2}, select=chosen, scatter=apply""",
    "sort": "ROOT r = (T[5,7], T[5,7]) sort(x, y), dimensions={1}, is_stable=true, to_apply=compared",
}


def program(expression: str, user: str, element_type: str) -> str:
    text = f"""HloModule nested
{HELPERS}
two {{ a = T[] parameter(0)  i = T[] parameter(1)  b = T[] parameter(2)  j = T[] parameter(3)  s = T[] add(a, b)
  t = T[] subtract(i, j)  ROOT c = (T[], T[]) tuple(s, t) }}
apply {{ a = T[] parameter(0)  b = T[] parameter(1)
  {EXPRESSIONS[expression]}
  h = T[] constant(2)  q = T[] divide(s, h)  l = T[] divide(a, h)  ROOT result = T[] add(l, q) }}
chosen {{ a = T[] parameter(0)  b = T[] parameter(1)  c = T[] call(a, b), to_apply=apply  z = T[] constant(1)
  ROOT d = pred[] compare(c, z), direction=GT }}
compared {{ a = T[] parameter(0)  b = T[] parameter(1)  c = T[] parameter(2)  d = T[] parameter(3)
  z = T[] constant(0)  e = T[] call(z, a), to_apply=apply  f = T[] call(z, b), to_apply=apply
  ROOT g = pred[] compare(e, f), direction=LT }}
ENTRY main {{ x = T[5,7] parameter(0)  y = T[5,7] parameter(1)  z = T[] constant(1)
  {USERS[user]} }}"""
    return text.replace("T[", f"{element_type}[")


def check(text: str) -> None:
    """Compares a program on cpu with the interpreter."""
    module = xla.parse_hlo(text, verify=True)
    arguments = random_arguments(module.entry_computation.program_shape.parameters, 3)
    ours = plain(xla.Client("cpu").compile(module)(*arguments))
    program_tolerance(module, arguments, flush_denormals=True).assert_close(ours, text)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_computation_applied_to_elements_agrees_with_the_interpreter(expression: str, user: str):
    check(program(expression, user, "f32"))


@pytest.mark.parametrize("element_type", ["s32", "f64", "bf16"])
@pytest.mark.parametrize("expression", ["reduce", "dot", "conditional"])
def test_other_element_types(expression: str, element_type: str):
    check(program(expression, "fused reduce", element_type))


COLLECTIVES = {
    "all-reduce": "ROOT r = f32[5,7] all-reduce(x), replica_groups={}, to_apply=apply",
    "reduce-scatter": """p = f32[6,7] pad(x, z), padding=0_1x0_0
  ROOT r = f32[3,7] reduce-scatter(p), replica_groups={}, dimensions={0}, to_apply=apply""",
}


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("expression", ["reduce", "reduce of constants", "dot", "while", "sort"])
def test_reductions_over_devices_agree_with_the_interpreter(expression: str, collective: str):
    single = program(expression, "map", "f32").replace(USERS["map"].replace("T[", "f32["), COLLECTIVES[collective])
    text = single.replace("HloModule nested", "HloModule nested, replica_count=2")
    x = np.linspace(-2, 2, 35, dtype=np.float32).reshape(5, 7)
    module, arguments = xla.parse_hlo(text, verify=True), [(x, x), (2 * x, x)]
    results = xla.Client("cpu", devices=2).compile(module).execute_sharded(arguments)
    tolerances = sharded_tolerances(module, arguments, replicas=2, flush_denormals=True)
    for result, tolerance in zip(results, tolerances, strict=True):
        tolerance.assert_close(plain(result), text)
