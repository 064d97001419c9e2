"""Direct convolutions of narrow types: groups of input features for dot instructions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import stages_for

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")
RNG = np.random.default_rng(2)
DTYPES = {"bf16": ml_dtypes.bfloat16, "u8": np.uint8, "s8": np.int8, "s16": np.int16}


def convolution(types: tuple[str, str, str], inputs: int, groups: int = 1) -> str:
    left, right, result = types
    numbers = f"dim_labels=b01f_01io->b01f, feature_group_count={groups}"
    return f"""HloModule m
ENTRY e {{
  x = {left}[2,9,11,{inputs}] parameter(0)
  k = {right}[3,3,{inputs // groups},20] parameter(1)
  ROOT c = {result}[2,9,11,20] convolution(x, k), window={{size=3x3 pad=1_1x1_1}}, {numbers}
}}"""


def expected(x: np.ndarray, kernel: np.ndarray, groups: int) -> np.ndarray:
    """Sums over the window, exactly."""
    padded = np.pad(x.astype(np.int64), ((0, 0), (1, 1), (1, 1), (0, 0)))
    inputs, outputs = kernel.shape[2], kernel.shape[3] // groups
    found = np.zeros((2, 9, 11, kernel.shape[3]), np.int64)
    for group in range(groups):
        features, results = slice(group * inputs, (group + 1) * inputs), slice(group * outputs, (group + 1) * outputs)
        for row in range(3):
            for column in range(3):
                window = padded[:, row : row + 9, column : column + 11, features]
                found[..., results] += window @ kernel[row, column, :, results].astype(np.int64)
    return found


def any_numbers(kind: str, *shape: int) -> np.ndarray:
    """Numbers of a type: all integers of it, or floats of which sums are exact."""
    dtype = DTYPES[kind]
    lowest, highest = (-4, 4) if kind == "bf16" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return RNG.integers(lowest, highest + 1, shape).astype(dtype)


@pytest.mark.parametrize("inputs, groups", [(32, 1), (24, 2), (7, 1), (600, 1)])
@pytest.mark.parametrize(
    "types",
    [
        ("bf16", "bf16", "f32"),
        ("u8", "s8", "s32"),
        ("s8", "u8", "s32"),
        ("s8", "s8", "s32"),
        ("u8", "u8", "s32"),
        ("u8", "u8", "u32"),
        ("s8", "s8", "f32"),
        ("s16", "s8", "s32"),
        ("s8", "s8", "s8"),
        ("u8", "u8", "u8"),
        ("s8", "u8", "s8"),
    ],
    ids="-".join,
)
def test_convolutions_are_exact(types, inputs, groups):
    x, kernel = any_numbers(types[0], 2, 9, 11, inputs), any_numbers(types[1], 3, 3, inputs // groups, 20)
    found = np.asarray(CPU.compile(convolution(types, inputs, groups))(x, kernel))
    exact = expected(x, kernel, groups)
    if types[2] == "f32" and types[0] != "bf16":
        np.testing.assert_allclose(found, exact, rtol=2e-7)
    else:
        np.testing.assert_array_equal(found, exact.astype(found.dtype))  # sums wrap


_OFFSET_WINDOWS = """
    strides:       s8[2,15,23,8] s8[4,5,8,33] s32[2,5,8,33] {size=4x5 pad=2_0x0_5 stride=3x3} b01f_01io->b01f
    dilated:       s8[1,9,13,8] s8[3,3,8,20] s32[1,9,13,20] {size=3x3 pad=2_2x3_3 rhs_dilate=2x3} b01f_01io->b01f
    holes:         s8[1,5,7,64] s8[3,5,64,20] s32[1,9,13,20] {size=3x5 pad=1_1x2_2 lhs_dilate=2x2} b01f_01io->b01f
    reversed:      s8[1,9,11,8] s8[3,3,8,20] s32[1,9,11,20] {size=3x3 pad=1_1x1_1 rhs_reversal=1x0} b01f_01io->b01f
    many tiles:    s8[1,40,40] s8[31,40,20] s32[1,40,20] {size=31 pad=15_15} b0f_0io->b0f
    many inputs:   s8[1,4,5,900] s8[3,3,900,70] s32[1,4,5,70] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    padding only:  s8[2,4,6,8] s8[2,2,8,20] s32[2,9,11,20] {size=2x2 pad=3_3x4_2} b01f_01io->b01f
"""


@pytest.mark.parametrize("case", _OFFSET_WINDOWS.strip().splitlines(), ids=lambda c: c.split(":")[0].strip())
def test_offsets_leave_the_sums_of_windows_of_any_kind(case):
    left, right, result, *window, labels = case.split(":")[1].split()
    text = f"""HloModule m
ENTRY e {{
  x = {left} parameter(0)
  k = {right} parameter(1)
  ROOT c = {result} convolution(x, k), window={" ".join(window)}, dim_labels={labels}
}}"""
    shapes = [[int(n) for n in operand[3:-1].split(",")] for operand in (left, right)]
    arguments = [any_numbers("s8", *shape) for shape in shapes]
    assert "corrections" in stages_for("AVX512_VNNI", text)["loops.txt"]
    found, wanted = (np.asarray(client.compile(text)(*arguments)) for client in (CPU, INTERPRETER))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "level, types, inputs, instruction",
    [
        ("AVX512_BF16", ("bf16", "bf16", "f32"), 32, "dot bf16"),
        ("AVX512_BF16", ("bf16", "bf16", "f32"), 33, "dot bf16"),  # 33 features are padded to 34
        ("AVX512", ("bf16", "bf16", "f32"), 32, None),
        ("AVX512_VNNI", ("u8", "s8", "s32"), 32, "dot u8s8"),
        ("AVX512_VNNI", ("s8", "s8", "s32"), 32, "dot u8s8"),
        ("AVX512_VNNI", ("u8", "u8", "s32"), 32, "dot u8s8"),
        ("AVX512_VNNI", ("s8", "s8", "s8"), 32, "dot u8s8"),
        ("AVX512_VNNI", ("u8", "u8", "u8"), 32, "dot u8s8"),
        ("AVX2", ("s8", "s8", "s32"), 32, None),
        ("AVX2", ("s16", "s16", "s32"), 32, "dot s16"),
    ],
)
def test_groups_of_each_machine(level, types, inputs, instruction):
    loops = stages_for(level, convolution(types, inputs))["loops.txt"]
    assert ("dot " in loops) == (instruction is not None)
    assert instruction is None or instruction in loops


def test_a_group_of_the_input_is_one_load():
    loops = stages_for("AVX512_BF16", convolution(("bf16", "bf16", "f32"), 32))["loops.txt"]
    assert "load i32 in0[" in loops and "load in0[" not in loops


@pytest.mark.parametrize("kind, inputs, level", [("bf16", 32, "AVX512_BF16"), ("s8", 32, "AVX512_VNNI")])
@pytest.mark.parametrize(
    "given, steps, labels",
    [
        ("{t}[2,{i},9,11] k[20,{i},3,3]", "", "bf01_oi01->b01f"),
        (
            "{t}[9,11,{i},2] k[3,3,{i},20]",
            "y = {t}[2,9,11,{i}] transpose(x), dimensions={{3,0,1,2}}",
            "b01f_01io->b01f",
        ),
        ("{t}[2,99,{i}] k[3,3,{i},20]", "y = {t}[2,9,11,{i}] reshape(x)", "b01f_01io->b01f"),
        ("s4[2,9,11,{i}] k[3,3,{i},20]", "y = {t}[2,9,11,{i}] convert(x)", "b01f_01io->b01f"),
    ],
    ids=["channels first", "transposed", "reshaped", "converted"],
)
def test_groups_of_inputs_in_other_orders_and_types(given, steps, labels, kind, inputs, level):
    left, right = given.format(t=kind, i=inputs).split(" k")
    result, window = "f32" if kind == "bf16" else "s32", "{size=3x3 pad=1_1x1_1}"
    text = f"""HloModule m
ENTRY e {{
  x = {left} parameter(0)
  k = {kind}{right} parameter(1)
  {steps.format(t=kind, i=inputs)}
  ROOT c = {result}[2,9,11,20] convolution({"y" if steps else "x"}, k), window={window}, dim_labels={labels}
}}"""
    assert "dot " in stages_for(level, text)["loops.txt"]
    arguments = [
        RNG.integers(-4, 5, parameter.shape.dimensions).astype(parameter.shape.element_type.dtype)
        for parameter in xla.parse_hlo(text).entry_computation.parameters
    ]
    found, wanted = (np.asarray(client.compile(text)(*arguments)) for client in (CPU, INTERPRETER))
    np.testing.assert_array_equal(found, wanted)
