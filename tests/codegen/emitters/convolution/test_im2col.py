"""Convolutions with all orders of dimensions agree with the interpreter, on integers, because their sums are exact."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")
RNG = np.random.default_rng(11)


def hlo(lhs: str, rhs: str, result: str, rest: str) -> str:
    return f"""HloModule m
ENTRY e {{
  a = {lhs} parameter(0)
  b = {rhs} parameter(1)
  ROOT r = {result} convolution(a, b), {rest}
}}"""


def random_integers(shape: xla.Shape) -> np.ndarray:
    if shape.element_type.is_complex:
        return (RNG.integers(-2, 3, shape.dimensions) + 1j * RNG.integers(-2, 3, shape.dimensions)).astype(np.complex64)
    return RNG.integers(-2, 3, shape.dimensions).astype(shape.element_type.dtype)


def assert_equal_to_interpreter(text: str, *arrays: np.ndarray) -> np.ndarray:
    module = xla.parse_hlo(text, verify=True)
    given = arrays or [random_integers(p.shape) for p in module.entry_computation.parameters]
    result = np.asarray(CPU.compile(module)(*given))
    np.testing.assert_array_equal(result, np.asarray(INTERPRETER.compile(module)(*given)))
    return result


_CASES = """
    features last:
        f32[2,9,11,20] f32[3,3,20,40] f32[2,9,11,40] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    few features:
        f32[2,19,21,3] f32[5,4,3,24] f32[2,9,11,24] {size=5x4 stride=2x2 pad=1_1x2_1} b01f_01io->b01f
    one by one:
        f32[2,9,11,300] f32[1,1,300,20] f32[2,9,11,20] {size=1x1} b01f_01io->b01f
    many terms:
        f32[1,5,6,300] f32[3,3,300,20] f32[1,5,6,20] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    features first:
        f32[2,20,9,21] f32[24,20,3,3] f32[2,24,9,21] {size=3x3 pad=1_1x1_1} bf01_oi01->bf01
    features first, strides:
        f32[2,5,19,41] f32[24,5,3,3] f32[2,24,10,21] {size=3x3 stride=2x2 pad=1_1x1_1} bf01_oi01->bf01
    groups:
        f32[2,9,11,24] f32[3,3,6,32] f32[2,9,11,32] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, feature_group_count=4
    a channel each:
        f32[2,9,11,24] f32[3,3,1,24] f32[2,9,11,24] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, feature_group_count=24
    groups of the batch:
        f32[8,9,11,6] f32[3,3,6,32] f32[2,9,11,32] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, batch_group_count=4
    holes:
        f32[2,6,7,8] f32[3,4,8,16] f32[2,12,14,16] {size=3x4 pad=1_2x2_2 lhs_dilate=2x2} b01f_01io->b01f
    many holes:
        f32[1,5,6,8] f32[3,2,8,16] f32[1,12,16,16] {size=3x2 pad=2_-1x1_0 lhs_dilate=3x3} b01f_01io->b01f
    holes and strides:
        f32[2,6,7,8] f32[3,4,8,16] f32[2,6,7,16] {size=3x4 pad=1_2x2_2 stride=2x2 lhs_dilate=2x2} b01f_01io->b01f
    wide window:
        f32[2,9,11,8] f32[3,3,8,16] f32[2,9,11,16] {size=3x3 pad=2_2x2_2 rhs_dilate=2x2} b01f_01io->b01f
    reversed:
        f32[2,9,11,16] f32[3,3,24,16] f32[2,9,11,24] {size=3x3 pad=1_1x1_1 rhs_reversal=1x1} b01f_01oi->b01f
    gradient of the kernel:
        f32[4,9,11,20] f32[4,9,11,24] f32[3,3,20,24] {size=9x11 pad=1_1x1_1} f01b_i01o->01bf
    gradient of the kernel, features first:
        f32[4,20,9,11] f32[4,24,9,11] f32[24,20,3,3] {size=9x11 pad=1_1x1_1} fb01_io01->fb01
    one dimension:
        f32[2,100,16] f32[5,16,24] f32[2,50,24] {size=5 stride=2 pad=2_2} b0f_0io->b0f
    three dimensions:
        f32[1,5,6,7,8] f32[3,3,2,8,16] f32[1,5,6,8,16] {size=3x3x2 pad=1_1x1_1x1_1} b012f_012io->b012f
    negative padding:
        f32[2,9,11,20] f32[3,3,20,24] f32[2,6,8,24] {size=3x3 pad=-1_0x-1_0} b01f_01io->b01f
    no dimensions:
        f32[20,30] f32[30,40] f32[20,40] {} bf_io->bf
    c64:
        c64[2,9,11,8] c64[3,3,8,16] c64[2,9,11,16] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    s8:
        s8[2,9,11,20] s8[3,3,20,40] s32[2,9,11,40] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    integers in much padding:
        pred[2,6,3] pred[3,3,4] pred[2,68,4] {size=3 pad=63_1} b0f_0io->b0f
    bf16:
        bf16[2,9,11,20] bf16[3,3,20,40] bf16[2,9,11,40] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    f64:
        f64[2,9,11,20] f64[3,3,20,40] f64[2,9,11,40] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
"""
CASES = dict(re.findall(r"(\S.*):\n +(.*)\n", _CASES))
"""The shapes, window and dimension labels of each case."""


def text_of(name: str) -> str:
    shapes, window, labels = re.fullmatch(r"(.*) (\{.*\}) (.*)", CASES[name]).groups()
    return hlo(*shapes.split(), f"window={window}, dim_labels={labels}")


@pytest.mark.parametrize("name", CASES)
def test_orders_of_dimensions(name):
    assert_equal_to_interpreter(text_of(name))


@pytest.mark.parametrize("name", ["features last", "features first", "reversed", "holes"])
@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_infinite_kernel_elements_contribute_nothing_in_padding(name, special):
    text = text_of(name)
    shapes = [p.shape for p in xla.parse_hlo(text).entry_computation.parameters]
    base, kernel = (random_integers(shape) for shape in shapes)
    kernel[0, 0, 0, 0] = special
    result = assert_equal_to_interpreter(text, base, kernel)
    assert np.isfinite(result).any() and not np.isfinite(result).all()


def test_large_complex_convolutions_are_packed_and_small_ones_are_not():
    packed = compile_module(xla.parse_hlo(text_of("c64"))).loops()
    assert "scratch left" in packed and "scratch right" in packed
    small = hlo("f32[1,3,3,2]", "f32[2,2,2,4]", "f32[1,2,2,4]", "window={size=2x2}, dim_labels=b01f_01io->b01f")
    assert "scratch" not in compile_module(xla.parse_hlo(small)).loops()


def test_narrow_floats_round_once():
    """The sum of 257 ones is not a bf16 number; adding ones to 256 in bf16 would stay at 256."""
    text = hlo("bf16[1,8,600]", "bf16[1,600,8]", "bf16[1,8,8]", "window={size=1}, dim_labels=b0f_0io->b0f")
    ones = [np.ones(shape, ml_dtypes.bfloat16) for shape in ((1, 8, 600), (1, 600, 8))]
    assert (assert_equal_to_interpreter(text, *ones).astype(np.float32) == 600).all()
