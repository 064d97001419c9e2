"""Loops and long programs on cpu: state of every kind, in registers and in memory, compared with the interpreter."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.results import leaves
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.llvm.jit import listings
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.testing.random_arguments import random_arguments

COUNT_TO = """
below {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant({trips})
  ROOT r = pred[] compare(i, n), direction=LT }}
next {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)
  j = s32[] add(i, one)
  {body} }}
ENTRY main {{ {entry} }}
"""


def counting(state: str, body: str, entry: str, trips: int = 7, before: str = "") -> str:
    """Returns a program with a loop whose state begins with a counter; the body defines i and j = i + 1."""
    return f"HloModule m\n{before}" + COUNT_TO.format(state=state, body=body, entry=entry, trips=trips)


THREE = "(s32[], {0}, {0}, {0})"
ROTATE = """a = {0} get-tuple-element(s), index=1  b = {0} get-tuple-element(s), index=2
  c = {0} get-tuple-element(s), index=3  ROOT r = (s32[], {0}, {0}, {0}) tuple(j, b, c, a)"""
SWAP_AND_ADD = """a = {0} get-tuple-element(s), index=1  b = {0} get-tuple-element(s), index=2
  c = {0} get-tuple-element(s), index=3  d = {0} add(a, c)  ROOT r = (s32[], {0}, {0}, {0}) tuple(j, b, d, b)"""
START = """x = {0} parameter(0)  y = {0} parameter(1)  zero = s32[] constant(0)
  t = (s32[], {0}, {0}, {0}) tuple(zero, x, y, x)
  ROOT w = (s32[], {0}, {0}, {0}) while(t), condition=below, body=next"""


def three(body: str, shape: str, trips: int = 7) -> str:
    return counting(THREE.format(shape), body.format(shape), START.format(shape), trips)


NESTED = counting(
    "(s32[], f32[3,3])",
    """v = f32[3,3] get-tuple-element(s), index=1  f = f32[] convert(i)  g = f32[3,3] broadcast(f), dimensions={}
  w = f32[3,3] add(v, g)  zero = s32[] constant(0)  t = (s32[], f32[3,3]) tuple(zero, w)
  u = (s32[], f32[3,3]) while(t), condition=inner_below, body=inner
  x = f32[3,3] get-tuple-element(u), index=1  ROOT r = (s32[], f32[3,3]) tuple(j, x)""",
    """x = f32[3,3] parameter(0)  zero = s32[] constant(0)  t = (s32[], f32[3,3]) tuple(zero, x)
  ROOT w = (s32[], f32[3,3]) while(t), condition=below, body=next""",
    before="""
inner_below { s = (s32[], f32[3,3]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }
inner { s = (s32[], f32[3,3]) parameter(0)  i = s32[] get-tuple-element(s), index=0  one = s32[] constant(1)
  j = s32[] add(i, one)  v = f32[3,3] get-tuple-element(s), index=1  t = f32[3,3] transpose(v), dimensions={1,0}
  h = f32[] constant(0.5)  hs = f32[3,3] broadcast(h), dimensions={}  m = f32[3,3] multiply(v, hs)
  a = f32[3,3] subtract(m, t)  ROOT r = (s32[], f32[3,3]) tuple(j, a) }
""",
)

EXIT = """HloModule m
go { s = (f32[4], s32[]) parameter(0)  v = f32[4] get-tuple-element(s), index=0  f = f32[1] slice(v), slice={[2:3]}
  e = f32[] reshape(f)  n = f32[] constant(100)  ROOT r = pred[] compare(e, n), direction=LT }
next { s = (f32[4], s32[]) parameter(0)  v = f32[4] get-tuple-element(s), index=0  d = f32[4] add(v, v)
  k = s32[] get-tuple-element(s), index=1  one = s32[] constant(1)  l = s32[] add(k, one)
  b = f32[4] reverse(d), dimensions={0}  ROOT r = (f32[4], s32[]) tuple(b, l) }
ENTRY main { x = f32[4] parameter(0)  y = f32[4] exponential(x)  zero = s32[] constant(0)
  t = (f32[4], s32[]) tuple(y, zero)  ROOT w = (f32[4], s32[]) while(t), condition=go, body=next }"""

TUPLES = counting(
    "(s32[], (f32[2], (s64[], pred[3])))",
    """p = (f32[2], (s64[], pred[3])) get-tuple-element(s), index=1  v = f32[2] get-tuple-element(p), index=0
  q = (s64[], pred[3]) get-tuple-element(p), index=1  k = s64[] get-tuple-element(q), index=0
  f = pred[3] get-tuple-element(q), index=1  w = f32[2] negate(v)  l = s64[] multiply(k, k)
  three = s64[] constant(3)  m = s64[] add(l, three)  g = pred[3] not(f)  h = (s64[], pred[3]) tuple(m, g)
  o = (f32[2], (s64[], pred[3])) tuple(w, h)  ROOT r = (s32[], (f32[2], (s64[], pred[3]))) tuple(j, o)""",
    """x = f32[2] parameter(0)  y = (s64[], pred[3]) parameter(1)  zero = s32[] constant(0)
  p = (f32[2], (s64[], pred[3])) tuple(x, y)  t = (s32[], (f32[2], (s64[], pred[3]))) tuple(zero, p)
  ROOT w = (s32[], (f32[2], (s64[], pred[3]))) while(t), condition=below, body=next""",
)

BRANCHES = counting(
    "(s32[], f32[5])",
    """v = f32[5] get-tuple-element(s), index=1  two = s32[] constant(2)  m = s32[] remainder(i, two)
  p = pred[] compare(m, one), direction=EQ
  u = f32[5] conditional(p, v, v), true_computation=odd, false_computation=even
  three = s32[] constant(3)  k = s32[] remainder(i, three)
  w = f32[5] conditional(k, u, u, v), branch_computations={even, odd, odd}
  ROOT r = (s32[], f32[5]) tuple(j, w)""",
    """x = f32[5] parameter(0)  zero = s32[] constant(0)  t = (s32[], f32[5]) tuple(zero, x)
  ROOT w = (s32[], f32[5]) while(t), condition=below, body=next""",
    before="""
odd { v = f32[5] parameter(0)  ROOT r = f32[5] cosine(v) }
even { v = f32[5] parameter(0)  h = f32[] constant(0.5)  b = f32[5] broadcast(h), dimensions={}
  ROOT r = f32[5] subtract(v, b) }
""",
)

UPDATES = counting(
    "(s32[], ARRAY, ARRAY)",
    """a = ARRAY get-tuple-element(s), index=1  b = ARRAY get-tuple-element(s), index=2
  c = ARRAY call(a, i), to_apply=put  d = ARRAY add(b, c)  ROOT r = (s32[], ARRAY, ARRAY) tuple(j, c, d)""",
    """x = ARRAY parameter(0)  zero = s32[] constant(0)  t = (s32[], ARRAY, ARRAY) tuple(zero, x, x)
  ROOT w = (s32[], ARRAY, ARRAY) while(t), condition=below, body=next""",
    before="""
put { a = ARRAY parameter(0)  i = s32[] parameter(1)  f = f32[1] dynamic-slice(a, i), dynamic_slice_sizes={1}
  two = s32[] constant(2)  k = s32[] multiply(i, two)  g = f32[1] add(f, f)
  ROOT r = ARRAY dynamic-update-slice(a, g, k) }
""",
)

OF_CONSTANTS = counting(
    "(s32[], s32[3])",
    """v = s32[3] get-tuple-element(s), index=1  w = s32[3] add(v, v)  ROOT r = (s32[], s32[3]) tuple(j, w)""",
    """zero = s32[] constant(0)  c = s32[3] constant({1, 2, 3})  t = (s32[], s32[3]) tuple(zero, c)
  w = (s32[], s32[3]) while(t), condition=below, body=next  v = s32[3] get-tuple-element(w), index=1
  ROOT r = (s32[3], s32[3]) tuple(v, c)""",
)

DIVIDES = counting(
    "(s32[], s32[6])",
    """v = s32[6] get-tuple-element(s), index=1  c = s32[6] constant({3, 2, 2, 7, 2, -2})
  q = s32[6] divide(v, c)  ROOT r = (s32[], s32[6]) tuple(j, q)""",
    """x = s32[6] parameter(0)  zero = s32[] constant(0)  t = (s32[], s32[6]) tuple(zero, x)
  ROOT w = (s32[], s32[6]) while(t), condition=below, body=next""",
    trips=2,
)

CROSSES = counting(
    "(s32[], f32[ARRAY], f32[ARRAY])",
    """a = f32[ARRAY] get-tuple-element(s), index=1  b = f32[ARRAY] get-tuple-element(s), index=2
  u = f32[2] constant({5, 6})  n = f32[ARRAY] iota(), iota_dimension=0
  m = f32[ARRAY] multiply(n, n)  k = f32[ARRAY] dynamic-update-slice(a, u, j)
  ROOT r = (s32[], f32[ARRAY], f32[ARRAY]) tuple(j, m, k)""",
    """x = f32[ARRAY] parameter(0)  zero = s32[] constant(0)  t = (s32[], f32[ARRAY], f32[ARRAY]) tuple(zero, x, x)
  ROOT w = (s32[], f32[ARRAY], f32[ARRAY]) while(t), condition=below, body=next""",
)

UNCHANGED = counting(
    "(s32[], f32[ARRAY], f32[ARRAY], f32[ARRAY])",
    """a = f32[ARRAY] get-tuple-element(s), index=1  b = f32[ARRAY] get-tuple-element(s), index=2
  c = f32[ARRAY] get-tuple-element(s), index=3  d = f32[ARRAY] add(a, b)
  ROOT r = (s32[], f32[ARRAY], f32[ARRAY], f32[ARRAY]) tuple(j, d, b, b)""",
    """x = f32[ARRAY] parameter(0)  y = f32[ARRAY] exponential(x)  zero = s32[] constant(0)  u = f32[1] constant({9})
  t = (s32[], f32[ARRAY], f32[ARRAY], f32[ARRAY]) tuple(zero, x, y, y)
  w = (s32[], f32[ARRAY], f32[ARRAY], f32[ARRAY]) while(t), condition=below, body=next
  b = f32[ARRAY] get-tuple-element(w), index=2  n = f32[ARRAY] dynamic-update-slice(b, u, zero)
  ROOT r = (f32[ARRAY], f32[ARRAY], (s32[], f32[ARRAY], f32[ARRAY], f32[ARRAY])) tuple(n, y, w)""",
)

IN_PLACE = """HloModule m
ENTRY main { x = f32[64,100] parameter(0)  a = f32[64,100] sort(x), dimensions={1}, to_apply=less
  b = f32[64,100] exponential(a)  c = f32[100,64] transpose(b), dimensions={1,0}
  d = f32[100,64] sort(c), dimensions={1}, to_apply=less  e = f32[100,64] add(d, c)
  f = f32[6400] reshape(e)  ROOT r = (f32[6400], f32[100,64]) tuple(f, d) }
"""

SHARED = """HloModule m
same { a = f32[9] parameter(0)  b = f32[9] negate(a)  ROOT r = (f32[9], f32[9], f32[9]) tuple(a, b, b) }
ENTRY main { x = f32[9] parameter(0)  u = f32[1] parameter(1)  i = s32[] constant(2)  y = f32[9] exponential(x)
  c = (f32[9], f32[9], f32[9]) call(y), to_apply=same  y0 = f32[9] get-tuple-element(c), index=0
  y1 = f32[9] get-tuple-element(c), index=1  y2 = f32[9] get-tuple-element(c), index=2
  z = f32[9] dynamic-update-slice(y1, u, i)  w = f32[9] dynamic-update-slice(y, u, i)
  ROOT r = (f32[9], f32[9], f32[9], f32[9]) tuple(y0, y2, z, w) }"""

PROGRAMS = {
    "calls that share arrays": SHARED,
    "divides by a constant": DIVIDES,
    **{
        f"{name} {n}": text.replace("ARRAY", n)
        for name, text in {"crosses": CROSSES, "keeps": UNCHANGED}.items()
        for n in ("9", "900")
    },
    "overwrites what dies": IN_PLACE.replace(
        "ENTRY",
        "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = pred[] compare(a, b), direction=LT }\nENTRY",
    ),
    **{f"rotates {shape}": three(ROTATE, shape) for shape in ("f32[]", "f32[5]", "s64[3,3]", "f32[700]", "c64[2]")},
    **{f"adds {shape}": three(SWAP_AND_ADD, shape) for shape in ("f32[]", "bf16[7]", "f64[3,3]", "f32[700]", "u8[33]")},
    "runs no time": three(SWAP_AND_ADD, "f32[5]", trips=0),
    "runs once": three(ROTATE, "f32[5]", trips=1),
    "nested": NESTED,
    "leaves early": EXIT,
    "tuples in tuples": TUPLES,
    "branches": BRANCHES,
    "updates f32[20]": UPDATES.replace("ARRAY", "f32[20]"),
    "updates f32[2000]": UPDATES.replace("ARRAY", "f32[2000]"),
    "begins with constants": OF_CONSTANTS,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_agrees_with_the_interpreter_on_every_run(name: str):
    module = xla.parse_hlo(PROGRAMS[name], verify=True)
    executable = xla.Client("cpu").compile(module)
    arguments = random_arguments(executable.program_shape.parameters, 3)
    before = [np.array(leaf) for leaf in flat(arguments)]
    tolerance = program_tolerance(module, arguments, flush_denormals=True)
    for _ in range(2):
        tolerance.assert_close(plain(executable(*arguments)), name)
    for now, then in zip(flat(arguments), before, strict=True):
        np.testing.assert_array_equal(np.asarray(now), then)


def flat(value: Any) -> list[Any]:
    return [leaf for element in value for leaf in flat(element)] if isinstance(value, (tuple, list)) else [value]


@pytest.mark.parametrize("name", ["rotates f32[5]", "adds f64[3,3]", "nested", "leaves early", "tuples in tuples"])
def test_a_loop_of_small_arrays_has_no_memory_but_its_own(name: str):
    assert compile_module(xla.parse_hlo(PROGRAMS[name])).program.arena_size == 0


@pytest.mark.parametrize(
    "name", ["rotates f32[]", "rotates f32[5]", "rotates c64[2]", "nested", "leaves early", "tuples in tuples"]
)
def test_a_loop_of_small_arrays_runs_in_registers(name: str):
    compiled = compile_module(xla.parse_hlo(PROGRAMS[name]))
    optimized, _ = listings(compiled.llvm)
    functions = re.findall(r"^define \w.* @(?:part|kernel|xlapy_run).*?^}", optimized, re.MULTILINE | re.DOTALL)
    kept = re.findall(r"%(\w+) = alloca", "\n".join(functions))
    assert functions and set(kept) == {"old", "new"}, "only the mode of floating-point numbers is kept in memory"


def chain(length: int, shape: str) -> str:
    """Returns a chain of operations in which no operation can be fused with the next."""
    lines = [f"  v{n + 1} = {shape} fusion(v{n}, x), kind=kLoop, calls=step" for n in range(length)]
    return f"""HloModule chain
step {{ a = {shape} parameter(0)  b = {shape} parameter(1)  h = f32[] constant(0.5)
  c = {shape} broadcast(h), dimensions={{}}  d = {shape} multiply(a, c)  ROOT r = {shape} add(d, b) }}
ENTRY main {{
  x = {shape} parameter(0)
  v0 = {shape} sine(x)
{chr(10).join(lines)}
  ROOT r = ({shape}, {shape}) tuple(v{length // 2}, v{length})
}}"""


@pytest.mark.parametrize("shape", ["f32[]", "f32[4]", "f32[1000]"])
def test_a_long_program_is_outlined(shape: str):
    module = xla.parse_hlo(chain(900, shape))
    executable = xla.Client("cpu").compile(module)
    (x,) = random_arguments(executable.program_shape.parameters, 1)
    expected = np.sin(np.asarray(x, np.float64))
    for _ in range(60):
        expected = expected * 0.5 + x
    for result in leaves(executable(x)):
        np.testing.assert_allclose(result, expected, rtol=1e-5)
