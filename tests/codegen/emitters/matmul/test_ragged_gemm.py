"""Ragged dots agree with the interpreter: every mode, group sizes of every kind, element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from xlapy.codegen.region import region_of
from xlapy.codegen.strategies import choose_plan, emit_kernels
from xlapy.codegen.target import Target
from xlapy.cpu.compiler import compile_module
from xlapy.loops import evaluate

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")
RNG = np.random.default_rng(5)
DTYPES = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "c64": np.complex64,
    "s8": np.int8, "u8": np.uint8, "s16": np.int16, "s32": np.int32, "pred": np.bool_,
}  # fmt: skip

FREE = "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"
CONTRACTING = "lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}"
BATCH = (
    "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, lhs_ragged_dims={0}"
)


def integers(shape: str) -> np.ndarray:
    """Small integers, whose sums are the same in any order."""
    parsed = xla.Shape.parse(shape)
    dtype = DTYPES[str(parsed.element_type)]
    low = 0 if dtype in (np.uint8, np.bool_) else -2
    return RNG.integers(low, 2 if dtype is np.bool_ else 3, parsed.dimensions).astype(dtype)


def text(left: str, right: str, sizes: str, result: str, dimensions: str) -> str:
    return (
        f"ENTRY e {{ a = {left} parameter(0)\n b = {right} parameter(1)\n g = {sizes} parameter(2)\n"
        f"ROOT r = {result} ragged-dot(a, b, g), {dimensions} }}"
    )


def assert_equal(program: str, *arguments: np.ndarray) -> None:
    result = np.asarray(CPU.compile(program)(*arguments))
    np.testing.assert_array_equal(result, np.asarray(INTERPRETER.compile(program)(*arguments)))


SIZES = [
    [3, 5, 0, 9], [0, 0, 0, 0], [37, 0, 0, 0], [0, 0, 0, 37], [1, 1, 1, 1], [20, 17, 0, 0], [30, 30, 30, 30],
    [100, 0, 0, 0], [5, -3, 8, 2], [-4, 4, 3, 3], [2**31 - 1, 2**31 - 1, 1, 1],
]  # fmt: skip


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_groups_may_be_empty_small_or_out_of_range(sizes):
    groups = np.array(sizes, np.int32)
    rows = text("f32[37,21]", "f32[4,21,19]", "s32[4]", "f32[37,19]", FREE)
    assert_equal(rows, integers("f32[37,21]"), integers("f32[4,21,19]"), groups)
    terms = text("f32[37,21]", "f32[37,19]", "s32[4]", "f32[4,21,19]", CONTRACTING)
    assert_equal(terms, integers("f32[37,21]"), integers("f32[37,19]"), groups)
    batch = text("f32[37,3,5]", "f32[37,5,4]", "s32[4]", "f32[37,3,4]", BATCH)
    assert_equal(batch, integers("f32[37,3,5]"), integers("f32[37,5,4]"), groups)


TYPES = [
    ("f32", "f32", "f32"), ("f64", "f64", "f64"), ("bf16", "bf16", "bf16"), ("bf16", "bf16", "f32"),
    ("f16", "f16", "f16"), ("s8", "s8", "s32"), ("u8", "s8", "s32"), ("s8", "s8", "s8"), ("s32", "s32", "s32"),
    ("c64", "c64", "c64"), ("pred", "pred", "pred"), ("bf16", "f32", "f32"), ("s8", "f32", "f32"),
]  # fmt: skip


@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_element_types(types):
    left, right, result = types
    groups = np.array([7, 0, 26, 3], np.int64)
    rows = text(f"{left}[41,23]", f"{right}[4,23,37]", "s64[4]", f"{result}[41,37]", FREE)
    assert_equal(rows, integers(f"{left}[41,23]"), integers(f"{right}[4,23,37]"), groups)
    terms = text(f"{left}[41,23]", f"{right}[41,37]", "s64[4]", f"{result}[4,23,37]", CONTRACTING)
    assert_equal(terms, integers(f"{left}[41,23]"), integers(f"{right}[41,37]"), groups)


DIMENSIONS = [
    (  # a list of groups for each element of the batch
        "f32[3,20,8]", "f32[2,3,8,5]", "s32[3,2]", "f32[3,20,5]",
        "lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}, "
        "lhs_ragged_dims={1}, rhs_group_dims={0}",
    ),
    (  # the group dimension is not the first one; rows, columns and terms of two dimensions each
        "f32[4,12,3,2]", "f32[3,5,2,4,6]", "s32[6]", "f32[12,2,5,2]",
        "lhs_contracting_dims={0,2}, rhs_contracting_dims={3,0}, lhs_ragged_dims={1}, rhs_group_dims={4}",
    ),
    (  # a list of groups for each row before the ragged dimension
        "f32[3,10,6]", "f32[4,6,7]", "s32[3,4]", "f32[3,10,7]",
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, rhs_group_dims={0}",
    ),
    (  # the ragged dimension is the second one of two contracting dimensions
        "f32[6,10,5]", "f32[10,6,7]", "s32[3]", "f32[3,5,7]",
        "lhs_contracting_dims={0,1}, rhs_contracting_dims={1,0}, lhs_ragged_dims={1}",
    ),
    (  # a list of groups for each index of the contracting dimension before it
        "f32[6,10,5]", "f32[10,6,7]", "s32[6,3]", "f32[3,5,7]",
        "lhs_contracting_dims={0,1}, rhs_contracting_dims={1,0}, lhs_ragged_dims={1}",
    ),
    (
        "f32[2,30,5]", "f32[2,30,7]", "s32[2,3]", "f32[3,2,5,7]",
        "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={1}",
    ),
    (  # the second dimension of the batch
        "f32[3,11,4,5]", "f32[3,11,5,6]", "s32[3,2]", "f32[3,11,4,6]",
        "lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}, "
        "lhs_ragged_dims={1}",
    ),
    ("f32[70,4]", "f32[19,4,3]", "s32[19]", "f32[70,3]", FREE),  # more groups than fit into a vector
    ("f32[70,4]", "f32[70,3]", "s32[19]", "f32[19,4,3]", CONTRACTING),
    ("f32[9,4]", "f32[1,4,3]", "s32[1]", "f32[9,3]", FREE),
    ("f32[9,0]", "f32[2,0,3]", "s32[2]", "f32[9,3]", FREE),
    ("f32[0,4]", "f32[2,4,3]", "s32[2]", "f32[0,3]", FREE),
    ("f32[9,4]", "f32[0,4,3]", "s32[0]", "f32[9,3]", FREE),
    ("f32[0,4]", "f32[0,3]", "s32[2]", "f32[2,4,3]", CONTRACTING),
    ("f32[11,4]", "f32[2,4,1]", "s32[2]", "f32[11,1]", FREE),
    ("f32[1,4]", "f32[2,4,9]", "s32[2]", "f32[1,9]", FREE),
]  # fmt: skip


@pytest.mark.parametrize("case", DIMENSIONS, ids=str)
def test_dimensions(case):
    left, right, sizes, result, dimensions = case
    groups = RNG.integers(0, 6, xla.Shape.parse(sizes).dimensions).astype(np.int32)
    assert_equal(text(left, right, sizes, result, dimensions), integers(left), integers(right), groups)


@pytest.mark.parametrize("types", [("f32", "f32"), ("bf16", "f32"), ("s8", "s8")], ids="-".join)
def test_many_terms_and_tasks(types):
    t, result = types
    groups = np.array([300, 0, 1, 690], np.int32)
    rows = text(f"{t}[1100,801]", f"{t}[4,801,150]", "s32[4]", f"{result}[1100,150]", FREE)
    assert_equal(rows, integers(f"{t}[1100,801]"), integers(f"{t}[4,801,150]"), groups)
    terms = text(f"{t}[1100,70]", f"{t}[1100,150]", "s32[4]", f"{result}[4,70,150]", CONTRACTING)
    assert_equal(terms, integers(f"{t}[1100,70]"), integers(f"{t}[1100,150]"), groups)


@pytest.mark.parametrize("types", [("f32", "f32"), ("bf16", "f32"), ("s8", "s32"), ("s16", "s32")], ids="-".join)
def test_epilogues_of_groups_with_fewer_blocks_of_terms_than_there_may_be(types):
    t, result = types
    program = (
        f"ENTRY e {{ a = {t}[2500,8] parameter(0)\n b = {t}[2500,16] parameter(1)\n g = s32[4] parameter(2)\n"
        f"d = {result}[4,8,16] ragged-dot(a, b, g), {CONTRACTING}\n c = {result}[16] parameter(3)\n"
        f"w = {result}[4,8,16] broadcast(c), dimensions={{2}}\n ROOT r = {result}[4,8,16] add(d, w) }}"
    )
    factors, addend = (integers(f"{t}[2500,8]"), integers(f"{t}[2500,16]")), integers(f"{result}[16]") + 3
    for sizes in ([1900, 0, 100, 500], [100, 100, 1, 0], [2500, 0, 0, 0]):
        assert_equal(program, *factors, np.array(sizes, np.int32), addend)


def test_values_of_other_groups_have_no_influence():
    """Neither an infinity nor NaN reaches the results of another group or of rows without a group."""
    groups, left, right = np.array([3, 4], np.int32), integers("f32[9,5]"), integers("f32[2,5,6]")
    left[2], right[1, 0, 0], left[8, 1] = np.inf, np.nan, np.nan
    with np.errstate(invalid="ignore"):
        assert_equal(text("f32[9,5]", "f32[2,5,6]", "s32[2]", "f32[9,6]", FREE), left, right, groups)
        terms = text("f32[9,5]", "f32[9,6]", "s32[2]", "f32[2,5,6]", CONTRACTING)
        assert_equal(terms, left, integers("f32[9,6]"), groups)
        narrow = terms.replace("f32[9", "bf16[9")
        assert_equal(narrow, left.astype(ml_dtypes.bfloat16), integers("bf16[9,6]"), groups)


def test_a_kernel_computes_ragged_dots():
    program = text("f32[64,8]", "f32[4,8,32]", "s32[4]", "f32[64,32]", FREE)
    compiled = compile_module(xla.parse_hlo(program))
    assert "ragged-gemm mc_tiles=" in compiled.plans().replace("column_blocks=1 kc_inner=8 kc_outer=1 ", "")
    assert "dot(" not in compiled.module.to_text().replace("ragged-dot(", "")


EPILOGUES = {
    "bias": ("u = {t}[{n}] parameter(3)\n v = {t}[{d}] broadcast(u), dimensions={{{last}}}\n"
             "w = {t}[{d}] add(r, v)\n ROOT s = {t}[{d}] maximum(w, r)", "bias"),
    "narrowed": ("v = {t}[{d}] multiply(r, r)\n ROOT s = bf16[{d}] convert(v)", ""),
    "group": ("u = s32[{m},1] parameter(3)\n v = {t}[4,{n}] parameter(4)\n w = {t}[{m},{n}] gather(v, u), "
              "offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, index_vector_dim=1, "
              "slice_sizes={{1,{n}}}\n ROOT s = {t}[{d}] subtract(r, w)", "group"),
}  # fmt: skip
"""The instructions after a ragged dot `r`, and their further operands."""

FUSED = [
    *((FREE, t, k, epilogue) for t in ("f32", "s32") for k in (21, 700) for epilogue in EPILOGUES),
    *((CONTRACTING, t, k, epilogue) for t in ("f32", "f16") for k in (40, 900) for epilogue in ("bias", "narrowed")),
]


@pytest.mark.parametrize("case", FUSED, ids=str)
def test_epilogues(case: tuple[str, str, int, str]):
    """Rows and groups without products get the epilogue of zeros; sums of several blocks of terms get it once."""
    dimensions, t, k, epilogue = case
    is_free = dimensions is FREE
    shapes = (f"{t}[37,{k}]", f"{t}[4,{k},19]") if is_free else (f"{t}[{k},21]", f"{t}[{k},19]")
    result = f"{t}[37,19]" if is_free else f"{t}[4,21,19]"
    body, extra = EPILOGUES[epilogue]
    sizes = result.partition("[")[2][:-1]
    after = body.format(t=t, n=19, m=37, d=sizes, last=sizes.count(","))
    program = text(*shapes, "s32[4]", result, dimensions).replace("ROOT r", "r").replace(" }", f"\n{after} }}")
    if epilogue == "narrowed" and t == "s32":
        program = program.replace("bf16", "s8")
    owners = np.repeat([0, 2, 3, 1], [3, 10, 9, 15]).astype(np.int32).reshape(37, 1)
    more = {"": [], "bias": [integers(f"{t}[19]")], "group": [owners, integers(f"{t}[4,19]")]}[extra]
    groups = np.array([3, 0, 19, 4] if is_free else [k // 2, 0, 3, k // 3], np.int32)
    entry = compile_module(xla.parse_hlo(program)).module.entry_computation
    assert entry.root_instruction.op is xla.opcodes.FUSION and "ragged-dot(" not in str(list(entry))
    assert_equal(program, integers(shapes[0]), integers(shapes[1]), groups, *more)


def test_operands_are_converted_while_they_are_packed():
    program = text("f32[37,21]", "f32[4,21,19]", "s32[4]", "f32[37,19]", FREE)
    program = program.replace("a = f32[37,21] parameter(0)", "n = s8[37,21] parameter(0)\n a = f32[37,21] convert(n)")
    entry = compile_module(xla.parse_hlo(program)).module.entry_computation
    assert entry.root_instruction.op is xla.opcodes.FUSION and entry.root_instruction.operands[0].name == "n"
    assert_equal(program, integers("s8[37,21]"), integers("f32[4,21,19]"), np.array([9, 0, 20, 3], np.int32))


HUGE_SIZES = [
    ("s8", [-128, 127, 5, 9]), ("u8", [255, 255, 3, 0]), ("s16", [5, -3, 32767, 32767]), ("u16", [3, 65535, 2, 1]),
    ("s32", [2**31 - 1, 2**31 - 1, -(2**31), 4]), ("u32", [4, 2**32 - 9, 2**32 - 1, 20]), ("s32", [-9, 4, -2, 7]),
    ("s64", [2**63 - 1, 2**63 - 1, 1, 1]), ("s64", [-(2**63), -1, 9, 2**62]), ("u64", [2**64 - 5, 9, 2**63, 7]),
]  # fmt: skip


@pytest.mark.parametrize(("t", "sizes"), HUGE_SIZES, ids=str)
def test_kernels_store_inside_whatever_the_sizes_are(t, sizes):
    """Without the pass that normalizes sizes, kernels clamp each size, as s64, and their sums."""
    groups = np.array(sizes, xla.Shape.parse(f"{t}[]").dtype)
    ends = np.minimum(np.cumsum([min(max(int(size), 0), 11) for size in groups.astype(np.int64)]), 11)
    owners = np.searchsorted(ends, np.arange(11), side="right")
    for dimensions, left, right, result in (
        (FREE, "f32[11,2]", "f32[4,2,3]", "f32[11,3]"),
        (CONTRACTING, "f32[11,2]", "f32[11,3]", "f32[4,2,3]"),
        (BATCH, "f32[11,2,2]", "f32[11,2,3]", "f32[11,2,3]"),
    ):
        a, b = integers(left), integers(right)
        dot = xla.parse_hlo(text(left, right, f"{t}[4]", result, dimensions)).entry_computation.root_instruction
        region = region_of(dot, Target(vector_bytes=32, vector_registers=16))
        (kernel,) = emit_kernels(choose_plan(region).plan, region)
        found = np.full(xla.Shape.parse(result).dimensions, np.nan, np.float32)
        given = zip(kernel.buffers, (a, b, groups, found), strict=True)
        evaluate(kernel, {buffer.name: array.reshape(-1).view(buffer.type.dtype) for buffer, array in given})
        expected = np.zeros_like(found)
        for at, owner in enumerate(owners[: ends[-1]]):
            if dimensions is CONTRACTING:
                expected[owner] += np.outer(a[at], b[at])
            else:
                expected[at] = a[at] @ b[owner if dimensions is FREE else at]
        np.testing.assert_array_equal(found, expected)
