"""Convolutions with few features per group agree with the interpreter, exactly on integers."""

from __future__ import annotations

import dataclasses
import re
from unittest import mock

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program import builder
from xlapy.cpu.target import host_target

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")
RNG = np.random.default_rng(3)

_CASES = """
    depthwise:
        f32[2,9,11,37] f32[3,3,1,37] f32[2,9,11,37] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, feature_group_count=37
    depthwise, strides:
        f32[2,9,13,32] f32[3,5,1,32] f32[2,5,7,32] {size=3x5 pad=1_1x2_2 stride=2x2} b01f_01io->b01f, feature_group_count=32
    depthwise, several outputs:
        f32[2,9,11,20] f32[3,3,1,60] f32[2,9,11,60] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, feature_group_count=20
    few inputs and outputs:
        f32[2,9,11,128] f32[3,3,4,128] f32[2,9,11,128] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, feature_group_count=32
    more inputs than outputs:
        f32[2,7,11,60] f32[3,3,3,40] f32[2,7,11,40] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, feature_group_count=20
    depthwise, outputs first:
        f32[2,9,11,37] f32[37,1,3,3] f32[2,9,11,37] {size=3x3 pad=1_1x1_1} b01f_oi01->b01f, feature_group_count=37
    short rows:
        f32[8,9,3,40] f32[3,3,1,40] f32[8,9,3,40] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, feature_group_count=40
    dilated:
        f32[2,9,15,18] f32[3,3,1,18] f32[2,9,15,18] {size=3x3 pad=2_2x3_3 rhs_dilate=2x3} b01f_01io->b01f, feature_group_count=18
    holes, reversed:
        f32[2,5,7,18] f32[3,3,1,18] f32[2,10,14,18] {size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1} b01f_01io->b01f, feature_group_count=18
    one dimension:
        f32[3,50,18] f32[4,1,18] f32[3,50,18] {size=4 pad=3_0} b0f_0io->b0f, feature_group_count=18
    bf16:
        bf16[2,9,11,37] bf16[3,3,1,37] bf16[2,9,11,37] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, feature_group_count=37
    s8:
        s8[2,9,11,20] s8[3,3,2,20] s32[2,9,11,20] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, feature_group_count=10
"""  # noqa: E501
CASES = dict(re.findall(r"(\S.*):\n +(.*)\n", _CASES))
READ_IN_PLACE = {"depthwise", "depthwise, strides", "short rows", "dilated", "holes, reversed", "one dimension"}
"""The cases whose kernels are read where they lie."""


def module(name: str) -> xla.Module:
    lhs, rhs, result, window, labels = re.fullmatch(r"(\S+) (\S+) (\S+) (\{.*\}) (.*)", CASES[name]).groups()
    return xla.parse_hlo(
        f"HloModule m\nENTRY e {{ a = {lhs} parameter(0)\n b = {rhs} parameter(1)\n"
        f" ROOT r = {result} convolution(a, b), window={window}, dim_labels={labels} }}",
        verify=True,
    )


@pytest.mark.parametrize("special", [0.0, np.inf, np.nan])
@pytest.mark.parametrize("name", CASES)
def test_results(name: str, special: float):
    given = module(name)
    compiled = compile_module(given)
    assert '"strategy":"grouped-convolution"' in compiled.module.to_text()
    assert ("scratch packed" in compiled.loops()) == (name not in READ_IN_PLACE)
    shapes = [p.shape for p in given.entry_computation.parameters]
    arrays = [RNG.integers(-2, 3, shape.dimensions).astype(shape.element_type.dtype) for shape in shapes]
    if shapes[1].element_type.is_floating:
        arrays[1].flat[0] = special
    ours, expected = (np.asarray(client.compile(given)(*arrays)).astype(np.float64) for client in (CPU, INTERPRETER))
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("name", ["depthwise", "depthwise, strides", "short rows", "depthwise, outputs first"])
def test_large_inputs_are_prefetched(name: str):
    """With a cache so small that every input is large. The addresses that the kernel prefetches are in bounds."""
    given = module(name)
    small = dataclasses.replace(host_target(), l3_bytes=0)
    with mock.patch.object(builder, "host_target", lambda: small):
        loops = compile_module(given).loops()
        program = xla.Client("cpu").compile(given)
    assert "prefetch" in loops and "prefetch" not in compile_module(given).loops()
    arrays = [RNG.standard_normal(p.shape.dimensions).astype(np.float32) for p in given.entry_computation.parameters]
    ours, expected = (np.asarray(called(*arrays)) for called in (program, CPU.compile(given)))
    np.testing.assert_array_equal(ours, expected)
