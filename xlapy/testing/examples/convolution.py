"""Worked examples and refusals of convolution."""

from __future__ import annotations

from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import contraction as contraction_codes
from xlapy.base.error_codes.operations import convolution as codes
from xlapy.base.error_codes.operations import movement as movement_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.testing.examples.example import Example, Refusal, Violation

EXAMPLES = [
    Example(
        "convolution",
        """
        x = f32[1,1,5] {{{1, 2, 3, 4, 5}}}
        k = f32[1,1,3] {{{1, 0, -1}}}
        y = f32[1,1,5] convolution(x, k), window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0
        => f32[1,1,5] {{{-2, -2, -2, -2, 4}}}
        """,
    ),
    Example(
        "convolution",
        """
        x = f32[1,2,4] {{{1, 2, 3, 4}, {10, 20, 30, 40}}}
        k = f32[2,1,2] {{{1, 1}}, {{1, 0}}}
        y = f32[1,2,2] convolution(x, k), window={size=2 stride=2}, dim_labels=bf0_oi0->bf0, feature_group_count=2
        => f32[1,2,2] {{{3, 7}, {10, 30}}}
        """,
    ),
]


def _refusal(
    constraint: int,
    violation: Violation,
    operands: str = "f32[2,4,8], f32[6,4,3]",
    attributes: str = "",
    window: str = "size=3",
    labels: str = "bf0_oi0->bf0",
    result: str = "f32[2,6,6]",
) -> Refusal:
    text = f"{result} convolution({operands}), window={{{window}}}, dim_labels={labels}{attributes}"
    return Refusal("convolution", constraint, text, violation)


REFUSALS = [
    _refusal(1, (shared.ARRAY_OPERAND, "lhs", "token[]"), "token[], f32[6,4,3]"),
    _refusal(1, (codes.CONVOLUTION_RANK, "rhs", "rank 3", "f32[6,4]"), "f32[2,4,8], f32[6,4]"),
    _refusal(1, (codes.SPARSE_KERNEL, "rhs"), "f32[2,4,8], (f32[6,4,3])"),
    _refusal(2, (codes.SPATIAL_DIMENSIONS, "2"), window="size=3x3"),
    _refusal(2, (codes.LABEL_TEXT, "'bf1'"), labels="bf0_oi0->bf1"),
    _refusal(3, (codes.GROUP_COUNTS, "feature_group_count"), attributes=", feature_group_count=0"),
    _refusal(
        3,
        (codes.GROUP_COUNTS, "feature_group_count 2", "batch_group_count 2"),
        attributes=", feature_group_count=2, batch_group_count=2",
    ),
    _refusal(4, (codes.GROUP_COUNT_DIVIDES, "feature size 6", "f32[6,4,3]"), attributes=", feature_group_count=4"),
    _refusal(5, (codes.INPUT_FEATURES, "(f32[6,3,3])"), "f32[2,4,8], f32[6,3,3]"),
    _refusal(6, (codes.KERNEL_WINDOW, "[2]", "[3]"), window="size=2"),
    _refusal(6, (attributes_codes.WINDOW_POSITIVE, "window dimension 0"), window="size=3 stride=0"),
    _refusal(7, (movement_codes.NEGATIVE_PADDING, "-5_-4"), window="size=3 pad=-5_-4"),
    _refusal(8, (codes.STATIC_OUTPUT_FEATURES, "f32[<=6,4,3]"), "f32[2,4,8], f32[<=6,4,3]"),
    _refusal(
        9,
        (codes.SPARSE_KERNEL, "1xN", "2x4"),
        attributes=", sparsity_config={rhs={sparsity=2x4 dimension=1 stride=1}}",
    ),
    _refusal(10, (contraction_codes.DOT_ARRAY_RESULT, "token[]"), result="token[]"),
    _refusal(10, (contraction_codes.DOT_COMPLEX_RESULT, "c64[2,4,8]", "f32[2,6,6]"), "c64[2,4,8], c64[6,4,3]"),
]
