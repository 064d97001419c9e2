"""Arrays that branches update, in loops and outside: they are updated in place and not copied.

A test counts the copies of a size in the program. The arrays have an odd size that nothing else in a program has.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.results import leaves
from xlapy.cpu.compiler import Compiled, compile_module
from xlapy.cpu.program.thunks import CopyThunk, WhileThunk, walk_thunks
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.testing.random_arguments import random_arguments

COMPUTATIONS = """
below { s = (s32[], A, A) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(9)
  ROOT r = pred[] compare(i, n), direction=LT }
put { s = (A, s32[], f32[]) parameter(0)  a = A get-tuple-element(s), index=0  i = s32[] get-tuple-element(s), index=1
  f = f32[] get-tuple-element(s), index=2  u = f32[1] reshape(f)  ROOT r = A dynamic-update-slice(a, u, i) }
put_sum { s = (A, s32[], f32[]) parameter(0)  a = A get-tuple-element(s), index=0
  i = s32[] get-tuple-element(s), index=1  d = f32[1] dynamic-slice(a, i), dynamic_slice_sizes={1}  u = f32[1] add(d, d)
  ROOT r = A dynamic-update-slice(a, u, i) }
keep { s = (A, s32[], f32[]) parameter(0)  ROOT a = A get-tuple-element(s), index=0 }
fill { s = (A, s32[], f32[]) parameter(0)  f = f32[] get-tuple-element(s), index=2
  ROOT r = A broadcast(f), dimensions={} }
scale { s = (A, s32[], f32[]) parameter(0)  a = A get-tuple-element(s), index=0  f = f32[] get-tuple-element(s), index=2
  b = A broadcast(f), dimensions={}  ROOT r = A multiply(a, b) }
wave { s = (A, s32[], f32[]) parameter(0)  a = A get-tuple-element(s), index=0  ROOT r = A sine(a) }
nested { s = (A, s32[], f32[]) parameter(0)  i = s32[] get-tuple-element(s), index=1  z = s32[] constant(3)
  q = pred[] compare(i, z), direction=LT
  ROOT r = A conditional(q, s, s), true_computation=keep, false_computation=put }
called { s = (A, s32[], f32[]) parameter(0)  ROOT r = A call(s), to_apply=put_sum }
calls { a = A parameter(0)  i = s32[] parameter(1)  f = f32[] parameter(2)  t = (A, s32[], f32[]) tuple(a, i, f)
  z = s32[] constant(2)  q = pred[] compare(i, z), direction=GT
  ROOT r = A conditional(q, t, t), true_computation=put, false_computation=keep }
put_first { s = (A, A, s32[]) parameter(0)  a = A get-tuple-element(s), index=0  b = A get-tuple-element(s), index=1
  i = s32[] get-tuple-element(s), index=2  u = f32[1] constant({7})  c = A dynamic-update-slice(a, u, i)
  ROOT r = (A, A) tuple(c, b) }
put_second { s = (A, A, s32[]) parameter(0)  a = A get-tuple-element(s), index=0  b = A get-tuple-element(s), index=1
  i = s32[] get-tuple-element(s), index=2  u = f32[1] constant({5})  c = A dynamic-update-slice(b, u, i)
  ROOT r = (A, A) tuple(a, c) }
swap { s = (A, A, s32[]) parameter(0)  a = A get-tuple-element(s), index=0  b = A get-tuple-element(s), index=1
  ROOT r = (A, A) tuple(b, a) }
twice { s = (A, A, s32[]) parameter(0)  a = A get-tuple-element(s), index=0  ROOT r = (A, A) tuple(a, a) }
next { s = (s32[], A, A) parameter(0)  i = s32[] get-tuple-element(s), index=0  a = A get-tuple-element(s), index=1
  b = A get-tuple-element(s), index=2  one = s32[] constant(1)  j = s32[] add(i, one)  f = f32[] convert(j)
  three = s32[] constant(3)  k = s32[] remainder(i, three)  zero = s32[] constant(0)
  p = pred[] compare(k, zero), direction=EQ  t = (A, s32[], f32[]) tuple(a, i, f)  v = (A, A, s32[]) tuple(a, b, i)
  BODY }
ENTRY main { x = A parameter(0)  y = A parameter(1)  zero = s32[] constant(0)
  t = (s32[], A, A) tuple(zero, x, y)  ROOT w = (s32[], A, A) while(t), condition=below, body=next }"""

ONE = "  ROOT r = (s32[], A, A) tuple(j, c, b)"
PAIR = """  c = A get-tuple-element(u), index=0  d = A get-tuple-element(u), index=1
  ROOT r = (s32[], A, A) tuple(j, c, d)"""


def conditional(*branches: str, operand: str = "t") -> str:
    index, shape = ("k", "(A, A)" if operand == "v" else "A")
    operands = ", ".join([index, *[operand] * len(branches)])
    name = "u" if operand == "v" else "c"
    return f"{name} = {shape} conditional({operands}), branch_computations={{{', '.join(branches)}}}"


IN_PLACE = {
    "update or keep": conditional("put", "keep") + ONE,
    "keep or update": conditional("keep", "put") + ONE,
    "update in every branch": conditional("put", "put_sum", "put") + ONE,
    "update, keep or overwrite": conditional("put", "keep", "fill") + ONE,
    "elementwise": conditional("scale", "wave") + ONE,
    "elementwise or keep": conditional("wave", "keep", "scale") + ONE,
    "update or elementwise": conditional("put_sum", "wave") + ONE,
    "nested": conditional("nested", "keep", "put") + ONE,
    "a call in a branch": conditional("called", "keep") + ONE,
    "a branch in a call": "c = A call(a, i, f), to_apply=calls" + ONE,
    "two arrays": conditional("put_first", "put_second", operand="v") + PAIR,
    "read before the update": """e = f32[1] dynamic-slice(a, i), dynamic_slice_sizes={1}  g = f32[] reshape(e)
  c = A conditional(p, t, t), true_computation=put, false_computation=keep
  h = A broadcast(g), dimensions={}  d = A add(b, h)  ROOT r = (s32[], A, A) tuple(j, c, d)""",
    "two in a row": """o = A conditional(p, t, t), true_computation=put, false_computation=keep
  t2 = (A, s32[], f32[]) tuple(o, j, f)
  c = A conditional(k, t2, t2, t2), branch_computations={put_sum, keep, put}"""
    + ONE,
    "predicate": "c = A conditional(p, t, t), true_computation=keep, false_computation=put" + ONE,
}

COPIES = {
    "swap or update": (conditional("swap", "put_first", operand="v") + PAIR, 3),
    "one array twice": (conditional("twice", "put_second", operand="v") + PAIR, 1),
    "needed later": (conditional("put", "keep") + "  d = A add(b, a)  ROOT r = (s32[], A, A) tuple(j, c, d)", 0),
    "needed as it was": (conditional("put", "keep") + "  ROOT r = (s32[], A, A) tuple(j, c, a)", 4),
}


def program(body: str, shape: str = "f32[1234]") -> str:
    return (
        f"HloModule m\n{COMPUTATIONS}".replace("BODY", body)
        .replace("A ", f"{shape} ")
        .replace("A,", f"{shape},")
        .replace("A)", f"{shape})")
    )


def check(text: str) -> Compiled:
    """Compares a program with the interpreter, without donation; returns it compiled with donation."""
    module = xla.parse_hlo(text, verify=True)
    arguments = random_arguments(module.entry_computation.program_shape.parameters, 3)
    ours = plain(xla.Client("cpu").compile(module)(*arguments))
    program_tolerance(module, arguments, flush_denormals=True).assert_close(ours, text)
    return compile_module(module, donated=(0, 1))


def copied_bytes(compiled: Compiled, size: int = 4 * 1234) -> int:
    """Returns the bytes that copies of arrays of a size copy in the loops of a program, in all branches together."""
    loops = [thunk for thunk in walk_thunks(compiled.program.thunks) if isinstance(thunk, WhileThunk)]
    copies = [t for loop in loops for t in walk_thunks(loop.body) if isinstance(t, CopyThunk)]
    return sum(copy.target.size for copy in copies if copy.target.size == size)


@pytest.mark.parametrize("case", IN_PLACE)
def test_branches_update_arrays_in_place(case: str):
    compiled = check(program(IN_PLACE[case]))
    assert copied_bytes(compiled) == 0
    assert compiled.program.arena_size < 1234


@pytest.mark.parametrize("case", COPIES)
def test_arrays_are_copied_if_both_contents_are_needed(case: str):
    body, copies = COPIES[case]
    assert copied_bytes(check(program(body))) == copies * 4 * 1234


@pytest.mark.parametrize("case", IN_PLACE)
def test_small_arrays(case: str):
    check(program(IN_PLACE[case], "f32[11]"))


OUTSIDE_OF_LOOPS = """HloModule m
put { s = (A, s32[]) parameter(0)  a = A get-tuple-element(s), index=0  i = s32[] get-tuple-element(s), index=1
  u = f32[1] constant({3})  ROOT r = A dynamic-update-slice(a, u, i) }
keep { s = (A, s32[]) parameter(0)  ROOT a = A get-tuple-element(s), index=0 }
ENTRY main { x = A parameter(0)  i = s32[] parameter(1)  t = (A, s32[]) tuple(x, i)
  ROOT r = A conditional(i, t, t), branch_computations={put, keep} }""".replace("A ", "f32[1234] ").replace(
    "A,", "f32[1234],"
)


def test_a_donated_argument_is_updated_in_place():
    compiled = compile_module(xla.parse_hlo(OUTSIDE_OF_LOOPS, verify=True), donated=(0,))
    assert compiled.program.aliases == {0: 0}
    assert not [t for t in walk_thunks(compiled.program.thunks) if isinstance(t, CopyThunk)]


def test_an_argument_that_is_not_donated_stays_unchanged():
    module = xla.parse_hlo(OUTSIDE_OF_LOOPS, verify=True)
    x = np.ones(1234, np.float32)
    executable = xla.Client("cpu").compile(module)
    for index in (0, 1):
        (result,) = leaves(executable(x, np.int32(index)))
        assert result.sum() == (1236 if index == 0 else 1234)
        assert x.sum() == 1234
