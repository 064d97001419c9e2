"""Worked examples and refusals of batch normalization."""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as codes
from xlapy.testing.examples.example import Example, Refusal, Violation

EXAMPLES = [
    Example(
        "batch-norm-training",
        """
        x = f32[2,2] {{1, 10}, {3, 30}}
        scale = f32[2] {1, 2}
        offset = f32[2] {0, 5}
        y = (f32[2,2], f32[2], f32[2]) batch-norm-training(x, scale, offset), epsilon=0, feature_index=1
        => f32[2,2] {{-1, 3}, {1, 7}}
        => f32[2] {2, 20}
        => f32[2] {1, 100}
        """,
    ),
    Example(
        "batch-norm-inference",
        """
        x = f32[2,2] {{1, 10}, {3, 30}}
        scale = f32[2] {1, 2}
        offset = f32[2] {0, 5}
        mean = f32[2] {1, 20}
        variance = f32[2] {4, 100}
        y = f32[2,2] batch-norm-inference(x, scale, offset, mean, variance), epsilon=0, feature_index=1
        => f32[2,2] {{0, 3}, {1, 7}}
        """,
    ),
    Example(
        "batch-norm-grad",
        """
        x = f32[4,1] {{1}, {3}, {1}, {3}}
        scale = f32[1] {2}
        mean = f32[1] {2}
        variance = f32[1] {1}
        dy = f32[4,1] {{1}, {2}, {3}, {6}}
        g = (f32[4,1], f32[1], f32[1]) batch-norm-grad(x, scale, mean, variance, dy), epsilon=0, feature_index=1
        => f32[4,1] {{-2}, {-4}, {2}, {4}}
        => f32[1] {4}
        => f32[1] {12}
        """,
    ),
]


def _refusals(op: str, result: str) -> Iterator[Refusal]:
    """Yields a refusal for each operand that may have an invalid shape."""
    names = opcodes.lookup(op).operands.split()
    legal = ["f32[2,3]" if name in ("operand", "grad_output") else "f32[3]" for name in names]

    def refusal(
        constraint: int, violation: Violation, position: int = 0, shape: str = "f32[2,3]", feature: int = 1
    ) -> Refusal:
        operands = ", ".join([*legal[:position], shape, *legal[position + 1 :]])
        text = f"{result} {op}({operands}), epsilon=0.001, feature_index={feature}"
        return Refusal(op, constraint, text, violation)

    yield refusal(1, (shared.ARRAY_OPERAND, "operand 1", "token[]"), 1, "token[]")
    yield refusal(2, (shared.DIMENSION_NUMBER, "feature_index 2", "f32[2,3]"), feature=2)
    yield refusal(3, (shared.ELEMENT_TYPE, "s32[2,3]"), 0, "s32[2,3]")
    yield refusal(4, (codes.FEATURE_VECTORS, "rank 1", "f32[3,1]"), 1, "f32[3,1]")
    yield refusal(4, (shared.ELEMENT_TYPE, "f32[2,3]", "s32[3]"), 1, "s32[3]")
    yield refusal(5, (codes.FEATURE_VECTORS, "f32[2]"), 1, "f32[2]")
    if op == "batch-norm-grad":
        yield refusal(6, (shared.ELEMENT_TYPE, "grad_output", "s32[2,3]"), 4, "s32[2,3]")
        yield refusal(6, (shared.SAME_DIMENSIONS, "grad_output", "f32[2,4]", "f32[2,3]"), 4, "f32[2,4]")


REFUSALS = [
    *_refusals("batch-norm-training", "(f32[2,3], f32[3], f32[3])"),
    *_refusals("batch-norm-inference", "f32[2,3]"),
    *_refusals("batch-norm-grad", "(f32[2,3], f32[3], f32[3])"),
]
