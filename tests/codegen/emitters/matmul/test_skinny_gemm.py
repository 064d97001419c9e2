"""Skinny GEMMs agree with NumPy, and none of their sizes changes bits."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

import xlapy as xla
from tests.codegen.emitters.matmul.test_dot import assert_product, kernel_text, product
from tests.cpu.instruction_sets import compile_for, limited_to
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program import builder
from xlapy.cpu.target import host_target

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


@pytest.mark.parametrize(("rows", "terms"), [(1, 79), (6, 261)])
@pytest.mark.parametrize(
    "types", [("u8", "u8", "u32"), ("u8", "s8", "s32"), ("s16", "s8", "s32"), ("s16", "s16", "s32")]
)
@pytest.mark.parametrize("isa", ["AVX2", "AVX512_BF16"])
def test_groups_of_neighboring_columns_loaded_together(isa, types, rows, terms):
    """The columns are two tiles and a part of one; the last group of terms is incomplete."""
    draw = np.random.default_rng(5)
    limits = {"u8": (np.uint8, 0, 256), "s8": (np.int8, -128, 128), "s16": (np.int16, -300, 300)}
    shapes = zip(types, ((rows, terms), (terms, 2 * 64 + 37)), strict=False)
    left, right = (draw.integers(low, high, shape).astype(t) for (t, low, high), shape in
                   ((limits[name], shape) for name, shape in shapes))  # fmt: skip
    with limited_to(isa):
        found = CPU.compile(with_plan(product(rows, terms, right.shape[1], "nn", types), ""))(left, right)
    np.testing.assert_array_equal(np.asarray(found).astype(np.int64), left.astype(np.int64) @ right.astype(np.int64))


@pytest.mark.parametrize(("t", "vectors"), [("bf16", 2), ("s8", 4)])
def test_rows_of_narrow_elements_are_loaded_as_whole_vectors(t, vectors):
    """No element is loaded alone where a tile has as many vectors as a group has terms."""
    text = product(1, 512, 1024, "nn", (t, t, "f32" if t == "bf16" else "s32"))
    whole, single = (
        compile_for("AVX512_BF16", with_plan(text, f',"tile_vectors":{count}')).loops() for count in (vectors, 1)
    )
    assert "load i32 in1[" in whole and "= load in1[" not in whole
    assert "= load in1[" in single


def test_computed_narrow_elements_are_joined_one_by_one():
    """A reversed operand is read where it lies, but its neighboring columns do not follow each other in memory."""
    text = """
ENTRY e {
  a = s8[2,60] parameter(0)
  b = s8[60,200] parameter(1)
  c = s8[60,200] reverse(b), dimensions={1}
  ROOT d = s32[2,200] dot(a, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    draw = np.random.default_rng(6)
    left, right = (draw.integers(-128, 128, shape).astype(np.int8) for shape in ((2, 60), (60, 200)))
    found = np.asarray(CPU.compile(text)(left, right))
    np.testing.assert_array_equal(found, left.astype(np.int32) @ right[:, ::-1].astype(np.int32))


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


@pytest.mark.parametrize(
    ("t", "columns", "vectors"), [("f32", 250, 15), ("f32", 256, 16), ("f32", 257, 16), ("f32", 288, 4)]
)
def test_a_row_with_few_columns_has_one_tile_for_all(t, columns, vectors):
    """The sums of all whole vectors of columns stay in registers, if each task has all columns."""
    text = product(1, 20000, columns, "nn", (t, t, t))
    target = replace(host_target(), vector_bytes=64, vector_registers=32, processors=2)
    with mock.patch.object(builder, "host_target", lambda: target):
        found = compile_module(xla.parse_hlo(text)).module.to_text()
    assert f'"tile_vectors":{vectors}}}' in found
    assert ('"step_terms":256,' in found) == (vectors > 4)


@pytest.mark.parametrize("columns", [250, 256])
def test_tiles_of_all_columns_do_not_change_bits(columns):
    text = product(1, 5003, columns, "nn")
    draw = np.random.default_rng(4)
    operands = [draw.standard_normal(shape, dtype=np.float32) for shape in ((1, 5003), (5003, columns))]
    few = f',"tile_vectors":{columns // 16},"step_terms":256,"block_columns":{columns // 16 * 32}'
    found, expected = (np.asarray(CPU.compile(with_plan(text, parameters))(*operands)) for parameters in (few, ""))
    np.testing.assert_array_equal(found, expected)
