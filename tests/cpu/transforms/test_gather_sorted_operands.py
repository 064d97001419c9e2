"""Sorts of many operands that are not compared: positions are sorted, and the operands gathered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from xlapy import opcodes
from xlapy.cpu.transforms.gather_sorted_operands import MAX_MOVED_OPERANDS, GatherSortedOperands
from xlapy.hlo.verify import verify
from xlapy.testing.random_arguments import random_arguments

TYPES = ("f32", "s8", "pred", "c64", "f64", "u16", "bf16")
LESS = "ROOT c = pred[] compare(aK, bK), direction=LT"


def module(
    count: int, sizes: str, dimension: int, key: int = 0, comparison: str = LESS, stable: bool = False
) -> xla.Module:
    types = [TYPES[number % len(TYPES)] for number in range(count)]
    scalars = "\n".join(
        f"a{n} = {t}[] parameter({2 * n}) b{n} = {t}[] parameter({2 * n + 1})" for n, t in enumerate(types)
    )
    parameters = "\n".join(f"p{n} = {t}[{sizes}] parameter({n})" for n, t in enumerate(types))
    shape = ", ".join(f"{t}[{sizes}]" for t in types)
    operands, flag = ", ".join(f"p{n}" for n in range(count)), str(stable).lower()
    return xla.parse_hlo(f"""HloModule m
    less {{ {scalars}
      {comparison.replace("K", str(key))} }}
    ENTRY e {{ {parameters}
      ROOT s = ({shape}) sort({operands}), dimensions={{{dimension}}}, is_stable={flag}, to_apply=less }}""")


def results(module: xla.Module, platform: str, arguments: list[Any]) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(each) for each in xla.Client(platform).compile(module)(*arguments)]


def test_only_what_is_compared_is_sorted():
    given = module(MAX_MOVED_OPERANDS + 3, "4,5", 1, key=4)
    assert GatherSortedOperands().run(given)
    verify(given)
    (sort,) = (one for one in given.entry_computation if one.op is opcodes.SORT)
    assert [operand.shape.to_text(layout=False) for operand in sort.operands] == ["f64[4,5]", "s32[4,5]"]
    assert len(sort.to_apply.parameters) == 4
    assert sum(one.op is opcodes.GATHER for one in given.entry_computation) == MAX_MOVED_OPERANDS + 2
    assert not GatherSortedOperands().run(given)


def test_few_operands_are_moved():
    assert not GatherSortedOperands().run(module(MAX_MOVED_OPERANDS + 1, "4,5", 1))


@pytest.mark.parametrize(
    ("sizes", "dimension", "key", "comparison"),
    [
        ("40", 0, 1, LESS),
        ("3,40", 1, 5, LESS),
        ("40,3", 0, 1, "e = pred[] compare(a1, b1), direction=EQ\n l = pred[] compare(a1, b1), direction=GT\n"
         "m = pred[] compare(a5, b5), direction=LT\n t = pred[] and(e, m)\n ROOT c = pred[] or(l, t)"),
        ("2,30,3", 1, 8, LESS),
        ("0,4", 1, 1, LESS),
        ("4,1", 1, 1, LESS),
        ("6,4", 0, 0, "ROOT c = pred[] constant(false)"),
    ],
)  # fmt: skip
def test_results(sizes: str, dimension: int, key: int, comparison: str):
    given = module(MAX_MOVED_OPERANDS + 5, sizes, dimension, key, comparison, stable=True)
    arguments = random_arguments([p.shape for p in given.entry_computation.parameters], 3)
    for number, argument in enumerate(arguments):
        if argument.dtype.kind in "iu":
            arguments[number] = (argument % 4).astype(argument.dtype)  # with ties
    for ours, theirs in zip(results(given, "cpu", arguments), results(given, "interpreter", arguments), strict=True):
        assert ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()
