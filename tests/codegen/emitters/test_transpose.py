"""Fusions with transposed operands: which are tiled, and that they agree with the interpreter."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import KernelThunk, walk_thunks
from xlapy.testing.random_arguments import random_arguments

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")


def entry(*lines: str) -> str:
    return "\n".join(["HloModule m", "ENTRY e {", *lines, "}"])


def transposed(shape: str, permutation: tuple[int, ...], after: str = "") -> str:
    """Returns a program that permutes x to `t`; `after` may add an operation on `t` and an array `y` of its shape."""
    t, _, sizes = shape[:-1].partition("[")
    dimensions = [sizes.split(",")[d] for d in permutation]
    result = f"{t}[{','.join(dimensions)}]"
    order = ",".join(map(str, permutation))
    lines = [f"x = {shape} parameter(0)", f"y = {result} parameter(1)"]
    lines.append(f"{'' if after else 'ROOT '}t = {result} transpose(x), dimensions={{{order}}}")
    return entry(*lines, *([f"ROOT r = {result} {after}"] if after else []))


def check(text: str, *, tiles: int | None = None) -> None:
    """Checks that the result equals the interpreter's. tiles: the number of operands that are transposed in
    registers."""
    module = xla.parse_hlo(text)
    executable = CPU.compile(module)
    if tiles is not None:
        assert compile_module(module).loops().count("transpose ") == tiles
    arguments = random_arguments(executable.program_shape.parameters, 3)
    ours, theirs = executable(*arguments), INTERPRETER.compile(module)(*arguments)
    if not isinstance(ours, tuple):
        ours, theirs = (ours,), (theirs,)
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("permutation", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("shape", ["f32[17,20,33]", "s8[70,9,130]"])
def test_permutations(shape, permutation):
    check(transposed(shape, permutation, "add(t, y)"))


@pytest.mark.parametrize("t", ["pred", "u8", "bf16", "f16", "s32", "f64", "c64", "c128", "s4", "f8e4m3fn"])
@pytest.mark.parametrize("sizes", ["65,131", "32,32", "9,300", "300,9"])
def test_element_types_and_odd_sizes(t, sizes):
    check(transposed(f"{t}[{sizes}]", (1, 0)), tiles=1)


def test_an_array_larger_than_the_caches():
    """Its stores bypass the caches; in the second case, the rows are not whole cache lines."""
    check(transposed("f32[2048,2112]", (1, 0), "multiply(t, y)"), tiles=1)
    check(transposed("f32[2050,2049]", (1, 0), "multiply(t, y)"), tiles=1)


def test_several_transposed_operands_and_one_of_another_type():
    lines = [
        "a = f32[90,70] parameter(0)",
        "b = s8[90,70] parameter(1)",
        "c = f32[70,90] parameter(2)",
        "at = f32[70,90] transpose(a), dimensions={1,0}",
        "bt = s8[70,90] transpose(b), dimensions={1,0}",
        "bf = f32[70,90] convert(bt)",
        "s = f32[70,90] add(at, bf)",
        "ROOT r = f32[70,90] multiply(s, c)",
    ]
    check(entry(*lines), tiles=2)


def test_a_transposed_slice_and_broadcasts():
    lines = [
        "a = f32[90,70] parameter(0)",
        "row = f32[60] parameter(1)",
        "column = f32[70] parameter(2)",
        "s = f32[60,70] slice(a), slice={[5:65], [0:70]}",
        "t = f32[70,60] transpose(s), dimensions={1,0}",
        "rows = f32[70,60] broadcast(row), dimensions={1}",
        "columns = f32[70,60] broadcast(column), dimensions={0}",
        "u = f32[70,60] add(t, rows)",
        "ROOT r = f32[70,60] multiply(u, columns)",
    ]
    check(entry(*lines), tiles=1)


def test_a_dynamic_slice():
    lines = [
        "a = f32[90,70] parameter(0)",
        "i = s32[] parameter(1)",
        "s = f32[40,40] dynamic-slice(a, i, i), dynamic_slice_sizes={40,40}",
        "ROOT t = f32[40,40] transpose(s), dimensions={1,0}",
    ]
    check(entry(*lines), tiles=1)


def test_padding_is_loaded_under_a_mask():
    lines = [
        "a = f32[50,70] parameter(0)",
        "z = f32[] constant(7)",
        "p = f32[53,72] pad(a, z), padding=1_2x2_0",
        "ROOT t = f32[72,53] transpose(p), dimensions={1,0}",
    ]
    check(entry(*lines), tiles=0)


def test_an_iota_in_the_result():
    lines = [
        "a = s32[33,70] parameter(0)",
        "t = s32[70,33] transpose(a), dimensions={1,0}",
        "i = s32[70,33] iota(), iota_dimension=0",
        "j = s32[70,33] iota(), iota_dimension=1",
        "u = s32[70,33] add(t, i)",
        "ROOT r = s32[70,33] multiply(u, j)",
    ]
    check(entry(*lines), tiles=1)


@pytest.mark.parametrize(
    ("shape", "permutation"), [("f32[3,4,21,13,6]", (0, 2, 3, 4, 1)), ("f32[3,21,13,6]", (0, 3, 1, 2))]
)
def test_images_move_their_channels(shape, permutation):
    """Adjacent dimensions are coalesced."""
    check(transposed(shape, permutation, "subtract(t, y)"))


def test_a_bitcast_between_layouts():
    lines = [
        "a = f32[40,50]{1,0} parameter(0)",
        "b = f32[40,50]{0,1} bitcast(a)",
        "ROOT r = f32[40,50]{1,0} negate(b)",
    ]
    check(entry(*lines))


def test_several_results():
    lines = [
        "a = f32[40,50] parameter(0)",
        "t = f32[50,40] transpose(a), dimensions={1,0}",
        "n = f32[50,40] negate(t)",
        "ROOT r = (f32[50,40], f32[50,40]) tuple(t, n)",
    ]
    check(entry(*lines))


def test_short_contiguous_dimensions_need_no_tiles():
    check(transposed("f32[300,5]", (1, 0)), tiles=0)


def test_a_permutation_that_keeps_the_last_dimension_needs_no_tiles():
    check(transposed("f32[20,30,40]", (1, 0, 2), "add(t, y)"), tiles=0)


def test_a_transpose_in_a_loop_reads_the_state_that_it_replaces():
    text = """HloModule m
body { s = (s32[], f32[48,48]) parameter(0)
  n = s32[] get-tuple-element(s), index=0  x = f32[48,48] get-tuple-element(s), index=1
  one = s32[] constant(1)  next = s32[] add(n, one)
  t = f32[48,48] transpose(x), dimensions={1,0}
  d = f32[48,48] subtract(t, x)
  ROOT r = (s32[], f32[48,48]) tuple(next, d) }
condition { s = (s32[], f32[48,48]) parameter(0)
  n = s32[] get-tuple-element(s), index=0  limit = s32[] constant(3)
  ROOT c = pred[] compare(n, limit), direction=LT }
ENTRY e { x = f32[48,48] parameter(0)  zero = s32[] constant(0)
  s = (s32[], f32[48,48]) tuple(zero, x)
  w = (s32[], f32[48,48]) while(s), condition=condition, body=body
  ROOT r = f32[48,48] get-tuple-element(w), index=1 }
"""
    check(text, tiles=1)


def test_small_arrays_need_no_tiles():
    """They are not unrolled either, because the code would be larger than a loop."""
    compiled = compile_module(xla.parse_hlo(transposed("f32[16,8]", (1, 0))))
    assert "transpose " not in compiled.loops()
    assert not any(thunk.unrolled for thunk in walk_thunks(compiled.program.thunks) if isinstance(thunk, KernelThunk))
    check(transposed("f32[16,8]", (1, 0)))


@pytest.mark.parametrize("rows", [8, 256])
def test_columns_of_large_arrays_in_loops_are_read_in_vectors(rows):
    """If they were unrolled, as arrays that may be kept in registers are, the code would be too large."""
    text = f"""HloModule m
body {{ s = (s32[], f32[{rows},3]) parameter(0)
  n = s32[] get-tuple-element(s), index=0  x = f32[{rows},3] get-tuple-element(s), index=1
  one = s32[] constant(1)  next = s32[] add(n, one)
  a = f32[{rows},1] slice(x), slice={{[0:{rows}], [0:1]}}  b = f32[{rows},1] slice(x), slice={{[0:{rows}], [1:2]}}
  c = f32[{rows},1] subtract(a, b)  d = f32[{rows},3] concatenate(b, c, a), dimensions={{1}}
  ROOT r = (s32[], f32[{rows},3]) tuple(next, d) }}
condition {{ s = (s32[], f32[{rows},3]) parameter(0)
  n = s32[] get-tuple-element(s), index=0  limit = s32[] constant(3)
  ROOT c = pred[] compare(n, limit), direction=LT }}
ENTRY e {{ x = f32[{rows},3] parameter(0)  zero = s32[] constant(0)
  s = (s32[], f32[{rows},3]) tuple(zero, x)
  w = (s32[], f32[{rows},3]) while(s), condition=condition, body=body
  ROOT r = f32[{rows},3] get-tuple-element(w), index=1 }}
"""
    compiled = compile_module(xla.parse_hlo(text))
    kernels = [thunk for thunk in walk_thunks(compiled.program.thunks) if isinstance(thunk, KernelThunk)]
    assert any(not thunk.unrolled for thunk in kernels) is (rows == 256)
    check(text)
