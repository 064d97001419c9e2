"""Dots of many terms in parts: which are split, how, and that the result is the same."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import compile_for
from xlapy.cpu.transforms.split_dots import SplitDots
from xlapy.hlo.verify import verify


def module(left: str, right: str, result: str, lhs: str, rhs: str, more: str = "") -> xla.Module:
    return xla.parse_hlo(
        f"ENTRY e {{ a = {left} parameter(0)\n b = {right} parameter(1)\n ROOT d = {result} dot(a, b), "
        f"lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}{more} }}"
    )


def dots(changed: xla.Module) -> list[str]:
    entry = changed.entry_computation
    return [
        " ".join(shape.to_text(layout=False) for shape in (*(o.shape for o in i.operands), i.shape))
        for i in entry
        if i.op is xla.opcodes.DOT
    ]


SPLIT = [
    (("f32[131072,16]", "f32[131072,16]", "f32[16,16]", "0", "0"), ["f32[32,4096,16] f32[32,4096,16] f32[32,16,16]"]),
    (
        ("f32[50021,64]", "f32[50021,10]", "f32[64,10]", "0", "0"),
        ["f32[49,1020,64] f32[49,1020,10] f32[49,64,10]", "f32[41,64] f32[41,10] f32[64,10]"],
    ),
    (("f32[40,60000]", "f32[60000,29]", "f32[40,29]", "1", "0"), ["f32[40,40,1500] f32[40,1500,29] f32[40,40,29]"]),
    (("f32[8,65536]", "f32[9,65536]", "f32[8,9]", "1", "1"), ["f32[8,16,4096] f32[9,16,4096] f32[16,8,9]"]),
    (
        ("f32[8,57,57,32]", "f32[8,57,57,5]", "f32[32,5]", "0,1,2", "0,1,2"),
        ["f32[18,1444,32] f32[18,1444,5] f32[18,32,5]"],
    ),
    (("f64[65536,3]", "f64[65536,2,8]", "f64[3,2,8]", "0", "0"), ["f64[32,2048,3] f64[32,2048,2,8] f64[32,3,2,8]"]),
    (("bf16[65536,8]", "bf16[65536,16]", "bf16[8,16]", "0", "0"), ["bf16[16,4096,8] bf16[16,4096,16] f32[16,8,16]"]),
    (("s8[65536,8]", "s8[65536,16]", "s32[8,16]", "0", "0"), ["s8[16,4096,8] s8[16,4096,16] s32[16,8,16]"]),
    # a row times a matrix
    (("f32[1,1024]", "f32[1024,1024]", "f32[1,1024]", "1", "0"), ["f32[1,4,256] f32[4,256,1024] f32[4,1,1024]"]),
    (
        ("f32[1027]", "f32[1027,1033]", "f32[1033]", "0", "0"),
        ["f32[4,256] f32[4,256,1033] f32[4,1033]", "f32[3] f32[3,1033] f32[1033]"],
    ),
    (("s8[4100,1100]", "s8[4100]", "s32[1100]", "0", "0"), ["s8[4,1025,1100] s8[4,1025] s32[4,1100]"]),
    (("bf16[1,4096]", "bf16[4096,2048]", "bf16[1,2048]", "1", "0"), ["bf16[1,8,512] bf16[8,512,2048] f32[8,1,2048]"]),
    (("f64[2,600]", "f64[2,600,3,150]", "f64[3,150]", "0,1", "0,1"), ["f64[4,300] f64[4,300,3,150] f64[4,3,150]"]),
]


@pytest.mark.parametrize(("operands", "expected"), SPLIT)
def test_dots_of_many_terms_are_split(operands, expected):
    changed = module(*operands)
    assert SplitDots().run(changed)
    verify(changed)
    assert dots(changed) == expected


@pytest.mark.parametrize(
    "operands",
    [
        ("f32[4096,16]", "f32[4096,16]", "f32[16,16]", "0", "0"),  # too few terms
        ("f32[65536,65]", "f32[65536,64]", "f32[65,64]", "0", "0"),  # enough results for all threads
        ("f32[65536,129]", "f32[65536,4]", "f32[129,4]", "0", "0"),  # enough rows
        ("f32[65536]", "f32[65536,15]", "f32[15]", "0", "0"),  # a row and a matrix of less than 4 MiB
        ("f32[1023]", "f32[1023,1100]", "f32[1100]", "0", "0"),  # a row with too few terms
        ("f32[2048]", "f32[2048,2048]", "f32[2048]", "0", "1"),  # a row along contiguous terms
        ("f32[1048576]", "f32[1048576]", "f32[]", "0", "0"),  # two vectors
        ("f32[2,1024]", "f32[1024,1024]", "f32[2,1024]", "1", "0"),  # two rows
        ("f32[4,262144]", "f32[4,262144]", "f32[4,4]", "1", "1"),  # few results along contiguous terms
        ("f32[8,65537]", "f32[9,65537]", "f32[8,9]", "1", "1"),  # contiguous terms of a prime number
        ("c64[65536,8]", "c64[65536,8]", "c64[8,8]", "0", "0"),  # complex
        ("f32[4,65536,8]", "f32[4,65536,8]", "f32[8,8]", "1,0", "1,0"),  # terms in another order
        ("f32[4,65536,8]", "f32[4,65536,8]", "f32[4,8,8]", "1", "1", ", lhs_batch_dims={0}, rhs_batch_dims={0}"),
        ("bf16[65536,8]", "bf16[65536,8]", "bf16[8,8]", "0", "0", ", algorithm=dot_bf16_bf16_bf16"),
        ("f32[65536,0]", "f32[65536,8]", "f32[0,8]", "0", "0"),  # no results
    ],
)
def test_other_dots_are_not_split(operands):
    unchanged = module(*operands)
    before = unchanged.to_text()
    assert not SplitDots().run(unchanged)
    assert unchanged.to_text() == before


def test_a_transposed_operand_is_read_where_it_lies():
    changed = xla.parse_hlo(
        "ENTRY e { a = f32[50021,64] parameter(0)\n b = f32[50021,10] parameter(1)\n"
        " t = f32[64,50021] transpose(a), dimensions={1,0}\n"
        " ROOT d = f32[64,10] dot(t, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    )
    assert SplitDots().run(changed)
    verify(changed)
    assert dots(changed) == SPLIT[1][1]


@pytest.mark.parametrize(("operands", "expected"), SPLIT)
def test_the_sum_of_the_parts_is_the_dot(operands, expected):
    given = module(*operands)
    rng = np.random.default_rng(1)
    shapes = [p.shape for p in given.entry_computation.parameters]
    arguments = [(8 * rng.standard_normal(shape.dimensions)).astype(shape.dtype) for shape in shapes]
    actual = np.asarray(xla.Client("cpu").compile(given)(*arguments))
    axes = [[int(d) for d in text.split(",")] for text in operands[3:5]]
    wide = np.int64 if operands[2].startswith("s32") else np.float64
    exact = np.tensordot(*(argument.astype(wide) for argument in arguments), axes=axes)
    if wide is np.int64:
        assert actual.dtype == np.int32 and np.array_equal(actual, exact)
        return
    size = np.tensordot(*(np.abs(argument.astype(wide)) for argument in arguments), axes=axes)
    roundings = {"f32": 2.0**-24, "f64": 2.0**-53, "bf16": 2.0**-24}[operands[0].partition("[")[0]]
    rounding_of_result = 2.0**-8 * np.abs(exact) if operands[2].startswith("bf16") else 0
    # Sums of at most 4096 terms in order, in the worst case; random errors are far below.
    assert np.all(np.abs(actual.astype(wide) - exact) <= 64 * roundings * size + rounding_of_result)


def test_infinities_and_nans_of_any_part_reach_the_result():
    given = module("f32[50021,64]", "f32[50021,10]", "f32[64,10]", "0", "0")
    left, right = np.ones((50021, 64), np.float32), np.ones((50021, 10), np.float32)
    left[30000, 3], left[50020, 4], left[7, 5] = np.inf, -np.inf, np.nan
    result = np.asarray(xla.Client("cpu").compile(given)(left, right))
    assert np.all(result[3] == np.inf) and np.all(result[4] == -np.inf) and np.all(np.isnan(result[5]))
    assert np.all(np.delete(result, [3, 4, 5], axis=0) == 50021)


def test_a_matrix_that_is_computed_is_not_split():
    """The kernel of the dot computes its elements, which a reshape would prevent."""
    text = """
ENTRY e {
  a = f32[1,2048] parameter(0)
  b = s8[2048,1024] parameter(1)
  w = f32[2048,1024] convert(b)
  ROOT d = f32[1,1024] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    assert not SplitDots().run(xla.parse_hlo(text))


def test_a_dot_with_a_plan_is_not_split():
    plan = ', backend_config={"kernel_plan":{"strategy":"direct-gemm"}}'
    assert not SplitDots().run(module("f32[131072,16]", "f32[131072,16]", "f32[16,16]", "0", "0", plan))


def test_the_kernel_of_a_row_times_a_matrix_reads_it_where_it_lies():
    """Neither the parts nor the terms after them are copied."""
    text = module("bf16[1,4099]", "bf16[4099,1030]", "bf16[1,1030]", "1", "0").to_text()
    program = compile_for("AVX512_BF16", text)
    assert "copy" not in program.stages()["thunks.txt"]
    assert "in1: i16[4221970]" in program.loops()
