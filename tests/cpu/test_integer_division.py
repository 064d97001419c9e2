"""Integer division in vectors agrees with the interpreter, for zero divisors and the extremes of every type too."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module

TYPES = {"s8": np.int8, "u8": np.uint8, "s16": np.int16, "u16": np.uint16, "s32": np.int32, "u32": np.uint32}


def program(t: str, size: int) -> str:
    return f"""HloModule m
ENTRY main {{ x = {t}[{size}] parameter(0)  y = {t}[{size}] parameter(1)  q = {t}[{size}] divide(x, y)
  r = {t}[{size}] remainder(x, y)  ROOT t = ({t}[{size}], {t}[{size}]) tuple(q, r) }}"""


def operands(t: str) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of numbers at both ends of the type, beside zero, beside multiples of each other, and random ones."""
    limits = np.iinfo(TYPES[t])
    generator = np.random.default_rng(0)
    near = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3, 7]
    near += [-1, -2, -3] if limits.min else []
    some = generator.integers(limits.min, limits.max, 60, endpoint=True)
    x, y = (m.ravel() for m in np.meshgrid([*near, *some], [*near, *some]))
    quotients = generator.integers(1, 1 << limits.bits // 2, 2000)
    divisors = generator.integers(1, 1 << (limits.bits // 2 - 1), 2000)
    multiples = quotients * divisors + generator.integers(-1, 2, 2000)
    x = np.concatenate([x, np.clip(multiples, 0, limits.max), [limits.max]])
    return x.astype(TYPES[t]), np.concatenate([y, divisors, [1]]).astype(TYPES[t])


@pytest.mark.parametrize("t", TYPES)
def test_vectors_are_divided_exactly(t: str):
    x, y = operands(t)
    text = program(t, x.size)
    with np.errstate(all="ignore"):
        expected = xla.Client("interpreter").compile(text)(x, y)
    for left, right in zip(xla.Client("cpu").compile(text)(x, y), expected, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(("t", "type"), [("s32", "double"), ("s8", "float")])
def test_vectors_are_divided_as_floats(t: str, type: str):
    text = compile_module(xla.parse_hlo(program(t, 4096), verify=True)).llvm
    divisions = re.findall(r" (\w+) <\d+ x (\w+)>", text)
    assert ("fdiv", type) in divisions
    assert not {name for name, _ in divisions} & {"sdiv", "udiv", "srem", "urem"}
