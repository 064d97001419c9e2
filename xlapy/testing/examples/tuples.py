"""Worked examples and refusals of tuples."""

from __future__ import annotations

from xlapy.base.error_codes.operations import movement as codes
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.testing.examples.example import Example, Refusal

EXAMPLES = [
    Example(
        "tuple",
        """
        v = f32[3] {0, 1, 2}
        s = s32[] 5
        t = (f32[3], s32[]) tuple(v, s)
        => f32[3] {0, 1, 2}
        => s32[] 5
        """,
    ),
    Example(
        "get-tuple-element",
        """
        v = f32[3] {0, 1, 2}
        s = s32[] 5
        t = (f32[3], s32[]) tuple(v, s)
        e = s32[] get-tuple-element(t), index=1
        => s32[] 5
        """,
    ),
]

REFUSALS = [
    Refusal("get-tuple-element", 1, "f32[] get-tuple-element(f32[2]), index=0", (codes.TUPLE_OPERAND, "f32[2]")),
    Refusal("get-tuple-element", 2, "f32[] get-tuple-element((f32[])), index=1", (values_codes.TUPLE_INDEX, "index 1")),
]
