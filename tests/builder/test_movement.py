"""The builder functions of data movement: instructions, shapes, values, errors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.builder.programs import evaluate, listing, opcode_names, parameters
from tests.raising import Wanted, raises
from xlapy import opcodes, ops
from xlapy.base import Shape, ShapeError
from xlapy.base.element_types import U16
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.operations import movement as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.base.errors import BuilderError
from xlapy.base.literal import Literal
from xlapy.builder import XlaBuilder
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension

A = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


class TestBroadcast:
    def test_new_dimensions_on_the_left(self) -> None:
        (x,) = parameters("f32[3]")
        result = ops.broadcast(x, [4, 2])
        assert result.instruction.dimensions == (2,)
        value = evaluate(result, np.float32([1, 2, 3]))
        np.testing.assert_array_equal(value, np.broadcast_to(np.float32([1, 2, 3]), (4, 2, 3)))

    def test_dynamic_dimension_is_kept(self) -> None:
        (x,) = parameters("f32[<=3]")
        assert ops.broadcast(x, [2]).shape.to_text(layout=False) == "f32[2,<=3]"

    def test_refused(self) -> None:
        x, t = parameters("f32[3]", "(f32[3])")
        with raises(ShapeError, values_codes.DIMENSION_SIZE, "size -1"):
            ops.broadcast(x, [-1])
        with raises(ShapeError, shared.ARRAY_OPERAND, "(f32[3])"):
            ops.broadcast(t, [2])
        with raises(BuilderError, builder_codes.LIST_OF_INTEGERS, "broadcast_sizes"):
            ops.broadcast(x, 3)  # type: ignore[arg-type]


class TestBroadcastInDim:
    def test_the_example_of_the_specification(self) -> None:
        """Broadcasts a vector to rows and to columns."""
        (x,) = parameters("f32[2]")
        rows, columns = ops.broadcast_in_dim(x, [2, 2], [0]), ops.broadcast_in_dim(x, [2, 2], [1])
        value = evaluate(ops.tuple(x.builder, [rows, columns]), np.float32([1, 2]))
        assert [v.tolist() for v in value] == [[[1, 1], [2, 2]], [[1, 2], [1, 2]]]
        assert opcode_names(x) == ["broadcast", "broadcast", "tuple"]

    def test_size_one_is_expanded(self) -> None:
        (x,) = parameters("f32[1,3]")
        result = ops.broadcast_in_dim(x, [2, 4, 3], [1, 2])
        assert opcode_names(result) == ["broadcast", "reshape", "broadcast"]
        value = evaluate(result, np.float32([[1, 2, 3]]))
        np.testing.assert_array_equal(value, np.broadcast_to(np.float32([1, 2, 3]), (2, 4, 3)))

    def test_scalar(self) -> None:
        (x,) = parameters("f32[]")
        assert evaluate(ops.broadcast_in_dim(x, [2], []), np.float32(7)).tolist() == [7, 7]

    @pytest.mark.parametrize(
        ("sizes", "dimensions", "wanted"),
        [
            (
                [2, 3],
                [0],
                (shared.ENTRY_PER_DIMENSION, "broadcast_dimensions", "[0]", "f32[2,3]"),
            ),
            ([2, 3], [0, 2], (shared.DIMENSION_NUMBER, "dimension 2")),
            ([3, 2], [1, 0], (builder_codes.ASCENDING_BROADCAST, "broadcast_dimensions")),
            ([2, 4], [0, 1], (builder_codes.COMPATIBLE_SIZES, "dimension 1", "size 3")),
            ([1, 3], [0, 1], (builder_codes.COMPATIBLE_SIZES, "dimension 0", "size 2")),
        ],
    )
    def test_refused(self, sizes: list[int], dimensions: list[int], wanted: Wanted) -> None:
        (x,) = parameters("f32[2,3]")
        with raises(ShapeError, *wanted, "broadcast_in_dim"):
            ops.broadcast_in_dim(x, sizes, dimensions)


class TestReshape:
    def test_value(self) -> None:
        (x,) = parameters("f32[2,3,4]")
        np.testing.assert_array_equal(evaluate(ops.reshape(x, (np.int64(6), 4)), A), A.reshape(6, 4))

    def test_other_size(self) -> None:
        (x,) = parameters("f32[2,3]")
        with raises(ShapeError, codes.ELEMENT_COUNT, "f32[2,3]"):
            ops.reshape(x, [2, 4])

    def test_dynamic(self) -> None:
        (x,) = parameters("f32[<=6]")
        assert ops.reshape(x, [2, 3]).shape.to_text(layout=False) == "f32[<=2,3]"
        result = ops.reshape_with_inferred_dimension(x, [2, 3], 1)
        assert result.shape.to_text(layout=False) == "f32[2,<=3]"
        assert result.instruction.inferred_dimension == 1

    def test_dynamic_reshape(self) -> None:
        x, n = parameters("f32[6]", "s32[]")
        result = ops.dynamic_reshape(x, [n, n], [2, 3], [True, False])
        assert result.shape.to_text(layout=False) == "f32[<=2,3]"
        with raises(ShapeError, codes.SIZE_OPERANDS):
            ops.dynamic_reshape(x, [n], [2, 3], [True, False])

    def test_collapse(self) -> None:
        (x,) = parameters("f32[2,3,4]")
        assert ops.collapse(x, [1, 2]).shape.to_text(layout=False) == "f32[2,12]"
        assert ops.collapse(x, [0, 1]).shape.to_text(layout=False) == "f32[6,4]"
        assert ops.collapse(x, [0, 1, 2]).shape.to_text(layout=False) == "f32[24]"
        assert ops.collapse(x, [1]) is x

    @pytest.mark.parametrize("dimensions", [[0, 2], [1, 0], [0, 0]])
    def test_collapse_of_dimensions_apart(self, dimensions: list[int]) -> None:
        (x,) = parameters("f32[2,3,4]")
        with raises(ShapeError, builder_codes.COLLAPSED_DIMENSIONS, "f32[2,3,4]"):
            ops.collapse(x, dimensions)

    def test_collapse_of_no_dimension(self) -> None:
        (x,) = parameters("f32[2,3]")
        with raises(ShapeError, shared.DIMENSION_NUMBER, "dimension 2", "f32[2,3]"):
            ops.collapse(x, [1, 2])


class TestPermuting:
    def test_transpose(self) -> None:
        (x,) = parameters("f32[2,3,4]")
        np.testing.assert_array_equal(evaluate(ops.transpose(x, [2, 0, 1]), A), A.transpose(2, 0, 1))
        with raises(ShapeError, codes.PERMUTATION, "f32[2,3,4]", "[0, 1]"):
            ops.transpose(parameters("f32[2,3,4]")[0], [0, 1])

    def test_rev(self) -> None:
        (x,) = parameters("f32[2,3,4]")
        np.testing.assert_array_equal(evaluate(ops.rev(x, [0, 2]), A), A[::-1, :, ::-1])
        with raises(ShapeError, shared.DIMENSION_NUMBER, "dimension 3"):
            ops.rev(parameters("f32[2,3,4]")[0], [3])

    def test_shuffle(self) -> None:
        (x,) = parameters("f32[2,3]")
        assert ops.shuffle_rotate(x, [1], [2]).instruction.shifts == (2,)
        indices = Literal.of(np.int32([[0, 2, 1]]))
        assert ops.shuffle_permute(x, [1], indices).shape.to_text(layout=False) == "f32[2,3]"
        with raises(ShapeError, codes.SHUFFLE_PATTERN):
            ops.shuffle_rotate(x, [1], [])


class TestConcat:
    def test_value(self) -> None:
        x, y = parameters("f32[2,1]", "f32[2,2]")
        result = ops.concat_in_dim(x.builder, [x, y, x], 1)
        value = evaluate(result, np.float32([[1], [2]]), np.float32([[3, 4], [5, 6]]))
        assert value.tolist() == [[1, 3, 4, 1], [2, 5, 6, 2]]

    def test_refused(self) -> None:
        x, y, s = parameters("f32[2,1]", "f32[3,2]", "f32[]")
        with raises(
            ShapeError, codes.CONCATENATED_SIZES, "dimension 1", "operand 0", "f32[2,1]", "operand 1", "f32[3,2]"
        ):
            ops.concat_in_dim(x.builder, [x, y], 1)
        with raises(ShapeError, shared.OPERAND_COUNT, "0"):
            ops.concat_in_dim(x.builder, [], 0)
        with raises(ShapeError, shared.DIMENSION_NUMBER, "dimension 0", "f32"):
            ops.concat_in_dim(x.builder, [s, s], 0)


class TestSlice:
    def test_value(self) -> None:
        (x,) = parameters("f32[2,3,4]")
        result = ops.slice(x, [0, 1, 0], [2, 3, 4], [1, 1, 3])
        np.testing.assert_array_equal(evaluate(result, A), A[0:2, 1:3, 0:4:3])

    def test_strides_default_to_one(self) -> None:
        (x,) = parameters("f32[4]")
        assert ops.slice(x, [1], [1]).shape.to_text(layout=False) == "f32[0]"

    def test_in_dim(self) -> None:
        (x,) = parameters("f32[2,3,4]")
        np.testing.assert_array_equal(evaluate(ops.slice_in_dim(x, 1, 4, 2, 2), A), A[:, :, 1:4:2])
        with raises(ShapeError, shared.DIMENSION_NUMBER, "dimension -1"):
            ops.slice_in_dim(parameters("f32[2]")[0], 0, 1, 1, -1)

    @pytest.mark.parametrize(
        ("arguments", "wanted"),
        [
            (([-1], [2]), (codes.SLICE_RANGE, "start -1")),
            (([0], [5]), (codes.SLICE_RANGE, "limit 5", "size 4")),
            (([3], [2]), (codes.SLICE_RANGE, "start 3", "limit 2")),
            (([0], [2], [0]), (codes.SLICE_STRIDE, "0")),
            (([0, 0], [1, 1]), (shared.ENTRY_PER_DIMENSION,)),
            ((["a"], [2]), (builder_codes.LIST_OF_INTEGERS, "start_indices", "['a']")),
        ],
    )
    def test_refused(self, arguments: tuple[list[int], ...], wanted: Wanted) -> None:
        (x,) = parameters("f32[4]")
        with raises(ShapeError, *wanted):
            ops.slice(x, *arguments)


class TestPad:
    @pytest.mark.parametrize(
        "config", [[(0, 0), (1, 2, 1)], PaddingConfig((PaddingDimension(0, 0), PaddingDimension(1, 2, 1)))]
    )
    def test_value(self, config: PaddingConfig | list[tuple[int, ...]]) -> None:
        (x,) = parameters("f32[1,2]")
        assert evaluate(ops.pad(x, 9, config), np.float32([[1, 2]])).tolist() == [[9, 1, 9, 2, 9, 9]]

    def test_in_dim(self) -> None:
        x, v = parameters("f32[1,3]", "f32[]")
        result = ops.pad_in_dim(x, v, 1, 1, -1)
        assert evaluate(result, np.float32([[1, 2, 3]]), np.float32(0)).tolist() == [[0, 1, 2]]
        with raises(ShapeError, shared.DIMENSION_NUMBER, "dimension 2"):
            ops.pad_in_dim(*parameters("f32[1,3]", "f32[]"), 2, 1, 1)

    def test_refused(self) -> None:
        x, v = parameters("f32[3]", "f32[3]")
        with raises(ShapeError, codes.PADDING_VALUE, "f32[3]"):
            ops.pad(x, v, [(1, 1)])
        with raises(ShapeError, builder_codes.PADDING_FORM, "[1]"):
            ops.pad(x, 0, [(1,)])
        with raises(ShapeError, codes.INTERIOR_PADDING, "-1"):
            ops.pad(x, 0, [(1, 1, -1)])
        assert opcode_names(x) == []


class TestDynamicSlices:
    def test_slice(self) -> None:
        x, i = parameters("f32[2,3,4]", "s32[]")
        result = ops.dynamic_slice(x, [0, i, i], [2, 1, 2])
        np.testing.assert_array_equal(evaluate(result, A, np.int32(2)), A[:, 2:3, 2:4])

    def test_plain_indices_take_the_type_of_the_others(self) -> None:
        x, i = parameters("f32[2,3]", "u16[]")
        result = ops.dynamic_slice(x, [0, i], [1, 1])
        assert [o.shape.element_type for o in result.instruction.operands[1:]] == [U16, U16]

    def test_update(self) -> None:
        x, u = parameters("f32[4]", "f32[2]")
        result = ops.dynamic_update_slice(x, u, [9])
        assert evaluate(result, np.float32([1, 2, 3, 4]), np.float32([7, 8])).tolist() == [1, 2, 7, 8]

    def test_update_by_a_plain_value(self) -> None:
        (x,) = parameters("f32[4]")
        assert evaluate(ops.dynamic_update_slice(x, [5], [1]), np.zeros(4, np.float32)).tolist() == [0, 5, 0, 0]

    def test_refused(self) -> None:
        x, i, j = parameters("f32[4,4]", "s32[]", "s64[]")
        with raises(ShapeError, codes.START_INDEX_COUNT):
            ops.dynamic_slice(x, [i], [1, 1])
        with raises(ShapeError, codes.START_INDEX_TYPE):
            ops.dynamic_slice(x, [i, j], [1, 1])
        with raises(ShapeError, codes.SLICE_SIZES, "size 5", "dimension 0"):
            ops.dynamic_slice(x, [i, i], [5, 1])
        with raises(ShapeError, codes.UPDATE_SIZE):
            ops.dynamic_update_slice(x, ops.pad(x, 0, [(1, 0), (0, 0)]), [i, i])


class TestCopies:
    def test_copy(self) -> None:
        (x,) = parameters("f32[2]")
        assert opcode_names(ops.copy(x)) == ["copy"]

    def test_bitcast(self) -> None:
        (x,) = parameters("f32[2,3]")
        assert ops.bitcast(x, Shape.parse("f32[3,2]{0,1}")).shape.to_text() == "f32[3,2]{0,1}"
        with raises(ShapeError, codes.BITCAST_BYTES):
            ops.bitcast(x, Shape.parse("f32[7]"))


class TestDimensionSizes:
    def test_of_a_dynamic_dimension(self) -> None:
        x, n = parameters("f32[4,3]", "s32[]")
        dynamic = ops.set_dimension_size(x, n, 0)
        assert dynamic.shape.to_text(layout=False) == "f32[<=4,3]"
        assert ops.get_dimension_size(dynamic, 0).instruction.op is opcodes.GET_DIMENSION_SIZE
        assert ops.set_dimension_size(x, 2, 1).shape.to_text(layout=False) == "f32[4,<=3]"

    def test_of_a_static_dimension_is_a_constant(self) -> None:
        (x,) = parameters("f32[4,3]")
        assert evaluate(ops.get_dimension_size(x, 1), np.zeros((4, 3), np.float32)) == 3
        assert opcode_names(x) == ["constant"]

    def test_removed(self) -> None:
        (x,) = parameters("f32[<=4,<=3]{0,1}")
        static = ops.remove_dynamic_dimension(x, 0)
        assert static.shape == Shape.parse("f32[4,<=3]{0,1}")
        assert static.instruction.op is opcodes.SET_DIMENSION_SIZE
        assert static.instruction.operands[1].literal.array == 4
        with raises(ShapeError, shared.DIMENSION_NUMBER, "dimension 2", "f32[<=4,<=3]"):
            ops.remove_dynamic_dimension(x, 2)

    def test_refused(self) -> None:
        x, n = parameters("f32[4,3]", "f32[]")
        with raises(ShapeError, codes.SIZE_OPERAND, "s32[]", "f32[]"):
            ops.set_dimension_size(x, n, 0)
        with raises(ShapeError, shared.DIMENSION_NUMBER, "dimension 2", "f32[4,3]"):
            ops.get_dimension_size(x, 2)


def test_text() -> None:
    builder = XlaBuilder("moves")
    x = ops.parameter(builder, 0, Shape.parse("f32[2,3]"), "x")
    ops.pad(ops.transpose(x, [1, 0])[::2], 0.5, [(1, 0, 0), (0, -1, 0)])
    assert listing(builder.build()) == (
        "ENTRY moves (x: f32[2,3]) -> f32[3,1] {\n"
        "  x = f32[2,3] parameter(0)\n"
        "  transpose = f32[3,2] transpose(x), dimensions={1,0}\n"
        "  slice = f32[2,2] slice(transpose), slice={[0:3:2], [0:2:1]}\n"
        "  constant = f32[] constant(0.5)\n"
        "  ROOT pad = f32[3,1] pad(slice, constant), padding=1_0x0_-1\n"
        "}"
    )
