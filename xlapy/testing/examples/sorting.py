"""Worked examples and refusals of sort and topk."""

from __future__ import annotations

from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import reduction as codes
from xlapy.testing.examples.example import Example, Refusal

EXAMPLES = [
    Example(
        "sort",
        """
        by_first {
          a = s32[] parameter(0)
          b = s32[] parameter(1)
          c = s32[] parameter(2)
          d = s32[] parameter(3)
          e = f32[] parameter(4)
          f = f32[] parameter(5)
          ROOT less = pred[] compare(a, b), direction=LT
        }
        x = s32[2] {3, 1}
        y = s32[2] {42, 50}
        z = f32[2] {-3, 1.5}
        sorted = (s32[2], s32[2], f32[2]) sort(x, y, z), dimensions={0}, to_apply=by_first
        => s32[2] {1, 3}
        => s32[2] {50, 42}
        => f32[2] {1.5, -3}
        """,
    ),
    Example(
        "topk",
        """
        x = f32[4] {3, 9, 4, 9}
        y = (f32[3], s32[3]) topk(x), k=3, largest=true
        => f32[3] {9, 9, 4}
        => s32[3] {1, 3, 2}
        """,
    ),
]

_LESS = "to_apply=(f32[], f32[] -> pred[])"

REFUSALS = [
    Refusal(
        "sort", 1, f"token[] sort(token[]), dimensions={{0}}, {_LESS}", (shared.ARRAY_OPERAND, "operand 0", "token[]")
    ),
    Refusal(
        "sort",
        1,
        "(f32[2], f32[3]) sort(f32[2], f32[3]), dimensions={0}, to_apply=(f32[], f32[], f32[], f32[] -> pred[])",
        (shared.SAME_DIMENSIONS, "operand 1", "f32[3]", "operand 0", "f32[2]"),
    ),
    Refusal(
        "sort", 2, f"f32[2] sort(f32[2]), dimensions={{1}}, {_LESS}", (shared.DIMENSION_NUMBER, "dimension 1", "f32[2]")
    ),
    Refusal(
        "sort",
        3,
        "f32[2] sort(f32[2]), dimensions={0}, to_apply=(f32[], f32[] -> f32[])",
        (codes.COMPARATOR_RESULT, "pred[]"),
    ),
    Refusal(
        "sort", 4, "f32[2] sort(f32[2]), dimensions={0}, to_apply=(f32[] -> pred[])", (codes.COMPARATOR_PARAMETERS, "2")
    ),
    Refusal(
        "sort",
        4,
        "f32[2] sort(f32[2]), dimensions={0}, to_apply=(f32[], s32[] -> pred[])",
        (codes.COMPARATOR_PARAMETERS, "parameter 1", "s32[]", "operand 0", "f32[2]"),
    ),
    Refusal("topk", 1, "(f32[], s32[]) topk(f32[]), k=1, largest=true", (shared.MINIMUM_RANK, "rank 1")),
    Refusal(
        "topk", 1, "(f32[], s32[]) topk(token[]), k=1, largest=true", (shared.ARRAY_OPERAND, "operand 0", "token[]")
    ),
    Refusal("topk", 2, "(c64[1], s32[1]) topk(c64[2]), k=1, largest=true", (shared.ELEMENT_TYPE, "c64[2]")),
    Refusal("topk", 3, "(f32[3], s32[3]) topk(f32[2]), k=3, largest=true", (codes.TOP_COUNT, "k 3")),
]
