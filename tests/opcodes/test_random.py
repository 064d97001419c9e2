"""Shape rules of the operations that generate or use random bits."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import accepts, inferred, read, refusal, rewritten
from xlapy import opcodes
from xlapy.base.errors import ParseError
from xlapy.opcodes.random import RandomAlgorithm, RandomDistribution
from xlapy.opcodes.registry import Effect

UNIFORM, NORMAL = RandomDistribution.UNIFORM, RandomDistribution.NORMAL
DEFAULT, THREE_FRY, PHILOX = RandomAlgorithm.DEFAULT, RandomAlgorithm.THREE_FRY, RandomAlgorithm.PHILOX


@pytest.mark.parametrize("element", ["f32", "bf16", "s8", "u64", "pred"])
def test_rng_uniform(element: str) -> None:
    assert accepts(opcodes.RNG, f"{element}[2,3]", f"{element}[]", f"{element}[]", distribution=UNIFORM)
    assert opcodes.RNG.effect is Effect.SIDE_EFFECT


@pytest.mark.parametrize(
    ("shape", "operands", "distribution", "message"),
    [
        ("f32[2]", ["f32[]"], UNIFORM, "rng takes 2 operands, given 1"),
        ("f32[2]", ["f32[]", "f32[1]"], UNIFORM, "rng of f32[2] takes f32[] as operand 1, given f32[1]"),
        ("f32[2]", ["f32[]", "f64[]"], UNIFORM, "rng of f32[2] takes f32[] as operand 1, given f64[]"),
        (
            "c64[2]",
            ["c64[]", "c64[]"],
            UNIFORM,
            "rng with rng_uniform returns floating-point, integer or pred elements,",
        ),
        ("s32[2]", ["s32[]", "s32[]"], NORMAL, "rng with rng_normal returns floating-point elements, declared s32[2]"),
    ],
)
def test_rng_refuses(shape: str, operands: list[str], distribution: RandomDistribution, message: str) -> None:
    assert refusal(opcodes.RNG, shape, *operands, distribution=distribution).startswith(message)


def test_rng_bit_generator() -> None:
    assert accepts(opcodes.RNG_BIT_GENERATOR, "(u64[2], u32[5])", "u64[2]", algorithm=THREE_FRY)
    assert accepts(opcodes.RNG_BIT_GENERATOR, "(u64[3], u8[5])", "u64[3]", algorithm=PHILOX)
    assert accepts(opcodes.RNG_BIT_GENERATOR, "(u64[2], f32[5])", "u64[2]", algorithm=PHILOX)
    assert accepts(opcodes.RNG_BIT_GENERATOR, "u32[5]", "u64[3]", algorithm=DEFAULT)


@pytest.mark.parametrize(
    ("shape", "state", "algorithm", "message"),
    [
        ("(u64[2], u32[5], u32[])", "u64[2]", DEFAULT, "rng-bit-generator has shape (state, bits), declared"),
        (
            "(u64[3], u32[5])",
            "u64[2]",
            DEFAULT,
            "rng-bit-generator takes state u64[2] and returns it in (u64[3], u32[5])",
        ),
        (
            "(u64[2], token[])",
            "u64[2]",
            PHILOX,
            "rng-bit-generator returns an array of bits, declared (u64[2], token[])",
        ),
        ("(token[], u32[5])", "token[]", DEFAULT, "rng-bit-generator takes arrays, operand 0 is token[]"),
    ],
)
def test_rng_bit_generator_refuses(shape: str, state: str, algorithm: RandomAlgorithm, message: str) -> None:
    assert refusal(opcodes.RNG_BIT_GENERATOR, shape, state, algorithm=algorithm).startswith(message)


def test_rng_bit_generator_takes_any_state() -> None:
    assert accepts(opcodes.RNG_BIT_GENERATOR, "(u64[4], u32[5])", "u64[4]", algorithm=THREE_FRY)


def test_rng_state() -> None:
    assert inferred(opcodes.RNG_GET_AND_UPDATE_STATE, delta=1) == "u64[2]"
    assert refusal(opcodes.RNG_GET_AND_UPDATE_STATE, "u64[3]", delta=1) == (
        "rng-get-and-update-state of () has shape u64[2], declared u64[3]"
    )
    assert opcodes.RNG_GET_AND_UPDATE_STATE.effect is Effect.SIDE_EFFECT


def test_stochastic_convert() -> None:
    assert accepts(opcodes.STOCHASTIC_CONVERT, "s8[2]", "f32[2]", "u32[2]")
    assert accepts(opcodes.STOCHASTIC_CONVERT, "bf16[2]", "f32[2]", "u32[2]")


@pytest.mark.parametrize(
    ("shape", "operands", "message"),
    [
        ("s8[2]", ["s32[2]", "u32[2]"], "stochastic-convert takes floating-point elements, operand is s32[2]"),
        ("s8[2]", ["f32[2]", "s32[2]"], "stochastic-convert takes unsigned random numbers, operand 1 is s32[2]"),
        (
            "s8[2]",
            ["f32[2]", "u16[2]"],
            "stochastic-convert: random numbers u16[2] must have the width of operand f32[2]",
        ),
        (
            "s8[2]",
            ["f32[2]", "u32[3]"],
            "stochastic-convert: random numbers u32[3] must have the dimensions of operand f32[2]",
        ),
        ("s8[3]", ["f32[2]", "u32[2]"], "stochastic-convert has shape s8[2], declared s8[3]"),
        ("token[]", ["f32[2]", "u32[2]"], "stochastic-convert returns an array, declared token[]"),
        ("s8[2]", ["token[]", "u32[2]"], "stochastic-convert takes arrays, operand 0 is token[]"),
    ],
)
def test_stochastic_convert_refuses(shape: str, operands: list[str], message: str) -> None:
    assert refusal(opcodes.STOCHASTIC_CONVERT, shape, *operands) == message


def test_words() -> None:
    for member in RandomDistribution:
        assert rewritten(opcodes.RNG, "distribution", member.value) == member.value
    for member in RandomAlgorithm:
        assert read(opcodes.RNG_BIT_GENERATOR, "algorithm", member.value) is member
    assert read(opcodes.RNG, "distribution", "RNG_NORMAL") is NORMAL
    with pytest.raises(ParseError, match="expected one of rng_uniform, rng_normal; found 'rng_poisson'"):
        read(opcodes.RNG, "distribution", "rng_poisson")
