"""Worked examples and refusals of parameters, constants and iota."""

from __future__ import annotations

from xlapy.testing.examples.example import Example, Refusal

EXAMPLES = [
    Example(
        "parameter",
        """
        x = f32[2] {1, 2}
        y = f32[2] negate(x)
        => f32[2] {-1, -2}
        """,
    ),
    Example(
        "constant",
        """
        c = s32[2,3] constant({{1, 2, 3}, {4, 5, 6}})
        => s32[2,3] {{1, 2, 3}, {4, 5, 6}}
        """,
    ),
    Example(
        "iota",
        """
        x = s32[2,3] iota(), iota_dimension=0
        y = s32[2,3] iota(), iota_dimension=1
        both = (s32[2,3], s32[2,3]) tuple(x, y)
        => s32[2,3] {{0, 0, 0}, {1, 1, 1}}
        => s32[2,3] {{0, 1, 2}, {0, 1, 2}}
        """,
    ),
]

REFUSALS = [
    Refusal("parameter", 1, "f32[2] parameter(-1)", "must be numbered 0 to 0 without gaps"),
    Refusal(
        "parameter",
        2,
        "(f32[2], f32[]) parameter(0), parameter_replication={true}",
        "has 2 leaves, parameter_replication has 1 entries",
    ),
    Refusal("iota", 1, "pred[2] iota(), iota_dimension=0", "returns integer, floating-point or complex elements"),
    Refusal("iota", 1, "(f32[2]) iota(), iota_dimension=0", "iota returns an array, declared (f32[2])"),
    Refusal("iota", 2, "f32[2] iota(), iota_dimension=1", "iota_dimension 1 is out of bounds for f32[2] of rank 1"),
]
