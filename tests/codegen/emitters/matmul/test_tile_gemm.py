"""Dots by tile instructions: when they are chosen, their kernels on every machine, and their results on this one."""

from __future__ import annotations

import dataclasses
import math

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.codegen.emitters.matmul.test_dot import dot_text, product
from tests.codegen.emitters.matmul.test_term_groups import DTYPES, exact_product, operands, random_array
from tests.cpu.instruction_sets import compile_for, limited_to, stages_for
from tests.raising import raises
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.codegen.plan import KernelPlan
from xlapy.codegen.region import region_of
from xlapy.codegen.strategies import choose_plan, emit_kernels
from xlapy.codegen.target import Target
from xlapy.cpu.llvm.processor import host_processor
from xlapy.cpu.llvm.vectors.matrix_products import TILED, tile_instructions
from xlapy.loops import evaluate, print_kernel

CPU = xla.Client("cpu")
TILES = Target(64, 32, tile_instructions=frozenset(TILED.values()))
COMBINATIONS = [
    ("bf16", "bf16", "f32"),
    ("bf16", "bf16", "bf16"),
    ("f8e5m2", "bf16", "f32"),
    ("s8", "s8", "s32"),
    ("u8", "s8", "s32"),
    ("s8", "u8", "s32"),
    ("u8", "u8", "u32"),
    ("s4", "u8", "s32"),
    ("s8", "s8", "f32"),
]
FORMS = ["nn", "nt", "tn", "tt"]


def kernel_of(text: str, target: Target, **parameters: int | bool):
    (root,) = (i for i in xla.parse_hlo(text).entry_computation if i.op.name == "dot")
    region = region_of(root, target)
    plan = choose_plan(region).plan
    assert plan.strategy == "tile-gemm", plan
    if parameters:
        plan = KernelPlan(plan.strategy, dataclasses.replace(plan.parameters, **parameters))
    (kernel,) = emit_kernels(plan, region)
    return kernel


def check(kernel, left, right, given, dtype):
    arrays = [a.reshape(-1).view(b.type.dtype) for a, b in zip(given, kernel.buffers, strict=False)]
    result = np.zeros(left.shape[0] * right.shape[1], dtype)
    arrays.append(result.view(kernel.buffers[-1].type.dtype))
    evaluate(kernel, {buffer.name: array for buffer, array in zip(kernel.buffers, arrays, strict=True)})
    np.testing.assert_array_equal(result.reshape(left.shape[0], -1), exact_product(left, right, dtype))


# -- kernels, by the evaluator of loop IR


@pytest.mark.parametrize("types", COMBINATIONS, ids="-".join)
@pytest.mark.parametrize("form", FORMS)
def test_kernels_compute_the_product(form, types):
    """Rows, columns and terms are no multiples of a tile."""
    kernel = kernel_of(product(18, 70, 33, form, types), TILES)
    assert f"matrix product {'bf16' if 'bf16' in types else ''}" in print_kernel(kernel)
    left, right, given = operands(18, 70, 33, form, types)
    check(kernel, left, right, given, np.dtype(DTYPES[types[2]]))


@pytest.mark.parametrize("form", FORMS)
def test_sums_of_several_blocks_are_added(form):
    kernel = kernel_of(product(17, 150, 20, form, ("s8", "s8", "s32")), TILES, kc_inner=16)
    left, right, given = operands(17, 150, 20, form, ("s8", "s8", "s32"))
    check(kernel, left, right, given, np.dtype(np.int32))


def test_blocks_may_end_within_a_tile():
    kernel = kernel_of(product(17, 150, 20, "nn", ("s8", "s8", "s32")), TILES, kc_inner=19)
    left, right, given = operands(17, 150, 20, "nn", ("s8", "s8", "s32"))
    check(kernel, left, right, given, np.dtype(np.int32))


def test_tasks_at_the_edges_are_smaller():
    kernel = kernel_of(product(83, 68, 90, "nn", ("s8", "s8", "s32")), TILES, mc_tiles=2, nc_tiles=1)
    left, right, given = operands(83, 68, 90, "nn", ("s8", "s8", "s32"))
    check(kernel, left, right, given, np.dtype(np.int32))


# -- the choice


@pytest.mark.parametrize("types", [("f32", "f32", "f32"), ("s16", "s16", "s32"), ("s8", "s8", "s64")])
def test_other_types_have_no_tile_instruction(types):
    terms = 1 << 18 if types[2] == "s64" else 64
    (root,) = (i for i in xla.parse_hlo(product(32, terms, 32, "nn", types)).entry_computation if i.op.name == "dot")
    choice = choose_plan(region_of(root, TILES))
    assert choice.plan.strategy != "tile-gemm"


def test_machine_code_uses_tiles_if_the_processor_has_them():
    text = product(64, 256, 64, "nn", ("bf16", "bf16", "f32"))
    stages = stages_for("AMX", text)
    assert "tile-gemm" in stages["plans.txt"] and "@xlapy_matrix_product_bf16" in stages["ll"]
    assert "matrix product" not in stages_for("AVX512_BF16", text)["loops.txt"]


@pytest.mark.parametrize(
    ("parameter", "value", "values"),
    [("kc_inner", 1000, ("kc_inner", "35")), ("mc_tiles", 1 << 14, ("mc_tiles",)), ("row_tiles", 3, ("row_tiles",))],
)
def test_impossible_parameters_are_refused(parameter, value, values: tuple[str, ...]):
    config = f', backend_config={{"kernel_plan":{{"strategy":"tile-gemm","{parameter}":{value}}}}}\n}}'
    text = product(18, 70, 33, "nn", ("bf16", "bf16", "f32")).rstrip().removesuffix("}").rstrip() + config
    with raises(InvalidArgumentError, codes.KERNEL_PLAN, *values):
        compile_for("AMX", text)


# -- results of this machine


needs_tiles = pytest.mark.skipif(not tile_instructions(host_processor()), reason="this processor has no tiles")


@needs_tiles
@pytest.mark.parametrize("types", COMBINATIONS, ids="-".join)
@pytest.mark.parametrize(
    "rows, terms, columns, form", [(130, 1100, 67, "nn"), (40, 301, 130, "tt"), (300, 64, 300, "nt")]
)
def test_products_are_exact(rows, terms, columns, form, types):
    left, right, given = operands(rows, terms, columns, form, types)
    executable = CPU.compile(product(rows, terms, columns, form, types))
    assert "tile-gemm" in executable.as_hlo_text(optimized=True)
    np.testing.assert_array_equal(
        np.asarray(executable(*given)), exact_product(left, right, np.dtype(DTYPES[types[2]]))
    )


@needs_tiles
def test_infinities_and_nan_stay_in_their_rows_and_columns():
    left, right = np.ones((40, 165)), np.ones((165, 50))
    left[3, 164], left[7, 5], left[7, 6], right[9, 4] = math.inf, math.inf, -math.inf, math.nan
    given = [m.astype(ml_dtypes.bfloat16) for m in (left, right)]
    result = np.asarray(CPU.compile(product(40, 165, 50, "nn", ("bf16", "bf16", "f32")))(*given))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(result, left @ right)


@needs_tiles
def test_batches_and_epilogues():
    text = """HloModule m
    ENTRY e {
      x = s8[3,70,130] parameter(0)
      y = s8[3,130,48] parameter(1)
      d = s32[3,70,48] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={2}, rhs_contracting_dims={1}
      b = s32[48] parameter(2)
      c = s32[3,70,48] broadcast(b), dimensions={2}
      ROOT r = s32[3,70,48] add(d, c)
    }"""
    x, y = random_array("s8", 3, 70, 130), random_array("s8", 3, 130, 48)
    bias = np.arange(48, dtype=np.int32)
    expected = x.astype(np.int64) @ y.astype(np.int64) + bias
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(x, y, bias)), expected)


@needs_tiles
def test_several_contracting_dimensions():
    text = dot_text(
        "s8[49,4,16]", "s8[16,4,51]", "s32[49,51]", "lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}"
    )
    left, right = random_array("s8", 49, 4, 16), random_array("s8", 16, 4, 51)
    expected = np.einsum("abc,cbd->ad", left.astype(np.int64), right.astype(np.int64))
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(left, right)), expected)


@needs_tiles
def test_bits_do_not_depend_on_the_instructions_of_integers():
    types = ("u8", "u8", "u32")
    left, right, given = operands(33, 200, 40, "nn", types)
    with limited_to("AVX2"):
        other = np.asarray(CPU.compile(product(33, 200, 40, "nn", types))(*given))
    np.testing.assert_array_equal(np.asarray(CPU.compile(product(33, 200, 40, "nn", types))(*given)), other)
    np.testing.assert_array_equal(other, exact_product(left, right, np.dtype(np.uint32)))
