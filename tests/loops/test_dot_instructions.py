"""The meaning of dot instructions, and of loads of several elements at once, in loop IR."""

from __future__ import annotations

import numpy as np
import pytest

from xlapy.loops import F32, I8, I16, I32, AxisKind, Builder, Location, evaluate, print_kernel
from xlapy.loops.dot_instructions import BF16_PAIRS, S16_PAIRS, U8_S8_QUADS, DotInstruction


def dot(instruction: DotInstruction, left: int, right: int, total: float) -> np.generic:
    """Returns what one lane computes, by the evaluator of loop IR."""
    builder = Builder("k")
    out = builder.buffer("out", instruction.sum, 1, written=True)
    with builder.loop(1) as position:
        factors = [builder.constant(I32, bits) for bits in (left, right)]
        addend = builder.constant(instruction.sum, total)
        result = builder.op("dot", instruction.sum, *factors, addend, attribute=instruction)
        builder.store(out, position, result)
    memory = {"out": np.zeros(1, instruction.sum.dtype)}
    evaluate(builder.kernel, memory)
    return memory["out"][0]


def bfloat16(*numbers: float) -> int:
    low, high = (int(np.float32(x).view(np.uint32)) >> 16 for x in numbers)
    return high << 16 | low


def test_bytes_of_the_left_factor_are_unsigned():
    assert dot(U8_S8_QUADS, 0xFF010280, 0x807F01FF, 1000) == 1000 + 128 * -1 + 2 * 1 + 1 * 127 + 255 * -128


def test_integer_sums_wrap():
    assert dot(U8_S8_QUADS, 0xFF, 0x7F, 2**31 - 1) == 2**31 - 1 + 255 * 127 - 2**32
    assert dot(S16_PAIRS, 0x80008000, 0x80008000, 0) == -(2**31)


def test_pairs_of_16_bits_are_signed():
    assert dot(S16_PAIRS, 0x0003FFFE, 0xFFFB0007, 4) == 4 + -2 * 7 + 3 * -5


def test_the_second_term_of_a_pair_is_added_first():
    assert dot(BF16_PAIRS, bfloat16(1.0, 1.0), bfloat16(1.0, -(2.0**30)), 2.0**30) == 1.0
    assert dot(BF16_PAIRS, bfloat16(1.0, 1.0), bfloat16(-(2.0**30), 1.0), 2.0**30) == 0.0


def test_products_are_not_rounded_before_they_are_added():
    assert dot(BF16_PAIRS, bfloat16(0.0, 2.0**64), bfloat16(0.0, 2.0**64), -1.5 * 2.0**127) == 2.0**126
    assert dot(BF16_PAIRS, bfloat16(0.0, 2.0**64), bfloat16(0.0, 2.0**64), -1.0) == np.inf


@pytest.mark.parametrize(
    "left, right, total, expected",
    [
        ((1e-39, 0.0), (1.0, 0.0), 0.0, 0.0),
        ((0.0, 0.0), (1.0, 1.0), -1e-39, 0.0),
        ((1e-20, 0.0), (1e-20, 0.0), 0.0, 0.0),
        ((np.inf, -np.inf), (1.0, 1.0), 0.0, np.nan),
        ((np.inf, 1.0), (0.0, 1.0), 0.0, np.nan),
        ((np.inf, 1.0), (-2.0, 1.0), 5.0, -np.inf),
        ((np.nan, 1.0), (0.0, 1.0), 5.0, np.nan),
    ],
)
def test_special_numbers(left, right, total, expected):
    found = dot(BF16_PAIRS, bfloat16(*left), bfloat16(*right), total)
    np.testing.assert_array_equal(found, np.float32(expected))
    assert np.isnan(expected) or np.signbit(found) == np.signbit(np.float32(expected))


def wide_loads() -> Builder:
    builder = Builder("k")
    source, out = builder.buffer("a", I8, 21), builder.buffer("out", I32, 5, written=True)
    with builder.loop(5, AxisKind.VECTOR, width=4) as lane:
        builder.store(out, lane, builder.load_wide(I32, Location(source, lane * 4 + 1), None))
    return builder


def test_a_wide_load_reads_consecutive_elements():
    data = np.arange(200, 221, dtype=np.uint8)
    memory = {"a": data.view(np.int8), "out": np.zeros(5, np.int32)}
    evaluate(wide_loads().kernel, memory)
    np.testing.assert_array_equal(memory["out"], data[1:].copy().view(np.int32))


def test_wide_loads_are_printed_with_their_type():
    assert "load i32 a[4 * %0 + 1]" in print_kernel(wide_loads().kernel)


def test_dots_are_printed_with_their_instruction():
    builder = Builder("k")
    source, out = builder.buffer("a", I32, 2), builder.buffer("out", F32, 2, written=True)
    with builder.loop(2) as position:
        group = builder.load(source, position)
        result = builder.op("dot", F32, group, group, builder.zero(F32), attribute=BF16_PAIRS)
        builder.store(out, position, result)
    assert "dot bf16 %1, %1, 0.0" in print_kernel(builder.kernel)
    assert I16.byte_size * BF16_PAIRS.terms == I32.byte_size
