"""Worked examples and refusals of parameters, constants and iota."""

from __future__ import annotations

from xlapy.base.error_codes.operations import movement as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.structure import modules as modules_codes
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
    Refusal("parameter", 1, "f32[2] parameter(-1)", (modules_codes.PARAMETER_NUMBERS, "[-1]")),
    Refusal(
        "parameter",
        2,
        "(f32[2], f32[]) parameter(0), parameter_replication={true}",
        (codes.PARAMETER_REPLICATION, "parameter_replication"),
    ),
    Refusal("iota", 1, "pred[2] iota(), iota_dimension=0", (shared.ELEMENT_TYPE, "pred[2]")),
    Refusal("iota", 1, "(f32[2]) iota(), iota_dimension=0", (shared.ARRAY_RESULT, "(f32[2])")),
    Refusal(
        "iota", 2, "f32[2] iota(), iota_dimension=1", (shared.DIMENSION_NUMBER, "iota_dimension 1", "f32[2]", "rank 1")
    ),
]
