"""Worked examples and refusals of convolution."""

from __future__ import annotations

from xlapy.testing.examples.example import Example, Refusal

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
    message: str,
    operands: str = "f32[2,4,8], f32[6,4,3]",
    attributes: str = "",
    window: str = "size=3",
    labels: str = "bf0_oi0->bf0",
    result: str = "f32[2,6,6]",
) -> Refusal:
    text = f"{result} convolution({operands}), window={{{window}}}, dim_labels={labels}{attributes}"
    return Refusal("convolution", constraint, text, message)


REFUSALS = [
    _refusal(1, "convolution takes arrays, lhs is token[]", "token[], f32[6,4,3]"),
    _refusal(1, "takes rhs of rank 3, given f32[6,4]", "f32[2,4,8], f32[6,4]"),
    _refusal(1, "takes a sparse rhs as a tuple of 2", "f32[2,4,8], (f32[6,4,3])"),
    _refusal(2, "its window has 2", window="size=3x3"),
    _refusal(2, "needs the labels b, f and spatial digits counting up from 0", labels="bf0_oi0->bf1"),
    _refusal(3, "needs a positive feature_group_count, given 0", attributes=", feature_group_count=0"),
    _refusal(
        3, "takes feature groups or batch groups, not both", attributes=", feature_group_count=2, batch_group_count=2"
    ),
    _refusal(4, "output feature size 6 of f32[6,4,3] is not a multiple of", attributes=", feature_group_count=4"),
    _refusal(5, "the kernel takes 3 input features (f32[6,3,3]), the input has 4", "f32[2,4,8], f32[6,3,3]"),
    _refusal(6, "window sizes [2] differ from the spatial sizes [3]", window="size=2"),
    _refusal(6, "non-positive stride: 0", window="size=3 stride=0"),
    _refusal(7, "removes more than the 8 elements", window="size=3 pad=-5_-4"),
    _refusal(8, "a kernel with a static output feature dimension", "f32[2,4,8], f32[<=6,4,3]"),
    _refusal(
        9,
        "takes 1xN sparsity, given 2x4",
        attributes=", sparsity_config={rhs={sparsity=2x4 dimension=1 stride=1}}",
    ),
    _refusal(10, "convolution returns an array", result="token[]"),
    _refusal(10, "has a complex result", "c64[2,4,8], c64[6,4,3]"),
]
