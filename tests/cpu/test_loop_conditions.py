"""Values that control flow reads late: predicates of conditions in several functions, or with effects after the root.

The instruction that computes a predicate, or the result of a branch, a body or a called computation, need not be the
last one of its computation: what runs after it must leave its memory alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.results import leaves
from tests.interpreter.runners.custom import registered
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import OutlinedThunk, WhileThunk, walk_thunks
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.testing.program_tolerance import program_tolerance


def long_condition(size: int, products: int) -> str:
    """Returns a loop of three iterations, with a chain of matrix products in the condition."""
    matrix = f"f32[{size},{size}]"
    chain = "\n".join(
        f"  d{n} = {matrix} dot({f'd{n - 1}' if n else 'x'}, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        for n in range(products)
    )
    return f"""HloModule long_condition
cond {{ s = ({matrix}, s32[]) parameter(0)
  x = {matrix} get-tuple-element(s), index=0  i = s32[] get-tuple-element(s), index=1  k = s32[] constant(3)
{chain}
  e = f32[1,1] slice(d{products - 1}), slice={{[0:1], [0:1]}}  f = f32[] reshape(e)
  big = f32[] constant(1e30)  g = pred[] compare(f, big), direction=LT  h = pred[] compare(i, k), direction=LT
  ROOT r = pred[] and(g, h) }}
body {{ s = ({matrix}, s32[]) parameter(0)
  x = {matrix} get-tuple-element(s), index=0  i = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)  j = s32[] add(i, one)  n = {matrix} negate(x)  ROOT t = ({matrix}, s32[]) tuple(n, j) }}
ENTRY main {{ x = {matrix} parameter(0)  z = s32[] constant(0)  t = ({matrix}, s32[]) tuple(x, z)
  ROOT w = ({matrix}, s32[]) while(t), condition=cond, body=body }}"""


@pytest.mark.parametrize(("size", "products"), [(7, 14), (6, 24), (5, 40)])
def test_a_condition_in_several_functions_decides_each_iteration(size: int, products: int):
    module = xla.parse_hlo(long_condition(size, products), verify=True)
    loops = [t for t in walk_thunks(compile_module(module).program.thunks) if isinstance(t, WhileThunk)]
    assert any(isinstance(thunk, OutlinedThunk) for thunk in loops[0].condition)
    x = np.full((size, size), 0.1, np.float32)
    matrix, count = leaves(xla.Client("cpu").compile(module)(x))
    assert int(count) == 3
    np.testing.assert_array_equal(matrix, -x)


EFFECT = 'custom-call({}), custom_call_target="effect", custom_call_has_side_effect=true'

IN_CONDITION = """HloModule condition
below { s = (s32[], f32[SIZE]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)  ROOT r = pred[] compare(i, n), direction=LT
  EFFECTS }
next { s = (s32[], f32[SIZE]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  v = f32[SIZE] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  w = f32[SIZE] add(v, v)  ROOT r = (s32[], f32[SIZE]) tuple(j, w) }
ENTRY main { x = f32[SIZE] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[SIZE]) tuple(z, x)
  ROOT w = (s32[], f32[SIZE]) while(t), condition=below, body=next }"""

IN_BODY = """HloModule body
below { s = (s32[], f32[SIZE]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)  ROOT r = pred[] compare(i, n), direction=LT }
next { s = (s32[], f32[SIZE]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  v = f32[SIZE] get-tuple-element(s), index=1  one = s32[] constant(1)  j = s32[] add(i, one)
  w = f32[SIZE] reverse(v), dimensions={0}  ROOT r = (s32[], f32[SIZE]) tuple(j, w)
  EFFECTS }
ENTRY main { x = f32[SIZE] parameter(0)  z = s32[] constant(0)  t = (s32[], f32[SIZE]) tuple(z, x)
  ROOT w = (s32[], f32[SIZE]) while(t), condition=below, body=next }"""

IN_BRANCH = """HloModule branch
one { s = (s32[], f32[SIZE]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  v = f32[SIZE] get-tuple-element(s), index=1  ROOT w = f32[SIZE] reverse(v), dimensions={0}
  EFFECTS }
two { s = (s32[], f32[SIZE]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  v = f32[SIZE] get-tuple-element(s), index=1  e = f32[SIZE] exponential(v)
  ROOT w = f32[SIZE] reverse(e), dimensions={0}
  EFFECTS }
ENTRY main { x = f32[SIZE] parameter(0)  i = s32[] parameter(1)  t = (s32[], f32[SIZE]) tuple(i, x)
  c = f32[SIZE] conditional(i, t, t), branch_computations={one, two}
  ROOT r = (s32[], f32[SIZE]) tuple(i, c) }"""

IN_CALL = """HloModule call
called { v = f32[SIZE] parameter(0)  i = s32[] parameter(1)  ROOT w = f32[SIZE] reverse(v), dimensions={0}
  EFFECTS }
ENTRY main { x = f32[SIZE] parameter(0)  i = s32[] parameter(1)  e = f32[SIZE] exponential(x)
  c = f32[SIZE] call(e, i), to_apply=called  d = f32[SIZE] call(c, i), to_apply=called
  ROOT r = (s32[], f32[SIZE]) tuple(i, d) }"""

INFEED = """k = token[] after-all(), control-predecessors={ROOT_NAME}  f = (f32[4], token[]) infeed(k)
  g = f32[4] get-tuple-element(f), index=0  o = token[] outfeed(g, k)"""


def effect(_: Any) -> Any:
    """Returns zeros, which would end a loop if they were written to its predicate."""
    return np.zeros(256, np.uint8)


def with_effects(text: str, size: int, count: int) -> str:
    """Returns a program with effects after the root, which the first of them reads."""
    lines = [f"e{n} = u8[256] {EFFECT.format('i' if n else root_name(text))}" for n in range(count)]
    return text.replace("EFFECTS", "\n  ".join(lines)).replace("SIZE", str(size))


def root_name(text: str) -> str:
    """Returns the name of the array that is the root, or the last one in it, of the computation with the effects."""
    return "r" if text is IN_CONDITION else "w"


@pytest.mark.parametrize("size", [3, 700])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("text", [IN_CONDITION, IN_BODY, IN_BRANCH, IN_CALL], ids=lambda text: text.split()[1])
def test_effects_after_the_root_leave_its_memory_alone(text: str, count: int, size: int):
    module = xla.parse_hlo(with_effects(text, size, count), verify=True)
    x = np.linspace(-1, 1, size, dtype=np.float32)
    arguments = (x,) if len(module.entry_computation.parameters) == 1 else (x, np.int32(1))
    with registered(effect, name="effect"):
        ours = plain(xla.Client("cpu").compile(module)(*arguments))
        program_tolerance(module, arguments, flush_denormals=True).assert_close(ours, text)


@pytest.mark.parametrize("text", [IN_CONDITION, IN_BODY], ids=["condition", "body"])
def test_feeds_after_the_root_leave_its_memory_alone(text: str):
    client = xla.Client("cpu")
    runs = 4 if text is IN_CONDITION else 3
    text = text.replace("EFFECTS", INFEED.replace("ROOT_NAME", root_name(text))).replace("SIZE", "4")
    executable = client.compile(xla.parse_hlo(text, verify=True))
    device = client.devices[0]
    fed = [np.full(4, n if n % 2 else 0, np.float32) for n in range(runs)]
    for array in fed:
        device.transfer_to_infeed(array)
    count, result = leaves(executable(np.arange(4, dtype=np.float32)))
    assert int(count) == 3
    np.testing.assert_array_equal(result, [0, 8, 16, 24] if runs == 4 else [3, 2, 1, 0])
    for array in fed:
        np.testing.assert_array_equal(device.transfer_from_outfeed(xla.Shape.parse("f32[4]")), array)
