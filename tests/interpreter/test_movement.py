"""Values of data movement: the specification's examples, corner cases, and comparison with XLA:CPU."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

from tests import xla_reference
from tests.interpreter.runners.instruction import one_instruction
from tests.interpreter.runners.movement import evaluate
from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.interpreter.core import Context, evaluate_computation
from xlapy.opcodes import movement as ops
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension, SliceRanges
from xlapy.runtime import Client
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.samples import Sample, samples_of
from xlapy.text import parse_hlo

MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


# Broadcast, reshape, transpose, reverse


def test_broadcast_of_a_scalar_and_of_a_vector():
    assert evaluate(opcodes.BROADCAST, np.float32(7), result="f32[2,2]").tolist() == [[7, 7], [7, 7]]
    assert evaluate(opcodes.BROADCAST, [1, 2, 3], result="s32[2,3]", dimensions=(1,)).tolist() == [[1, 2, 3], [1, 2, 3]]
    assert evaluate(opcodes.BROADCAST, [1, 2], result="s32[2,3]", dimensions=(0,)).tolist() == [[1, 1, 1], [2, 2, 2]]


def test_broadcast_transposes_where_its_dimensions_do_not_ascend():
    value = evaluate(opcodes.BROADCAST, MATRIX, result="f32[3,2,2]", dimensions=(2, 0))
    assert value[:, 0, :].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert value[:, 1, :].tolist() == value[:, 0, :].tolist()
    cube = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    value = evaluate(opcodes.BROADCAST, cube, result="s16[4,2,5,3]", dimensions=(1, 3, 0))
    assert value[3, 1, 4, 2] == cube[1, 2, 3]
    assert value[0, 1, 0, 2] == cube[1, 2, 0]


def test_reshape_examples_of_the_specification():
    v = np.array(
        [
            [[10, 11, 12], [15, 16, 17]],
            [[20, 21, 22], [25, 26, 27]],
            [[30, 31, 32], [35, 36, 37]],
            [[40, 41, 42], [45, 46, 47]],
        ],
        np.float32,
    )
    flat = [10, 11, 12, 15, 16, 17, 20, 21, 22, 25, 26, 27, 30, 31, 32, 35, 36, 37, 40, 41, 42, 45, 46, 47]
    assert evaluate(opcodes.RESHAPE, v, result="f32[24]").tolist() == flat
    assert evaluate(opcodes.RESHAPE, v, result="f32[8,3]")[3].tolist() == [25, 26, 27]
    assert evaluate(opcodes.RESHAPE, [[5.0]], result="f32[]") == 5
    assert evaluate(opcodes.RESHAPE, np.float32(5), result="f32[1,1]").tolist() == [[5]]


def test_transpose():
    assert evaluate(opcodes.TRANSPOSE, MATRIX, dimensions=(1, 0)).tolist() == [[0, 3], [1, 4], [2, 5]]
    cube = np.arange(24).reshape(2, 3, 4)
    assert evaluate(opcodes.TRANSPOSE, cube, dimensions=(2, 0, 1))[3, 1, 2] == cube[1, 2, 3]
    assert evaluate(opcodes.TRANSPOSE, np.float32(3), dimensions=()) == 3


def test_reverse():
    assert evaluate(opcodes.REVERSE, MATRIX, dimensions=(0,)).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert evaluate(opcodes.REVERSE, MATRIX, dimensions=(1, 0)).tolist() == [[5, 4, 3], [2, 1, 0]]
    assert evaluate(opcodes.REVERSE, MATRIX, dimensions=()).tolist() == MATRIX.tolist()
    assert evaluate(opcodes.REVERSE, np.int32(1), dimensions=()) == 1


# Shuffle

ROTATE, PERMUTE = ops.ShuffleMode.ROTATE, ops.ShuffleMode.PERMUTE


def test_shuffle_rotates_to_the_left():
    assert evaluate(opcodes.SHUFFLE, [0, 1, 2, 3], dimensions=(0,), mode=ROTATE, shifts=(1,)).tolist() == [1, 2, 3, 0]
    assert evaluate(opcodes.SHUFFLE, [0, 1, 2, 3], dimensions=(0,), mode=ROTATE, shifts=(-5,)).tolist() == [3, 0, 1, 2]
    value = evaluate(opcodes.SHUFFLE, MATRIX, dimensions=(1, 0), mode=ROTATE, shifts=(2, 1))
    assert value.tolist() == [[5, 3, 4], [2, 0, 1]]
    empty = np.zeros((0, 2), np.float32)
    assert evaluate(opcodes.SHUFFLE, empty, dimensions=(0,), mode=ROTATE, shifts=(3,)).shape == (0, 2)


def test_shuffle_permutes_by_coordinates():
    def permuted(operand, dimensions, indices):
        literal = Literal.of(np.array(indices, np.int8))
        return evaluate(opcodes.SHUFFLE, operand, dimensions=dimensions, mode=PERMUTE, indices=literal).tolist()

    assert permuted([10, 11, 12, 13], (0,), [3, 1, 0, 2]) == [13, 11, 10, 12]
    columns = MATRIX.T
    assert permuted(columns, (0,), [[2], [0], [1]]) == [[2, 5], [0, 3], [1, 4]]
    assert permuted(columns, (0,), [[2, 0], [0, 1], [1, 2]]) == [[2, 3], [0, 4], [1, 5]]
    coordinates = [[[2, 0], [0, 1]], [[0, 0], [2, 1]], [[1, 0], [1, 1]]]
    assert permuted(columns, (0, 1), coordinates) == [[2, 3], [0, 5], [1, 4]]
    backwards = [[pair[::-1] for pair in row] for row in coordinates]
    assert permuted(columns, (1, 0), backwards) == [[2, 3], [0, 5], [1, 4]]
    cube = np.arange(8).reshape(2, 2, 2)
    shared = [[[[1, 1], [1, 0]]], [[[0, 1], [0, 0]]]]
    assert permuted(cube, (0, 2), shared) == cube[::-1, :, ::-1].tolist()
    assert permuted([10, 11, 12], (0,), [2]) == [12, 12, 12]
    assert permuted(columns, (0,), [[1, 0]]) == [[1, 3]] * 3


def test_shuffle_clamps_coordinates():
    indices = Literal.of(np.array([-1, 9], np.int32))
    assert evaluate(opcodes.SHUFFLE, [10, 11], dimensions=(0,), mode=PERMUTE, indices=indices).tolist() == [10, 11]


# Concatenate, slice, pad


def test_concatenate_examples_of_the_specification():
    assert evaluate(opcodes.CONCATENATE, [2, 3], [4, 5], [6, 7], dimension=0).tolist() == [2, 3, 4, 5, 6, 7]
    a, b = [[1, 2], [3, 4], [5, 6]], [[7, 8]]
    assert evaluate(opcodes.CONCATENATE, a, b, dimension=0).tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def slice_of(operand, *ranges):
    columns = zip(*ranges, strict=True) if ranges else ((), (), ())
    return evaluate(opcodes.SLICE, operand, ranges=SliceRanges(*map(tuple, columns)))


def test_slice_examples_of_the_specification():
    assert slice_of([0.0, 1.0, 2.0, 3.0, 4.0], (2, 4, 1)).tolist() == [2, 3]
    rows = np.arange(12).reshape(4, 3)
    assert slice_of(rows, (2, 4, 1), (1, 3, 1)).tolist() == [[7, 8], [10, 11]]


def test_slice_strides_and_corners():
    assert slice_of(np.arange(10), (1, 10, 4)).tolist() == [1, 5, 9]
    assert slice_of(np.arange(10), (1, 9, 4)).tolist() == [1, 5]
    assert slice_of(np.arange(3), (3, 3, 7)).tolist() == []
    assert slice_of(np.float32(2)) == 2


def pad_of(operand, value, *dimensions):
    array = np.asarray(operand, np.int32)
    config = PaddingConfig(tuple(PaddingDimension(*entry) for entry in dimensions))
    return evaluate(opcodes.PAD, array, np.int32(value), padding=config).tolist()


def test_pad_of_two_dimensions():
    assert pad_of([[1, 2, 3], [4, 5, 6]], 0, (0, 1, 2), (1, 2, 0)) == [
        [0, 1, 2, 3, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0, 4, 5, 6, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]


def test_pad_corners():
    assert pad_of([1, 2, 3], 9, (-1, 0, 1)) == [9, 2, 9, 3]
    assert pad_of([1, 2, 3], 9, (-1, -2, 2)) == [9, 9, 2, 9]
    assert pad_of([1, 2, 3], 9, (-2, 3, 0)) == [3, 9, 9, 9]
    assert pad_of([1, 2, 3], 9, (-5, 4, 0)) == [9, 9]
    assert pad_of([1, 2, 3], 9, (2, -4, 0)) == [9]
    assert pad_of([], 9, (1, 2, 5)) == [9, 9, 9]
    assert pad_of([1, 2], 9, (-1, -1, 0)) == []
    assert pad_of(7, 9) == 7


@pytest.mark.parametrize("interior", [0, 1, 2])
def test_pad_of_every_small_edge(interior):
    """Compares with the definition: interior padding first, then the low and the high edge."""
    spread: list[int] = []
    for element in (1, 2, 3):
        spread += [element] + [0] * interior
    spread = spread[: 3 + 2 * interior]
    for low in range(-5, 4):
        for high in range(-5, 4):
            if len(spread) + low + high >= 0:
                left = [0] * low + spread if low >= 0 else spread
                wide = left + [0] * max(high, 0) + [0] * 10
                start = max(-low, 0)
                assert pad_of([1, 2, 3], 0, (low, high, interior)) == wide[start : start + len(spread) + low + high]


# Slices at run-time positions


def test_dynamic_slice_examples_of_the_specification():
    assert evaluate(opcodes.DYNAMIC_SLICE, [0.0, 1.0, 2.0, 3.0, 4.0], [2], dynamic_slice_sizes=(2,)).tolist() == [2, 3]
    rows = np.arange(12).reshape(4, 3)
    assert evaluate(opcodes.DYNAMIC_SLICE, rows, [2, 1], dynamic_slice_sizes=(2, 2)).tolist() == [[7, 8], [10, 11]]


@pytest.mark.parametrize(
    ("index", "start"),
    [
        (np.int32(-5), 0),
        (np.int32(3), 3),
        (np.int32(4), 3),
        (np.uint32(0xFFFFFFFF), 3),
        (np.uint64(2**64 - 1), 3),
        (np.int64(-(2**63)), 0),
        (np.uint8(255), 3),
        (np.array(-8, ml_dtypes.int4), 0),
    ],
)
def test_start_indices_are_clamped(index, start):
    operand = np.arange(5)
    assert evaluate(opcodes.DYNAMIC_SLICE, operand, index, dynamic_slice_sizes=(2,)).tolist() == [start, start + 1]
    updated = evaluate(opcodes.DYNAMIC_UPDATE_SLICE, operand, np.array([-1, -2]), index).tolist()
    assert updated == [-1 if i == start else -2 if i == start + 1 else i for i in range(5)]
    assert operand.tolist() == [0, 1, 2, 3, 4]


def test_dynamic_slice_of_size_zero_and_of_rank_zero():
    assert evaluate(opcodes.DYNAMIC_SLICE, np.arange(5), np.int32(9), dynamic_slice_sizes=(0,)).tolist() == []
    assert evaluate(opcodes.DYNAMIC_SLICE, np.float32(4), dynamic_slice_sizes=()) == 4
    assert evaluate(opcodes.DYNAMIC_UPDATE_SLICE, np.float32(4), np.float32(5)) == 5


def test_dynamic_update_slice_examples_of_the_specification():
    assert evaluate(opcodes.DYNAMIC_UPDATE_SLICE, [0.0, 1.0, 2.0, 3.0, 4.0], [5.0, 6.0], [2]).tolist() == [
        0,
        1,
        5,
        6,
        4,
    ]
    rows = np.arange(12, dtype=np.int32).reshape(4, 3)
    update = [[12, 13], [14, 15], [16, 17]]
    value = evaluate(opcodes.DYNAMIC_UPDATE_SLICE, rows, update, np.int32(1), np.int32(1)).tolist()
    assert value == [[0, 1, 2], [3, 12, 13], [6, 14, 15], [9, 16, 17]]


# Copies and sizes


def test_copy_of_a_tuple_is_the_tuple():
    shape = Shape.parse("(f32[2], s32[])")
    computation = one_instruction(opcodes.COPY, [shape], opcodes.COPY.attributes.make())
    value = (np.zeros(2, np.float32), np.array(3, np.int32))
    assert evaluate_computation(Context(), computation, [value]) is value


def test_bitcast_reads_memory_in_the_order_of_the_layouts():
    def bitcast(operand_shape, result):
        return evaluate(opcodes.BITCAST, MATRIX, operand_shapes=[operand_shape], result=result).tolist()

    assert bitcast("f32[2,3]{1,0}", "f32[6]{0}") == [0, 1, 2, 3, 4, 5]
    assert bitcast("f32[2,3]{0,1}", "f32[6]{0}") == [0, 3, 1, 4, 2, 5]
    assert bitcast("f32[2,3]{1,0}", "f32[3,2]{0,1}") == [[0, 3], [1, 4], [2, 5]]
    assert bitcast("f32[2,3]{1,0}", "f32[2,3]{0,1}") == [[0, 2, 4], [1, 3, 5]]


def test_bitcast_of_higher_rank():
    cube = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    value = evaluate(opcodes.BITCAST, cube, operand_shapes=["s32[2,3,4]{0,2,1}"], result="s32[4,6]{0,1}")
    memory = [cube[i, j, k] for j in range(3) for k in range(4) for i in range(2)]
    assert [value[i, j] for j in range(6) for i in range(4)] == memory


def test_bitcast_reinterprets_bytes():
    assert evaluate(opcodes.BITCAST, [1.0, -2.0], result="u32[2]").tolist() == [0x3F800000, 0xC0000000]
    assert evaluate(opcodes.BITCAST, np.int32([258, -1]), result="u8[8]").tolist() == [2, 1, 0, 0, 255, 255, 255, 255]
    assert evaluate(opcodes.BITCAST, np.uint8([0, 1, 2]), result="pred[3]").tolist() == [False, True, True]
    nibbles = np.array([1, -2, 7, 0], ml_dtypes.int4)
    packed = evaluate(opcodes.BITCAST, nibbles, operand_shapes=["s4[4]{0:E(4)}"], result="u8[2]")
    assert packed.tolist() == [0xE1, 0x07]
    back = evaluate(opcodes.BITCAST, packed, result="s4[4]{0:E(4)}")
    assert back.astype(np.int32).tolist() == [1, -2, 7, 0]


def test_get_dimension_size():
    assert evaluate(opcodes.GET_DIMENSION_SIZE, MATRIX, dimension=1) == np.int32(3)


def test_sizes_of_static_dimensions_are_ignored():
    text = """HloModule m
ENTRY e {
  x = f32[2,3] parameter(0)
  n = s32[] parameter(1)
  y = f32[2,3] set-dimension-size(x, n), dimensions={1}
  ROOT r = f32[6] dynamic-reshape(y, n)
}
"""
    value = evaluate_computation(Context(), parse_hlo(text).entry_computation, [MATRIX, np.int32(3)])
    assert_close(value, MATRIX.reshape(6), rule="bits")


# XLA:CPU

NOT_RUN_BY_XLA = re.compile(r"shuffle\(|<=|vector_index|bitcast_|copy_tuple|dynamic_slice_scalar")


def runnable_samples() -> list[Sample]:
    return [sample for sample in samples_of("movement") if not NOT_RUN_BY_XLA.search(sample.name + sample.text)]


@pytest.mark.parametrize("sample", runnable_samples(), ids=lambda sample: sample.name)
def test_samples_equal_xla_cpu(sample):
    """XLA:CPU moves fnuz numbers through f16, which changes those close to zero; they are not special values here."""
    entry = parse_hlo(sample.text).entry_computation
    for seed in range(3):
        arguments = random_arguments([p.shape for p in entry.parameters], seed, special="fnuz" not in sample.text)
        value = evaluate_computation(Context(), entry, arguments)
        assert_close(value, xla_reference.run_hlo(sample.text, arguments, fast=True), rule="bits", flush_denormals=True)


def test_dynamic_update_slice_of_a_scalar_in_a_reducer():
    text = """
HloModule m

last {
  a = u4[] parameter(0)
  b = u4[] parameter(1)
  ROOT r = u4[] dynamic-update-slice(a, b)
}

ENTRY e {
  x = u4[5] parameter(0)
  zero = u4[] constant(0)
  ROOT r = u4[] reduce(x, zero), dimensions={0}, to_apply=last
}
"""
    x = np.array([3, 1, 4, 1, 5], ml_dtypes.uint4)
    assert int(np.asarray(Client("interpreter").compile(text)(x))) in (0, 5)
