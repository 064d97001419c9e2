"""Skinny inner products agree with NumPy: on integers, whose sums are the same in any order, and on values that are not
numbers."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import xlapy as xla
from tests.codegen.emitters.matmul.test_dot import assert_product, product
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program import builder
from xlapy.cpu.target import host_target

CPU = xla.Client("cpu")

SHAPES = [(8, 300, 333), (9, 1027, 150), (64, 1100, 131)]

TYPES = [
    ("f32", "f32", "f32"),
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f32"),
    ("s8", "s8", "s32"),
    ("u8", "s8", "s32"),
    ("s32", "s32", "s32"),
    ("f64", "f64", "f64"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_odd_sizes_in_all_types(shape, types):
    """Tiles, blocks of columns and of terms, and vectors of terms are incomplete."""
    assert_product(*shape, "nt", types)


@pytest.mark.parametrize(("rows", "expected"), [(1, False), (2, True), (9, True), (32, True), (129, False)])
def test_few_rows_by_large_transposed_weights(rows, expected):
    text = compile_module(xla.parse_hlo(product(rows, 2048, 2048, "nt"))).module.to_text()
    assert ('"strategy":"skinny-inner-products"' in text) is expected


def test_values_that_are_not_numbers_stay_in_their_rows_and_columns():
    """The last terms do not fill a vector, and the last rows and columns no tile."""
    left, right = np.ones((9, 515), np.float32), np.ones((133, 515), np.float32)
    left[8, 514], left[2, 0], right[132, 513], right[5, 100] = np.nan, np.inf, -np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = left @ right.T
    np.testing.assert_array_equal(np.asarray(CPU.compile(product(9, 515, 133, "nt"))(left, right)), expected)


@pytest.mark.parametrize("plan", ["", ',"tile_rows":3,"tile_columns":5,"block_columns":35', ',"prefetches":true'])
def test_tiles_do_not_change_bits(plan):
    text = product(21, 2100, 147, "nt")
    config = f'{{"kernel_plan":{{"strategy":"skinny-inner-products"{plan}}}}}'
    numbers = "rhs_contracting_dims={1}"
    demanded = text.replace(numbers, f"{numbers}, backend_config={config}")
    assert demanded != text
    draw = np.random.default_rng(3)
    operands = [draw.standard_normal(shape, dtype=np.float32) for shape in ((21, 2100), (147, 2100))]
    found, expected = (np.asarray(CPU.compile(each)(*operands)) for each in (demanded, text))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, operands[0] @ operands[1].T, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("t", "rows", "expected"), [("f32", 4, 6), ("f32", 16, 6), ("f32", 17, 0), ("s8", 4, 6)])
def test_the_columns_of_the_next_tile_are_prefetched(t, rows, expected):
    """Once for each vector of terms, if few tiles of rows repeat it; not for the last terms, which fill no vector."""
    text = product(rows, 4100, 1030, "nt", (t, t, "s32" if t == "s8" else t))
    config = '{"kernel_plan":{"strategy":"skinny-inner-products"}}'
    target = replace(host_target(), vector_bytes=64, vector_registers=32, l2_bytes=1 << 20)
    with mock.patch.object(builder, "host_target", lambda: target):
        module = xla.parse_hlo(
            text.replace("contracting_dims={1}\n", f"contracting_dims={{1}}, backend_config={config}\n")
        )
        loops = compile_module(module).loops()
    assert loops.count("prefetch in1[") == expected
