"""Shape rules of data movement: values, and one error for each constraint."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from xlapy import opcodes
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


def refuses(message: str):
    return pytest.raises(ShapeError, match=re.escape(message))


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
    ("operand", "result", "dimensions", "message"),
    [
        ("(f32[])", "f32[2]", (), "broadcast takes arrays, operand is (f32[])"),
        ("f32[2]", "s32[2,3]", (0,), "broadcast keeps the element type: operand f32[2], result s32[2,3]"),
        ("f32[2]", "f32[2,3]", (), "one entry in dimensions for each dimension of the operand f32[2], given []"),
        ("f32[2,2]", "f32[2,2]", (0, 0), "broadcast: dimensions [0, 0] repeat a dimension"),
        ("f32[2]", "f32[2]", (1,), "broadcast: dimension 1 is out of bounds for f32[2] of rank 1"),
        ("f32[2]", "f32[2]", (-1,), "broadcast: dimension -1 is out of bounds for f32[2] of rank 1"),
        (
            "f32[2,1]",
            "f32[2,3]",
            (0, 1),
            "operand dimension 1 of f32[2,1] to result dimension 1 of f32[2,3]: sizes 1 and 3 differ",
        ),
    ],
)
def test_broadcast_refuses(operand, result, dimensions, message):
    with refuses(message):
        verify(opcodes.BROADCAST, result, (operand,), dimensions=dimensions)


# Reshape


def test_reshape_keeps_the_element_count():
    verify(opcodes.RESHAPE, "f32[6]", ("f32[2,3]",))
    verify(opcodes.RESHAPE, "f32[2,<=3]", ("f32[<=6]",), inferred_dimension=1)
    with refuses("reshape keeps the number of elements: operand f32[2,3] has 6, result f32[5] has 5"):
        verify(opcodes.RESHAPE, "f32[5]", ("f32[2,3]",), inferred_dimension=-1)
    with refuses("reshape keeps the element type: operand f32[2,3], result s32[6]"):
        verify(opcodes.RESHAPE, "s32[6]", ("f32[2,3]",), inferred_dimension=-1)
    with refuses("reshape: inferred_dimension 2 is not a dimension of f32[2,3]"):
        verify(opcodes.RESHAPE, "f32[2,3]", ("f32[6]",), inferred_dimension=2)
    with refuses("reshape takes arrays, operand is token[]"):
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
    with refuses("dynamic dimension 0 is both merged with other dimensions and split"):
        ops.reshaped(Shape.parse("f32[<=4,6]"), (8, 3))
    with refuses("dynamic dimension 1 has size 1 and is neither the first nor the last"):
        ops.reshaped(Shape.parse("f32[2,<=1,3]"), (6,))
    with refuses("reshape keeps the number of elements"):
        ops.reshaped(Shape.parse("f32[<=4,6]"), (25,))


def test_dynamic_reshape():
    verify(opcodes.DYNAMIC_RESHAPE, "f32[<=3,2]", ("f32[2,3]", "s32[]", "s32[]"))
    with refuses("dynamic-reshape takes one size operand per dimension of f32[<=3,2], given 1"):
        verify(opcodes.DYNAMIC_RESHAPE, "f32[<=3,2]", ("f32[2,3]", "s32[]"))
    with refuses("dynamic-reshape takes sizes of shape s32[], size 1 is s64[]"):
        verify(opcodes.DYNAMIC_RESHAPE, "f32[<=3,2]", ("f32[2,3]", "s32[]", "s64[]"))
    with refuses("dynamic-reshape keeps the number of elements: operand f32[2,3] has 6, result f32[<=7] has 7"):
        verify(opcodes.DYNAMIC_RESHAPE, "f32[<=7]", ("f32[2,3]", "s32[]"))
    with refuses("dynamic-reshape keeps the element type: operand f32[2,3], result s32[<=6]"):
        verify(opcodes.DYNAMIC_RESHAPE, "s32[<=6]", ("f32[2,3]", "s32[]"))


# Transpose, reverse, shuffle


def test_transpose():
    assert inferred(opcodes.TRANSPOSE, ("f32[2,<=3,4]",), dimensions=(1, 2, 0)) == "f32[<=3,4,2]"
    assert inferred(opcodes.TRANSPOSE, ("f32[]",), dimensions=()) == "f32[]"
    with refuses("transpose takes a permutation of the dimensions of f32[2,3], given [0, 0]"):
        inferred(opcodes.TRANSPOSE, ("f32[2,3]",), dimensions=(0, 0))
    with refuses("transpose takes a permutation of the dimensions of f32[2,3], given [0]"):
        inferred(opcodes.TRANSPOSE, ("f32[2,3]",), dimensions=(0,))
    with refuses("transpose takes arrays, operand is token[]"):
        inferred(opcodes.TRANSPOSE, ("token[]",), dimensions=())


def test_a_declared_shape_must_be_the_inferred_one():
    with refuses("transpose of (f32[2,3]) has shape f32[3,2], declared f32[2,3]"):
        verify(opcodes.TRANSPOSE, "f32[2,3]", ("f32[2,3]",), dimensions=(1, 0))


def test_reverse():
    assert inferred(opcodes.REVERSE, ("f32[2,<=3]",), dimensions=(1,)) == "f32[2,<=3]"
    with refuses("reverse: dimensions [1, 1] repeat a dimension"):
        inferred(opcodes.REVERSE, ("f32[2,3]",), dimensions=(1, 1))
    with refuses("reverse: dimension 2 is out of bounds for f32[2,3] of rank 2"):
        inferred(opcodes.REVERSE, ("f32[2,3]",), dimensions=(2,))


ROTATE, PERMUTE = ops.ShuffleMode.ROTATE, ops.ShuffleMode.PERMUTE


def test_shuffle_rotate():
    assert inferred(opcodes.SHUFFLE, ("f32[2,3]",), dimensions=(1, 0), mode=ROTATE, shifts=(-5, 1)) == "f32[2,3]"
    with refuses("shuffle of mode rotate takes one shift per dimension of [0, 1], given [1]"):
        inferred(opcodes.SHUFFLE, ("f32[2,3]",), dimensions=(0, 1), mode=ROTATE, shifts=(1,))
    with refuses("shuffle of mode rotate takes no indices, given s32[2]"):
        inferred(opcodes.SHUFFLE, ("f32[2]",), dimensions=(0,), mode=ROTATE, indices=Literal.of([0, 1]))
    with refuses("shuffle: dimensions [0, 0] repeat a dimension"):
        inferred(opcodes.SHUFFLE, ("f32[2]",), dimensions=(0, 0), mode=ROTATE, shifts=(1, 1))
    with refuses("shuffle: dimension 1 is out of bounds for f32[2] of rank 1"):
        inferred(opcodes.SHUFFLE, ("f32[2]",), dimensions=(1,), mode=ROTATE, shifts=(1,))


@pytest.mark.parametrize(
    ("dimensions", "sizes"), [((0,), (3, 2)), ((0,), (3, 1)), ((0, 1), (3, 2, 2)), ((1, 0), (1, 2, 2))]
)
def test_shuffle_permute_accepts(dimensions, sizes):
    indices = Literal.of(np.zeros(sizes, np.int8))
    assert inferred(opcodes.SHUFFLE, ("f32[3,2]",), dimensions=dimensions, mode=PERMUTE, indices=indices) == "f32[3,2]"


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        (None, "shuffle of mode permute takes indices and no shifts"),
        (np.zeros((3,), np.int32), "takes integer indices of dimensions [3, 2] (1 where shared), given s32[3]"),
        (np.zeros((2, 2), np.int32), "takes integer indices of dimensions [3, 2] (1 where shared), given s32[2,2]"),
        (np.zeros((3, 2), np.float32), "takes integer indices of dimensions [3, 2] (1 where shared), given f32[3,2]"),
    ],
)
def test_shuffle_permute_refuses(indices, message):
    literal = None if indices is None else Literal.of(indices)
    with refuses(message):
        inferred(opcodes.SHUFFLE, ("f32[3,2]",), dimensions=(0,), mode=PERMUTE, indices=literal)


# Concatenate, slice, pad


def test_concatenate():
    assert inferred(opcodes.CONCATENATE, ("f32[2,3]", "f32[2,0]", "f32[2,4]"), dimension=1) == "f32[2,7]"
    assert inferred(opcodes.CONCATENATE, ("f32[<=2,3]", "f32[4,<=3]"), dimension=0) == "f32[<=6,<=3]"
    assert inferred(opcodes.CONCATENATE, ("f32[2]",), dimension=0) == "f32[2]"


@pytest.mark.parametrize(
    ("operands", "dimension", "message"),
    [
        ((), 0, "concatenate takes at least 1 operands, given 0"),
        (("f32[]", "f32[]"), 0, "concatenate: dimension 0 is out of bounds for f32[] of rank 0"),
        (("f32[2]", "f32[2]"), 1, "concatenate: dimension 1 is out of bounds for f32[2] of rank 1"),
        (
            ("f32[2]", "s32[2]"),
            0,
            "concatenate takes operands of the same element type: operand 0 is f32[2] and operand 1 s32[2]",
        ),
        (("f32[2]", "f32[2,1]"), 0, "only in dimension 0, operand 0 is f32[2] and operand 1 f32[2,1]"),
        (("f32[2,3]", "f32[2,4]"), 0, "only in dimension 0, operand 0 is f32[2,3] and operand 1 f32[2,4]"),
        (("f32[2]", "token[]"), 0, "concatenate takes arrays, operand 1 is token[]"),
    ],
)
def test_concatenate_refuses(operands, dimension, message):
    with refuses(message):
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
    ("ranges", "message"),
    [
        ([], "slice takes one range per dimension of f32[5], given {}"),
        ([(-1, 2, 1)], "slice of f32[5], dimension 0: start -1 is negative"),
        ([(0, 6, 1)], "slice of f32[5], dimension 0: limit 6 is beyond the size 5"),
        ([(3, 2, 1)], "slice of f32[5], dimension 0: start 3 is beyond the limit 2"),
        ([(0, 2, 0)], "slice of f32[5], dimension 0: stride must be at least 1, given 0"),
    ],
)
def test_slice_refuses(ranges, message):
    with refuses(message):
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
    ("value", "dimensions", "message"),
    [
        ("f32[1]", [(0, 0, 0)], "pad takes a scalar padding value, given f32[1]"),
        ("s32[]", [(0, 0, 0)], "pad keeps the element type: operand f32[5], padding value s32[]"),
        ("f32[]", [(0, 0, 0), (1, 1, 0)], "pad takes one padding entry per dimension of f32[5], given '0_0x1_1'"),
        ("f32[]", [(0, 0, -1)], "pad of f32[5], dimension 0: interior padding -1 is negative"),
        ("f32[]", [(-3, -3, 0)], "pad of f32[5] by -3_-3 gives dimension 0 the negative size -1"),
    ],
)
def test_pad_refuses(value, dimensions, message):
    with refuses(message):
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
    ("indices", "sizes", "message"),
    [
        (("s32[]",), (2, 3), "dynamic-slice takes one start index per dimension of f32[5,4], given 1"),
        (("s32[3]",), (2, 3), "dynamic-slice takes one start index per dimension of f32[5,4], given 3"),
        (("f32[]", "f32[]"), (2, 3), "dynamic-slice takes integer scalars as start indices, index 0 is f32[]"),
        (("pred[]", "pred[]"), (2, 3), "dynamic-slice takes integer scalars as start indices, index 0 is pred[]"),
        (("f32[2]",), (2, 3), "dynamic-slice takes integer scalars as start indices, index 0 is f32[2]"),
        (("s32[]", "s32[1]"), (2, 3), "dynamic-slice takes integer scalars as start indices, index 1 is s32[1]"),
        (("s32[]", "s64[]"), (2, 3), "start indices of the same type: index 0 is s32[], index 1 is s64[]"),
        (("s32[]", "s32[]"), (2,), "dynamic-slice takes one size per dimension of f32[5,4], given [2]"),
        (("s32[]", "s32[]"), (2, 5), "size 5 of dimension 1 is not between 0 and the operand's 4 (f32[5,4])"),
        (("s32[]", "s32[]"), (-1, 3), "dynamic-slice size -1 of dimension 0 is not between 0 and the operand's 5"),
    ],
)
def test_dynamic_slice_refuses(indices, sizes, message):
    with refuses(message):
        inferred(opcodes.DYNAMIC_SLICE, ("f32[5,4]", *indices), dynamic_slice_sizes=sizes)


def test_dynamic_update_slice():
    assert inferred(opcodes.DYNAMIC_UPDATE_SLICE, ("f32[5,4]", "f32[2,3]", "s32[]", "s32[]")) == "f32[5,4]"
    assert inferred(opcodes.DYNAMIC_UPDATE_SLICE, ("f32[5,4]", "f32[2,3]", "u16[2]")) == "f32[5,4]"
    assert inferred(opcodes.DYNAMIC_UPDATE_SLICE, ("f32[5,4]", "f32[<=5,<=3]", "s32[]", "s32[]")) == "f32[<=5,4]"
    assert inferred(opcodes.DYNAMIC_UPDATE_SLICE, ("f32[<=5,4]", "f32[2,3]", "s32[]", "s32[]")) == "f32[<=5,4]"


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ("s32[2,3]", "dynamic-update-slice takes operands of the same element type: operand f32[5,4], update s32[2,3]"),
        ("f32[2]", "dynamic-update-slice takes operands of the same rank: operand f32[5,4], update f32[2]"),
        ("f32[2,5]", "dynamic-update-slice: the update f32[2,5] is larger than the operand f32[5,4] in dimension 1"),
        ("token[]", "dynamic-update-slice takes arrays, update is token[]"),
    ],
)
def test_dynamic_update_slice_refuses(update, message):
    with refuses(message):
        inferred(opcodes.DYNAMIC_UPDATE_SLICE, ("f32[5,4]", update, "s32[]", "s32[]"))


# Copies


def test_copy_keeps_any_shape_and_may_change_the_layout():
    assert inferred(opcodes.COPY, ("(f32[2], token[])",)) == "(f32[2], token[])"
    verify(opcodes.COPY, "f32[2,3]{0,1}", ("f32[2,3]{1,0}",))
    with refuses("copy of (f32[2]) has shape f32[2], declared f32[3]"):
        verify(opcodes.COPY, "f32[3]", ("f32[2]",))


def test_bitcast_keeps_the_number_of_bytes():
    for operand, result in (
        ("f32[2,3]", "f32[3,2]{0,1}"),
        ("f32[2]", "u8[8]"),
        ("s4[4]{0:E(4)}", "s8[2]"),
        ("f32[1]", "s32[]"),
    ):
        verify(opcodes.BITCAST, result, (operand,))
    with refuses("bitcast keeps the number of bytes: operand f32[2]{0} has 8, result f64[2]{0} has 16"):
        verify(opcodes.BITCAST, "f64[2]", ("f32[2]",))
    with refuses("bitcast keeps the number of bytes: operand s4[4]{0:E(4)} has 2, result s8[4]{0} has 4"):
        verify(opcodes.BITCAST, "s8[4]", ("s4[4]{0:E(4)}",))
    with refuses("bitcast returns an array, declared (f32[2])"):
        verify(opcodes.BITCAST, "(f32[2])", ("f32[2]",))
    with refuses("bitcast takes arrays, operand is (f32[2])"):
        verify(opcodes.BITCAST, "f32[2]", ("(f32[2])",))


# Sizes of dimensions


def test_get_dimension_size():
    assert inferred(opcodes.GET_DIMENSION_SIZE, ("f32[2,<=3]",), dimension=1) == "s32[]"
    with refuses("get-dimension-size: dimension 2 is out of bounds for f32[2,3] of rank 2"):
        inferred(opcodes.GET_DIMENSION_SIZE, ("f32[2,3]",), dimension=2)
    with refuses("get-dimension-size: dimension 0 of s8[2147483648] is larger than 2147483647"):
        inferred(opcodes.GET_DIMENSION_SIZE, ("s8[2147483648]",), dimension=0)


def test_dynamic_flags_may_differ_in_a_declared_shape():
    verify(opcodes.SET_DIMENSION_SIZE, "f32[2,3]", ("f32[2,3]", "s32[]"), dimension=1)
    with refuses("has shape f32[2,<=3], declared f32[2,4]"):
        verify(opcodes.SET_DIMENSION_SIZE, "f32[2,4]", ("f32[2,3]", "s32[]"), dimension=1)


def test_set_dimension_size():
    assert inferred(opcodes.SET_DIMENSION_SIZE, ("f32[2,3]", "s32[]"), dimension=1) == "f32[2,<=3]"
    with refuses("set-dimension-size takes a size of shape s32[], given s64[]"):
        inferred(opcodes.SET_DIMENSION_SIZE, ("f32[2,3]", "s64[]"), dimension=1)
    with refuses("set-dimension-size takes a size of shape s32[], given s32[1]"):
        inferred(opcodes.SET_DIMENSION_SIZE, ("f32[2,3]", "s32[1]"), dimension=1)
    with refuses("set-dimension-size: dimension -1 is out of bounds for f32[2,3] of rank 2"):
        inferred(opcodes.SET_DIMENSION_SIZE, ("f32[2,3]", "s32[]"), dimension=-1)
    with refuses("set-dimension-size: dimension 0 of s8[2147483648] is larger than 2147483647"):
        inferred(opcodes.SET_DIMENSION_SIZE, ("s8[2147483648]", "s32[]"), dimension=0)
