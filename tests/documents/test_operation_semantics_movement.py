"""Examples and rules of "Operation semantics": constants, iota, and data movement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.documents.examples import Array, built, check, counted, entry, evaluate, f32, run, s32, shape, u32
from tests.raising import Wanted, raises
from xlapy import opcodes, ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.operations import movement as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.builder import XlaBuilder, XlaOp
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension

Build = Callable[..., XlaOp]

V = f32(
    [
        [[10, 11, 12], [15, 16, 17]],
        [[20, 21, 22], [25, 26, 27]],
        [[30, 31, 32], [35, 36, 37]],
        [[40, 41, 42], [45, 46, 47]],
    ]
)
"""The array of 24 elements in the examples of Collapse and Reshape."""

B = f32([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]])
"""The matrix in the examples of Slice, DynamicSlice and DynamicUpdateSlice."""


def refused(build: Build, *shapes: str, wanted: Wanted) -> None:
    with raises(ShapeError, *wanted):
        shape(build, *shapes)


# -- sources


class TestSources:
    def test_constant(self) -> None:
        literal = xla.Literal.of(f32([[1, 2], [3, 4]]))
        check(lambda x: ops.constant_literal(x.builder, literal), (f32(0),), f32([[1, 2], [3, 4]]))

    def test_parameters_are_the_arguments(self) -> None:
        check(lambda x, y: ops.sub(y, x), (s32(5), s32(3)), s32(-2))

    def test_iota_along_dimension_0(self) -> None:
        def build(x: XlaOp) -> XlaOp:
            return ops.iota(x.builder, shape=xla.Shape.parse("s32[4,8]"), iota_dimension=0)

        check(build, (s32(0),), s32([[0] * 8, [1] * 8, [2] * 8, [3] * 8]))

    def test_iota_along_dimension_1(self) -> None:
        def build(x: XlaOp) -> XlaOp:
            return ops.iota(x.builder, xla.Shape.parse("s32[4,8]"), 1)

        check(build, (s32(0),), s32([[0, 1, 2, 3, 4, 5, 6, 7]] * 4))

    @pytest.mark.parametrize("element_type", ["f32", "bf16", "f64"])
    def test_float_iota_is_a_converted_integer_iota(self, element_type: str) -> None:
        def build(x: XlaOp) -> XlaOp:
            return ops.iota(x.builder, xla.Shape.parse(f"{element_type}[2,300]"), 1)

        def other(x: XlaOp) -> XlaOp:
            return ops.convert_element_type(ops.iota(x.builder, xla.Shape.parse("s64[2,300]"), 1), element_type)

        np.testing.assert_array_equal(evaluate(build, s32(0)), evaluate(other, s32(0)), strict=True)

    def test_iota_dimension_must_exist(self) -> None:
        def build(x: XlaOp) -> XlaOp:
            return ops.iota(x.builder, xla.Shape.parse("s32[2]"), 1)

        refused(build, "s32[]", wanted=(shared.DIMENSION_NUMBER, "iota_dimension 1", "s32[2]"))


# -- broadcasts


class TestBroadcast:
    def test_scalar(self) -> None:
        check(lambda x: ops.broadcast(x, [2, 3]), (f32(2.0),), np.full((2, 3), 2.0, np.float32))

    def test_new_dimensions_are_added_on_the_left(self) -> None:
        operand = counted(3, 4)
        result = evaluate(lambda x: ops.broadcast(x, broadcast_sizes=[2, 5]), operand)
        assert result.shape == (2, 5, 3, 4)
        assert all((result[i, j] == operand).all() for i in range(2) for j in range(5))

    def test_in_dim_adds_dimensions_anywhere(self) -> None:
        check(lambda x: ops.broadcast_in_dim(x, [2, 3], [0]), (f32([1, 2]),), f32([[1, 1, 1], [2, 2, 2]]))
        check(lambda x: ops.broadcast_in_dim(x, [2, 3], [1]), (f32([1, 2, 3]),), f32([[1, 2, 3], [1, 2, 3]]))

    def test_in_dim_expands_dimensions_of_size_1(self) -> None:
        check(
            lambda x: ops.broadcast_in_dim(x, [2, 3, 2], [0, 2]),
            (f32([[1, 2]]),),
            np.broadcast_to(f32([1, 2]), (2, 3, 2)).copy(),
        )

    def test_in_dim_refusals(self) -> None:
        refused(
            lambda x: ops.broadcast_in_dim(x, [2, 3], [0]),
            "f32[3]",
            wanted=(builder_codes.COMPATIBLE_SIZES, "dimension 0", "size 3"),
        )
        refused(
            lambda x: ops.broadcast_in_dim(x, [2, 3], [1, 0]), "f32[3,2]", wanted=(builder_codes.ASCENDING_BROADCAST,)
        )
        refused(lambda x: ops.broadcast_in_dim(x, [2, 3], [0, 1]), "f32[3]", wanted=(shared.ENTRY_PER_DIMENSION,))

    def test_only_the_builder_expands_size_1_dimensions(self) -> None:
        text = entry("x = f32[1,2] parameter(0)", "ROOT b = f32[3,2] broadcast(x), dimensions={0,1}")
        with raises(xla.errors.VerificationError, codes.BROADCAST_SIZES, "dimension 0"):
            xla.parse_hlo(text, verify=True)

    def test_unsorted_dimensions_in_text_transpose(self) -> None:
        text = entry("x = s32[2,3] parameter(0)", "ROOT b = s32[3,2] broadcast(x), dimensions={1,0}")
        np.testing.assert_array_equal(run(text, s32([[1, 2, 3], [4, 5, 6]])), [[1, 4], [2, 5], [3, 6]])


# -- reshapes


class TestCollapse:
    """The section swaps the results of {0,1} and {1,2} of f32[4,2,3]; its own rule gives the results here."""

    @pytest.mark.parametrize(("dimensions", "sizes"), [((0, 1, 2), (24,)), ((0, 1), (8, 3)), ((1, 2), (4, 6))])
    def test_example(self, dimensions: tuple[int, ...], sizes: tuple[int, ...]) -> None:
        check(lambda v: ops.collapse(v, dimensions), (V,), V.reshape(sizes))

    def test_all_dimensions_in_row_major_order(self) -> None:
        flat = [10, 11, 12, 15, 16, 17, 20, 21, 22, 25, 26, 27, 30, 31, 32, 35, 36, 37, 40, 41, 42, 45, 46, 47]
        check(lambda v: ops.collapse(v, [0, 1, 2]), (V,), f32(flat))

    def test_higher_numbered_dimensions(self) -> None:
        rows = [[10, 11, 12, 15, 16, 17], [20, 21, 22, 25, 26, 27], [30, 31, 32, 35, 36, 37], [40, 41, 42, 45, 46, 47]]
        check(lambda v: ops.collapse(v, [1, 2]), (V,), f32(rows))

    @pytest.mark.parametrize("dimensions", [[1, 0], [0, 2]])
    def test_dimensions_must_be_consecutive_and_ascending(self, dimensions: Sequence[int]) -> None:
        refused(
            lambda v: ops.collapse(v, dimensions),
            "f32[4,2,3]",
            wanted=(builder_codes.COLLAPSED_DIMENSIONS, "f32[4,2,3]"),
        )


class TestReshape:
    @pytest.mark.parametrize("sizes", [(24,), (8, 3)])
    def test_example(self, sizes: tuple[int, ...]) -> None:
        check(lambda v: ops.reshape(v, sizes), (V,), V.reshape(sizes))

    def test_reshape_to_rows_of_three(self) -> None:
        rows = [[10, 11, 12], [15, 16, 17], [20, 21, 22], [25, 26, 27], [30, 31, 32], [35, 36, 37], [40, 41, 42]]
        check(lambda v: ops.reshape(v, [8, 3]), (V,), f32([*rows, [45, 46, 47]]))

    def test_one_element_and_scalar(self) -> None:
        check(lambda x: ops.reshape(x, []), (f32([[5]]),), f32(5))
        check(lambda x: ops.reshape(x, [1, 1]), (f32(5),), f32([[5]]))

    def test_explicit(self) -> None:
        check(lambda x: ops.reshape(shape=xla.Shape.parse("f32[3,8]"), operand=x), (V,), V.reshape(3, 8))
        check(lambda x: ops.reshape(xla.Shape.parse("f32[3,8]"), x), (V,), V.reshape(3, 8))

    def test_the_element_counts_must_agree(self) -> None:
        refused(lambda x: ops.reshape(x, [5, 5]), "f32[4,2,3]", wanted=(codes.ELEMENT_COUNT, "f32[4,2,3]", "24", "25"))
        refused(lambda x: ops.reshape(xla.Shape.parse("s32[24]"), x), "f32[4,2,3]", wanted=(codes.KEPT_ELEMENT_TYPE,))


class TestDynamicReshape:
    def test_sizes_of_dynamic_dimensions_are_bounds(self) -> None:
        def build(x: XlaOp, *sizes: XlaOp) -> XlaOp:
            return ops.dynamic_reshape(x, dim_sizes=sizes, new_size_bounds=[6, 4], dims_are_dynamic=[True, False])

        assert shape(build, "f32[2,3,4]", "s32[]", "s32[]") == "f32[<=6,4]"
        refused(build, "f32[2,3,4]", "s32[]", wanted=(codes.SIZE_OPERANDS,))
        refused(build, "f32[5]", "s32[]", "s32[]", wanted=(codes.ELEMENT_COUNT,))


class TestTranspose:
    def test_sizes_follow_the_permutation(self) -> None:
        assert shape(lambda x: ops.transpose(x, permutation=[2, 0, 1]), "f32[4,2,3]") == "f32[3,4,2]"

    def test_elements(self) -> None:
        check(lambda x: ops.transpose(x, [2, 0, 1]), (V,), np.ascontiguousarray(V.transpose(2, 0, 1)))

    def test_requires_a_permutation(self) -> None:
        refused(lambda x: ops.transpose(x, [0, 0]), "f32[3,3]", wanted=(codes.PERMUTATION, "f32[3,3]", "[0, 0]"))


class TestRev:
    def test_index_i_becomes_n_minus_1_minus_i(self) -> None:
        operand = counted(3, 4)
        for dimensions in ((), (0,), (1,), (0, 1)):
            result = evaluate(lambda x, d=dimensions: ops.rev(x, dimensions=d), operand)
            for i, j in np.ndindex(3, 4):
                assert result[2 - i if 0 in dimensions else i, 3 - j if 1 in dimensions else j] == operand[i, j]


# -- concatenation, slices, padding


def concatenated(dimension: int) -> Build:
    return lambda *operands: ops.concat_in_dim(operands[0].builder, operands, dimension)


class TestConcatenate:
    def test_one_dimension(self) -> None:
        check(concatenated(0), (s32([2, 3]), s32([4, 5]), s32([6, 7])), s32([2, 3, 4, 5, 6, 7]))

    def test_two_dimensions(self) -> None:
        check(concatenated(0), (s32([[1, 2], [3, 4], [5, 6]]), s32([[7, 8]])), s32([[1, 2], [3, 4], [5, 6], [7, 8]]))

    def test_one_operand(self) -> None:
        check(concatenated(1), (B,), B)

    def test_refusals(self) -> None:
        refused(concatenated(0), "f32[]", wanted=(shared.DIMENSION_NUMBER, "dimension 0", "f32[]", "rank 0"))
        refused(concatenated(1), "f32[2]", wanted=(shared.DIMENSION_NUMBER, "dimension 1", "f32[2]"))
        refused(concatenated(0), "f32[2,3]", "f32[2,4]", wanted=(codes.CONCATENATED_SIZES, "dimension 0"))
        refused(concatenated(0), "f32[2]", "f32[1,2]", wanted=(codes.CONCATENATED_SIZES, "dimension 0"))
        refused(lambda x: ops.concat_in_dim(x.builder, [], 0), "f32[2]", wanted=(shared.OPERAND_COUNT,))


class TestSlice:
    def test_one_dimension(self) -> None:
        check(lambda a: ops.slice(a, [2], [4]), (f32([0, 1, 2, 3, 4]),), f32([2, 3]))

    def test_two_dimensions(self) -> None:
        check(lambda b: ops.slice(b, [2, 1], [4, 3]), (B,), f32([[7, 8], [10, 11]]))

    def test_strides(self) -> None:
        check(lambda b: ops.slice(b, [0, 0], [4, 3], [3, 2]), (B,), f32([[0, 2], [9, 11]]))

    def test_start_may_be_the_limit(self) -> None:
        assert shape(lambda a: ops.slice(a, [1], [1]), "f32[3]") == "f32[0]"

    @pytest.mark.parametrize(
        ("start", "limit", "stride", "wanted"),
        [
            (2, 1, 1, (codes.SLICE_RANGE, "f32[3]", "dimension 0", "start 2", "limit 1")),
            (-1, 1, 1, (codes.SLICE_RANGE, "start -1")),
            (1, 4, 1, (codes.SLICE_RANGE, "limit 4", "size 3")),
            (0, 3, 0, (codes.SLICE_STRIDE, "0")),
        ],
    )
    def test_refusals(self, start: int, limit: int, stride: int, wanted: Wanted) -> None:
        refused(lambda a: ops.slice(a, [start], [limit], [stride]), "f32[3]", wanted=wanted)


def padded(*config: tuple[int, int, int]) -> Build:
    return lambda x: ops.pad(x, 0, padding_config=config)


class TestPad:
    """The first example is the figure of the section: a 2 by 3 matrix, with `(low, high, interior)` per dimension."""

    x = s32([[1, 2, 3], [4, 5, 6]])

    @pytest.mark.parametrize(
        ("config", "expected"),
        [
            (((0, 0, 1), (0, 0, 1)), [[1, 0, 2, 0, 3], [0, 0, 0, 0, 0], [4, 0, 5, 0, 6]]),
            (((0, 1, 0), (1, 2, 0)), [[0, 1, 2, 3, 0, 0], [0, 4, 5, 6, 0, 0], [0] * 6]),
            (((0, 1, 1), (1, 2, 1)), [[0, 1, 0, 2, 0, 3, 0, 0], [0] * 8, [0, 4, 0, 5, 0, 6, 0, 0], [0] * 8]),
        ],
    )
    def test_figure(self, config: Any, expected: Any) -> None:
        check(padded(*config), (self.x,), s32(expected))

    def test_padding_config(self) -> None:
        config = PaddingConfig((PaddingDimension(0, 0, 0), PaddingDimension(1, 0, 0)))
        check(lambda x: ops.pad(x, 9, config), (self.x,), s32([[9, 1, 2, 3], [9, 4, 5, 6]]))

    def test_zero_padding_returns_the_operand(self) -> None:
        check(padded((0, 0, 0), (0, 0, 0)), (self.x,), self.x)

    def test_negative_edge_padding_removes_elements(self) -> None:
        check(padded((-1, 0, 0), (0, -2, 0)), (self.x,), s32([[4]]))

    def test_interior_padding_precedes_negative_edge_padding(self) -> None:
        check(padded((0, 0, 0), (-1, -2, 1)), (self.x,), s32([[0, 2], [0, 5]]))

    def test_interior_padding_must_not_be_negative(self) -> None:
        refused(padded((0, 0, 0), (0, 0, -1)), "s32[2,3]", wanted=(codes.INTERIOR_PADDING, "dimension 1"))

    def test_the_padding_value_must_be_a_scalar_of_the_same_type(self) -> None:
        refused(lambda x, v: ops.pad(x, v, [(0, 0)]), "f32[3]", "f32[1]", wanted=(codes.PADDING_VALUE,))
        refused(
            lambda x, v: ops.pad(x, v, [(0, 0)]),
            "f32[3]",
            "s32[]",
            wanted=(shared.SAME_ELEMENT_TYPE, "f32[3]", "s32[]"),
        )


# -- slices with dynamic start indices


def read(*slice_sizes: int) -> Build:
    return lambda operand, *starts: ops.dynamic_slice(operand, starts, slice_sizes)


def write(operand: XlaOp, update: XlaOp, *starts: XlaOp) -> XlaOp:
    return ops.dynamic_update_slice(operand, update, starts)


class TestDynamicSlice:
    a = f32([0, 1, 2, 3, 4])

    def test_one_dimension(self) -> None:
        check(read(2), (self.a, s32(2)), f32([2, 3]))

    def test_two_dimensions(self) -> None:
        check(read(2, 2), (B, s32(2), s32(1)), f32([[7, 8], [10, 11]]))

    @pytest.mark.parametrize("start", range(-3, 9))
    def test_start_is_clamped(self, start: int) -> None:
        clamped = min(max(start, 0), 5 - 2)
        check(read(2), (self.a, s32(start)), self.a[clamped : clamped + 2])

    def test_every_start_is_clamped(self) -> None:
        check(read(2, 2), (B, s32(9), s32(-9)), f32([[6, 7], [9, 10]]))
        check(read(2, 2), (B, s32(-9), s32(9)), f32([[1, 2], [4, 5]]))

    def test_a_huge_unsigned_start_is_clamped_high(self) -> None:
        check(read(2), (self.a, u32(0xFFFFFFFF)), f32([3, 4]))

    def test_size_0(self) -> None:
        assert evaluate(read(0), self.a, s32(9)).shape == (0,)

    def test_start_indices_as_one_vector(self) -> None:
        check(lambda b, s: ops.dynamic_slice(b, s, [2, 2]), (B, s32([2, 1])), f32([[7, 8], [10, 11]]))

    def test_one_rank_1_operand_in_text(self) -> None:
        text = entry(
            "b = f32[4,3] parameter(0)",
            "s = s32[2] parameter(1)",
            "ROOT d = f32[2,2] dynamic-slice(b, s), dynamic_slice_sizes={2,2}",
        )
        np.testing.assert_array_equal(run(text, B, s32([2, 1])), [[7, 8], [10, 11]])

    def test_refusals(self) -> None:
        refused(read(4), "f32[3]", "s32[]", wanted=(codes.SLICE_SIZES, "size 4", "dimension 0", "operand's"))
        refused(read(1), "f32[3]", "s32[]", "s32[]", wanted=(codes.START_INDEX_COUNT, "f32[3]"))
        refused(read(1), "f32[3]", "f32[]", wanted=(codes.START_INDEX_TYPE,))


class TestDynamicUpdateSlice:
    a = f32([0, 1, 2, 3, 4])

    def test_one_dimension(self) -> None:
        check(write, (self.a, f32([5, 6]), s32(2)), f32([0, 1, 5, 6, 4]))

    def test_two_dimensions(self) -> None:
        update = f32([[12, 13], [14, 15], [16, 17]])
        check(write, (B, update, s32(1), s32(1)), f32([[0, 1, 2], [3, 12, 13], [6, 14, 15], [9, 16, 17]]))

    @pytest.mark.parametrize("start", range(-3, 9))
    def test_start_is_clamped(self, start: int) -> None:
        clamped, expected = min(max(start, 0), 5 - 2), self.a.copy()
        expected[clamped : clamped + 2] = [5, 6]
        check(write, (self.a, f32([5, 6]), s32(start)), expected)

    def test_every_start_is_clamped(self) -> None:
        expected = B.copy()
        expected[3, 0] = 99
        check(write, (B, f32([[99]]), u32(0xFFFFFFFF), u32(0)), expected)

    def test_empty_update(self) -> None:
        check(write, (self.a, f32([]), s32(2)), self.a)

    def test_refusals(self) -> None:
        refused(write, "f32[3]", "f32[4]", "s32[]", wanted=(codes.UPDATE_SIZE, "f32[4]", "f32[3]"))
        refused(write, "f32[3]", "s32[1]", "s32[]", wanted=(shared.SAME_ELEMENT_TYPE,))


class TestGetDimensionSize:
    @pytest.mark.parametrize(("dimension", "size"), [(0, 4), (1, 2), (2, 3)])
    def test_size(self, dimension: int, size: int) -> None:
        check(lambda v: ops.get_dimension_size(v, dimension), (V,), s32(size))

    def test_instruction(self) -> None:
        text = entry("x = f32[4,2] parameter(0)", "ROOT n = s32[] get-dimension-size(x), dimensions={1}")
        np.testing.assert_array_equal(run(text, np.zeros((4, 2), np.float32)), np.int32(2), strict=True)

    def test_dimension_must_be_in_range(self) -> None:
        refused(lambda v: ops.get_dimension_size(v, 3), "f32[4,2,3]", wanted=(shared.DIMENSION_NUMBER, "dimension 3"))
        refused(lambda v: ops.get_dimension_size(v, 0), "(f32[4])", wanted=(shared.DIMENSION_NUMBER, "dimension 0"))


def test_an_array_of_equal_elements_is_a_broadcast() -> None:
    builder = XlaBuilder("zeros")
    made = ops.constant(builder, np.zeros((1000, 1000), np.float32))
    assert [i.op.name for i in made.instruction.parent or ()] == ["constant", "broadcast"]


def test_reshapes_keep_row_major_order() -> None:
    operand: Array = counted(2, 3, 4)
    check(lambda x: ops.reshape(ops.reshape(x, [24]), [4, 6]), (operand,), operand.reshape(4, 6))
    assert built(lambda x: ops.reshape(x, [4, 6]), "f32[2,3,4]").instruction.op is opcodes.RESHAPE
