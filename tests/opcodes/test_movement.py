"""Shape rules of data movement: values, and one error for each constraint."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.raising import Wanted, raises
from xlapy import opcodes
from xlapy.base.error_codes.operations import movement as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.opcodes import movement as ops
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension, SliceRanges
from xlapy.opcodes.registry import OpDef


def shapes(*texts: str) -> list[Shape]:
    return [Shape.parse(text) for text in texts]


def inferred(op: OpDef, operands: tuple[str, ...], **values: Any) -> str:
    return op.result_shape(shapes(*operands), attributes_of(op, values)).to_text(layout=False)


def attributes_of(op: OpDef, values: dict[str, Any]) -> Attributes:
    return op.attributes.make(**values)


def verify(op: OpDef, result: str, operands: tuple[str, ...], **values: Any) -> None:
    op.verify(Shape.parse(result), shapes(*operands), attributes_of(op, values))


def refuses(*wanted: *Wanted):
    return raises(ShapeError, *wanted)


# Broadcast


@pytest.mark.parametrize(
    ("operand", "result", "dimensions"),
    [
        ("f32[]", "f32[2,3]", ()),
        ("f32[3]", "f32[2,3]", (1,)),
        ("f32[2]", "f32[2,3]", (0,)),
        ("f32[2,3]", "f32[3,4,2]", (2, 0)),
        ("f32[<=3]", "f32[2,<=3]", (1,)),
        ("pred[0]", "pred[4,0]", (1,)),
    ],
)
def test_broadcast_accepts(operand, result, dimensions):
    verify(opcodes.BROADCAST, result, (operand,), dimensions=dimensions)


@pytest.mark.parametrize(
    ("operand", "result", "dimensions", "wanted"),
    [
        ("(f32[])", "f32[2]", (), (shared.ARRAY_OPERAND, "(f32[])")),
        ("f32[2]", "s32[2,3]", (0,), (codes.KEPT_ELEMENT_TYPE, "f32[2]", "s32[2,3]")),
        ("f32[2]", "f32[2,3]", (), (shared.ENTRY_PER_DIMENSION, "f32[2]", "[]")),
        ("f32[2,2]", "f32[2,2]", (0, 0), (shared.DISTINCT_DIMENSIONS, "[0, 0]")),
        ("f32[2]", "f32[2]", (1,), (shared.DIMENSION_NUMBER, "dimension 1", "f32[2]", "rank 1")),
        ("f32[2]", "f32[2]", (-1,), (shared.DIMENSION_NUMBER, "dimension -1", "f32[2]", "rank 1")),
        (
            "f32[2,1]",
            "f32[2,3]",
            (0, 1),
            (codes.BROADCAST_SIZES, "dimension 1", "f32[2,1]", "f32[2,3]", "sizes 1"),
        ),
    ],
)
def test_broadcast_refuses(operand, result, dimensions, wanted):
    with refuses(*wanted):
        verify(opcodes.BROADCAST, result, (operand,), dimensions=dimensions)


# Reshape


def test_reshape_keeps_the_element_count():
    verify(opcodes.RESHAPE, "f32[6]", ("f32[2,3]",))
    verify(opcodes.RESHAPE, "f32[2,<=3]", ("f32[<=6]",), inferred_dimension=1)
    with refuses(codes.ELEMENT_COUNT, "f32[2,3]", "f32[5]"):
        verify(opcodes.RESHAPE, "f32[5]", ("f32[2,3]",), inferred_dimension=-1)
    with refuses(codes.KEPT_ELEMENT_TYPE, "f32[2,3]", "s32[6]"):
        verify(opcodes.RESHAPE, "s32[6]", ("f32[2,3]",), inferred_dimension=-1)
    with refuses(codes.INFERRED_DIMENSION, "inferred_dimension 2", "f32[2,3]"):
        verify(opcodes.RESHAPE, "f32[2,3]", ("f32[6]",), inferred_dimension=2)
    with refuses(shared.ARRAY_OPERAND, "token[]"):
        verify(opcodes.RESHAPE, "f32[]", ("token[]",), inferred_dimension=-1)


@pytest.mark.parametrize(
    ("operand", "dimensions", "inferred_dimension", "result"),
    [
        ("f32[2,3]", (6,), -1, "f32[6]"),
        ("f32[1]", (), -1, "f32[]"),
        ("f32[0,3]", (7, 0), -1, "f32[7,0]"),
        ("f32[<=6,2]", (6, 2), -1, "f32[<=6,2]"),
        ("f32[<=6,2]", (12,), -1, "f32[<=12]"),
        ("f32[<=6,<=2]", (12,), -1, "f32[<=12]"),
        ("f32[<=6]", (2, 3), -1, "f32[<=2,3]"),
        ("f32[<=6]", (2, 3), 1, "f32[2,<=3]"),
        ("f32[<=6]", (1, 6), -1, "f32[1,<=6]"),
        ("f32[<=6]", (1, 6), 0, "f32[<=1,6]"),
        ("f32[<=6]", (6, 1), 1, "f32[6,<=1]"),
        ("f32[4,<=6]", (2, 2, 6), -1, "f32[2,2,<=6]"),
        ("f32[4,<=6]", (4, 3, 2), -1, "f32[4,<=3,2]"),
        ("f32[<=1,3]", (3,), -1, "f32[<=3]"),
        ("f32[3,<=1]", (3, 1), -1, "f32[3,<=1]"),
        ("f32[<=1]", (), -1, "f32[]"),
    ],
)
def test_reshaped(operand, dimensions, inferred_dimension, result):
    assert ops.reshaped(Shape.parse(operand), dimensions, inferred_dimension).to_text(layout=False) == result


def test_reshaped_refuses():
    with refuses(codes.DYNAMIC_DIMENSION_OF_RESHAPE, "dimension 0"):
        ops.reshaped(Shape.parse("f32[<=4,6]"), (8, 3))
    with refuses(codes.DYNAMIC_DIMENSION_OF_RESHAPE, "dimension 1", "size 1"):
        ops.reshaped(Shape.parse("f32[2,<=1,3]"), (6,))
    with refuses(codes.ELEMENT_COUNT):
        ops.reshaped(Shape.parse("f32[<=4,6]"), (25,))


def test_dynamic_reshape():
    verify(opcodes.DYNAMIC_RESHAPE, "f32[<=3,2]", ("f32[2,3]", "s32[]", "s32[]"))
    with refuses(codes.SIZE_OPERANDS, "f32[<=3,2]"):
        verify(opcodes.DYNAMIC_RESHAPE, "f32[<=3,2]", ("f32[2,3]", "s32[]"))
    with refuses(codes.SIZE_OPERAND, "s32[]", "size 1", "s64[]"):
        verify(opcodes.DYNAMIC_RESHAPE, "f32[<=3,2]", ("f32[2,3]", "s32[]", "s64[]"))
    with refuses(codes.ELEMENT_COUNT, "f32[2,3]", "f32[<=7]"):
        verify(opcodes.DYNAMIC_RESHAPE, "f32[<=7]", ("f32[2,3]", "s32[]"))
    with refuses(codes.KEPT_ELEMENT_TYPE, "f32[2,3]", "s32[<=6]"):
        verify(opcodes.DYNAMIC_RESHAPE, "s32[<=6]", ("f32[2,3]", "s32[]"))


# Transpose, reverse, shuffle


def test_transpose():
    assert inferred(opcodes.TRANSPOSE, ("f32[2,<=3,4]",), dimensions=(1, 2, 0)) == "f32[<=3,4,2]"
    assert inferred(opcodes.TRANSPOSE, ("f32[]",), dimensions=()) == "f32[]"
    with refuses(codes.PERMUTATION, "f32[2,3]", "[0, 0]"):
        inferred(opcodes.TRANSPOSE, ("f32[2,3]",), dimensions=(0, 0))
    with refuses(codes.PERMUTATION, "f32[2,3]", "[0]"):
        inferred(opcodes.TRANSPOSE, ("f32[2,3]",), dimensions=(0,))
    with refuses(shared.ARRAY_OPERAND, "token[]"):
        inferred(opcodes.TRANSPOSE, ("token[]",), dimensions=())


def test_a_declared_shape_must_be_the_inferred_one():
    with refuses(shared.RESULT_SHAPE, "(f32[2,3])", "f32[3,2]", "f32[2,3]"):
        verify(opcodes.TRANSPOSE, "f32[2,3]", ("f32[2,3]",), dimensions=(1, 0))


def test_reverse():
    assert inferred(opcodes.REVERSE, ("f32[2,<=3]",), dimensions=(1,)) == "f32[2,<=3]"
    with refuses(shared.DISTINCT_DIMENSIONS, "[1, 1]"):
        inferred(opcodes.REVERSE, ("f32[2,3]",), dimensions=(1, 1))
    with refuses(shared.DIMENSION_NUMBER, "dimension 2", "f32[2,3]", "rank 2"):
        inferred(opcodes.REVERSE, ("f32[2,3]",), dimensions=(2,))


ROTATE, PERMUTE = ops.ShuffleMode.ROTATE, ops.ShuffleMode.PERMUTE


def test_shuffle_rotate():
    assert inferred(opcodes.SHUFFLE, ("f32[2,3]",), dimensions=(1, 0), mode=ROTATE, shifts=(-5, 1)) == "f32[2,3]"
    with refuses(codes.SHUFFLE_PATTERN, "[0, 1]", "[1]"):
        inferred(opcodes.SHUFFLE, ("f32[2,3]",), dimensions=(0, 1), mode=ROTATE, shifts=(1,))
    with refuses(codes.SHUFFLE_PATTERN, "s32[2]"):
        inferred(opcodes.SHUFFLE, ("f32[2]",), dimensions=(0,), mode=ROTATE, indices=Literal.of([0, 1]))
    with refuses(shared.DISTINCT_DIMENSIONS, "[0, 0]"):
        inferred(opcodes.SHUFFLE, ("f32[2]",), dimensions=(0, 0), mode=ROTATE, shifts=(1, 1))
    with refuses(shared.DIMENSION_NUMBER, "dimension 1", "f32[2]", "rank 1"):
        inferred(opcodes.SHUFFLE, ("f32[2]",), dimensions=(1,), mode=ROTATE, shifts=(1,))


@pytest.mark.parametrize(
    ("dimensions", "sizes"), [((0,), (3, 2)), ((0,), (3, 1)), ((0, 1), (3, 2, 2)), ((1, 0), (1, 2, 2))]
)
def test_shuffle_permute_accepts(dimensions, sizes):
    indices = Literal.of(np.zeros(sizes, np.int8))
    assert inferred(opcodes.SHUFFLE, ("f32[3,2]",), dimensions=dimensions, mode=PERMUTE, indices=indices) == "f32[3,2]"


@pytest.mark.parametrize(
    ("indices", "wanted"),
    [
        (None, (codes.SHUFFLE_PATTERN,)),
        (np.zeros((3,), np.int32), (codes.SHUFFLE_INDICES, "[3, 2]", "s32[3]")),
        (np.zeros((2, 2), np.int32), (codes.SHUFFLE_INDICES, "[3, 2]", "s32[2,2]")),
        (np.zeros((3, 2), np.float32), (codes.SHUFFLE_INDICES, "[3, 2]", "f32[3,2]")),
    ],
)
def test_shuffle_permute_refuses(indices, wanted):
    literal = None if indices is None else Literal.of(indices)
    with refuses(*wanted):
        inferred(opcodes.SHUFFLE, ("f32[3,2]",), dimensions=(0,), mode=PERMUTE, indices=literal)


# Concatenate, slice, pad


def test_concatenate():
    assert inferred(opcodes.CONCATENATE, ("f32[2,3]", "f32[2,0]", "f32[2,4]"), dimension=1) == "f32[2,7]"
    assert inferred(opcodes.CONCATENATE, ("f32[<=2,3]", "f32[4,<=3]"), dimension=0) == "f32[<=6,<=3]"
    assert inferred(opcodes.CONCATENATE, ("f32[2]",), dimension=0) == "f32[2]"


@pytest.mark.parametrize(
    ("operands", "dimension", "wanted"),
    [
        ((), 0, (shared.OPERAND_COUNT, "0")),
        (("f32[]", "f32[]"), 0, (shared.DIMENSION_NUMBER, "dimension 0", "f32[]", "rank 0")),
        (("f32[2]", "f32[2]"), 1, (shared.DIMENSION_NUMBER, "dimension 1", "f32[2]", "rank 1")),
        (
            ("f32[2]", "s32[2]"),
            0,
            (shared.SAME_ELEMENT_TYPE, "operand 0", "f32[2]", "operand 1", "s32[2]"),
        ),
        (
            ("f32[2]", "f32[2,1]"),
            0,
            (codes.CONCATENATED_SIZES, "dimension 0", "operand 0", "f32[2]", "operand 1", "f32[2,1]"),
        ),
        (
            ("f32[2,3]", "f32[2,4]"),
            0,
            (codes.CONCATENATED_SIZES, "dimension 0", "operand 0", "f32[2,3]", "operand 1", "f32[2,4]"),
        ),
        (("f32[2]", "token[]"), 0, (shared.ARRAY_OPERAND, "operand 1", "token[]")),
    ],
)
def test_concatenate_refuses(operands, dimension, wanted):
    with refuses(*wanted):
        inferred(opcodes.CONCATENATE, operands, dimension=dimension)


def slice_of(operand: str, *ranges: tuple[int, int, int]) -> str:
    columns = zip(*ranges, strict=True) if ranges else ((), (), ())
    return inferred(opcodes.SLICE, (operand,), ranges=SliceRanges(*map(tuple, columns)))


def test_slice():
    assert slice_of("f32[10,7]", (0, 10, 3), (1, 7, 2)) == "f32[4,3]"
    assert slice_of("f32[5]", (5, 5, 1)) == "f32[0]"
    assert slice_of("f32[]") == "f32[]"
    assert slice_of("f32[<=5,<=4]", (0, 3, 1), (2, 3, 1)) == "f32[<=3,1]"


@pytest.mark.parametrize(
    ("ranges", "wanted"),
    [
        ([], (shared.ENTRY_PER_DIMENSION, "f32[5]", "{}")),
        ([(-1, 2, 1)], (codes.SLICE_RANGE, "f32[5]", "dimension 0", "start -1")),
        ([(0, 6, 1)], (codes.SLICE_RANGE, "f32[5]", "dimension 0", "limit 6", "size 5")),
        ([(3, 2, 1)], (codes.SLICE_RANGE, "f32[5]", "dimension 0", "start 3", "limit 2")),
        ([(0, 2, 0)], (codes.SLICE_STRIDE, "f32[5]", "dimension 0")),
    ],
)
def test_slice_refuses(ranges, wanted):
    with refuses(*wanted):
        slice_of("f32[5]", *ranges)


def pad_of(operand: str, value: str, *dimensions: tuple[int, int, int]) -> str:
    config = PaddingConfig(tuple(PaddingDimension(*entry) for entry in dimensions))
    return inferred(opcodes.PAD, (operand, value), padding=config)


def test_pad():
    assert pad_of("f32[2,3]", "f32[]", (1, 2, 0), (0, 0, 1)) == "f32[5,5]"
    assert pad_of("f32[5]", "f32[]", (-2, -3, 0)) == "f32[0]"
    assert pad_of("f32[0]", "f32[]", (1, 2, 9)) == "f32[3]"
    assert pad_of("f32[<=5]", "f32[]", (1, 1, 1)) == "f32[<=11]"


@pytest.mark.parametrize(
    ("value", "dimensions", "wanted"),
    [
        ("f32[1]", [(0, 0, 0)], (codes.PADDING_VALUE, "f32[1]")),
        ("s32[]", [(0, 0, 0)], (shared.SAME_ELEMENT_TYPE, "f32[5]", "s32[]")),
        ("f32[]", [(0, 0, 0), (1, 1, 0)], (shared.ENTRY_PER_DIMENSION, "f32[5]", "'0_0x1_1'")),
        ("f32[]", [(0, 0, -1)], (codes.INTERIOR_PADDING, "f32[5]", "dimension 0")),
        ("f32[]", [(-3, -3, 0)], (codes.NEGATIVE_PADDING, "f32[5]", "-3_-3", "dimension 0", "size -1")),
    ],
)
def test_pad_refuses(value, dimensions, wanted):
    with refuses(*wanted):
        pad_of("f32[5]", value, *dimensions)


# Slices at run-time positions


def test_dynamic_slice():
    sizes = (2, 3)
    for indices in (("s32[]", "s32[]"), ("u8[]", "u8[]"), ("s64[2]",)):
        assert inferred(opcodes.DYNAMIC_SLICE, ("f32[5,4]", *indices), dynamic_slice_sizes=sizes) == "f32[2,3]"
    assert inferred(opcodes.DYNAMIC_SLICE, ("f32[]",), dynamic_slice_sizes=()) == "f32[]"
    assert (
        inferred(opcodes.DYNAMIC_SLICE, ("f32[<=5,<=4]", "s32[]", "s32[]"), dynamic_slice_sizes=(5, 2)) == "f32[<=5,2]"
    )


@pytest.mark.parametrize(
    ("indices", "sizes", "wanted"),
    [
        (("s32[]",), (2, 3), (codes.START_INDEX_COUNT, "f32[5,4]")),
        (("s32[3]",), (2, 3), (codes.START_INDEX_COUNT, "f32[5,4]")),
        (("f32[]", "f32[]"), (2, 3), (codes.START_INDEX_TYPE, "index 0", "f32[]")),
        (("pred[]", "pred[]"), (2, 3), (codes.START_INDEX_TYPE, "index 0", "pred[]")),
        (("f32[2]",), (2, 3), (codes.START_INDEX_TYPE, "index 0", "f32[2]")),
        (("s32[]", "s32[1]"), (2, 3), (codes.START_INDEX_TYPE, "index 1", "s32[1]")),
        (("s32[]", "s64[]"), (2, 3), (codes.START_INDEX_TYPE, "index 0", "s32[]", "index 1", "s64[]")),
        (("s32[]", "s32[]"), (2,), (shared.ENTRY_PER_DIMENSION, "f32[5,4]", "[2]")),
        (("s32[]", "s32[]"), (2, 5), (codes.SLICE_SIZES, "size 5", "dimension 1", "operand's", "(f32[5,4])")),
        (("s32[]", "s32[]"), (-1, 3), (codes.SLICE_SIZES, "size -1", "dimension 0", "operand's")),
    ],
)
def test_dynamic_slice_refuses(indices, sizes, wanted):
    with refuses(*wanted):
        inferred(opcodes.DYNAMIC_SLICE, ("f32[5,4]", *indices), dynamic_slice_sizes=sizes)


def test_dynamic_update_slice():
    assert inferred(opcodes.DYNAMIC_UPDATE_SLICE, ("f32[5,4]", "f32[2,3]", "s32[]", "s32[]")) == "f32[5,4]"
    assert inferred(opcodes.DYNAMIC_UPDATE_SLICE, ("f32[5,4]", "f32[2,3]", "u16[2]")) == "f32[5,4]"
    assert inferred(opcodes.DYNAMIC_UPDATE_SLICE, ("f32[5,4]", "f32[<=5,<=3]", "s32[]", "s32[]")) == "f32[<=5,4]"
    assert inferred(opcodes.DYNAMIC_UPDATE_SLICE, ("f32[<=5,4]", "f32[2,3]", "s32[]", "s32[]")) == "f32[<=5,4]"


@pytest.mark.parametrize(
    ("update", "wanted"),
    [
        ("s32[2,3]", (shared.SAME_ELEMENT_TYPE, "f32[5,4]", "s32[2,3]")),
        ("f32[2]", (codes.UPDATE_SIZE, "f32[5,4]", "f32[2]")),
        ("f32[2,5]", (codes.UPDATE_SIZE, "f32[2,5]", "f32[5,4]", "dimension 1")),
        ("token[]", (shared.ARRAY_OPERAND, "token[]")),
    ],
)
def test_dynamic_update_slice_refuses(update, wanted):
    with refuses(*wanted):
        inferred(opcodes.DYNAMIC_UPDATE_SLICE, ("f32[5,4]", update, "s32[]", "s32[]"))


# Copies


def test_copy_keeps_any_shape_and_may_change_the_layout():
    assert inferred(opcodes.COPY, ("(f32[2], token[])",)) == "(f32[2], token[])"
    verify(opcodes.COPY, "f32[2,3]{0,1}", ("f32[2,3]{1,0}",))
    with refuses(shared.RESULT_SHAPE, "(f32[2])", "f32[2]", "f32[3]"):
        verify(opcodes.COPY, "f32[3]", ("f32[2]",))


def test_bitcast_keeps_the_number_of_bytes():
    for operand, result in (
        ("f32[2,3]", "f32[3,2]{0,1}"),
        ("f32[2]", "u8[8]"),
        ("s4[4]{0:E(4)}", "s8[2]"),
        ("f32[1]", "s32[]"),
    ):
        verify(opcodes.BITCAST, result, (operand,))
    with refuses(codes.BITCAST_BYTES, "f32[2]{0}", "f64[2]{0}", "16"):
        verify(opcodes.BITCAST, "f64[2]", ("f32[2]",))
    with refuses(codes.BITCAST_BYTES, "s4[4]{0:E(4)}", "s8[4]{0}"):
        verify(opcodes.BITCAST, "s8[4]", ("s4[4]{0:E(4)}",))
    with refuses(shared.ARRAY_RESULT, "(f32[2])"):
        verify(opcodes.BITCAST, "(f32[2])", ("f32[2]",))
    with refuses(shared.ARRAY_OPERAND, "(f32[2])"):
        verify(opcodes.BITCAST, "f32[2]", ("(f32[2])",))


# Sizes of dimensions


def test_get_dimension_size():
    assert inferred(opcodes.GET_DIMENSION_SIZE, ("f32[2,<=3]",), dimension=1) == "s32[]"
    with refuses(shared.DIMENSION_NUMBER, "dimension 2", "f32[2,3]", "rank 2"):
        inferred(opcodes.GET_DIMENSION_SIZE, ("f32[2,3]",), dimension=2)
    with refuses(codes.DIMENSION_SIZE_LIMIT, "dimension 0", "s8[2147483648]", "2147483647"):
        inferred(opcodes.GET_DIMENSION_SIZE, ("s8[2147483648]",), dimension=0)


def test_dynamic_flags_may_differ_in_a_declared_shape():
    verify(opcodes.SET_DIMENSION_SIZE, "f32[2,3]", ("f32[2,3]", "s32[]"), dimension=1)
    with refuses(shared.RESULT_SHAPE, "f32[2,<=3]", "f32[2,4]"):
        verify(opcodes.SET_DIMENSION_SIZE, "f32[2,4]", ("f32[2,3]", "s32[]"), dimension=1)


def test_set_dimension_size():
    assert inferred(opcodes.SET_DIMENSION_SIZE, ("f32[2,3]", "s32[]"), dimension=1) == "f32[2,<=3]"
    with refuses(codes.SIZE_OPERAND, "s32[]", "s64[]"):
        inferred(opcodes.SET_DIMENSION_SIZE, ("f32[2,3]", "s64[]"), dimension=1)
    with refuses(codes.SIZE_OPERAND, "s32[]", "s32[1]"):
        inferred(opcodes.SET_DIMENSION_SIZE, ("f32[2,3]", "s32[1]"), dimension=1)
    with refuses(shared.DIMENSION_NUMBER, "dimension -1", "f32[2,3]", "rank 2"):
        inferred(opcodes.SET_DIMENSION_SIZE, ("f32[2,3]", "s32[]"), dimension=-1)
    with refuses(codes.DIMENSION_SIZE_LIMIT, "dimension 0", "s8[2147483648]", "2147483647"):
        inferred(opcodes.SET_DIMENSION_SIZE, ("s8[2147483648]", "s32[]"), dimension=0)
