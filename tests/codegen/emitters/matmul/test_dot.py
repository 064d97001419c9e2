"""Dots with every form of kernel agree with NumPy, on integers, because their sums are the same in any order."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import ISAS, compile_for
from xlapy.codegen.region import region_of
from xlapy.codegen.strategies import emit_kernels, plan_of
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.target import host_target
from xlapy.loops.ir import Store
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_arguments import random_arguments

CPU = xla.Client("cpu")
RNG = np.random.default_rng(7)
DTYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "c64": np.complex64,
    "s8": np.int8, "u8": np.uint8, "s32": np.int32, "s64": np.int64, "pred": np.bool_,
}  # fmt: skip


def random_integers(dtype: type, *shape: int) -> np.ndarray:
    if dtype is np.bool_:
        return RNG.integers(0, 8, shape) == 0
    if np.issubdtype(dtype, np.complexfloating):
        return (RNG.integers(-2, 3, shape) + 1j * RNG.integers(-2, 3, shape)).astype(dtype)
    return RNG.integers(0 if np.issubdtype(dtype, np.unsignedinteger) else -2, 3, shape).astype(dtype)


def dot_text(left: str, right: str, result: str, numbers: str) -> str:
    return f"""HloModule m
ENTRY e {{
  a = {left} parameter(0)
  b = {right} parameter(1)
  ROOT r = {result} dot(a, b), {numbers}
}}"""


def kernel_text(text: str) -> str:
    return compile_module(xla.parse_hlo(text)).loops()


def product(rows: int, terms: int, columns: int, form: str, types: tuple[str, str, str] = ("f32", "f32", "f32")) -> str:
    """Returns the HLO of a matrix multiplication; `form` says which operands are transposed: "nn", "nt" ..."""
    left = f"{types[0]}[{rows},{terms}]" if form[0] == "n" else f"{types[0]}[{terms},{rows}]"
    right = f"{types[1]}[{terms},{columns}]" if form[1] == "n" else f"{types[1]}[{columns},{terms}]"
    contracting = f"lhs_contracting_dims={{{int(form[0] == 'n')}}}, rhs_contracting_dims={{{int(form[1] == 't')}}}"
    return dot_text(left, right, f"{types[2]}[{rows},{columns}]", contracting)


def assert_product(rows: int, terms: int, columns: int, form: str, types: tuple[str, str, str]) -> None:
    left, right = random_integers(DTYPES[types[0]], rows, terms), random_integers(DTYPES[types[1]], terms, columns)
    given = [m if t == "n" else np.ascontiguousarray(m.T) for m, t in zip((left, right), form, strict=True)]
    result = np.asarray(CPU.compile(product(rows, terms, columns, form, types))(*given))
    wide = np.complex128 if types[2] == "c64" else np.float64 if types[2] != "pred" else np.int64
    expected = (left.astype(wide) @ right.astype(wide)).astype(result.dtype)
    np.testing.assert_array_equal(result, expected)


SHAPES = [
    (1, 1, 1), (1, 40, 1), (1, 33, 70), (70, 33, 1), (3, 5, 2), (8, 64, 64), (5, 300, 9), (9, 300, 5),
    (33, 300, 47), (64, 257, 100), (150, 700, 150), (3, 701, 101), (1, 403, 301), (1, 500, 1),
]  # fmt: skip


@pytest.mark.parametrize("shape", [(1100, 3, 11000), (300, 2000, 1100)], ids=str)
@pytest.mark.parametrize("form", ["nn", "tt"])
def test_products_of_several_blocks_of_rows_columns_and_terms(shape, form):
    assert_product(*shape, form, ("s32", "s32", "s32"))


@pytest.mark.parametrize("t", ["f32", "c128"])
def test_packed_blocks_of_few_terms_fit_into_scratch_memory(t):
    numbers = "rhs_contracting_dims={0}"
    config = 'backend_config={"kernel_plan":{"strategy":"packed-gemm"}}'
    text = product(100_000, 3, 11_000, "nn", (t, t, t)).replace(numbers, f"{numbers}, {config}")
    assert "scratch left" in kernel_text(text)


@pytest.mark.parametrize("form", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_and_orders_of_dimensions(shape, form):
    assert_product(*shape, form, ("f32", "f32", "f32"))


TYPES = [
    ("f64", "f64", "f64"), ("bf16", "bf16", "f32"), ("bf16", "bf16", "bf16"), ("f16", "f16", "f16"),
    ("bf16", "f32", "f32"), ("c64", "c64", "c64"), ("s8", "s8", "s32"), ("s8", "s8", "s8"), ("u8", "s8", "s32"),
    ("s32", "s32", "s32"), ("s64", "s64", "s64"), ("pred", "pred", "pred"),
]  # fmt: skip


@pytest.mark.parametrize("shape", [(7, 20, 35), (40, 300, 50), (2, 300, 2)], ids=str)
@pytest.mark.parametrize("types", TYPES, ids=str)
def test_element_types(types, shape):
    assert_product(*shape, "nn", types)
    assert_product(*shape, "tt", types)


@pytest.mark.parametrize(
    ("equation", "numbers", "left", "right"),
    [
        ("bqhd,bkhd->bhqk", (0, 2, 3, 0, 2, 3), (2, 20, 3, 16), (2, 18, 3, 16)),
        ("bhqk,bkhd->bhqd", (0, 1, 3, 0, 2, 1), (2, 3, 20, 18), (2, 18, 3, 16)),
    ],
)
def test_batch_dimensions_at_any_position(equation, numbers, left, right):
    lb0, lb1, lc, rb0, rb1, rc = numbers
    a, b = random_integers(np.float32, *left), random_integers(np.float32, *right)
    expected = np.einsum(equation, a, b)
    attributes = (
        f"lhs_batch_dims={{{lb0},{lb1}}}, lhs_contracting_dims={{{lc}}}, "
        f"rhs_batch_dims={{{rb0},{rb1}}}, rhs_contracting_dims={{{rc}}}"
    )
    shapes = [f"f32[{','.join(map(str, s))}]" for s in (left, right, expected.shape)]
    result = CPU.compile(dot_text(*shapes, attributes))(a, b)
    np.testing.assert_array_equal(np.asarray(result), expected)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=str)
def test_several_contracted_dimensions_in_any_order(order):
    """In the second case, the strides of the contracted dimensions in memory are not uniform."""
    a, b = random_integers(np.float32, 40, 20, 17), random_integers(np.float32, 20, 17, 40)
    numbers = f"lhs_contracting_dims={{{order[0] + 1},{order[1] + 1}}}, rhs_contracting_dims={{{order[0]},{order[1]}}}"
    text = dot_text("f32[40,20,17]", "f32[20,17,40]", "f32[40,40]", numbers)
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(a, b)), np.tensordot(a, b, 2))


def test_rows_over_dimensions_that_are_not_adjacent():
    a, b = random_integers(np.float32, 6, 30, 7), random_integers(np.float32, 30, 40)
    text = dot_text("f32[6,30,7]", "f32[30,40]", "f32[6,7,40]", "lhs_contracting_dims={1}, rhs_contracting_dims={0}")
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(a, b)), np.einsum("ikj,kn->ijn", a, b))


def test_infinities_and_nan_stay_in_their_rows_and_columns():
    """The padding of tiles at the edges does not affect the result."""
    a, b = np.ones((33, 300), np.float32), np.ones((300, 47), np.float32)
    a[32, 5], b[7, 46] = np.inf, np.nan
    result = np.asarray(CPU.compile(product(33, 300, 47, "nn"))(a, b))
    assert np.isinf(result[32, :46]).all() and np.isnan(result[:, 46]).all()
    assert (result[:32, :46] == 300).all()


FORMS = [
    ((8, 64, 64), "nn", r"\Akernel r\([^)]*\)\n  for \S+ in \d+ parallel\n", "scratch"),
    ((64, 257, 1), "nn", r"carrying", "scratch"),
    ((3, 700, 400), "nn", r"scratch sums", "scratch right"),
    ((150, 700, 150), "nn", r"scratch right", "scratch sums"),
    ((150, 100, 150), "tt", r"scratch right", "scratch sums"),
]


@pytest.mark.parametrize(("t", "lines"), [("f32", 8), ("f16", 4)])
def test_each_line_of_the_next_block_of_a_large_right_operand_is_prefetched_once(t, lines):
    kernel = compile_for("AVX512", product(700, 600, 704, "nn", ("f32", t, "f32"))).loops()
    prefetches = re.findall(r"prefetch in1\[(.*)\]", kernel)
    assert len(set(prefetches)) == len(prefetches) and len(prefetches) % lines == 0, kernel
    assert "prefetch in1" not in compile_for("AVX512", product(700, 600, 700, "nt", ("f32", t, "f32"))).loops()


def test_each_factor_of_a_group_is_prefetched_in_a_large_right_operand():
    """A block of 128 columns of bf16 has four lines for each of the two terms of a group."""
    kernel = compile_for("AVX512_BF16", product(700, 600, 704, "nn", ("bf16", "bf16", "f32"))).loops()
    assert kernel.count("prefetch in1[") == 8, kernel


@pytest.mark.parametrize(("columns", "t", "lines"), [(704, "f32", 2), (699, "f32", 3), (704, "f64", 2)])
def test_the_lines_of_a_row_of_a_tile_are_prefetched_before_they_are_written(columns, t, lines):
    """A row has two vectors, whose lines are three if the rows of the result begin within lines."""
    kernel = compile_for("AVX512", product(250, 300, columns, "nn", (t, t, t))).loops()
    found = re.findall(r"prefetch out0\[(.*)\] to write", kernel)
    assert "scratch right" in kernel and len(found) == lines, kernel


@pytest.mark.parametrize(("rows", "terms", "expected"), [(3000, 64, True), (3000, 32, False), (30, 64, False)])
def test_a_tile_that_reads_operands_directly_prefetches_a_large_result(rows, terms, expected):
    kernel = compile_for("AVX512", product(rows, terms, 64, "nn")).loops()
    assert "scratch" not in kernel and ("to write" in kernel) is expected, kernel


def test_the_next_terms_of_the_weights_of_few_rows_are_prefetched():
    assert "prefetch in1[" in kernel_text(product(5, 701, 300, "nn"))
    assert "prefetch" not in kernel_text(product(5, 701, 300, "nn", ("c64", "c64", "c64")))


def test_sums_of_several_blocks_of_terms_are_kept_in_scratch_memory_if_the_result_is_narrower():
    assert "scratch sums" in kernel_text(product(150, 700, 150, "nn", ("f32", "f32", "bf16")))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(("shape", "form", "found", "missing"), FORMS, ids=[str(f[0]) for f in FORMS])
def test_small_dots_read_operands_directly_and_large_dots_pack_them(shape, form, found, missing, isa):
    kernel = compile_for(isa, product(*shape, form)).loops()
    assert re.search(found, kernel), kernel
    assert missing is None or missing not in kernel


@pytest.mark.parametrize(("isa", "lanes"), [("AVX512", 16), ("AVX2", 8)])
def test_vectors_run_along_contiguous_terms_that_fill_a_vector_else_along_columns(isa, lanes):
    along_columns = compile_for(isa, product(6, lanes - 1, 5, "nt")).loops()
    assert "for %1 in 8 vector(8)" in along_columns, along_columns
    along_terms = compile_for(isa, product(6, lanes, 5, "nt")).loops()
    assert f"in {lanes} vector({lanes}) carrying" in along_terms, along_terms


@pytest.mark.parametrize("sliced", ["slice={[1:2], [0:20], [3:43]}", "dynamic"])
def test_slices_are_read_without_a_copy(sliced):
    """A loop over the layers of a network need not copy their weights."""
    a, b, place = random_integers(np.float32, 30, 20), random_integers(np.float32, 3, 20, 50), np.int32(1)
    slicing = f"slice(b), {sliced}"
    if sliced == "dynamic":
        slicing = "dynamic-slice(b, i, zero, three), dynamic_slice_sizes={1,20,40}"
    text = f"""HloModule m
ENTRY e {{ a = f32[30,20] parameter(0)  b = f32[3,20,50] parameter(1)  i = s32[] parameter(2)
  zero = s32[] constant(0)  three = s32[] constant(3)
  s = f32[1,20,40] {slicing}
  w = f32[20,40] reshape(s)
  ROOT r = f32[30,40] dot(a, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    assert compile_module(xla.parse_hlo(text)).loops().count("kernel ") == 1
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(a, b, place)), a @ b[1, :, 3:43])


@pytest.mark.parametrize("shape", [(2, 700, 300), (20, 512, 300), (40, 700, 300)], ids=str)
def test_an_epilogue_is_applied_once_to_the_sums_of_all_blocks_of_terms(shape):
    rows, terms, columns = shape
    text = f"""HloModule m
ENTRY e {{ a = f32[{rows},{terms}] parameter(0)  b = f32[{terms},{columns}] parameter(1)
  d = f32[{rows},{columns}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  one = f32[] constant(1)  ones = f32[{rows},{columns}] broadcast(one), dimensions={{}}
  ROOT r = f32[{rows},{columns}] add(d, ones) }}"""
    a, b = random_integers(np.float32, rows, terms), random_integers(np.float32, terms, columns)
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(a, b)), a @ b + 1)


NARROW_RESULTS = [("f32", "f32", "bf16"), ("f32", "bf16", "bf16"), ("f64", "f64", "f32"), ("f32", "f32", "f8e5m2"),
                  ("f16", "f32", "f8e4m3fn"), ("c128", "c128", "c64")]  # fmt: skip


@pytest.mark.parametrize("types", NARROW_RESULTS, ids=str)
@pytest.mark.parametrize("shape", [(3, 5, 2), (40, 300, 50), (1, 300, 7)], ids=str)
def test_operands_are_not_rounded_to_a_narrower_result(shape, types):
    """The sums are as exact as the operands, and are rounded once, as on XLA."""
    rows, terms, columns = shape
    module = xla.parse_hlo(product(rows, terms, columns, "nn", types))
    arguments = random_arguments([p.shape for p in module.entry_computation.parameters], 1)
    a, b = (np.asarray(x).astype(np.complex128 if "c64" in types else np.float64) for x in arguments)
    result = np.asarray(CPU.compile(module)(*arguments))
    assert_close(result, a @ b, result.dtype, "products", terms=terms, magnitude=np.abs(a) @ np.abs(b))


@pytest.mark.parametrize(("terms", "columns"), [(517, 1043), (256, 2047), (300, 1024)])
def test_one_row_has_the_bits_of_that_row_among_others(terms: int, columns: int):
    """One row has blocks of its own, with other widths, but the order of its additions is the same."""
    left, right = RNG.standard_normal((2, terms), np.float32), RNG.standard_normal((terms, columns), np.float32)
    both = np.asarray(CPU.compile(product(2, terms, columns, "nn"))(left, right))
    one = np.asarray(CPU.compile(product(1, terms, columns, "nn"))(left[1:], right))
    np.testing.assert_array_equal(one, both[1:])


def test_one_row_loads_its_factors_once_for_all_columns_and_does_not_prefetch():
    assert "prefetch" in kernel_text(product(2, 512, 1024, "nn"))
    assert "prefetch" not in kernel_text(product(1, 512, 1024, "nn"))


@pytest.mark.parametrize("strategy", ["direct-gemm", "packed-gemm"])
@pytest.mark.parametrize(("rows", "columns"), [(100, 2000), (101, 1999), (13, 4096)])
def test_rows_of_a_tile_beyond_the_result_are_not_addressed(strategy, rows, columns):
    """A masked store without active lanes is slow on a page that was never written, as those behind the result are."""
    plan = f', backend_config={{"kernel_plan":{{"strategy":"{strategy}"}}}}'
    text = dot_text(
        f"f32[{rows},3]",
        f"f32[3,{columns}]",
        f"f32[{rows},{columns}]",
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}" + plan,
    )
    root = xla.parse_hlo(text).entry_computation.root
    assert root is not None
    region = region_of(root, host_target())
    (kernel,) = emit_kernels(plan_of(root, region).plan, region)
    (result,) = (b for b in kernel.buffers if b.name == "out0")
    stores = [s for s in kernel.statements() if isinstance(s, Store) and s.location.buffer is result]
    bounds = [s.location.offset.bounds() for s in stores]
    assert stores
    assert all(b is not None and b[0] >= 0 and b[1] < rows * columns + columns // 2 for b in bounds), bounds
