"""Examples and rules of "Operation semantics": Dot and DotGeneral, Conv and its general forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.documents.examples import Array, built, check, counted, evaluate, f32, shape
from tests.raising import Wanted, raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.operations import contraction as contraction_codes
from xlapy.base.error_codes.operations import convolution as codes
from xlapy.builder import XlaOp
from xlapy.builder.contraction import DotDimensionNumbers, PrecisionConfig
from xlapy.builder.core.padding import Padding
from xlapy.opcodes.attributes.dimensions import ConvDimensions, Precision

Build = Callable[..., XlaOp]

F64 = PrimitiveType.from_text("f64")


class TestDot:
    def test_vectors(self) -> None:
        check(ops.dot, (f32([1, 2, 3]), f32([4, 5, 6])), f32(32))

    def test_matrix_and_vector(self) -> None:
        check(ops.dot, (f32([[1, 2, 3], [4, 5, 6]]), f32([1, 10, 100])), f32([321, 654]))

    def test_matrices(self) -> None:
        lhs, rhs = counted(2, 3, first=1), counted(3, 4, first=1)
        check(ops.dot, (lhs, rhs), lhs @ rhs)

    @pytest.mark.parametrize(
        ("lhs", "rhs", "result"),
        [
            ("f32[5]", "f32[5]", "f32[]"),
            ("f32[7,5]", "f32[5]", "f32[7]"),
            ("f32[7,5]", "f32[5,3]", "f32[7,3]"),
            ("f32[5]", "f32[5,3]", "f32[3]"),
        ],
    )
    def test_shapes(self, lhs: str, rhs: str, result: str) -> None:
        assert shape(ops.dot, lhs, rhs) == result

    def test_contracted_sizes_must_agree(self) -> None:
        with raises(
            ShapeError,
            contraction_codes.DOT_PAIR_SIZES,
            "sizes 3",
            "lhs dimension 1",
            "f32[2,3]",
            "rhs dimension 0",
            "f32[2,4]",
        ):
            shape(ops.dot, "f32[2,3]", "f32[2,4]")


def dot_general(
    lhs_contracting: Sequence[int] = (),
    rhs_contracting: Sequence[int] = (),
    lhs_batch: Sequence[int] = (),
    rhs_batch: Sequence[int] = (),
    **options: Any,
) -> Build:
    numbers = DotDimensionNumbers(
        lhs_contracting_dimensions=lhs_contracting,
        rhs_contracting_dimensions=rhs_contracting,
        lhs_batch_dimensions=lhs_batch,
        rhs_batch_dimensions=rhs_batch,
    )
    return lambda lhs, rhs: ops.dot_general(lhs, rhs, dimension_numbers=numbers, **options)


class TestDotGeneral:
    def test_contracting_dimensions(self) -> None:
        lhs, rhs = f32([[1, 2, 3], [4, 5, 6]]), f32([[1, 1, 1], [2, 2, 2]])
        check(dot_general([1], [1]), (lhs, rhs), f32([[6, 12], [15, 30]]))

    def test_batch_dimensions(self) -> None:
        lhs, rhs = f32([[[1, 2], [3, 4]], [[5, 6], [7, 8]]]), f32([[[1, 0], [0, 1]], [[1, 0], [0, 1]]])
        check(dot_general([2], [1], [0], [0]), (lhs, rhs), lhs)

    def test_batch_matmul(self) -> None:
        lhs, rhs = counted(2, 3, 4), counted(2, 4, 5)
        check(dot_general([2], [1], [0], [0]), (lhs, rhs), lhs @ rhs)

    def test_batch_matmul_of_two_batch_dimensions(self) -> None:
        lhs, rhs = counted(2, 3, 2, 4), counted(2, 3, 4, 3)
        check(dot_general([3], [2], [0, 1], [0, 1]), (lhs, rhs), lhs @ rhs)

    def test_result_is_batch_then_lhs_then_rhs(self) -> None:
        build = dot_general([0, 3], [3, 1], [2], [2])
        assert shape(build, "f32[2,3,4,5,6]", "f32[7,5,4,2,8]") == "f32[4,3,6,7,8]"

    def test_all_pairs_without_contraction(self) -> None:
        check(dot_general(), (f32([1, 2]), f32([3, 4])), f32([[3, 4], [6, 8]]))

    @pytest.mark.parametrize(
        ("build", "wanted"),
        [
            (
                dot_general([1], [1]),
                (contraction_codes.DOT_PAIR_SIZES, "contracting pair 0", "sizes 3", "f32[2,3]", "f32[5,4]"),
            ),
            (
                dot_general([], [], [0], [0]),
                (contraction_codes.DOT_PAIR_SIZES, "batch pair 0", "sizes 2", "f32[2,3]", "f32[5,4]"),
            ),
        ],
    )
    def test_paired_sizes_must_agree(self, build: Build, wanted: Wanted) -> None:
        with raises(ShapeError, *wanted):
            shape(build, "f32[2,3]", "f32[5,4]")

    @pytest.mark.parametrize("precision", [Precision.DEFAULT, Precision.HIGH, Precision.HIGHEST])
    def test_precision_config_changes_no_value(self, precision: Precision) -> None:
        config = PrecisionConfig(operand_precision=(precision, precision))
        check(dot_general([1], [0], precision_config=config), (f32([[1, 2]]), f32([[3], [4]])), f32([[11]]))

    def test_precision_config_is_printed(self) -> None:
        config = PrecisionConfig(operand_precision=(Precision.HIGH, Precision.HIGHEST))
        computation = built(dot_general([0], [0], precision_config=config), "f32[3]", "f32[3]").builder.build()
        assert "operand_precision={high,highest}" in computation.as_hlo_text()

    def test_preferred_element_type(self) -> None:
        build = dot_general([0], [0], preferred_element_type=F64)
        tiny = f32([1, 2**-20])
        check(build, (tiny, tiny), np.array(1 + 2**-40))
        assert (
            shape(dot_general([0], [0], preferred_element_type=PrimitiveType.from_text("s32")), "s8[3]", "s8[3]")
            == "s32[]"
        )


# -- convolution


def convolved(lhs: Array, rhs: Array, strides: Any, low: Any, high: Any) -> Array:
    """Computes a 2-d convolution with padding and strides by the loop of the section."""
    (batch, depth, *base), (outputs, _, *window) = lhs.shape, rhs.shape
    sizes = [(b + lo + hi - w) // s + 1 for b, w, s, lo, hi in zip(base, window, strides, low, high, strict=True)]
    output = np.zeros((batch, outputs, *sizes), np.float32)
    for b, oz, oy, ox in np.ndindex(output.shape):
        for iz, ky, kx in np.ndindex(depth, *window):
            iy, ix = oy * strides[0] + ky - low[0], ox * strides[1] + kx - low[1]
            if 0 <= iy < base[0] and 0 <= ix < base[1]:
                output[b, oz, oy, ox] += lhs[b, iz, iy, ix] * rhs[oz, iz, ky, kx]
    return output


def conv(*window_strides: int, padding: Any = "VALID", **options: Any) -> Build:
    return lambda lhs, rhs: ops.conv(lhs, rhs, window_strides, padding, **options)


def dilated(
    *, strides: Any = (1,), padding: Any = ((0, 0),), lhs: Any = (1,), rhs: Any = (1,), **options: Any
) -> Build:
    return lambda x, y: ops.conv_general_dilated(
        x, y, strides, padding, lhs_dilation=lhs, rhs_dilation=rhs, dimension_numbers=None, **options
    )


LHS, RHS = counted(2, 3, 4, 5), counted(4, 3, 2, 3, first=-30)


class TestConv:
    @pytest.mark.parametrize(
        ("strides", "padding"),
        [
            ((1, 1), [(0, 0), (0, 0)]),
            ((2, 3), [(1, 2), (2, 3)]),
            ((1, 2), [(-1, 0), (0, -2)]),
            ((3, 1), [(0, 2), (-1, 3)]),
        ],
    )
    def test_equals_the_loop_of_the_section(self, strides: tuple[int, ...], padding: list[tuple[int, int]]) -> None:
        low, high = zip(*padding, strict=True)
        check(conv(*strides, padding=padding), (LHS, RHS), convolved(LHS, RHS, strides, low, high))

    def test_padding_2_3_is_two_zeros_before_and_three_after(self) -> None:
        x, kernel = f32([[[7, 8, 9]]]), f32([[[1]]])
        check(conv(1, padding=[(2, 3)]), (x, kernel), f32([[[0, 0, 7, 8, 9, 0, 0, 0]]]))

    def test_negative_padding_removes(self) -> None:
        check(conv(1, padding=[(-1, -2)]), (f32([[[1, 2, 3, 4, 5]]]), f32([[[1]]])), f32([[[2, 3]]]))

    def test_padding_equals_zeros_in_the_input(self) -> None:
        wide = np.pad(LHS, [(0, 0), (0, 0), (2, 3), (1, 0)])
        check(conv(1, 1, padding=[(2, 3), (1, 0)]), (LHS, RHS), evaluate(conv(1, 1), wide, RHS))

    def test_a_stride_of_3_takes_every_third_position(self) -> None:
        check(conv(3), (f32([[[1, 2, 3, 4, 5, 6, 7]]]), f32([[[1]]])), f32([[[1, 4, 7]]]))

    def test_same_padding_divides_the_shape_by_the_strides(self) -> None:
        assert shape(conv(1, 1, padding=Padding.SAME), "f32[2,3,8,9]", "f32[5,3,3,4]") == "f32[2,5,8,9]"
        assert shape(conv(3, 2, padding="SAME"), "f32[2,3,8,9]", "f32[5,3,3,4]") == "f32[2,5,3,5]"

    def test_same_padding_of_a_dilated_kernel_keeps_the_shape(self) -> None:
        build = dilated(strides=(1, 1), padding="SAME", lhs=(), rhs=(2, 3))
        assert shape(build, "f32[2,3,8,9]", "f32[5,3,3,4]") == "f32[2,5,8,9]"

    def test_same_padding_puts_the_larger_half_high(self) -> None:
        check(conv(1, padding="SAME"), (f32([[[1, 2, 3]]]), f32([[[1, 10]]])), f32([[[21, 32, 3]]]))

    def test_valid_means_no_padding(self) -> None:
        assert shape(conv(1, 1, padding=Padding.VALID), "f32[2,3,8,9]", "f32[5,3,3,4]") == "f32[2,5,6,6]"

    def test_output_is_batch_then_output_features_then_positions(self) -> None:
        assert shape(conv(2, 1, padding=[(1, 0), (0, 2)]), "f32[6,3,8,9]", "f32[5,3,3,4]") == "f32[6,5,4,8]"

    def test_input_features_must_agree(self) -> None:
        with raises(ShapeError, codes.INPUT_FEATURES, "(f32[5,2,3])"):
            shape(conv(1), "f32[2,3,8]", "f32[5,2,3]")


class TestDilation:
    def test_input_dilation_inserts_zeros(self) -> None:
        x, kernel = f32([[[1, 2, 3]]]), f32([[[1, 10]]])
        check(dilated(lhs=(3,)), (x, kernel), evaluate(conv(1), f32([[[1, 0, 0, 2, 0, 0, 3]]]), kernel))

    def test_kernel_dilation_inserts_zeros(self) -> None:
        x, kernel = f32([[[1, 2, 3, 4, 5]]]), f32([[[1, 10]]])
        check(dilated(rhs=(3,)), (x, kernel), evaluate(conv(1), x, f32([[[1, 0, 0, 10]]])))

    def test_input_and_kernel_dilation_in_two_dimensions(self) -> None:
        wide, holed = np.zeros((2, 3, 7, 5), np.float32), np.zeros((4, 3, 2, 5), np.float32)
        wide[:, :, ::2], holed[..., ::2] = LHS, RHS
        build = dilated(strides=(1, 2), padding=((1, 0), (0, 1)), lhs=(2, 1), rhs=(1, 2))
        check(build, (LHS, RHS), convolved(wide, holed, (1, 2), (1, 0), (0, 1)))

    def test_window_reversal_reverses_the_kernel(self) -> None:
        build = dilated(window_reversal=[True])
        check(build, (f32([[[1, 2, 3]]]), f32([[[1, 10]]])), f32([[[12, 23]]]))


class TestGroups:
    def test_feature_groups_are_separate_convolutions(self) -> None:
        lhs, rhs = counted(2, 4, 5), counted(6, 2, 3)
        parts = [evaluate(conv(1), lhs[:, 2 * g : 2 * g + 2], rhs[3 * g : 3 * g + 3]) for g in range(2)]
        check(conv(1, feature_group_count=2), (lhs, rhs), np.concatenate(parts, axis=1))

    def test_depthwise(self) -> None:
        lhs, rhs = counted(1, 3, 4), counted(6, 1, 2)
        channels = [evaluate(conv(1), lhs[:, [f // 2]], rhs[[f]]) for f in range(6)]
        check(conv(1, feature_group_count=3), (lhs, rhs), np.concatenate(channels, axis=1))

    def test_batch_groups_use_their_share_of_the_output_features(self) -> None:
        lhs, rhs = counted(4, 2, 5), counted(6, 2, 3)
        parts = [evaluate(conv(1), lhs[2 * g : 2 * g + 2], rhs[3 * g : 3 * g + 3]) for g in range(2)]
        check(conv(1, batch_group_count=2), (lhs, rhs), np.concatenate(parts, axis=1))

    def test_batch_groups_must_divide_the_batch(self) -> None:
        assert shape(conv(1, batch_group_count=3), "f32[6,2,5]", "f32[9,2,3]") == "f32[2,9,3]"

    @pytest.mark.parametrize(
        ("lhs", "rhs", "groups", "wanted"),
        [
            ("f32[4,4,5]", "f32[3,1,3]", {"feature_group_count": 3}, (codes.GROUP_COUNT_DIVIDES, "feature size 4")),
            ("f32[4,4,5]", "f32[3,2,3]", {"feature_group_count": 2}, (codes.GROUP_COUNT_DIVIDES, "feature size 3")),
            (
                "f32[4,4,5]",
                "f32[4,4,3]",
                {"feature_group_count": 2},
                (codes.INPUT_FEATURES, "4"),
            ),
            ("f32[4,4,5]", "f32[3,4,3]", {"batch_group_count": 3}, (codes.GROUP_COUNT_DIVIDES, "batch size 4")),
            (
                "f32[4,4,5]",
                "f32[3,4,3]",
                {"batch_group_count": 2},
                (codes.GROUP_COUNT_DIVIDES, "feature size 3", "batch_group"),
            ),
            (
                "f32[4,4,5]",
                "f32[4,2,3]",
                {"feature_group_count": 2, "batch_group_count": 2},
                (codes.GROUP_COUNTS,),
            ),
        ],
    )
    def test_refusals(self, lhs: str, rhs: str, groups: dict[str, int], wanted: Wanted) -> None:
        with raises(ShapeError, *wanted):
            shape(conv(1, **groups), lhs, rhs)


class TestGeneralForms:
    """All functions compute the same convolution. Features are the last dimension where dimension numbers are given."""

    numbers = ConvDimensions.parse("b01f_01io->b01f")
    padding = ((1, 0), (2, 1))
    expected = convolved(LHS, RHS, (2, 1), (1, 2), (0, 1))

    def test_conv_with_general_padding(self) -> None:
        check(lambda x, y: ops.conv_with_general_padding(x, y, [2, 1], self.padding), (LHS, RHS), self.expected)

    def test_conv_general(self) -> None:
        lhs, rhs = np.moveaxis(LHS, 1, -1).copy(), np.transpose(RHS, (2, 3, 1, 0)).copy()
        check(
            lambda x, y: ops.conv_general(x, y, [2, 1], self.padding, self.numbers),
            (lhs, rhs),
            np.moveaxis(self.expected, 1, -1).copy(),
        )

    def test_conv_with_general_dimensions(self) -> None:
        lhs, rhs = np.moveaxis(LHS, 1, -1).copy(), np.transpose(RHS, (2, 3, 1, 0)).copy()
        check(
            lambda x, y: ops.conv_with_general_dimensions(x, y, [1, 1], Padding.VALID, self.numbers),
            (lhs, rhs),
            np.moveaxis(convolved(LHS, RHS, (1, 1), (0, 0), (0, 0)), 1, -1).copy(),
        )

    def test_conv_general_dilated(self) -> None:
        check(dilated(strides=(2, 1), padding=self.padding, lhs=(1, 1), rhs=(1, 1)), (LHS, RHS), self.expected)

    def test_default_dimension_numbers(self) -> None:
        assert ConvDimensions.default(2) == ConvDimensions.parse("bf01_oi01->bf01")

    def test_preferred_element_type(self) -> None:
        assert shape(conv(1, preferred_element_type=F64), "f32[1,1,3]", "f32[1,1,2]") == "f64[1,1,2]"

    def test_precision_config(self) -> None:
        config = PrecisionConfig(operand_precision=(Precision.HIGHEST, Precision.DEFAULT))
        made = built(conv(1, precision_config=config), "f32[1,1,3]", "f32[1,1,2]").builder.build()
        assert "operand_precision={highest,default}" in made.as_hlo_text()
