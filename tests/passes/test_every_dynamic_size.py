"""Operations on dynamic dimensions at small bounds and every size within them, before and after passes.

A bound of 1 is where rewrites for static shapes match: a dimension of one element can be dropped, sorted, summed or
contracted at once, but a dynamic dimension of bound 1 may be empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.passes.runner import execute, plain, run_passes
from xlapy.cpu.compiler import MAX_SIMPLIFICATION_ROUNDS, simplifications
from xlapy.hlo.edit import clone_module
from xlapy.hlo.module import Module
from xlapy.interpreter import DynamicArray
from xlapy.passes import CATALOG, Fixpoint, Pass
from xlapy.passes.expand.expand import Expand
from xlapy.passes.resolve_dynamic_dimensions import ResolveDynamicDimensions
from xlapy.passes.verify_module import VerifyModule
from xlapy.text import parse_hlo

BOUNDS = list(itertools.product(range(3), repeat=2))
BOUNDS_WITH_ONE = [(1, 1), (1, 2), (2, 1)]
APART = (Fixpoint, Expand, VerifyModule, ResolveDynamicDimensions)
PASSES: list[Pass] = [
    *(kind() for kind in CATALOG.values() if kind not in APART),
    Expand(ops=("all",)),
    Fixpoint(limit=MAX_SIMPLIFICATION_ROUNDS, passes=tuple(simplifications())),
]

COMPUTATIONS = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
multiply { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] multiply(a, b) }
maximum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }
odd { a = f32[] parameter(0)  b = f32[] parameter(1)  two = f32[] constant(2)  c = f32[] multiply(b, two)
  ROOT s = f32[] subtract(a, c) }
pair { a = f32[] parameter(0)  i = f32[] parameter(1)  b = f32[] parameter(2)  j = f32[] parameter(3)
  s = f32[] add(a, b)  t = f32[] maximum(i, j)  ROOT r = (f32[], f32[]) tuple(s, t) }
less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = pred[] compare(a, b), direction=LT }
less_pair { a = f32[] parameter(0)  b = f32[] parameter(1)  c = f32[] parameter(2)  d = f32[] parameter(3)
  ROOT s = pred[] compare(a, b), direction=LT }
above { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = pred[] compare(a, b), direction=GE }
doubled { a = f32[] parameter(0)  ROOT s = f32[] add(a, a) }
"""


def operations(a: int, b: int) -> list[str]:
    """Returns lines `shape op(...)` on x, y, o = f32[<=a,<=b], t = f32[<=b,<=a], v = f32[<=a], k = f32[], i = s32[].

    y has the sizes of x, and o as many columns as x lacks.
    """
    reductions = [
        f"{shape} reduce(x, k), dimensions={{{dims}}}, to_apply={to_apply}"
        for shape, dims in ((f"f32[<={b}]", "0"), (f"f32[<={a}]", "1"), ("f32[]", "0,1"), (f"f32[<={a},<={b}]", ""))
        for to_apply in ("add", "maximum", "odd", "multiply")
    ]
    both = f"(f32[<={a}], f32[<={a}])"
    lines = [
        *reductions,
        f"{both} reduce(x, y, k, z), dimensions={{1}}, to_apply=pair",
        "(f32[], f32[]) reduce(x, y, k, z), dimensions={0,1}, to_apply=pair",
        f"f32[<={a},<={a}] dot(x, t), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        "f32[] dot(x, y), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}",
        f"f32[<={a}] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={1}",
        f"f32[<={b}] dot(v, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}",
        f"f32[<={a},<={b}] sort(x), dimensions={{1}}, to_apply=less",
        f"(f32[<={a},<={b}], f32[<={a},<={b}]) sort(x, y), dimensions={{0}}, to_apply=less_pair, is_stable=true",
        f"f32[<={b},<={a}] transpose(x), dimensions={{1,0}}",
        f"f32[<={a},<={b}] reverse(x), dimensions={{0,1}}",
        f"f32[<={2 * a},<={b}] concatenate(x, y), dimensions={{0}}",
        f"f32[<={3 * b},<={a}] concatenate(t, t, t), dimensions={{0}}",
        f"f32[<={a * b}] reshape(x)",
        f"f32[<={b},<={a},1] reshape(t)",
        f"f32[2,<={a},<={b}] broadcast(x), dimensions={{1,2}}",
        f"f32[<={a},3] broadcast(v), dimensions={{0}}",
        f"f32[<={a + 2},<={b + 1}] pad(x, k), padding=1_1x0_1",
        f"f32[<={max(2 * a - 1, 0)},<={b}] pad(x, k), padding=0_0_1x0_0",
        f"f32[<={a},<={b}] add(x, y)",
        f"f32[<={a},<={b}] maximum(x, o)",
        f"f32[<={a},<={2 * b}] concatenate(x, o), dimensions={{1}}",
        f"f32[<={a}] dot(x, o), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={1}",
        f"f32[<={a},<={b}] map(x), dimensions={{0,1}}, to_apply=doubled",
        "s32[] get-dimension-size(x), dimensions={1}",
        f"f32[<={a},<={b}] reduce-window(x, k), window={{size=1x1}}, to_apply=add",
        f"f32[<={a + 1},<={b}] reduce-window(x, k), window={{size=2x1 pad=1_1x0_0}}, to_apply=add",
        f"f32[<={a},<={b + 1}] reduce-window(x, k), window={{size=1x2 pad=0_0x1_1}}, to_apply=odd",
        f"f32[<={a},<={b}] reduce-window(x, k), window={{size={max(a, 1)}x1 pad={max(a, 1) - 1}_0x0_0}}, "
        "to_apply=maximum",
        f"f32[<={a},<={b}] select-and-scatter(x, y, k), window={{size=1x1}}, select=above, scatter=add",
        f"f32[<={a},<={b}] dynamic-update-slice(x, y, i, i)",
    ]
    if a and b:
        lines += [
            f"f32[1,<={b}] dynamic-slice(x, i, i), dynamic_slice_sizes={{1,{b}}}",
            f"f32[<={a},1] dynamic-slice(x, i, i), dynamic_slice_sizes={{{a},1}}",
            f"f32[<={a},<={b}] slice(x), slice={{[0:{a}], [0:{b}]}}",
            f"f32[<={a - 1},<={b}] pad(x, k), padding=-1_0x0_0",
            f"f32[<={(a + 1) // 2},<={b}] slice(x), slice={{[0:{a}:2], [0:{b}]}}",
            f"f32[<={a},<={b}] scatter(x, j, y), update_window_dims={{0,1}}, inserted_window_dims={{}}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=add",
            f"f32[<={b}] gather(x, l), offset_dims={{0}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
            f"index_vector_dim=0, slice_sizes={{1,{b}}}",
            f"f32[<={a},<={b}] gather(x, w), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
            f"index_vector_dim=1, slice_sizes={{1,{b}}}",
        ]
    return lines


def module_text(a: int, b: int, lines: list[str], sizes: tuple[int, int] | None) -> str:
    """Returns a program of these lines; sizes: what m and n are as constants, parameters if None."""
    m, n = ("parameter(0)", "parameter(1)") if sizes is None else (f"constant({sizes[0]})", f"constant({sizes[1]})")
    first = 2 if sizes is None else 0
    results = [line[: line.index(") ") + 1] if line.startswith("(") else line.split(" ")[0] for line in lines]
    body = "\n  ".join(f"r{number} = {line}" for number, line in enumerate(lines))
    return f"""HloModule dynamic
{COMPUTATIONS}
ENTRY main {{
  m = s32[] {m}
  n = s32[] {n}
  p = f32[{a},{b}] parameter({first})
  q = f32[{a},{b}] parameter({first + 1})
  k = f32[] parameter({first + 2})
  i = s32[] parameter({first + 3})
  z = f32[] constant(-3)
  bound = s32[] constant({b})
  x0 = f32[<={a},{b}] set-dimension-size(p, m), dimensions={{0}}
  x = f32[<={a},<={b}] set-dimension-size(x0, n), dimensions={{1}}
  y0 = f32[<={a},{b}] set-dimension-size(q, m), dimensions={{0}}
  y = f32[<={a},<={b}] set-dimension-size(y0, n), dimensions={{1}}
  other = s32[] subtract(bound, n)
  o0 = f32[<={a},{b}] set-dimension-size(q, m), dimensions={{0}}
  o = f32[<={a},<={b}] set-dimension-size(o0, other), dimensions={{1}}
  t = f32[<={b},<={a}] transpose(y), dimensions={{1,0}}
  v0 = f32[{a}] iota(), iota_dimension=0
  v = f32[<={a}] set-dimension-size(v0, m), dimensions={{0}}
  l = s32[1] reshape(i)
  j = s32[1] constant({{0}})
  w0 = s32[{a},1] broadcast(i), dimensions={{}}
  w = s32[<={a},1] set-dimension-size(w0, m), dimensions={{0}}
  {body}
  ROOT result = ({", ".join(results)}) tuple({", ".join(f"r{number}" for number in range(len(lines)))})
}}
"""


@cache
def dynamic_module(a: int, b: int, sizes: tuple[int, int] | None = None) -> Module:
    return parse_hlo(module_text(a, b, operations(a, b), sizes))


@cache
def cases(a: int, b: int) -> list[tuple[tuple[int, int], list[Any], list[Any]]]:
    """Returns all sizes, with the arguments after them and the results of the dynamic module on the interpreter."""
    rng = np.random.default_rng(0)
    found = []
    for m, n in itertools.product(range(a + 1), range(b + 1)):
        arrays = [rng.integers(-9, 9, (a, b)).astype(np.float32) for _ in range(2)]
        rest = [*arrays, np.float32(5), np.int32(m)]
        found.append(((m, n), rest, leaves(execute(dynamic_module(a, b), [np.int32(m), np.int32(n), *rest]))))
    return found


def leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    """Returns the arrays of a result, of the sizes that they have at run time."""
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [value.actual if isinstance(value, DynamicArray) else np.asarray(value)]


def resolved_leaves(value: Any, shape: xla.Shape) -> Iterator[np.ndarray[Any, Any]]:
    """Yields the arrays of the result of a resolved module; shape: that of the result before."""
    if shape.is_tuple:
        for part, inner in zip(value, shape.tuple_shapes, strict=True):
            yield from resolved_leaves(part, inner)
    elif shape.is_static:
        yield np.asarray(value)
    else:
        array, *given = value
        numbers = iter(given)
        rows = zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
        yield array[tuple(slice(int(next(numbers)) if dynamic else bound) for bound, dynamic in rows)]


def assert_equal(ours: list[Any], expected: list[Any], module: Module, where: object) -> None:
    assert len(ours) == len(expected)
    for number, (left, right) in enumerate(zip(ours, expected, strict=True)):
        if not np.array_equal(left, right):
            pytest.fail(f"{where}: result {number} is {left} instead of {right} in\n{module.to_text()}")


def resolved(a: int, b: int, sizes: tuple[int, int] | None = None) -> Module:
    module = clone_module(dynamic_module(a, b, sizes))
    assert run_passes(module, [Expand(), ResolveDynamicDimensions()])
    return module


def result_shape(a: int, b: int) -> xla.Shape:
    return dynamic_module(a, b).entry_computation.program_shape.result


@pytest.mark.parametrize("pass_", PASSES, ids=lambda pass_: pass_.name)
def test_each_pass_keeps_results(pass_: Pass) -> None:
    for a, b in BOUNDS_WITH_ONE:
        dynamic, static = clone_module(dynamic_module(a, b)), resolved(a, b)
        changed = run_passes(dynamic, [pass_]), run_passes(static, [pass_])
        for (m, n), rest, expected in cases(a, b):
            arguments, where = [np.int32(m), np.int32(n), *rest], f"{m},{n} of bounds {a},{b}"
            if changed[0]:
                assert_equal(leaves(execute(dynamic, arguments)), expected, dynamic, where)
            if changed[1]:
                result = resolved_leaves(plain(execute(static, arguments)), result_shape(a, b))
                assert_equal(list(result), expected, static, where)


@pytest.mark.parametrize(("a", "b"), BOUNDS)
def test_resolved_and_simplified_modules_give_the_same(a: int, b: int) -> None:
    static = resolved(a, b)
    simplified = clone_module(static)
    run_passes(simplified, [PASSES[-1]])
    for (m, n), rest, expected in cases(a, b):
        for module in (static, simplified):
            result = plain(execute(module, [np.int32(m), np.int32(n), *rest]))
            assert_equal(list(resolved_leaves(result, result_shape(a, b))), expected, module, f"{m},{n} of {a},{b}")


@pytest.mark.parametrize(("a", "b"), BOUNDS_WITH_ONE)
def test_sizes_that_are_constants(a: int, b: int) -> None:
    for sizes, rest, expected in cases(a, b):
        module = clone_module(dynamic_module(a, b, sizes))
        for pass_ in (Expand(), ResolveDynamicDimensions(), PASSES[-1]):
            pass_.run(module)
        result = plain(execute(module, rest))
        assert_equal(list(resolved_leaves(result, result_shape(a, b))), expected, module, f"{sizes} of {a},{b}")


@pytest.mark.parametrize(("a", "b"), BOUNDS_WITH_ONE)
def test_machine_code_gives_the_same(a: int, b: int) -> None:
    executable = xla.Client("cpu").compile(dynamic_module(a, b))
    for (m, n), rest, expected in cases(a, b):
        result = executable(np.int32(m), np.int32(n), *rest)
        assert_equal(leaves(result), expected, dynamic_module(a, b), f"{m},{n} of bounds {a},{b}")
