"""Direct convolutions of narrow types: groups of input features for dot instructions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import stages_for

CPU = xla.Client("cpu")
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


@pytest.mark.parametrize("inputs, groups", [(32, 1), (24, 2), (7, 1), (600, 1)])
@pytest.mark.parametrize(
    "types", [("bf16", "bf16", "f32"), ("u8", "s8", "s32"), ("s8", "s8", "s32"), ("s16", "s8", "s32")], ids="-".join
)
def test_convolutions_are_exact(types, inputs, groups):
    x = RNG.integers(0 if types[0] == "u8" else -4, 5, (2, 9, 11, inputs)).astype(DTYPES[types[0]])
    kernel = RNG.integers(-4, 5, (3, 3, inputs // groups, 20)).astype(DTYPES[types[1]])
    found = np.asarray(CPU.compile(convolution(types, inputs, groups))(x, kernel))
    np.testing.assert_array_equal(found.astype(np.int64), expected(x, kernel, groups))


@pytest.mark.parametrize(
    "level, types, inputs, instruction",
    [
        ("AVX512_BF16", ("bf16", "bf16", "f32"), 32, "dot bf16"),
        ("AVX512_BF16", ("bf16", "bf16", "f32"), 33, None),
        ("AVX512", ("bf16", "bf16", "f32"), 32, None),
        ("AVX512_VNNI", ("u8", "s8", "s32"), 32, "dot u8s8"),
        ("AVX512_VNNI", ("s8", "s8", "s32"), 32, None),
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
