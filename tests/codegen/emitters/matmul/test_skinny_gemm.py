"""Skinny GEMMs agree with NumPy, and none of their sizes changes bits."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.codegen.emitters.matmul.test_dot import assert_product, kernel_text, product

CPU = xla.Client("cpu")


def with_plan(text: str, parameters: str) -> str:
    numbers = "rhs_contracting_dims={0}"
    config = f'{{"kernel_plan":{{"strategy":"skinny-gemm"{parameters}}}}}'
    demanded = text.replace(numbers, f"{numbers}, backend_config={config}")
    assert demanded != text
    return demanded


@pytest.mark.parametrize("t", ["f32", "bf16", "s8"])
@pytest.mark.parametrize("shape", [(1, 527, 517), (13, 603, 421), (37, 300, 515)], ids=str)
def test_odd_sizes(shape, t):
    """Strips, blocks of terms, tiles of rows and of columns, and vectors are incomplete."""
    assert_product(*shape, "nn", (t, t, "s32" if t == "s8" else t if t == "f32" else "f32"))


@pytest.mark.parametrize(
    "plan",
    [
        ',"step_terms":3',
        ',"step_terms":256',
        ',"tile_rows":3,"tile_vectors":4',
        ',"tile_rows":16,"tile_vectors":1,"prefetch_terms":0',
        ',"block_columns":64,"step_terms":8,"prefetch_terms":100',
    ],
)
@pytest.mark.parametrize("rows", [1, 14])
def test_sizes_do_not_change_bits(plan, rows):
    text = product(rows, 1053, 331, "nn")
    draw = np.random.default_rng(3)
    operands = [draw.standard_normal(shape, dtype=np.float32) for shape in ((rows, 1053), (1053, 331))]
    found, expected = (np.asarray(CPU.compile(with_plan(text, parameters))(*operands)) for parameters in (plan, ""))
    np.testing.assert_array_equal(found, expected)


def test_values_that_are_not_numbers_stay_in_their_rows_and_columns():
    left, right = np.ones((9, 515), np.float32), np.ones((515, 333), np.float32)
    left[8, 514], left[2, 0], right[513, 332], right[100, 5] = np.nan, np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = left @ right
    found = CPU.compile(with_plan(product(9, 515, 333, "nn"), ""))(left, right)
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_narrow_elements_are_prefetched_where_they_lie():
    """Of each term of a group, a line is prefetched."""
    text = kernel_text(with_plan(product(4, 512, 1024, "nn", ("s8", "s8", "s32")), ',"prefetch_terms":8'))
    assert text.count("prefetch in1[") == 4
