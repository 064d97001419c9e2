"""Loops that treat each element of their state separately: one kernel, with the results of the loop on whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.results import leaves
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import WhileThunk, walk_thunks
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.testing.random_arguments import random_arguments

ANY = """
or { a = pred[] parameter(0)  b = pred[] parameter(1)  ROOT c = pred[] or(a, b) }
"""


def while_any(shape: str, predicate: str, body: str, state: str, following: str, condition: str = "") -> str:
    """A loop that runs while the predicate `p` holds for any element; the body selects its state by `p`.

    state: the types of the state, in which S is the shape of the arrays.
    """
    dimensions = ",".join(str(n) for n in range(shape.count(",") + 1))
    text = f"""HloModule m
{ANY}
test {{ s = ({state}) parameter(0)  {condition or predicate}  no = pred[] constant(false)
  ROOT r = pred[] reduce(p, no), dimensions={{{dimensions}}}, to_apply=or }}
step {{ s = ({state}) parameter(0)  {predicate}  {body}
  ROOT r = ({state}) tuple({following}) }}
ENTRY main {{ ARGUMENTS
  ROOT w = ({state}) while(t), condition=test, body=step }}"""
    parts = [part for part in state.split(", ") if part]
    arguments = "  ".join(f"a{n} = {part} parameter({n})" for n, part in enumerate(parts))
    names = ", ".join(f"a{n}" for n in range(len(parts)))
    text = text.replace("ARGUMENTS", f"{arguments}  t = ({state}) tuple({names})")
    return text.replace("S", f"[{shape}]")


def elements(size: str, t: str) -> str:
    """x and y are multiplied by 0.75 or incremented by one until x is small or a counter ends."""
    predicate = f"""x = {t}S get-tuple-element(s), index=0  k = s32S get-tuple-element(s), index=1
  m = {t}S get-tuple-element(s), index=2  limit = s32[] constant(9)  l = s32S broadcast(limit), dimensions={{}}
  q = pred S compare(k, l), direction=LT  g = pred S compare(x, m), direction=GT
  p = pred S and(q, g)""".replace("pred S", "predS")
    body = f"""f = {t}[] constant({"0.75" if t[0] in "bf" else "3"})  fs = {t}S broadcast(f), dimensions={{}}
  y = {t}S {"multiply" if t[0] in "bf" else "subtract"}(x, fs)  z = {t}S select(p, y, x)  one = s32[] constant(1)
  ones = s32S broadcast(one), dimensions={{}}  j = s32S add(k, ones)  n = s32S select(p, j, k)"""
    return while_any(size, predicate, body, f"{t}S, s32S, {t}S", "z, n, m")


def loops_of(text: str) -> list[WhileThunk]:
    thunks = compile_module(xla.parse_hlo(text, verify=True)).program.thunks
    return [thunk for thunk in walk_thunks(thunks) if isinstance(thunk, WhileThunk)]


def check(text: str, arguments: list[Any] | None = None, *, special: bool = True) -> None:
    """Compares a program with the interpreter."""
    module = xla.parse_hlo(text, verify=True)
    if arguments is None:
        arguments = random_arguments(module.entry_computation.program_shape.parameters, 3, special=special)
    found = plain(xla.Client("cpu").compile(module)(*arguments))
    program_tolerance(module, arguments, flush_denormals=True).assert_close(found, text)


def few_iterations(text: str) -> list[Any]:
    """Arguments of which the second counts from 0 to 11 on, without numbers that become denormal."""
    parameters = xla.parse_hlo(text).entry_computation.program_shape.parameters
    x, k, m = random_arguments(parameters, 3, special=True)
    x, m = (np.where(np.abs(v.astype(np.float64)) < 1e-30, 0, v).astype(v.dtype) for v in (x, m))
    return [x, np.random.default_rng(0).integers(0, 12, k.shape).astype(k.dtype), m]


SIZES = ["16", "19", "1000", "20011", "3,7,5", "1,40"]


@pytest.mark.parametrize(
    ("size", "t"), [*((size, "f32") for size in SIZES), *(("77", t) for t in ("f64", "bf16", "s8", "s64", "u16"))]
)
def test_a_loop_until_all_elements_are_done_is_one_kernel(size: str, t: str):
    text = elements(size, t)
    assert not loops_of(text)
    check(text, few_iterations(text))


@pytest.mark.parametrize("size", ["0", "1", "5", "15"])
def test_a_loop_over_few_elements(size: str):
    text = elements(size, "f32")
    check(text, few_iterations(text))


def counted(size: int, body: str, trips: int = 5, state: str = "s32[], fS, fS", following: str = "j, y, b") -> str:
    """A loop with a counter i of s32 and two arrays a and b."""
    return f"""HloModule m
test {{ s = ({state}) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant({trips})
  ROOT r = pred[] compare(i, n), direction=LT }}
step {{ s = ({state}) parameter(0)  i = s32[] get-tuple-element(s), index=0  a = fS get-tuple-element(s), index=1
  b = fS get-tuple-element(s), index=2  one = s32[] constant(1)  j = s32[] add(i, one)  {body}
  ROOT r = ({state}) tuple({following}) }}
ENTRY main {{ x = fS parameter(0)  y = fS parameter(1)  two = s32[] constant(2)
  t = ({state}) tuple(two, x, y)  ROOT w = ({state}) while(t), condition=test, body=step }}""".replace(
        "fS", f"f32[{size}]"
    )


SCALED = "c = f32[] convert(i)  d = fS broadcast(c), dimensions={}  e = fS multiply(a, d)  y = fS subtract(e, b)"


@pytest.mark.parametrize("size", [16, 21, 515, 20011])
def test_a_counted_loop_is_one_kernel(size: int):
    text = counted(size, SCALED)
    assert not loops_of(text)
    check(text)


def test_arrays_of_the_state_may_be_exchanged():
    text = counted(77, SCALED, following="j, b, y")
    assert not loops_of(text)
    check(text)


def test_an_array_that_is_only_read_may_be_read_anywhere():
    body = """n = s32S convert(a)  g = f32S gather(b, v), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
  index_vector_dim=1, slice_sizes={1}  y = f32S subtract(g, a)"""
    body = body.replace("n = ", "v0 = ").replace("(b, v)", "(b, v)").replace("g = ", "v = s32[77,1] reshape(v0)  g = ")
    text = counted(77, body.replace("f32S", "f32[77]").replace("s32S", "s32[77]"))
    assert not loops_of(text)
    check(text, special=False)


def test_a_loop_that_reads_a_table_of_constants_is_one_kernel():
    body = """table = f32[21] constant({TABLE})  v0 = s32[21] convert(a)  v = s32[21,1] reshape(v0)
  g = f32[21] gather(table, v), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
  slice_sizes={1}  y = fS add(g, b)"""
    text = counted(21, body.replace("TABLE", ", ".join(map(str, range(21)))))
    assert not loops_of(text)
    check(text, special=False)


REJECTED = {
    "a shift": """h = f32[20] slice(a), slice={[1:21]}  l = f32[1] slice(a), slice={[0:1]}
      y = fS concatenate(h, l), dimensions={0}""",
    "a reversal": "y = fS reverse(a), dimensions={0}",
    "a sum": """zero = f32[] constant(0)  u = f32[] reduce(a, zero), dimensions={0}, to_apply=sum
      d = fS broadcast(u), dimensions={}  y = fS subtract(d, b)""",
}


@pytest.mark.parametrize("case", REJECTED)
def test_a_loop_whose_elements_need_others_stays_a_loop(case: str):
    text = counted(21, REJECTED[case]).replace(
        "test {", "sum { u = f32[] parameter(0)  v = f32[] parameter(1)  ROOT w = f32[] add(u, v) }\ntest {", 1
    )
    assert loops_of(text)
    check(text, special=False)


def test_elements_that_change_after_their_condition_is_false_stay_in_a_loop():
    """The condition holds for some element: all others change, too, so that their iterations depend on each other."""
    text = elements("100", "f32").replace("z = f32[100] select(p, y, x)", "z = f32[100] select(q, y, x)")
    assert loops_of(text)
    check(text, few_iterations(text))


def test_another_condition_than_the_one_that_selects_stays_a_loop():
    predicate = (
        "x = s32S get-tuple-element(s), index=0  l = s32[] constant(LIMIT)  m = s32S broadcast(l), dimensions={}"
    )
    predicate += "  p = predS compare(x, m), direction=LT"
    body = "o = s32[] constant(1)  os = s32S broadcast(o), dimensions={}  y = s32S add(x, os)  z = s32S select(p, y, x)"
    text = while_any("40", predicate.replace("LIMIT", "70"), body, "s32S", "z", predicate.replace("LIMIT", "50"))
    assert loops_of(text)
    check(text, [np.arange(40, dtype=np.int32)])


def test_complex_state():
    predicate = """x = c64S get-tuple-element(s), index=0  h = f32S real(x)  l = f32[] constant(2)
  m = f32S broadcast(l), dimensions={}  p = predS compare(h, m), direction=LT"""
    body = """y = c64S multiply(x, x)  o = c64[] constant((1, 1))  os = c64S broadcast(o), dimensions={}
  v = c64S add(y, os)  z = c64S select(p, v, x)"""
    text = while_any("100", predicate, body, "c64S", "z")
    assert not loops_of(text)
    generator = np.random.default_rng(0)
    x = (generator.integers(-3, 3, 100) + 1j * generator.integers(1, 3, 100)).astype(np.complex64)
    check(text, [np.where(x.real < -2, 2 + 0j, 1 + 0j + np.abs(x)).astype(np.complex64)])


def test_a_loop_in_a_loop():
    inner = """
inner_test { s = (s32[21], s32[21]) parameter(0)  x = s32[21] get-tuple-element(s), index=0
  b = s32[21] get-tuple-element(s), index=1
  p = pred[21] compare(x, b), direction=LT  no = pred[] constant(false)
  ROOT r = pred[] reduce(p, no), dimensions={0}, to_apply=or }
inner_step { s = (s32[21], s32[21]) parameter(0)  x = s32[21] get-tuple-element(s), index=0
  b = s32[21] get-tuple-element(s), index=1  p = pred[21] compare(x, b), direction=LT  o = s32[] constant(3)
  os = s32[21] broadcast(o), dimensions={}  y = s32[21] add(x, os)  z = s32[21] select(p, y, x)
  ROOT r = (s32[21], s32[21]) tuple(z, b) }
"""
    body = """zero = s32[] constant(0)  zeros = s32[21] broadcast(zero), dimensions={}
  t = (s32[21], s32[21]) tuple(zeros, b)  w = (s32[21], s32[21]) while(t), condition=inner_test, body=inner_step
  v = s32[21] get-tuple-element(w), index=0  y = s32[21] subtract(v, a)"""
    text = counted(21, body).replace("f32[21]", "s32[21]")
    text = text.replace("HloModule m", f"HloModule m{ANY}{inner}", 1)
    assert not loops_of(text)
    generator = np.random.default_rng(0)
    check(text, [generator.integers(-9, 40, 21).astype(np.int32) for _ in range(2)])


def test_a_loop_in_a_loop_whose_state_is_an_array():
    inner = """
inner_test { x = s32[21] parameter(0)  l = s32[] constant(30)  ls = s32[21] broadcast(l), dimensions={}
  p = pred[21] compare(x, ls), direction=LT  no = pred[] constant(false)
  ROOT r = pred[] reduce(p, no), dimensions={0}, to_apply=or }
inner_step { x = s32[21] parameter(0)  l = s32[] constant(30)  ls = s32[21] broadcast(l), dimensions={}
  p = pred[21] compare(x, ls), direction=LT  o = s32[] constant(3)  os = s32[21] broadcast(o), dimensions={}
  y = s32[21] add(x, os)  ROOT z = s32[21] select(p, y, x) }
"""
    body = "v = s32[21] while(b), condition=inner_test, body=inner_step  y = s32[21] subtract(v, a)"
    text = counted(21, body).replace("f32[21]", "s32[21]").replace("HloModule m", f"HloModule m{ANY}{inner}", 1)
    assert not loops_of(text)
    generator = np.random.default_rng(0)
    check(text, [generator.integers(-9, 40, 21).astype(np.int32) for _ in range(2)])


def test_tables_of_a_loop_in_a_loop():
    table = f"table = f32[21] constant({{{', '.join(map(str, range(21)))}}})"
    inner = f"""
inner_test {{ s = (s32[], f32[21]) parameter(0)  k = s32[] get-tuple-element(s), index=0  n = s32[] constant(30)
  ROOT p = pred[] compare(k, n), direction=LT }}
inner_step {{ s = (s32[], f32[21]) parameter(0)  k = s32[] get-tuple-element(s), index=0  o = s32[] constant(1)
  m = s32[] add(k, o)  x = f32[21] get-tuple-element(s), index=1  {table}  v0 = s32[21] convert(x)
  v = s32[21,1] reshape(v0)  g = f32[21] gather(table, v), offset_dims={{}}, collapsed_slice_dims={{0}},
  start_index_map={{0}}, index_vector_dim=1, slice_sizes={{1}}  c = f32[] constant(0.5)
  cs = f32[21] broadcast(c), dimensions={{}}  h = f32[21] add(g, cs)  ROOT t = (s32[], f32[21]) tuple(m, h) }}
"""
    body = f"""k = s32[] constant(0)  q = (s32[], f32[21]) tuple(k, a)
  w = (s32[], f32[21]) while(q), condition=inner_test, body=inner_step  c = f32[21] get-tuple-element(w), index=1
  {table.replace("table", "other")}  y = f32[21] subtract(c, other)"""
    text = counted(21, body).replace("HloModule m", f"HloModule m{inner}", 1)
    assert not loops_of(text)
    check(text, special=False)


def test_a_loop_that_stays_keeps_its_tables():
    """The last element of each iteration is the first of the next one, so elements need others."""
    table = f"table = f32[20] constant({{{', '.join(map(str, range(20)))}}})"
    text = counted(20, f"{table}  c = fS reverse(a), dimensions={{0}}  y = fS add(c, table)")
    assert loops_of(text)
    check(text, special=False)


def test_the_plan_is_followed():
    text = elements("1000", "f32")
    executable = xla.Client("cpu").compile(text)
    optimized = executable.as_hlo_text(optimized=True)
    assert '"strategy":"elementwise-loop"' in optimized
    x = np.linspace(-3, 9, 1000, dtype=np.float32)
    arguments = [x, np.zeros(1000, np.int32), np.zeros(1000, np.float32)]
    demanded = xla.Client("cpu").compile(optimized.replace('"lanes":32', '"lanes":8'))
    assert '"lanes":8' in demanded.as_hlo_text(optimized=True)
    for left, right in zip(leaves(demanded(*arguments)), leaves(executable(*arguments)), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("operand", ["u", "kb"])
def test_constants_in_memory(operand):
    """The elements of the constant `k` differ, so it is no part of a kernel: neither in the initial state nor in the
    body."""
    state = "s32[], f32[16,64], f32[16,64]"
    constant = f"k = f32[64] constant({{{', '.join(str(n / 8) for n in range(64))}}})"
    constant += "  kb = f32[16,64] broadcast(k), dimensions={1}"
    check(
        f"""HloModule m
step {{ s = ({state}) parameter(0)  i = s32[] get-tuple-element(s), index=0
  x = f32[16,64] get-tuple-element(s), index=1  u = f32[16,64] get-tuple-element(s), index=2
  {constant if operand == "kb" else ""}  one = s32[] constant(1)  j = s32[] add(i, one)
  y = f32[16,64] multiply(x, x)  z = f32[16,64] subtract(y, {operand})  w = f32[16,64] tanh(z)
  ROOT r = ({state}) tuple(j, w, y) }}
test {{ s = ({state}) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(5)
  ROOT p = pred[] compare(i, n), direction=LT }}
ENTRY main {{ a = f32[16,64] parameter(0)  z = s32[] constant(0)
  {constant if operand == "u" else "kb = f32[16,64] negate(a)"}  t = ({state}) tuple(z, a, kb)
  ROOT w = ({state}) while(t), condition=test, body=step }}"""
    )
