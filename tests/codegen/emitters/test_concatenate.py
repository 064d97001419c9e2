"""Large concatenations with one kernel per operand or for all rows: which get one, and that results equal the
interpreter's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import KernelThunk, walk_thunks
from xlapy.testing.random_arguments import random_arguments

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")


def check(text: str, kernels: int) -> None:
    """Checks that the result equals the interpreter's and takes this many kernels."""
    module = xla.parse_hlo(text)
    steps = walk_thunks(compile_module(module).program.thunks)
    assert sum(isinstance(thunk, KernelThunk) for thunk in steps) == kernels
    executable = CPU.compile(module)
    arguments = random_arguments(executable.program_shape.parameters, 3)
    ours, theirs = executable(*arguments), INTERPRETER.compile(module)(*arguments)
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


def concatenation(t: str, parts: Sequence[Sequence[int]], dimension: int) -> str:
    lines = [f"p{n} = {t}[{','.join(map(str, part))}] parameter({n})" for n, part in enumerate(parts)]
    result = list(parts[0])
    result[dimension] = sum(part[dimension] for part in parts)
    operands = ", ".join(f"p{n}" for n in range(len(parts)))
    shape = f"{t}[{','.join(map(str, result))}]"
    lines.append(f"ROOT r = {shape} concatenate({operands}), dimensions={{{dimension}}}")
    return "\n".join(["HloModule m", "ENTRY e {", *lines, "}"])


@pytest.mark.parametrize(
    ("parts", "dimension"),
    [
        ([(20000,), (9000,), (1000,)], 0),
        ([(40, 70), (3, 70), (60, 70)], 0),
        ([(3, 9000), (3, 300)], 1),
        ([(50, 100), (0, 100), (7, 100)], 0),
        ([(300,)] * 30, 0),
    ],
    ids=str,
)
@pytest.mark.parametrize("t", ["f32", "pred", "bf16", "c64"])
def test_each_operand_has_a_kernel(t, parts, dimension):
    check(concatenation(t, parts, dimension), sum(np.prod(part) > 0 for part in parts))


@pytest.mark.parametrize(
    ("parts", "dimension"),
    [
        ([(30, 5, 7, 13), (30, 2, 7, 13)], 1),
        ([(60, 1), (60, 250), (60, 2)], 1),
        ([(151, 33), (151, 65), (151, 127)], 1),
        ([(2, 5, 400), (2, 5, 0), (2, 5, 401)], 2),
        ([(40, 2, 3, 50), (40, 4, 3, 50), (40, 1, 3, 50)], 1),
    ],
    ids=str,
)
@pytest.mark.parametrize("t", ["f32", "pred", "bf16", "c64", "s4"])
def test_one_kernel_writes_short_rows(t, parts, dimension):
    check(concatenation(t, parts, dimension), 1)


def test_operands_of_rows_that_are_computed():
    lines = [
        "p = s16[90,100] parameter(0)",
        "q = s8[90,70] parameter(1)",
        "f = f32[90,100] convert(p)",
        "n = f32[90,70] convert(q)",
        "c = f32[90,170] concatenate(f, n), dimensions={1}",
        "ROOT r = f32[90,170] negate(c)",
    ]
    check("\n".join(["HloModule m", "ENTRY e {", *lines, "}"]), 2)


@pytest.mark.parametrize(
    ("parts", "dimension"),
    [
        ([(40,), (30,)], 0),  # a small result
        ([(3000, 3), (3000, 40)], 1),  # short runs
        ([(1000,)] * 129, 0),  # too many operands
    ],
    ids=["small", "short rows", "many"],
)
def test_other_concatenations_are_one_kernel(parts, dimension):
    check(concatenation("f32", parts, dimension), 1)


def test_producers_of_operands_and_consumers_of_the_result():
    lines = [
        "p = s16[50,100] parameter(0)",
        "q = f32[70,100] parameter(1)",
        "f = f32[50,100] convert(p)",
        "c = f32[120,100] concatenate(f, q), dimensions={0}",
        "ROOT r = f32[120,100] negate(c)",
    ]
    check("\n".join(["HloModule m", "ENTRY e {", *lines, "}"]), 3)


def test_a_loop_state_that_is_concatenated_in_each_iteration():
    text = """HloModule m
body { s = (s32[], f32[64,100]) parameter(0)
  n = s32[] get-tuple-element(s), index=0  x = f32[64,100] get-tuple-element(s), index=1
  one = s32[] constant(1)  next = s32[] add(n, one)
  low = f32[24,100] slice(x), slice={[0:24], [0:100]}
  high = f32[40,100] slice(x), slice={[24:64], [0:100]}
  c = f32[64,100] concatenate(high, low), dimensions={0}
  ROOT r = (s32[], f32[64,100]) tuple(next, c) }
condition { s = (s32[], f32[64,100]) parameter(0)
  n = s32[] get-tuple-element(s), index=0  limit = s32[] constant(5)
  ROOT c = pred[] compare(n, limit), direction=LT }
ENTRY e { x = f32[64,100] parameter(0)  zero = s32[] constant(0)
  s = (s32[], f32[64,100]) tuple(zero, x)
  w = (s32[], f32[64,100]) while(s), condition=condition, body=body
  ROOT r = f32[64,100] get-tuple-element(w), index=1 }
"""
    module = xla.parse_hlo(text)
    x = np.arange(6400, dtype=np.float32).reshape(64, 100)
    expected = np.asarray(INTERPRETER.compile(module)(x))
    np.testing.assert_array_equal(np.asarray(CPU.compile(module)(x)), expected)
