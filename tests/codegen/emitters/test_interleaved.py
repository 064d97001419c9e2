"""Fusions with a dimension too short for vectors: their results, and that loads and stores are vectors."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import compile_for
from xlapy.cpu.compiler import compile_module
from xlapy.testing.random_arguments import random_arguments

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")


def module(*lines: str) -> str:
    return "\n".join(["HloModule m", "ENTRY e {", *lines, "}"])


def check(*lines: str, unrolled: bool = True) -> None:
    """Checks that the result equals the interpreter's, and whether the short dimension is unrolled."""
    text = module(*lines)
    loops = compile_module(xla.parse_hlo(text)).loops()
    assert (loops.count("store ") > 1) == unrolled, loops
    check_result(xla.parse_hlo(text))


def check_result(module: xla.Module) -> None:
    executable = CPU.compile(module)
    arguments = random_arguments(executable.program_shape.parameters, 3)
    ours, theirs = executable(*arguments), INTERPRETER.compile(module)(*arguments)
    np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("t", ["u8", "bf16", "f32", "f64", "c64"])
@pytest.mark.parametrize("channels", [2, 3, 4])
def test_channels_first_to_last_and_back(t: str, channels: int):
    images, planes = f"{t}[2,40,15,{channels}]", f"{t}[2,{channels},40,15]"
    check(f"x = {images} parameter(0)", f"ROOT r = {planes} transpose(x), dimensions={{0,3,1,2}}")
    check(f"x = {planes} parameter(0)", f"ROOT r = {images} transpose(x), dimensions={{0,2,3,1}}")


def test_stacked_arrays():
    check(
        "x = f32[9001] parameter(0)",
        "y = f32[9001] parameter(1)",
        "a = f32[9001,1] reshape(x)",
        "b = f32[9001,1] reshape(y)",
        "ROOT r = f32[9001,3] concatenate(a, b, a), dimensions={1}",
    )


def test_points_scaled_by_numbers_of_rows_and_columns():
    check(
        "x = f32[999,3] parameter(0)",
        "row = f32[3] parameter(1)",
        "column = f32[999] parameter(2)",
        "rows = f32[999,3] broadcast(row), dimensions={1}",
        "columns = f32[999,3] broadcast(column), dimensions={0}",
        "s = f32[999,3] multiply(x, rows)",
        "ROOT r = f32[999,3] subtract(s, columns)",
    )


@pytest.mark.parametrize(("isa", "size"), [("AVX512", 64), ("AVX512", 33), ("AVX2", 64), ("AVX2", 17)])
def test_a_short_dimension_is_unrolled_if_the_long_one_fills_vectors(isa: str, size: int):
    """33 elements are 3 vectors of 16, and 17 are 3 of 8: a third of the lanes would be idle."""
    text = module(f"x = f32[9,{size},3] parameter(0)", f"ROOT r = f32[9,{size},3] reverse(x), dimensions={{1}}")
    loops = compile_for(isa, text).loops()
    assert (loops.count("store ") > 1) == (size == 64), loops
    check_result(xla.parse_hlo(text))


def test_a_result_with_the_order_of_its_operands_is_one_flat_loop():
    check(
        "x = f32[999,3] parameter(0)",
        "y = f32[999,3] parameter(1)",
        "ROOT r = f32[999,3] multiply(x, y)",
        unrolled=False,
    )
