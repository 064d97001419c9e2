"""Shape rules of the operations that generate or use random bits."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import accepts, inferred, read, refused, rewritten
from tests.raising import Wanted, raises
from xlapy import opcodes
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as codes
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
    ("shape", "operands", "distribution", "wanted"),
    [
        ("f32[2]", ["f32[]"], UNIFORM, (shared.OPERAND_COUNT, "2", "1")),
        ("f32[2]", ["f32[]", "f32[1]"], UNIFORM, (codes.RNG_OPERANDS, "f32[2]", "f32[]", "operand 1", "f32[1]")),
        ("f32[2]", ["f32[]", "f64[]"], UNIFORM, (codes.RNG_OPERANDS, "f32[2]", "f32[]", "operand 1", "f64[]")),
        (
            "c64[2]",
            ["c64[]", "c64[]"],
            UNIFORM,
            (shared.ELEMENT_TYPE, "rng_uniform"),
        ),
        ("s32[2]", ["s32[]", "s32[]"], NORMAL, (shared.ELEMENT_TYPE, "rng_normal", "s32[2]")),
    ],
)
def test_rng_refuses(shape: str, operands: list[str], distribution: RandomDistribution, wanted: Wanted) -> None:
    refused(wanted, opcodes.RNG, shape, *operands, distribution=distribution)


def test_rng_bit_generator() -> None:
    assert accepts(opcodes.RNG_BIT_GENERATOR, "(u64[2], u32[5])", "u64[2]", algorithm=THREE_FRY)
    assert accepts(opcodes.RNG_BIT_GENERATOR, "(u64[3], u8[5])", "u64[3]", algorithm=PHILOX)
    assert accepts(opcodes.RNG_BIT_GENERATOR, "(u64[2], f32[5])", "u64[2]", algorithm=PHILOX)
    assert accepts(opcodes.RNG_BIT_GENERATOR, "u32[5]", "u64[3]", algorithm=DEFAULT)


@pytest.mark.parametrize(
    ("shape", "state", "algorithm", "wanted"),
    [
        ("(u64[2], u32[5], u32[])", "u64[2]", DEFAULT, (codes.RNG_STATE,)),
        (
            "(u64[3], u32[5])",
            "u64[2]",
            DEFAULT,
            (codes.RNG_STATE, "u64[2]", "(u64[3], u32[5])"),
        ),
        (
            "(u64[2], token[])",
            "u64[2]",
            PHILOX,
            (shared.ARRAY_RESULT, "(u64[2], token[])"),
        ),
        ("(token[], u32[5])", "token[]", DEFAULT, (shared.ARRAY_OPERAND, "operand 0", "token[]")),
    ],
)
def test_rng_bit_generator_refuses(shape: str, state: str, algorithm: RandomAlgorithm, wanted: Wanted) -> None:
    refused(wanted, opcodes.RNG_BIT_GENERATOR, shape, state, algorithm=algorithm)


def test_rng_bit_generator_takes_any_state() -> None:
    assert accepts(opcodes.RNG_BIT_GENERATOR, "(u64[4], u32[5])", "u64[4]", algorithm=THREE_FRY)


def test_rng_state() -> None:
    assert inferred(opcodes.RNG_GET_AND_UPDATE_STATE, delta=1) == "u64[2]"
    refused((shared.RESULT_SHAPE, "u64[2]", "u64[3]"), opcodes.RNG_GET_AND_UPDATE_STATE, "u64[3]", delta=1)
    assert opcodes.RNG_GET_AND_UPDATE_STATE.effect is Effect.SIDE_EFFECT


def test_stochastic_convert() -> None:
    assert accepts(opcodes.STOCHASTIC_CONVERT, "s8[2]", "f32[2]", "u32[2]")
    assert accepts(opcodes.STOCHASTIC_CONVERT, "bf16[2]", "f32[2]", "u32[2]")


@pytest.mark.parametrize(
    ("shape", "operands", "wanted"),
    [
        ("s8[2]", ["s32[2]", "u32[2]"], (shared.ELEMENT_TYPE, "s32[2]")),
        ("s8[2]", ["f32[2]", "s32[2]"], (codes.RANDOM_BITS, "operand 1", "s32[2]")),
        (
            "s8[2]",
            ["f32[2]", "u16[2]"],
            (codes.RANDOM_BITS, "u16[2]", "f32[2]"),
        ),
        (
            "s8[2]",
            ["f32[2]", "u32[3]"],
            (shared.SAME_DIMENSIONS, "u32[3]", "f32[2]"),
        ),
        ("s8[3]", ["f32[2]", "u32[2]"], (shared.RESULT_SHAPE, "s8[2]", "s8[3]")),
        ("token[]", ["f32[2]", "u32[2]"], (shared.ARRAY_RESULT, "token[]")),
        ("s8[2]", ["token[]", "u32[2]"], (shared.ARRAY_OPERAND, "operand 0", "token[]")),
    ],
)
def test_stochastic_convert_refuses(shape: str, operands: list[str], wanted: Wanted) -> None:
    refused(wanted, opcodes.STOCHASTIC_CONVERT, shape, *operands)


def test_words() -> None:
    for member in RandomDistribution:
        assert rewritten(opcodes.RNG, "distribution", member.value) == member.value
    for member in RandomAlgorithm:
        assert read(opcodes.RNG_BIT_GENERATOR, "algorithm", member.value) is member
    assert read(opcodes.RNG, "distribution", "RNG_NORMAL") is NORMAL
    with raises(ParseError, attributes_codes.ATTRIBUTE_WORD, "rng_uniform", "rng_normal", "'rng_poisson'"):
        read(opcodes.RNG, "distribution", "rng_poisson")
