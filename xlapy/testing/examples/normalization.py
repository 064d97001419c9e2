"""Worked examples and refusals of batch normalization."""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.testing.examples.example import Example, Refusal

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

    def refusal(constraint: int, message: str, position: int = 0, shape: str = "f32[2,3]", feature: int = 1) -> Refusal:
        operands = ", ".join([*legal[:position], shape, *legal[position + 1 :]])
        text = f"{result} {op}({operands}), epsilon=0.001, feature_index={feature}"
        return Refusal(op, constraint, text, f"{op}{message}")

    yield refusal(1, " takes arrays, operand 1 is token[]", 1, "token[]")
    yield refusal(2, ": feature_index 2 is out of bounds for f32[2,3]", feature=2)
    yield refusal(3, " takes floating-point elements, operand is s32[2,3]", 0, "s32[2,3]")
    yield refusal(4, ": scale must have rank 1, given f32[3,1]", 1, "f32[3,1]")
    yield refusal(4, ": scale must be floating-point as operand f32[2,3] is, given s32[3]", 1, "s32[3]")
    yield refusal(5, ": scale f32[2] must have one value for each of the 3 features", 1, "f32[2]")
    if op == "batch-norm-grad":
        yield refusal(6, ": grad_output must be floating-point, given s32[2,3]", 4, "s32[2,3]")
        yield refusal(6, ": grad_output f32[2,4] must have the dimensions of operand f32[2,3]", 4, "f32[2,4]")


REFUSALS = [
    *_refusals("batch-norm-training", "(f32[2,3], f32[3], f32[3])"),
    *_refusals("batch-norm-inference", "f32[2,3]"),
    *_refusals("batch-norm-grad", "(f32[2,3], f32[3], f32[3])"),
]
