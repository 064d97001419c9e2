"""Epilogues of dots and convolutions: what is fused into their kernels, and that results agree with the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.testing.random_arguments import random_arguments

CPU = xla.Client("cpu")
NO_KERNELS = (xla.opcodes.PARAMETER, xla.opcodes.TUPLE, xla.opcodes.GET_TUPLE_ELEMENT)


def module(parameters: str, body: str) -> str:
    lines = [f"p{n} = {shape} parameter({n})" for n, shape in enumerate(parameters.split())]
    return "\n".join(["HloModule m", "ENTRY e {", *lines, body, "}"])


def kernels(text: str) -> list[list[str]]:
    """Returns the opcodes of each kernel after optimization, without parameters."""
    optimized = compile_module(xla.parse_hlo(text)).module.entry_computation
    found = [i for i in optimized if i.op not in NO_KERNELS]
    inner = [i.computations[0].instructions if i.op is xla.opcodes.FUSION else [i] for i in found]
    return [[i.op.name for i in kernel if i.op is not xla.opcodes.PARAMETER] for kernel in inner]


def arguments_of(text: str) -> list[np.ndarray]:
    shapes = [p.shape for p in xla.parse_hlo(text).entry_computation.parameters]
    return [np.asarray(argument) for argument in random_arguments(shapes, 0)]


def assert_same(text: str, *arguments: np.ndarray) -> None:
    given = arguments or arguments_of(text)
    tolerance = program_tolerance(xla.parse_hlo(text), given, flush_denormals=True)
    result = CPU.compile(text)(*given)
    tolerance.assert_close(tuple(map(np.asarray, result)) if isinstance(result, tuple) else np.asarray(result))


def dense(rows: int, terms: int, columns: int, t: str = "f32", form: str = "nn") -> str:
    left = f"{t}[{rows},{terms}]" if form[0] == "n" else f"{t}[{terms},{rows}]"
    right = f"{t}[{terms},{columns}]" if form[1] == "n" else f"{t}[{columns},{terms}]"
    numbers = f"lhs_contracting_dims={{{int(form[0] == 'n')}}}, rhs_contracting_dims={{{int(form[1] == 't')}}}"
    shape = f"{t}[{rows},{columns}]"
    return module(
        f"{left} {right} {t}[{columns}] {shape}",
        f"d = {shape} dot(p0, p1), {numbers}\nbias = {shape} broadcast(p2), dimensions={{1}}\n"
        f"biased = {shape} add(d, bias)\nactive = {shape} tanh(biased)\nproduct = {shape} multiply(active, biased)\n"
        f"ROOT r = {shape} add(product, p3)",
    )


SHAPES = [(1, 40, 1), (1, 33, 70), (70, 33, 1), (3, 5, 2), (8, 64, 64), (5, 300, 9), (33, 300, 47), (150, 700, 150),
          (3, 701, 101), (1, 403, 301), (17, 1, 33)]  # fmt: skip


@pytest.mark.parametrize("form", ["nn", "nt", "tn"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bias_activation_and_residual(shape: tuple[int, int, int], form: str):
    text = dense(*shape, form=form)
    assert_same(text)
    if min(shape) > 1:
        assert kernels(text) == [["dot", "broadcast", "add", "tanh", "multiply", "add"]]


@pytest.mark.parametrize("t", ["bf16", "f16", "f64", "c64"])
def test_types(t: str):
    assert_same(dense(33, 70, 47, t))


def test_sums_are_rounded_before_the_epilogue():
    text = module(
        "bf16[20,300] bf16[300,33]",
        "d = bf16[20,33] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "w = f32[20,33] convert(d)\nROOT r = f32[20,33] negate(w)",
    )
    assert kernels(text) == [["dot", "convert", "negate"]]
    arguments = arguments_of(text)
    result = np.asarray(CPU.compile(text)(*arguments))
    np.testing.assert_array_equal(result, result.astype(arguments[0].dtype).astype(np.float32))
    assert_same(text)


def test_integers_in_batches():
    text = module(
        "s8[3,9,50] s8[3,50,21] s32[3,9]",
        "d = s32[3,9,21] dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2},"
        "rhs_contracting_dims={1}\nb = s32[3,9,21] broadcast(p2), dimensions={0,1}\n"
        "ROOT r = s32[3,9,21] multiply(d, b)",
    )
    assert kernels(text) == [["dot", "broadcast", "multiply"]]
    assert_same(text)


@pytest.mark.parametrize("columns", [16, 20])
def test_a_dot_stores_its_rows_in_the_order_of_a_transpose(columns: int):
    text = module(
        f"f32[2,12,7,30] f32[2,12,30,{columns}] f32[{12 * columns}]",
        f"d = f32[2,12,7,{columns}] dot(p0, p1), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,1}},"
        "lhs_contracting_dims={3}, rhs_contracting_dims={2}\n"
        f"t = f32[2,7,12,{columns}] transpose(d), dimensions={{0,2,1,3}}\nm = f32[2,7,12,{columns}] negate(t)\n"
        f"s = f32[2,7,{12 * columns}] reshape(m)\nROOT r = f32[14,{12 * columns}] reshape(s)",
    )
    assert kernels(text) == [["dot", "transpose", "negate", "reshape"]]
    assert_same(text)


def test_a_transpose_of_the_rows_swaps_the_operands():
    text = module(
        "f32[2,50,3,24] f32[2,3,9,50]",
        "d = f32[2,3,24,9] dot(p0, p1), lhs_batch_dims={0,2}, rhs_batch_dims={0,1}, lhs_contracting_dims={1},"
        "rhs_contracting_dims={3}\nROOT r = f32[2,9,3,24] transpose(d), dimensions={0,3,1,2}",
    )
    assert kernels(text) == [["dot", "transpose"]]
    assert_same(text)


def test_several_results():
    text = module(
        "f32[33,60] f32[60,47] f32[47]",
        "d = f32[33,47] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "b = f32[33,47] broadcast(p2), dimensions={1}\nh = f32[33,47] add(d, b)\ne = f32[33,47] tanh(h)\n"
        "ROOT r = (f32[33,47], f32[33,47]) tuple(e, h)",
    )
    assert kernels(text) == [["dot", "broadcast", "add", "tanh", "tuple"]]
    assert_same(text)


def test_an_epilogue_that_reads_two_large_arrays_is_a_kernel():
    text = module(
        "f32[33,60] f32[60,47] f32[33,47] f32[33,47]",
        "d = f32[33,47] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "s = f32[33,47] add(p2, p3)\nROOT r = f32[33,47] multiply(d, s)",
    )
    assert sorted(kernels(text)) == [["add", "multiply"], ["dot"]]
    assert_same(text)


@pytest.mark.parametrize("columns", [512, 1024])
def test_a_residual_from_memory_is_read_by_a_kernel(columns: int):
    shape = f"f32[1024,{columns}]"
    text = module(
        f"f32[1024,8] f32[8,{columns}] {shape}",
        f"d = {shape} dot(p0, p1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\nROOT r = {shape} add(d, p2)",
    )
    assert sorted(kernels(text)) == ([["dot", "add"]] if columns == 512 else [["add"], ["dot"]])


def test_a_reduction_of_the_sums_is_another_kernel():
    text = "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n" + module(
        "f32[33,60] f32[60,47]",
        "zero = f32[] constant(0)\nd = f32[33,47] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "e = f32[33,47] exponential(d)\nROOT n = f32[33] reduce(e, zero), dimensions={1}, to_apply=add",
    ).removeprefix("HloModule m\n")
    assert ["dot"] in kernels(text)
    assert_same(text)


@pytest.mark.parametrize("residual, count", [("s8", 1), ("s32", 2)])
def test_a_large_residual_is_read_in_tiles_if_it_is_smaller_than_the_sums(residual, count):
    shape = "[4,56,56,64]"
    body = f"""c = s32{shape} convolution(p0, p1), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
f = f32{shape} convert(c)
s = f32{shape} broadcast(p2), dimensions={{3}}
scaled = f32{shape} multiply(f, s)
before = f32{shape} convert(p3)
sum = f32{shape} add(scaled, before)
n = f32{shape} round-nearest-even(sum)
ROOT r = s8{shape} convert(n)"""
    text = module(f"s8[4,56,56,8] s8[3,3,8,64] f32[64] {residual}{shape}", body)
    found = kernels(text)
    assert len(found) == count and found[0][0] == "convolution"
    assert_same(text)


def test_one_of_two_dots_has_the_epilogue():
    text = module(
        "f32[33,60] f32[60,47] f32[60,47]",
        "a = f32[33,47] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "b = f32[33,47] dot(p0, p2), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "g = f32[33,47] logistic(a)\nROOT r = f32[33,47] multiply(g, b)",
    )
    assert sorted(map(len, kernels(text))) == [1, 3]
    assert_same(text)


def test_the_left_operand_may_be_the_residual():
    text = module(
        "f32[48,48] f32[48,48]",
        "x = f32[48,48] exponential(p0)\n"
        "d = f32[48,48] dot(x, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "y = f32[48,48] add(x, d)\nz = f32[48,48] dot(y, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "ROOT r = f32[48,48] add(y, z)",
    )
    assert sorted(map(len, kernels(text))) == [1, 2, 2]
    assert_same(text)


@pytest.mark.parametrize("terms", [600, 1200])
def test_sums_of_several_blocks_do_not_overwrite_a_residual(terms: int):
    text = module(
        f"f32[40,{terms}] f32[{terms},48] f32[40,48]",
        "d = f32[40,48] dot(p0, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
        "e = f32[40,48] sort(p2), dimensions={1}, to_apply=less\ns = f32[40,48] add(d, e)\n"
        "ROOT r = f32[40,48] sort(s), dimensions={1}, to_apply=less",
    )
    less = "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=LT }\n"
    text = text.replace("ENTRY", less + "ENTRY")
    assert ["dot", "add"] in kernels(text)
    assert_same(text)


@pytest.mark.parametrize("batch", [0, 3])
def test_convolutions(batch: int):
    labels = "b01f_01io->b01f"
    text = module(
        f"f32[{batch},11,9,5] f32[3,3,5,21] f32[21] f32[{batch},11,9,21]",
        f"c = f32[{batch},11,9,21] convolution(p0, p1), window={{size=3x3 pad=1_1x1_1}}, dim_labels={labels}\n"
        f"b = f32[{batch},11,9,21] broadcast(p2), dimensions={{3}}\ns = f32[{batch},11,9,21] add(c, b)\n"
        f"t = f32[{batch},11,9,21] add(s, p3)\nzero = f32[] constant(0)\n"
        f"z = f32[{batch},11,9,21] broadcast(zero), dimensions={{}}\nROOT r = f32[{batch},11,9,21] maximum(t, z)",
    )
    if batch:
        assert kernels(text) == [["convolution", "broadcast", "add", "add", "constant", "broadcast", "maximum"]]
    assert_same(text)


@pytest.mark.parametrize("width", [9, 29])
def test_a_residual_that_nothing_else_needs(width: int):
    """Tiles of direct convolutions overlap, so that the sum may not be stored in the memory of the residual."""
    shape = f"f32[2,7,{width},33]"
    text = module(
        f"f32[2,9,{width + 2},6] f32[3,3,6,33] {shape}",
        f"c = {shape} convolution(p0, p1), window={{size=3x3}}, dim_labels=b01f_01io->b01f\n"
        f"e = {shape} sort(p2), dimensions={{2}}, to_apply=less\ns = {shape} add(c, e)\nt = {shape} tanh(s)\n"
        f"u = {shape} multiply(t, e)\nv = {shape} sine(u)\nROOT r = {shape} sort(v), dimensions={{2}}, to_apply=less",
    )
    less = "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=LT }\n"
    text = text.replace("ENTRY", less + "ENTRY")
    assert ["convolution", "add", "tanh", "multiply", "sine"] in kernels(text)
    assert_same(text)


def test_an_infinite_filter_beside_padding():
    text = module(
        "f32[1,8,8,4] f32[3,3,4,16] f32[16]",
        "c = f32[1,8,8,16] convolution(p0, p1), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f\n"
        "b = f32[1,8,8,16] broadcast(p2), dimensions={3}\nROOT r = f32[1,8,8,16] add(c, b)",
    )
    x, kernel, bias = (argument.copy() for argument in arguments_of(text))
    kernel[0, 0, 0, 3] = np.inf
    assert np.isfinite(np.asarray(CPU.compile(text)(x, kernel, bias))[0, 0]).all()
    assert_same(text, x, kernel, bias)


def scored(batches: int, rows: int, columns: int, terms: int, t: str) -> str:
    """A product of rows of both operands, with an epilogue that is long enough for vectors."""
    shape = f"{t}[{batches},{rows},{columns}]"
    numbers = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}"
    return module(
        f"{t}[{batches},{rows},{terms}] {t}[{batches},{columns},{terms}]",
        f"d = {shape} dot(p0, p1), {numbers}\nactive = {shape} tanh(d)\nROOT r = {shape} exponential(active)",
    )


@pytest.mark.parametrize("t", ["f32", "f64", "bf16"])
@pytest.mark.parametrize(
    ("batches", "rows", "columns", "terms"),
    [(1, 1, 2000, 50), (2, 3, 37, 64), (3, 9, 7, 33), (1, 1, 5, 64), (2, 6, 129, 65), (1, 5, 1, 64)],
)
def test_inner_products_with_a_long_epilogue(batches: int, rows: int, columns: int, terms: int, t: str) -> None:
    assert_same(scored(batches, rows, columns, terms, t))


def test_a_long_epilogue_of_inner_products_runs_in_vectors() -> None:
    """The sums of a strip go through scratch memory, whose elements are one for each column of the strip."""
    assert "scratch totals: f32[" in compile_module(xla.parse_hlo(scored(1, 1, 2000, 50, "f32"))).loops()
