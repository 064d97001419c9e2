"""The builder functions of random numbers: appended instructions, inferred shapes, errors."""

from __future__ import annotations

import pytest

from tests.builder.programs import instruction_texts, parameters
from tests.raising import Wanted, raises
from xlapy import ops
from xlapy.base import Shape, ShapeError
from xlapy.base.element_types import S8
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as codes
from xlapy.base.error_codes.structure import values as values_codes
from xlapy.base.errors import BuilderError
from xlapy.opcodes.random import RandomAlgorithm


def test_rng() -> None:
    a, b = parameters("f32[]", "f32[]")
    both = ops.tuple(
        a.builder, [ops.rng_normal(a, b, Shape.parse("f32[2,3]")), ops.rng_uniform(a, b, Shape.parse("f32[4]"))]
    )
    assert instruction_texts(both)[:2] == [
        "rng = f32[2,3] rng(p0, p1), distribution=rng_normal",
        "rng.1 = f32[4] rng(p0, p1), distribution=rng_uniform",
    ]


def test_plain_limits_take_the_type_of_the_result() -> None:
    (a,) = parameters("u8[]")
    assert instruction_texts(ops.rng_uniform(a, 7, Shape.parse("u8[2]"))) == [
        "constant = u8[] constant(7)",
        "rng = u8[2] rng(p0, constant), distribution=rng_uniform",
    ]


def test_rng_refused() -> None:
    a, i = parameters("f32[]", "s32[]")
    with raises(ShapeError, codes.RNG_OPERANDS, "f32[2]", "f32[]", "operand 1", "s32[]"):
        ops.rng_uniform(a, i, Shape.parse("f32[2]"))
    with raises(ShapeError, shared.ELEMENT_TYPE, "rng_normal", "s32[2]"):
        ops.rng_normal(i, i, Shape.parse("s32[2]"))
    with raises(BuilderError, builder_codes.OPERAND_KIND):
        ops.rng_normal(0, 1.0, Shape.parse("f32[2]"))


@pytest.mark.parametrize(
    ("shape", "bits"),
    [
        ("f32[2,3]{0,1}", "u32[2,3]"),
        ("u8[]", "u8[]"),
        ("s64[4]", "u64[4]"),
        ("c64[2]", "u64[2]"),
        ("bf16[2]", "u16[2]"),
        ("f4e2m1fn[2]", "u4[2]"),
        ("pred[2]", "u1[2]"),
    ],
)
def test_bits_are_as_wide_as_the_elements(shape: str, bits: str) -> None:
    (state,) = parameters("u64[2]")
    result = ops.rng_bit_generator(RandomAlgorithm.THREE_FRY, state, Shape.parse(shape))
    assert result.shape.tuple_shapes[1].layout == Shape.parse(shape).layout
    assert instruction_texts(result) == [
        f"rng-bit-generator = (u64[2], {bits}) rng-bit-generator(p0), algorithm=rng_three_fry"
    ]


@pytest.mark.parametrize(
    ("state", "shape", "wanted"),
    [
        ("u64[2]", "c128[2]", (shared.ELEMENT_TYPE, "c128[2]")),
        ("u64[2]", "token[]", (shared.ELEMENT_TYPE, "token[]")),
        ("u64[2]", "(f32[2])", (shared.ELEMENT_TYPE, "(f32[2])")),
    ],
)
def test_bits_refused(state: str, shape: str, wanted: Wanted) -> None:
    (s,) = parameters(state)
    with raises(ShapeError, *wanted, "rng-bit-generator"):
        ops.rng_bit_generator(RandomAlgorithm.PHILOX, s, Shape.parse(shape))


@pytest.mark.parametrize("target", [S8, "s8", "int8"])
def test_stochastic_convert(target: object) -> None:
    x, random = parameters("f32[2,3]", "u32[2,3]")
    if target == "int8":
        target = S8.dtype
    assert instruction_texts(ops.stochastic_convert_type(x, random, target)) == [
        "stochastic-convert = s8[2,3] stochastic-convert(p0, p1)"
    ]


def test_stochastic_convert_refused() -> None:
    x, random = parameters("f32[2]", "u16[2]")
    with raises(ShapeError, codes.RANDOM_BITS, "u16[2]", "f32[2]"):
        ops.stochastic_convert_type(x, random, S8)
    with raises(BuilderError, values_codes.ELEMENT_TYPE, "'int7'"):
        ops.stochastic_convert_type(x, random, "int7")
