"""Comparators that compare keys, and the order of the keys."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.cpu.kernel_runner import run_kernel
from xlapy.loops import Builder
from xlapy.loops.types import integer_type
from xlapy.lower import load_element, storage_type
from xlapy.lower.sort_keys import sort_key

CANONICAL = """
  an = pred[] compare(a, a), direction=NE
  nan = f32[] constant(nan)
  zero = f32[] constant(0)
  az = pred[] compare(a, zero), direction=EQ
  a1 = f32[] select(az, zero, a)
  a2 = f32[] select(an, nan, a1)
  bn = pred[] compare(b, b), direction=NE
  bz = pred[] compare(b, zero), direction=EQ
  b1 = f32[] select(bz, zero, b)
  b2 = f32[] select(bn, nan, b1)
  ROOT r = pred[] compare(a2, b2), direction=LT, type=TOTALORDER
"""


def sort(body: str, t: str = "f32", size: int = 9) -> xla.Module:
    return xla.parse_hlo(
        f"HloModule m\nf {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n c = s32[] parameter(2)\n"
        f" d = s32[] parameter(3)\n {body} }}\nENTRY e {{ x = {t}[{size}] parameter(0)\n"
        f" y = s32[{size}] iota(), iota_dimension=0\n"
        f" ROOT r = ({t}[{size}], s32[{size}]) sort(x, y), dimensions={{0}}, is_stable=true, to_apply=f }}"
    )


def key_of(body: str, t: str = "f32"):
    return sort_key(sort(body, t).entry_computation.root_instruction)


@pytest.mark.parametrize(
    "body",
    [
        CANONICAL,
        "ROOT r = pred[] compare(a, b), direction=GT",
        "ROOT r = pred[] compare(c, d), direction=LT",
        "x = f32[] abs(a)\n y = f32[] abs(b)\n ROOT r = pred[] compare(x, y), direction=LT",
    ],
)
def test_comparators_with_a_key(body: str):
    assert key_of(body) is not None


@pytest.mark.parametrize(
    "body",
    [
        "ROOT r = pred[] compare(b, a), direction=LT",  # operands swapped
        "ROOT r = pred[] compare(a, b), direction=LE",  # not strict: equal elements would be swapped
        "x = f32[] abs(a)\n y = f32[] negate(b)\n ROOT r = pred[] compare(x, y), direction=LT",
        "x = f32[] add(a, b)\n ROOT r = pred[] compare(x, b), direction=LT",
        "x = f32[] constant(1)\n y = f32[] constant(2)\n s = f32[] add(a, x)\n u = f32[] add(b, y)\n"
        " ROOT r = pred[] compare(s, u), direction=LT",
    ],
)
def test_comparators_without_a_key(body: str):
    assert key_of(body) is None


ORDERED = {
    "f32": [-np.inf, -2, -1e-30, 0, 1e-30, 1, np.inf],
    "bf16": [-np.inf, -3, -1, 0, 0.5, 1, 2],
    "f64": [-1e300, -1, 0, 1e-300, 1, 2, np.inf],
    "f8e4m3fn": [-448, -2, -0.5, 0, 0.5, 2, 448],
    "s8": [-128, -3, -1, 0, 1, 100, 127],
    "u8": [0, 1, 2, 127, 128, 200, 255],
    "s64": [-(2**63), -1, 0, 1, 2, 2**40, 2**63 - 1],
    "u4": [0, 1, 2, 3, 7, 8, 15],
}


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("t", ORDERED)
def test_keys_are_in_order(t: str, direction: str):
    module = sort(f"ROOT r = pred[] compare(a, b), direction={direction}", t)
    instruction = module.entry_computation.root_instruction
    key = sort_key(instruction)
    assert key is not None
    element_type = instruction.operands[0].shape.element_type
    builder = Builder("keys")
    source = builder.buffer("in", storage_type(element_type), 7)
    with builder.loop(7) as position:
        element = load_element(builder, source, position, element_type)
        value = key.of(builder, instruction.to_apply.parameters, [element, element])
        target = builder.buffer("out", value.type, 7, written=True)
        builder.store(target, position, value)
    x = np.array(ORDERED[t]).astype(instruction.operands[0].shape.dtype)
    keys = np.zeros(7, integer_type(value.type.bits).dtype)
    run_kernel(builder.kernel, [x, keys])
    ordered = keys.view(f"u{keys.itemsize}") >> np.uint8(key.low)
    steps = np.diff(ordered.astype(object))
    assert all(step > 0 if direction == "LT" else step < 0 for step in steps)


def test_a_key_of_narrow_floats_has_few_bits():
    key = key_of("ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER", "bf16")
    assert key is not None
    assert key.low == 16
    assert np.array([1], ml_dtypes.bfloat16).astype(np.float32).view(np.int32)[0] % 2**16 == 0
