"""Worked examples and refusals of operations that create or use random bits."""

from __future__ import annotations

from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as codes
from xlapy.testing.examples.example import NO_MLIR, Example, Refusal

EXAMPLES = [
    Example(
        "rng",
        """
        a = s32[] 5
        b = s32[] 6
        x = s32[4] rng(a, b), distribution=rng_uniform
        => s32[4] {5, 5, 5, 5}
        """,
    ),
    Example(
        "rng-bit-generator",
        """
        state = u64[2] {1, 2}
        y = (u64[2], u32[4]) rng-bit-generator(state), algorithm=rng_three_fry
        => u64[2] {1, 4}
        => u32[4] {43444564, 2150618427, 3979645651, 3745730563}
        """,
    ),
    Example(
        "rng-get-and-update-state",
        """
        before = u64[2] rng-get-and-update-state(), delta=3
        after = u64[2] rng-get-and-update-state(), delta=3, control-predecessors={before}
        moved = u64[2] subtract(after, before)
        => u64[2] {3, 0}
        """,
        xla_cpu=NO_MLIR,
    ),
    Example(
        "stochastic-convert",
        """
        x = f32[3] {1.25, 1.25, -1.25}
        random = u32[3] {0, 4294967295, 0}
        y = s32[3] stochastic-convert(x, random)
        => s32[3] {2, 1, -2}
        """,
    ),
]

REFUSALS = [
    Refusal("rng", 1, "f32[2] rng(f32[]), distribution=rng_uniform", (shared.OPERAND_COUNT, "2", "1")),
    Refusal(
        "rng",
        1,
        "f32[2] rng(f32[], s32[]), distribution=rng_uniform",
        (codes.RNG_OPERANDS, "f32[2]", "f32[]", "operand 1"),
    ),
    Refusal("rng", 2, "s32[2] rng(s32[], s32[]), distribution=rng_normal", (shared.ELEMENT_TYPE, "rng_normal")),
    Refusal(
        "rng", 3, "c64[2] rng(c64[], c64[]), distribution=rng_uniform", (shared.ELEMENT_TYPE, "rng_uniform", "c64[2]")
    ),
    Refusal(
        "rng-bit-generator",
        1,
        "u32[4] rng-bit-generator(token[]), algorithm=rng_default",
        (shared.ARRAY_OPERAND, "operand 0", "token[]"),
    ),
    Refusal(
        "rng-bit-generator",
        2,
        "(u64[3], u32[4]) rng-bit-generator(u64[2]), algorithm=rng_default",
        (codes.RNG_STATE, "u64[2]", "(u64[3], u32[4])"),
    ),
    Refusal(
        "rng-bit-generator",
        2,
        "(u64[2], u32[4], u32[4]) rng-bit-generator(u64[2]), algorithm=rng_default",
        (codes.RNG_STATE, "(u64[2], u32[4], u32[4])"),
    ),
    Refusal(
        "rng-bit-generator",
        3,
        "(u64[2], (u32[4])) rng-bit-generator(u64[2]), algorithm=rng_default",
        (shared.ARRAY_RESULT, "(u64[2], (u32[4]))"),
    ),
    Refusal(
        "stochastic-convert",
        1,
        "s32[2] stochastic-convert(f32[2], token[])",
        (shared.ARRAY_OPERAND, "operand 1", "token[]"),
    ),
    Refusal(
        "stochastic-convert",
        1,
        "s32[2] stochastic-convert(f32[2], u32[3])",
        (shared.SAME_DIMENSIONS, "u32[3]", "f32[2]"),
    ),
    Refusal("stochastic-convert", 2, "s32[2] stochastic-convert(s32[2], u32[2])", (shared.ELEMENT_TYPE, "s32[2]")),
    Refusal(
        "stochastic-convert", 3, "s32[2] stochastic-convert(f32[2], s32[2])", (codes.RANDOM_BITS, "operand 1", "s32[2]")
    ),
    Refusal(
        "stochastic-convert", 3, "s32[2] stochastic-convert(f32[2], u16[2])", (codes.RANDOM_BITS, "u16[2]", "f32[2]")
    ),
    Refusal(
        "stochastic-convert", 4, "s32[3] stochastic-convert(f32[2], u32[2])", (shared.RESULT_SHAPE, "s32[2]", "s32[3]")
    ),
    Refusal("stochastic-convert", 4, "(s32[2]) stochastic-convert(f32[2], u32[2])", (shared.ARRAY_RESULT, "(s32[2])")),
]
