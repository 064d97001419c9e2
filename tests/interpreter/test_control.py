"""Control flow and tuples: values, some of them compared with XLA:CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests import xla_reference
from tests.raising import raises
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.hlo.verify import verify
from xlapy.interpreter import TOKEN, Context, evaluate_computation
from xlapy.text import parse_hlo


def run(text: str, *arguments: Any, context: Context | None = None) -> Any:
    module = parse_hlo(text)
    verify(module)
    return evaluate_computation(context or Context(), module.entry_computation, arguments)


def s32(value: int) -> np.ndarray[Any, Any]:
    return np.array(value, np.int32)


COUNT = """HloModule m
less { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }
step { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 p = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one) q = s32[] multiply(p, j) ROOT r = (s32[], s32[]) tuple(j, q) }
ENTRY e { i = s32[] parameter(0) one = s32[] constant(1) s = (s32[], s32[]) tuple(i, one)
  ROOT w = (s32[], s32[]) while(s), condition=less, body=step }
"""


@pytest.mark.parametrize(("start", "product"), [(0, 120), (3, 20), (5, 1), (9, 1)])
def test_while(start: int, product: int) -> None:
    counter, result = run(COUNT, s32(start))
    assert (int(counter), int(result)) == (max(start, 5), product)
    assert [int(v) for v in xla_reference.run_hlo(COUNT, [s32(start)], fast=True)] == [max(start, 5), product]


def test_an_endless_while_is_canceled() -> None:
    context = Context()
    context.observer = lambda instruction, operands, value: context.canceled.set()
    endless = COUNT.replace("LT }", "LT }\nyes { s = (s32[], s32[]) parameter(0) ROOT r = pred[] constant(true) }")
    with raises(ExecutionError, codes.CANCELED):
        run(endless.replace("condition=less", "condition=yes"), s32(0), context=context)


BRANCHES = """HloModule m
b0 { x = f32[2] parameter(0) ROOT r = f32[2] negate(x) }
b1 { x = f32[2] parameter(0) ROOT r = f32[2] add(x, x) }
b2 { x = s32[] parameter(0) c = f32[] convert(x) ROOT r = f32[2] broadcast(c), dimensions={} }
ENTRY e { i = s32[] parameter(0) x = f32[2] parameter(1) n = s32[] parameter(2)
  ROOT c = f32[2] conditional(i, x, x, n), branch_computations={b0, b1, b2} }
"""


@pytest.mark.parametrize(
    ("index", "result"), [(0, [-1, -2]), (1, [2, 4]), (2, [7, 7]), (3, [7, 7]), (-1, [7, 7]), (2**31 - 1, [7, 7])]
)
def test_conditional_takes_the_last_branch_out_of_range(index: int, result: list[float]) -> None:
    arguments = [s32(index), np.array([1, 2], np.float32), s32(7)]
    assert run(BRANCHES, *arguments).tolist() == result
    assert xla_reference.run_hlo(BRANCHES, arguments, fast=True).tolist() == result


@pytest.mark.parametrize(("predicate", "result"), [(True, [-1, -2]), (False, [2, 4])])
def test_conditional_on_pred(predicate: bool, result: list[float]) -> None:
    text = BRANCHES.replace("i = s32[]", "i = pred[]").replace(
        "conditional(i, x, x, n), branch_computations={b0, b1, b2}",
        "conditional(i, x, x), true_computation=b0, false_computation=b1",
    )
    arguments = [np.array(predicate), np.array([1, 2], np.float32), s32(7)]
    assert run(text, *arguments).tolist() == result
    assert xla_reference.run_hlo(text, arguments, fast=True).tolist() == result


def test_call_and_fusion() -> None:
    text = """HloModule m
f { x = f32[2] parameter(0) y = f32[2] parameter(1) ROOT r = f32[2] subtract(x, y) }
ENTRY e { x = f32[2] parameter(0) y = f32[2] parameter(1) c = f32[2] call(x, y), to_apply=f
  ROOT r = f32[2] fusion(c, x), kind=kLoop, calls=f }
"""
    assert run(text, np.array([1, 2], np.float32), np.array([5, 9], np.float32)).tolist() == [-5, -9]


def test_ordering_ops_pass_values_on() -> None:
    text = """HloModule m
ENTRY e { x = f32[2] parameter(0) k = token[] after-all() j = token[] after-all(k, k)
  d = f32[2] add-dependency(x, j) t = (f32[2], f32[2]) tuple(d, x) b = (f32[2], f32[2]) opt-barrier(t)
  y = f32[2] get-tuple-element(b), index=0
  z = f32[2] domain(y), domain={kind="sharding", entry={replicated}, exit={maximal device=0}}
  i = (token[]) tuple(j) n = () tuple() ROOT r = (f32[2], (token[]), ()) tuple(z, i, n) }
"""
    value, tokens, nothing = run(text, np.array([1, 2], np.float32))
    assert value.tolist() == [1, 2] and tokens == (TOKEN,) and nothing == ()


def test_async_chain() -> None:
    text = """HloModule m
g { x = f32[2] parameter(0) n = f32[2] negate(x) ROOT r = f32[2] add(n, n) }
f { x = f32[2] parameter(0) ROOT r = f32[2] call(x), to_apply=g }
ENTRY e { x = f32[2] parameter(0) s = ((f32[2]), f32[2], u32[]) async-start(x), calls=f
  u = ((f32[2]), f32[2], u32[]) async-update(s) ROOT d = f32[2] async-done(u) }
"""
    assert run(text, np.array([1, 2], np.float32)).tolist() == [-2, -4]


def test_async_sugar() -> None:
    text = """HloModule m
ENTRY e { x = f32[2] parameter(0) s = ((f32[2], f32[2]), f32[2], u32[]) add-start(x, x)
  ROOT d = f32[2] add-done(s) }
"""
    assert run(text, np.array([1, 2], np.float32)).tolist() == [2, 4]


def test_operands_bound_by_an_update() -> None:
    text = """HloModule m
f { x = f32[2] parameter(0) y = f32[2] parameter(1) ROOT r = f32[2] subtract(y, x) }
ENTRY e { x = f32[2] parameter(0) y = f32[2] parameter(1) s = ((f32[2]), (), u32[]) async-start(x), calls=f
  u = ((f32[2], f32[2]), f32[2], u32[]) async-update(s, y) ROOT d = f32[2] async-done(u) }
"""
    assert run(text, np.array([1, 2], np.float32), np.array([5, 9], np.float32)).tolist() == [4, 7]
