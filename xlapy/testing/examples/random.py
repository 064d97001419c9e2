"""Worked examples and refusals of operations that create or use random bits."""

from __future__ import annotations

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
    Refusal("rng", 1, "f32[2] rng(f32[]), distribution=rng_uniform", "rng takes 2 operands, given 1"),
    Refusal("rng", 1, "f32[2] rng(f32[], s32[]), distribution=rng_uniform", "rng of f32[2] takes f32[] as operand 1"),
    Refusal(
        "rng", 2, "s32[2] rng(s32[], s32[]), distribution=rng_normal", "rng_normal returns floating-point elements"
    ),
    Refusal("rng", 3, "c64[2] rng(c64[], c64[]), distribution=rng_uniform", "returns floating-point, integer or pred"),
    Refusal("rng-bit-generator", 1, "u32[4] rng-bit-generator(token[]), algorithm=rng_default", "takes arrays"),
    Refusal(
        "rng-bit-generator",
        2,
        "(u64[3], u32[4]) rng-bit-generator(u64[2]), algorithm=rng_default",
        "both states must have the same shape",
    ),
    Refusal(
        "rng-bit-generator",
        2,
        "(u64[2], u32[4], u32[4]) rng-bit-generator(u64[2]), algorithm=rng_default",
        "has shape (state, bits)",
    ),
    Refusal(
        "rng-bit-generator",
        3,
        "(u64[2], (u32[4])) rng-bit-generator(u64[2]), algorithm=rng_default",
        "returns an array of bits",
    ),
    Refusal(
        "stochastic-convert", 1, "s32[2] stochastic-convert(f32[2], token[])", "takes arrays, operand 1 is token[]"
    ),
    Refusal(
        "stochastic-convert", 1, "s32[2] stochastic-convert(f32[2], u32[3])", "must have the dimensions of operand"
    ),
    Refusal("stochastic-convert", 2, "s32[2] stochastic-convert(s32[2], u32[2])", "takes floating-point elements"),
    Refusal("stochastic-convert", 3, "s32[2] stochastic-convert(f32[2], s32[2])", "takes unsigned random numbers"),
    Refusal("stochastic-convert", 3, "s32[2] stochastic-convert(f32[2], u16[2])", "must have the width of operand"),
    Refusal("stochastic-convert", 4, "s32[3] stochastic-convert(f32[2], u32[2])", "has shape s32[2], declared s32[3]"),
    Refusal(
        "stochastic-convert", 4, "(s32[2]) stochastic-convert(f32[2], u32[2])", "returns an array, declared (s32[2])"
    ),
]
