"""Convolutions with windows larger than their results agree with the interpreter, exactly on integers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import stages_for
from xlapy.cpu.compiler import compile_module

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")
RNG = np.random.default_rng(5)

_CASES = """
    3x3:
        f32[4,9,11,20] f32[4,9,11,24] f32[3,3,20,24] {size=9x11 pad=1_1x1_1} f01b_i01o->01bf
    1x1:
        f32[5,7,9,67] f32[5,7,9,70] f32[1,1,67,70] {size=7x9} f01b_i01o->01bf
    few rows, strides:
        f32[3,17,19,3] f32[3,9,10,40] f32[5,5,3,40] {size=9x10 pad=2_2x2_2 rhs_dilate=2x2} f01b_i01o->01bf
    many features:
        f32[6,5,5,150] f32[6,5,5,200] f32[3,3,150,200] {size=5x5 pad=1_1x1_1} f01b_i01o->01bf
    strides in the result:
        f32[3,17,19,5] f32[3,9,10,40] f32[5,5,5,40] {size=9x10 stride=2x3 pad=0_0x1_2} f01b_i01o->01bf
    reversed:
        f32[3,9,10,9] f32[3,8,9,17] f32[2,2,9,17] {size=8x9 rhs_reversal=1x1} f01b_i01o->01bf
    windows entirely in the padding:
        f32[3,4,5,9] f32[3,6,7,17] f32[5,5,9,17] {size=6x7 pad=3_3x3_3} f01b_i01o->01bf
    long rows of the input:
        f32[3,4,5,260] f32[3,6,7,17] f32[5,5,260,17] {size=6x7 pad=3_3x3_3} f01b_i01o->01bf
    long rows of the kernel:
        f32[3,17,19,5] f32[3,9,10,260] f32[5,5,5,260] {size=9x10 stride=2x3 pad=0_0x1_2} f01b_i01o->01bf
    one dimension:
        f32[3,200,9] f32[3,200,17] f32[5,9,17] {size=200 pad=2_2} f0b_i0o->0bf
    three dimensions:
        f32[3,4,5,6,9] f32[3,4,5,6,17] f32[3,2,3,9,17] {size=4x5x6 pad=1_1x0_1x1_1} f012b_i012o->012bf
    features first:
        f32[4,20,9,11] f32[4,24,9,11] f32[24,20,3,3] {size=9x11 pad=1_1x1_1} fb01_io01->fb01
    depthwise:
        f32[4,9,11,20] f32[4,9,11,20] f32[3,3,1,20] {size=9x11 pad=1_1x1_1} f01b_i01o->01bf, batch_group_count=20
    depthwise, strides:
        f32[3,19,17,70] f32[3,10,9,70] f32[3,5,1,70] {size=10x9 pad=1_1x2_2 rhs_dilate=2x2} f01b_i01o->01bf, batch_group_count=70
    depthwise, one dimension:
        f32[3,150,37] f32[3,150,37] f32[4,1,37] {size=150 pad=3_0} f0b_i0o->0bf, batch_group_count=37
    depthwise, many positions:
        f32[2,250,37] f32[2,180,37] f32[77,1,37] {size=180 pad=2_4} f0b_i0o->0bf, batch_group_count=37, backend_config={"kernel_plan":{"strategy":"depthwise-gradient"}}
    depthwise, windows entirely in the padding:
        f32[3,4,5,9] f32[3,6,7,9] f32[5,5,1,9] {size=6x7 pad=3_3x3_3} f01b_i01o->01bf, batch_group_count=9
    depthwise, stride in the result:
        f32[3,17,19,5] f32[3,9,10,5] f32[5,5,1,5] {size=9x10 stride=2x3 pad=0_0x1_2} f01b_i01o->01bf, batch_group_count=5
    bf16:
        bf16[2,5,6,9] bf16[2,5,6,40] bf16[3,3,9,40] {size=5x6 pad=1_1x1_1} f01b_i01o->01bf
    bf16, an odd number of images:
        bf16[5,7,9,67] bf16[5,7,9,70] f32[1,1,67,70] {size=7x9} f01b_i01o->01bf
    bf16, strides:
        bf16[3,17,19,5] bf16[3,9,10,40] f32[5,5,5,40] {size=9x10 pad=2_2x2_2 rhs_dilate=2x2} f01b_i01o->01bf
    bf16, strides in the result:
        bf16[3,17,19,5] bf16[3,9,10,40] bf16[5,5,5,40] {size=9x10 stride=2x3 pad=0_0x1_2} f01b_i01o->01bf
    bf16, reversed:
        bf16[3,9,10,9] bf16[3,8,9,17] f32[2,2,9,17] {size=8x9 rhs_reversal=1x1} f01b_i01o->01bf
    bf16, windows entirely in the padding:
        bf16[3,4,5,9] bf16[3,6,7,17] f32[5,5,9,17] {size=6x7 pad=3_3x3_3} f01b_i01o->01bf
    bf16, rows in parts:
        bf16[3,3000,9] bf16[3,3001,17] f32[4,9,17] {size=3001 pad=3_1} f0b_i0o->0bf
    bf16, rows in parts, strides:
        bf16[2,2,3000,20] bf16[2,2,1500,17] f32[1,3,20,17] {size=2x1500 pad=0_0x0_1 rhs_dilate=1x2} f01b_i01o->01bf
    bf16, many positions:
        bf16[2,1000,5] bf16[2,745,17] f32[256,5,17] {size=745} f0b_i0o->0bf
    bf16, too many positions to pack:
        bf16[2,1100,3] bf16[2,820,4] f32[281,3,4] {size=820} f0b_i0o->0bf
    bf16, one image:
        bf16[1,9,11,20] bf16[1,9,11,24] bf16[3,3,20,24] {size=9x11 pad=1_1x1_1} f01b_i01o->01bf
    bf16, features first:
        bf16[4,20,9,11] bf16[4,24,9,11] bf16[24,20,3,3] {size=9x11 pad=1_1x1_1} fb01_io01->fb01
    u8 with s8:
        u8[7,9,11,20] s8[7,9,11,24] s32[3,3,20,24] {size=9x11 pad=1_1x1_1} f01b_i01o->01bf
    s8 to s8, many features:
        s8[7,9,11,70] s8[7,9,11,40] s8[3,3,70,40] {size=9x11 pad=1_1x1_1} f01b_i01o->01bf
    u8, strides in the result, windows entirely in the padding:
        u8[6,17,19,5] u8[6,9,10,40] s32[7,8,5,40] {size=9x10 stride=4x4 pad=9_9x11_11} f01b_i01o->01bf
    s8, rows in parts:
        s8[6,3000,9] s8[6,3001,17] s32[4,9,17] {size=3001 pad=3_1} f0b_i0o->0bf
    s8:
        s8[7,9,11,20] s8[7,9,11,24] s32[3,3,20,24] {size=9x11 pad=1_1x1_1} f01b_i01o->01bf
"""  # noqa: E501
CASES = dict(re.findall(r"(\S.*):\n +(.*)\n", _CASES))


@pytest.mark.parametrize("special", [0.0, np.inf, np.nan])
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, special: float):
    lhs, rhs, result, window, labels = re.fullmatch(r"(\S+) (\S+) (\S+) (\{.*\}) (.*)", CASES[name]).groups()
    given = xla.parse_hlo(
        f"HloModule m\nENTRY e {{ a = {lhs} parameter(0)\n b = {rhs} parameter(1)\n"
        f" ROOT r = {result} convolution(a, b), window={window}, dim_labels={labels} }}",
        verify=True,
    )
    loops = compile_module(given).loops()
    assert "scratch sums" in loops and "scratch panel" not in loops
    shapes = [p.shape for p in given.entry_computation.parameters]
    largest = 2 if shapes[1].element_type.is_floating else 100
    numbers = (RNG.integers(-largest, largest + 1, shape.dimensions) for shape in shapes)
    arrays = [n.astype(shape.element_type.dtype) for n, shape in zip(numbers, shapes, strict=True)]
    if shapes[1].element_type.is_floating:
        arrays[1].flat[0] = special
    ours, expected = (np.asarray(client.compile(given)(*arrays)).astype(np.float64) for client in (CPU, INTERPRETER))
    np.testing.assert_array_equal(ours, expected)


def test_more_positions_than_sums_in_scratch_memory_have_another_kernel():
    loops = stages_for(
        "AVX512",
        """HloModule m
ENTRY e {
  a = f32[2,1400,37] parameter(0)
  b = f32[2,801,40] parameter(1)
  ROOT r = f32[600,37,40] convolution(a, b), window={size=801}, dim_labels=f0b_i0o->0bf
}""",
    )["plans.txt"]
    assert "kernel-gradient: rejected: 600 positions along its last dimension are more than 512" in loops


@pytest.mark.parametrize(
    "level, types, images, instruction",
    [
        ("AVX512_BF16", ("bf16", "bf16", "f32"), 3, "dot bf16"),
        ("AVX512_BF16", ("bf16", "bf16", "f32"), 1, None),
        ("AVX512", ("bf16", "bf16", "f32"), 4, None),
        ("AVX512_VNNI", ("u8", "s8", "s32"), 5, "dot u8s8"),
        ("AVX512_VNNI", ("s8", "s8", "s32"), 5, "dot u8s8"),
        ("AVX2", ("s8", "s16", "s32"), 2, "dot s16"),
    ],
)
def test_factors_of_several_images_on_each_machine(level, types, images, instruction):
    left, right, result = types
    loops = stages_for(
        level,
        f"""HloModule m
ENTRY e {{
  a = {left}[{images},9,11,20] parameter(0)
  b = {right}[{images},9,11,24] parameter(1)
  ROOT r = {result}[3,3,20,24] convolution(a, b), window={{size=9x11 pad=1_1x1_1}}, dim_labels=f01b_i01o->01bf
}}""",
    )["loops.txt"]
    assert ("dot " in loops) == (instruction is not None)
    assert instruction is None or instruction in loops
