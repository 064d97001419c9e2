"""Direct convolutions agree with the interpreter, exactly on integers, for rows, tiles and windows of any size."""

from __future__ import annotations

import dataclasses
import re
from unittest import mock

import numpy as np
import pytest

import xlapy as xla
from xlapy.codegen.emitters.convolution.geometry import SpatialDimension
from xlapy.codegen.emitters.convolution.register_tiles import choose_tile
from xlapy.codegen.emitters.convolution.row_tiles import row_tiles
from xlapy.codegen.region import region_of
from xlapy.codegen.strategies import choose_plan
from xlapy.codegen.target import Target
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program import builder
from xlapy.cpu.target import host_target
from xlapy.opcodes.attributes.dimensions import WindowDimension

CPU, INTERPRETER = xla.Client("cpu"), xla.Client("interpreter")
RNG = np.random.default_rng(7)

_CASES = """
    rows of odd length:
        f32[3,13,17,5] f32[3,3,5,7] f32[3,13,17,7] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    more padding than input:
        f32[1,3,2,16] f32[5,5,16,40] f32[1,9,8,40] {size=5x5 pad=5_5x5_5} b01f_01io->b01f
    windows entirely in the padding:
        f32[2,4,6,8] f32[2,2,8,20] f32[2,9,11,20] {size=2x2 pad=3_3x4_2} b01f_01io->b01f
    uneven padding and strides:
        f32[2,15,23,6] f32[4,5,6,33] f32[2,5,8,33] {size=4x5 pad=2_0x0_5 stride=3x3} b01f_01io->b01f
    negative padding and strides:
        f32[2,15,23,6] f32[3,3,6,33] f32[2,6,10,33] {size=3x3 pad=-1_0x-2_1 stride=2x2} b01f_01io->b01f
    dilated kernel:
        f32[2,15,23,6] f32[3,3,6,33] f32[2,15,23,33] {size=3x3 pad=2_2x3_3 rhs_dilate=2x3} b01f_01io->b01f
    dilated kernel and strides:
        f32[2,15,23,6] f32[3,2,6,33] f32[2,8,12,33] {size=3x2 pad=2_2x2_2 stride=2x2 rhs_dilate=2x4} b01f_01io->b01f
    segments in a loop:
        f32[2,7,29,16] f32[3,3,16,20] f32[2,7,29,20] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    segments in a loop, a wide window on a short row:
        f32[1,3,5,16] f32[1,5,16,20] f32[1,3,5,20] {size=1x5 pad=0_0x2_2} b01f_01io->b01f
    segments in a loop, a dilated kernel:
        f32[1,5,23,17] f32[3,3,17,20] f32[1,5,23,20] {size=3x3 pad=2_2x3_3 rhs_dilate=2x3} b01f_01io->b01f
    segments in a loop, strides and uneven padding:
        f32[1,9,23,18] f32[4,5,18,20] f32[1,3,8,20] {size=4x5 pad=2_0x0_5 stride=3x3} b01f_01io->b01f
    segments in a loop, holes:
        f32[1,5,7,16] f32[3,3,16,20] f32[1,10,20,20] {size=3x3 pad=1_2x0_3 lhs_dilate=2x3} b01f_01io->b01f
    many segments in a loop, all padding in front:
        f32[2,61,37] f32[11,37,41] f32[2,61,41] {size=11 pad=10_0} b0f_0io->b0f
    many segments in a loop, bf16:
        bf16[1,40,40] bf16[31,40,20] bf16[1,40,20] {size=31 pad=15_15} b0f_0io->b0f
    many segments in a loop, dilated:
        f32[1,3,40,33] f32[2,12,33,20] f32[1,4,36,20] {size=2x12 pad=1_1x9_9 rhs_dilate=1x2} b01f_01io->b01f
    many inputs:
        f32[2,5,9,700] f32[3,3,700,20] f32[2,5,9,20] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    many inputs and features:
        f32[1,4,5,300] f32[3,3,300,70] f32[1,4,5,70] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    many inputs and features, bf16:
        bf16[1,4,5,300] bf16[3,3,300,70] bf16[1,4,5,70] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    many inputs, holes:
        f32[1,5,9,900] f32[4,4,900,20] f32[1,9,17,20] {size=4x4 pad=1_2x1_2 lhs_dilate=2x2} b01f_01io->b01f
    holes, uneven padding:
        f32[2,5,7,6] f32[3,3,6,33] f32[2,10,20,33] {size=3x3 pad=1_2x0_3 lhs_dilate=2x3} b01f_01io->b01f
    holes, negative padding:
        f32[2,6,7,6] f32[3,4,6,33] f32[2,7,10,33] {size=3x4 pad=-1_-1x0_0 lhs_dilate=2x2} b01f_01io->b01f
    holes, reversed:
        f32[2,6,7,6] f32[3,4,6,9] f32[2,12,13,9] {size=3x4 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1} b01f_01io->b01f
    reversed kernel:
        f32[2,9,11,6] f32[3,3,6,33] f32[2,9,11,33] {size=3x3 pad=1_1x1_1 rhs_reversal=1x0} b01f_01io->b01f
    a long row:
        f32[2,3001,6] f32[4,6,20] f32[2,3001,20] {size=4 pad=1_2} b0f_0io->b0f
    a long row, many inputs:
        f32[1,2100,600] f32[3,600,20] f32[1,2100,20] {size=3 pad=2_0} b0f_0io->b0f
    a long row with phases:
        f32[1,1100,6] f32[3,6,20] f32[1,2200,20] {size=3 pad=1_2 lhs_dilate=2} b0f_0io->b0f
    groups:
        f32[2,9,11,24] f32[3,3,6,40] f32[2,9,11,40] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, feature_group_count=4
    groups of the batch:
        f32[4,9,11,6] f32[3,3,6,40] f32[2,9,11,40] {size=3x3 pad=1_1x1_1} b01f_01io->b01f, batch_group_count=2
    three dimensions:
        f32[1,5,6,7,8] f32[3,2,3,8,16] f32[1,3,6,7,16] {size=3x2x3 pad=1_1x1_0x1_1 stride=2x1x1} b012f_012io->b012f
    features first in the input:
        f32[2,6,9,11] f32[3,3,6,33] f32[2,9,11,33] {size=3x3 pad=1_1x1_1} bf01_01io->b01f
    filter with outputs first, many inputs:
        f32[2,9,11,700] f32[33,700,3,3] f32[2,9,11,33] {size=3x3 pad=1_1x1_1} b01f_oi01->b01f
    filter with outputs first, one element:
        f32[2,9,11,70] f32[35,70,1,1] f32[2,5,4,35] {size=1x1 stride=2x3} b01f_oi01->b01f
    filter with outputs first, one block:
        f32[2,9,11,20] f32[40,20,3,3] f32[2,9,11,40] {size=3x3 pad=1_1x1_1} b01f_oi01->b01f
    filter with outputs first, dilated:
        f32[2,9,11,30] f32[40,30,2,3] f32[2,7,7,40] {size=2x3 rhs_dilate=2x2} b01f_oi01->b01f
    filter with outputs first, holes:
        f32[1,5,9,90] f32[40,90,4,3] f32[1,9,17,40] {size=4x3 pad=1_2x1_1 lhs_dilate=2x2} b01f_oi01->b01f
    filter with outputs first, many inputs and features:
        f32[1,7,9,300] f32[70,300,3,3] f32[1,7,9,70] {size=3x3 pad=1_1x1_1} b01f_oi01->b01f
    filter with outputs first, many inputs, f64:
        f64[2,9,11,300] f64[33,300,3,3] f64[2,9,11,33] {size=3x3 pad=1_1x1_1} b01f_oi01->b01f
    a result that exceeds the caches:
        f32[1,1030,128,3] f32[2,1,3,32] f32[1,1029,128,32] {size=2x1} b01f_01io->b01f
    single elements:
        f32[2,9,11,20] f32[1,1,20,33] f32[2,9,11,33] {size=1x1} b01f_01io->b01f
    single elements, bf16:
        bf16[2,9,11,40] bf16[1,1,40,33] bf16[2,9,11,33] {size=1x1} b01f_01io->b01f
    single elements, f64:
        f64[3,35,21] f64[1,21,5] f64[3,35,5] {size=1} b0f_0io->b0f
    bf16:
        bf16[2,9,11,6] bf16[3,3,6,33] bf16[2,9,11,33] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    s8:
        s8[2,9,11,6] s8[3,3,6,33] s32[2,9,11,33] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
    f64:
        f64[2,9,11,6] f64[3,3,6,33] f64[2,9,11,33] {size=3x3 pad=1_1x1_1} b01f_01io->b01f
"""
CASES = dict(re.findall(r"(\S.*):\n +(.*)\n", _CASES))


def module(name: str) -> xla.Module:
    lhs, rhs, result, window, labels = re.fullmatch(r"(\S+) (\S+) (\S+) (\{.*\}) (.*)", CASES[name]).groups()
    return xla.parse_hlo(
        f"HloModule m\nENTRY e {{ a = {lhs} parameter(0)\n b = {rhs} parameter(1)\n"
        f" ROOT r = {result} convolution(a, b), window={window}, dim_labels={labels} }}",
        verify=True,
    )


def arguments(given: xla.Module) -> list[np.ndarray]:
    shapes = [p.shape for p in given.entry_computation.parameters]
    return [RNG.integers(-2, 3, shape.dimensions).astype(shape.element_type.dtype) for shape in shapes]


@pytest.mark.parametrize("name", CASES)
def test_results(name: str):
    given = module(name)
    loops = compile_module(given).loops()
    assert "scratch panel" in loops
    arrays = arguments(given)
    expected = np.asarray(INTERPRETER.compile(given)(*arrays))
    np.testing.assert_array_equal(np.asarray(CPU.compile(given)(*arrays)), expected)


@pytest.mark.parametrize("name", [name for name in CASES if "outputs first" in name])
def test_a_filter_with_outputs_first_is_packed_by_transposition(name: str):
    loops = compile_module(module(name)).loops()
    assert re.search(r"transpose .* from in0\[.* to (terms|panel)\[0\]", loops)
    assert ("prefetch in0[" in loops) == ("many" in name)


@pytest.mark.parametrize("name", ["single elements", "single elements, bf16", "single elements, f64"])
def test_the_input_of_single_elements_is_prefetched_if_it_is_not_in_l2(name: str):
    given = module(name)
    small = dataclasses.replace(host_target(), l2_bytes=1 << 10)
    with mock.patch.object(builder, "host_target", lambda: small):
        loops = compile_module(given).loops()
        program = xla.Client("cpu").compile(given)
    assert "prefetch in0[" in loops and "prefetch in0[" not in compile_module(given).loops()
    arrays = arguments(given)
    expected = np.asarray(CPU.compile(given)(*arrays))
    np.testing.assert_array_equal(np.asarray(program(*arrays)), expected)


@pytest.mark.parametrize("name", ["rows of odd length", "filter with outputs first, one element", "groups"])
def test_the_input_of_other_windows_is_not_prefetched(name: str):
    given = module(name)
    small = dataclasses.replace(host_target(), l2_bytes=1 << 10)
    with mock.patch.object(builder, "host_target", lambda: small):
        lines = compile_module(given).loops().splitlines()
    filter_buffer = "in0" if "outputs first" in name else "in1"
    assert all(f"prefetch {filter_buffer}[" in line for line in lines if "prefetch" in line)


@pytest.mark.parametrize("features", [33, 64])
def test_a_residual_beyond_l2_is_prefetched(features: int):
    given = xla.parse_hlo(f"""HloModule m
      ENTRY e {{
        a = f32[2,9,11,20] parameter(0)
        b = f32[3,3,20,{features}] parameter(1)
        c = f32[2,9,11,{features}] parameter(2)
        d = f32[2,9,11,{features}] convolution(a, b), window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f
        ROOT r = f32[2,9,11,{features}] add(c, d)
      }}""")
    small = dataclasses.replace(host_target(), l2_bytes=1 << 10)
    with mock.patch.object(builder, "host_target", lambda: small):
        loops = compile_module(given).loops()
        program = xla.Client("cpu").compile(given)
    plain = compile_module(given).loops()
    assert loops.count("prefetch in2[") and loops.count("kernel ") == plain.count("kernel ") == 1
    assert "prefetch in2[" not in plain
    arrays = arguments(given)
    expected = np.asarray(INTERPRETER.compile(given)(*arrays))
    np.testing.assert_array_equal(np.asarray(program(*arrays)), expected)


@pytest.mark.parametrize(("operation", "kernels"), [("convolution", 1), ("dot", 2)])
def test_convolutions_read_large_residuals_in_their_epilogue(operation: str, kernels: int):
    attributes = {
        "convolution": "window={}, dim_labels=bf_io->bf",
        "dot": "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    }[operation]
    given = xla.parse_hlo(f"""HloModule m
      ENTRY e {{
        a = f32[8192,32] parameter(0)
        b = f32[32,128] parameter(1)
        c = f32[8192,128] parameter(2)
        d = f32[8192,128] {operation}(a, b), {attributes}
        ROOT r = f32[8192,128] add(c, d)
      }}""")
    assert compile_module(given).loops().count("kernel ") == kernels


def test_a_large_filter_that_is_packed_once_is_prefetched():
    assert "prefetch in1[" in compile_module(module("many inputs and features")).loops()
    for name in ("rows of odd length", "a long row, many inputs"):  # a small filter, and one that several tasks pack
        assert "prefetch" not in compile_module(module(name)).loops()


@pytest.mark.parametrize(
    "name",
    ["rows of odd length", "more padding than input", "holes, uneven padding", "a long row", "segments in a loop"],
)
@pytest.mark.parametrize("special", [np.inf, np.nan])
@pytest.mark.parametrize("operand", [0, 1])
def test_special_elements_contribute_only_where_they_meet_the_input(name: str, special: float, operand: int):
    given = module(name)
    arrays = arguments(given)
    arrays[operand].flat[0] = special
    expected = np.asarray(INTERPRETER.compile(given)(*arrays))
    assert np.isfinite(expected).any() and not np.isfinite(expected).all()
    np.testing.assert_array_equal(np.asarray(CPU.compile(given)(*arrays)), expected)


def window(size: int, **fields: int) -> WindowDimension:
    return WindowDimension(size=size, **fields)


def test_tiles_leave_out_what_offsets_do_not_reach():
    """The example in the module's docstring: 10 positions in tiles of 4, a window of 3 with padding 1."""
    d = SpatialDimension(window(3, padding_low=1, padding_high=1), 10, 10)
    runs = row_tiles(d, 0, 4).runs
    assert [(run.start, run.count) for run in runs] == [(0, 1), (4, 1), (6, 1)]
    assert [[s.positions for s in run.segments] for run in runs] == [
        [(1, 2, 3), (0, 1, 2, 3)],
        [(0, 1, 2, 3)],
        [(0, 1, 2, 3), (0, 1, 2)],
    ]


@pytest.mark.parametrize("size", [3, 5, 11])
@pytest.mark.parametrize("low", [-2, 0, 3, 9])
@pytest.mark.parametrize("width", [3, 8])
def test_joined_segments_have_the_offsets_of_each_run_in_order(size: int, low: int, width: int):
    d = SpatialDimension(window(size, padding_low=low, padding_high=9), 12, 20)
    tiles = row_tiles(d, 0, width)
    joined = tiles.joined_segments()
    for number, run in enumerate(tiles.runs):
        own = [(j.spans[number], j.positions) for j in joined if j.spans[number][1]]
        assert own == [((s.first, s.count), s.positions) for s in run.segments]


def test_positions_of_a_group_are_in_the_same_segments():
    d = SpatialDimension(window(3, padding_low=1, padding_high=1), 56, 56)
    assert row_tiles(d, 0, 14).position_groups() == ((0,), tuple(range(1, 13)), (13,))


@pytest.mark.parametrize("base", [1, 2, 3])
@pytest.mark.parametrize("low", [-3, 0, 1, 4])
def test_phases_meet_each_element_of_the_window_once(base: int, low: int):
    """The pairs of position and input element of all phases are those of the definition."""
    size, inputs, outputs = 5, 6, 12
    d = SpatialDimension(window(size, padding_low=low, padding_high=0, base_dilation=base), inputs, outputs)
    expected = {
        (p, k, (p + k - low) // base)
        for p in range(outputs)
        for k in range(size)
        if (p + k - low) % base == 0 and 0 <= p + k - low < inputs * base
    }
    found = {
        (p * d.phases + r, k * d.phases + d.rest(r), p * d.stride + k * d.step + d.start(r))
        for r in range(d.phases)
        for p in range(d.positions(r))
        for k in range(d.offsets_of(r))
        if d.is_inside(r, p, k)
    }
    assert found == expected


def test_lines_that_share_sets_of_the_cache_are_few():
    """A set holds eight lines, one of which is left to others."""
    target = Target(64, 32, l1_bytes=1 << 15, l1_way_bytes=1 << 12)
    assert [target.lines_in_l1(distance) for distance in (4, 64, 1024, 4096, 6144, 8192)] == [448, 448, 28, 7, 14, 7]


def test_caches_decide_positions_of_tiles_only():
    """Blocks of input features follow from the features of a tile, and the order of additions from these blocks."""
    text = """ENTRY e {
      x = f32[1,9,9,1024] parameter(0)
      k = f32[3,3,1024,64] parameter(1)
      ROOT c = f32[1,9,9,64] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
    }"""
    (root,) = [i for i in xla.parse_hlo(text).instructions() if i.op is xla.opcodes.CONVOLUTION]
    targets = [Target(64, 32, l1_bytes=size, l1_way_bytes=1 << 12) for size in (1 << 15, 3 << 14, 1 << 20)]
    plans = [choose_plan(region_of(root, target)).plan for target in targets]
    assert {plan.strategy for plan in plans} == {"direct-convolution"}
    assert len({plan.parameters.tile_vectors for plan in plans}) == 1
    assert len({plan.parameters.tile_positions for plan in plans}) > 1


@pytest.mark.parametrize("registers", [16, 32])
@pytest.mark.parametrize("positions", [1, 7, 14, 55, 224])
@pytest.mark.parametrize("features", [4, 16, 20, 64, 512])
def test_tiles_fit_into_the_registers(registers: int, positions: int, features: int):
    tile = choose_tile(registers, 16, positions, features, most_positions=9)
    assert tile.positions * tile.vectors + tile.vectors + 1 <= registers
    assert tile.positions <= min(positions, 9) and tile.features < features + tile.vectors * tile.lanes
