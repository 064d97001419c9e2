"""Random bits equal XLA's, numbers have the right distribution, and stochastic rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interpreter.runners.instruction import (
    Array,
    Case,
    evaluate,
    evaluate_all,
    evaluate_on_xla,
    module_text,
    typed,
)
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import UnsupportedError
from xlapy.base.flags import Flags
from xlapy.base.shape import Shape
from xlapy.interpreter import Context
from xlapy.runtime.backends.interpreter import InterpreterBackend
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_values import random_array, special_values
from xlapy.text import parse_hlo

# -- rng-bit-generator

ALGORITHMS = [("rng_default", 2), ("rng_default", 3), ("rng_philox", 2), ("rng_philox", 3), ("rng_three_fry", 2)]
STATES = {2: [0x10000000007, 2**64 - 2], 3: [0x10000000007, 2**64 - 2, 5]}
BIT_SHAPES = [
    "u2[3]",
    "u4[5]",
    "s4[3]",
    "u8[5]",
    "s8[2,3]",
    "u16[33]",
    "s16[3]",
    "u32[]",
    "u32[1]",
    "u32[5]",
    "u32[7,5]",
    "u32[5,7]",
    "u32[5,4,6]",
    "u32[3,1,3]",
    "u32[1,1]",
    "s32[3,3]",
    "u64[]",
    "u64[3]",
    "s64[2,3]",
    "u64[4,4]",
    "f4e2m1fn[3]",
    "f8e5m2[3]",
    "f8e4m3fn[4]",
    "f16[3]",
    "bf16[9]",
    "f32[3]",
    "f64[5]",
    "u32[0]",
    "u64[3,0]",
    "u32[2,0,3]",
    "u16[0,5]",
]


def bit_case(algorithm: str, state: Array, shape: str) -> Case:
    operand = Shape.of(state)
    return Case("rng-bit-generator", (state,), f"({operand}, {shape})", f"algorithm={algorithm}")


def random_bits(algorithm: str, state: list[int], shape: str) -> tuple[list[int], Array]:
    """Returns the next state and the bits, from the interpreter."""
    next_state, bits = evaluate_all([bit_case(algorithm, np.array(state, np.uint64), shape)])[0]
    return next_state.tolist(), bits


@pytest.mark.parametrize(("algorithm", "words"), ALGORITHMS)
def test_bits_and_states_equal_those_of_xla(algorithm: str, words: int) -> None:
    rng = np.random.default_rng(words)
    states = [np.array(STATES[words], np.uint64), *rng.integers(0, 2**64, (2, words), np.uint64)]
    cases = [bit_case(algorithm, states[i % 3], shape) for i, shape in enumerate(BIT_SHAPES)]
    cases += [bit_case(algorithm, states[0], shape) for shape in ("u32[17]", "u64[9]", "u16[3,3]")]
    for case, ours, theirs in zip(cases, evaluate_all(cases), evaluate_on_xla(cases), strict=True):
        assert np.array_equal(ours[0], theirs[0]), case.title
        # XLA's result has unsigned integers, whatever the declared type
        assert ours[1].shape == theirs[1].shape and ours[1].tobytes() == unsigned_bytes(theirs[1], case), case.title


def unsigned_bytes(bits: Array, case: Case) -> bytes:
    """Returns the bytes of the declared type; bytes of 4-bit signed integers are sign-extended."""
    declared = Shape.parse(case.shape).tuple_shapes[1].element_type
    if declared.is_signed and declared.bits < 8:
        return bits.astype(np.uint8).astype(declared.dtype).tobytes()
    return bits.tobytes()


def test_known_bits() -> None:
    state, bits = random_bits("rng_three_fry", STATES[2], "u32[5]")
    assert bits.tolist() == [247816488, 3103328271, 2161373712, 2526410611, 1649262347]
    assert state == [0x10000000007, 1]
    state, bits = random_bits("rng_philox", STATES[3], "u32[5]")
    assert bits.tolist() == [1274556017, 2934543689, 3892636542, 1254837333, 2129255220]
    assert state == [0x10000000007, 0, 6]
    state, bits = random_bits("rng_philox", STATES[2], "u32[3]")
    assert bits.tolist() == [1719521977, 2788842578, 3700541080] and state == [0x10000000007, 2**64 - 1]


@pytest.mark.parametrize(("algorithm", "words"), ALGORITHMS)
@pytest.mark.parametrize(("first", "rest", "whole"), [("u32[8]", "u32[8]", "u32[16]"), ("u64[2]", "u64[4]", "u64[6]")])
def test_the_next_state_continues_after_the_bits(algorithm: str, words: int, first: str, rest: str, whole: str) -> None:
    start = [9, 2**64 - 1, 5] if words == 3 else [9, 77]
    state, head = random_bits(algorithm, start, first)
    _, tail = random_bits(algorithm, state, rest)
    _, together = random_bits(algorithm, start, whole)
    assert np.concatenate([head, tail]).tolist() == together.tolist()


def test_two_words_of_philox_state_lose_the_carry() -> None:
    """Checks that the upper half, which is the key, does not change: numbers repeat after 2^64 blocks, as in XLA."""
    assert random_bits("rng_philox", [9, 2**64 - 1], "u32[8]")[0] == [9, 1]
    assert random_bits("rng_philox", [9, 2**64 - 1, 5], "u32[8]")[0] == [9, 1, 6]


def test_narrow_elements_are_the_lowest_bits_of_words() -> None:
    _, words = random_bits("rng_philox", STATES[3], "u32[6]")
    for element_type, mask in (("u16", 0xFFFF), ("u8", 0xFF), ("u4", 0xF), ("u2", 3), ("u1", 1)):
        _, bits = random_bits("rng_philox", STATES[3], f"{element_type}[6]")
        assert [int(b) for b in bits] == [int(w) & mask for w in words]


@pytest.mark.parametrize("algorithm", ["rng_philox", "rng_three_fry"])
def test_bits_without_the_state(algorithm: str) -> None:
    state = np.array([3, 4], np.uint64)
    _, expected = random_bits(algorithm, [3, 4], "s32[7]")
    assert np.array_equal(evaluate("rng-bit-generator", [state], "s32[7]", f"algorithm={algorithm}"), expected)


def test_bits_are_evenly_spread() -> None:
    for algorithm, words in ALGORITHMS:
        _, bits = random_bits(algorithm, STATES[words], "u32[40000]")
        share = np.unpackbits(bits.view(np.uint8)).reshape(-1, 32).mean(axis=0)
        assert np.all(np.abs(share - 0.5) < 5 * 0.5 / np.sqrt(40000)), algorithm


@pytest.mark.parametrize(
    ("shape", "state", "code", "values"),
    [
        ("pred[3]", [1, 2], shared.ELEMENT_TYPE, ("pred[3]",)),
        ("c64[3]", [1, 2], shared.ELEMENT_TYPE, ("c64[3]",)),
        ("u32[3]", [1, 2, 3, 4], codes.RANDOM_STATE, ("rng_default", "u64[2]", "u64[3]", "u64[4]")),
        ("u32[3]", [1], codes.RANDOM_STATE, ("rng_default", "u64[2]", "u64[3]", "u64[1]")),
    ],
)
def test_refusals(shape: str, state: list[int], code: ErrorCode, values: tuple[str, ...]) -> None:
    with raises(UnsupportedError, code, "r0 (rng-bit-generator)", *values):
        random_bits("rng_default", state, shape)


def test_three_fry_state_has_two_words() -> None:
    with raises(UnsupportedError, codes.RANDOM_STATE, "rng_three_fry", "u64[2]", "u64[3]"):
        random_bits("rng_three_fry", [1, 2, 3], "u32[3]")


# -- rng

FLOATS = ["f4e2m1fn", "f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz", "f8e3m4", "f16", "bf16", "f32", "f64"]
INTEGERS = ["s2", "s4", "s8", "s16", "s32", "s64", "u2", "u4", "u8", "u16", "u32", "u64"]


def draw(distribution: str, first: Any, second: Any, shape: str, context: Context | None = None) -> Array:
    element_type = shape.partition("[")[0]
    operands = [typed(element_type, first), typed(element_type, second)]
    return evaluate("rng", operands, shape, f"distribution=rng_{distribution}", context)


@pytest.mark.parametrize("element_type", FLOATS)
def test_uniform_floats_fill_the_half_open_interval(element_type: str) -> None:
    numbers = draw("uniform", -1, 2, f"{element_type}[100,40]").astype(np.float64)
    assert numbers.min() >= -1 and numbers.max() < 2
    if element_type in ("f32", "f64", "f16"):
        assert abs(numbers.mean() - 0.5) < 5 * np.sqrt(3 / 4 / 4000)
        assert abs(numbers.var() - 3 / 4) < 0.05
        counts, _ = np.histogram(numbers, 10, (-1, 2))
        assert np.all(np.abs(counts - 400) < 5 * np.sqrt(400))


@pytest.mark.parametrize("element_type", FLOATS)
def test_the_upper_limit_is_never_reached(element_type: str) -> None:
    limits = typed(element_type, [1.0, 1.5])
    assert np.all(draw("uniform", *limits, f"{element_type}[3000]").astype(np.float64) < 1.5)
    near = np.nextafter(limits[0], limits[1])
    assert np.all(draw("uniform", limits[0], near, f"{element_type}[100]") == limits[0])


def test_uniform_floats_of_the_whole_range_are_finite() -> None:
    for element_type in ("f32", "f64", "f16"):
        limit = np.finfo(typed(element_type, 0).dtype).max
        numbers = draw("uniform", -limit, limit, f"{element_type}[1000]").astype(np.float64)
        assert np.isfinite(numbers).all() and abs((numbers / float(limit)).mean()) < 0.2


@pytest.mark.parametrize("element_type", INTEGERS)
def test_uniform_integers(element_type: str) -> None:
    low, high = (0, 3) if element_type.startswith("u") else (-2, 1)
    numbers = draw("uniform", low, high, f"{element_type}[30,100]").astype(np.int64)
    values, counts = np.unique(numbers, return_counts=True)
    assert values.tolist() == list(range(low, high))
    assert np.all(np.abs(counts - 1000) < 5 * np.sqrt(1000))


def test_uniform_integers_of_the_whole_range() -> None:
    for element_type, wide in (("s64", np.int64), ("u64", np.uint64), ("s8", np.int8)):
        info = np.iinfo(wide)
        numbers = draw("uniform", wide(info.min), wide(info.max), f"{element_type}[2000]").astype(np.float64)
        middle, width = (float(info.min) + float(info.max)) / 2, float(info.max) - float(info.min)
        assert abs((numbers.mean() - middle) / width) < 0.04
        assert numbers.min() < middle - width / 4 and numbers.max() > middle + width / 4


def test_an_empty_interval_gives_its_lower_limit() -> None:
    assert draw("uniform", 5, 5, "s32[2]").tolist() == [5, 5]
    assert draw("uniform", 5, 2, "u8[2]").tolist() == [5, 5]
    assert draw("uniform", 2.0, 1.0, "f32[2]").tolist() == [2, 2]
    assert draw("uniform", False, True, "pred[3]").tolist() == [False] * 3


@pytest.mark.parametrize("element_type", ["f16", "bf16", "f32", "f64"])
def test_normal_numbers(element_type: str) -> None:
    numbers = draw("normal", 3, 2, f"{element_type}[200,50]").astype(np.float64)
    standard = (numbers - 3) / 2
    assert abs(standard.mean()) < 0.05 and abs(standard.var() - 1) < 0.07
    assert abs((np.abs(standard) < 1).mean() - 0.6827) < 0.025
    assert abs((standard**3).mean()) < 0.13


def test_sizes_of_zero_and_scalars() -> None:
    assert draw("normal", 0, 1, "f32[3,0]").size == 0
    assert draw("uniform", 0, 9, "s16[0]").size == 0
    assert draw("uniform", 0, 1, "f32[]").shape == () and draw("uniform", 0, 9, "u32[]").shape == ()


def test_a_run_can_be_repeated_and_devices_and_seeds_differ() -> None:
    def numbers(**fields: int) -> list[float]:
        return draw("uniform", 0, 1, "f32[4]", Context(**fields)).tolist()

    first = numbers()
    assert numbers() == first
    others = [numbers(seed=1), numbers(seed=-1), numbers(replica_id=1), numbers(partition_id=1)]
    assert len({tuple(n) for n in [first, *others]}) == 5


def test_the_flag_seeds_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    operands = (np.zeros((), np.float32), np.ones((), np.float32))
    text = module_text([Case("rng", operands, "f32[4]", "distribution=rng_normal")])
    program = InterpreterBackend().compile(parse_hlo(text))

    def numbers(seed: int) -> list[float]:
        monkeypatch.setattr(flags, "current", lambda: Flags({"rng_seed": seed}))
        return program.execute(operands)[0].tolist()

    assert numbers(5) == numbers(5) != numbers(6)
    assert numbers(0) == evaluate("rng", operands, "f32[4]", "distribution=rng_normal").tolist()


def test_each_instruction_of_a_run_draws_its_own_numbers() -> None:
    operands = (np.float32(0), np.float32(1))
    case = Case("rng", tuple(map(np.asarray, operands)), "f32[4]", "distribution=rng_uniform")
    first, second = evaluate_all([case, case])
    assert first.tolist() != second.tolist()


# -- rng-get-and-update-state


def test_the_state_starts_as_in_xla_and_advances_by_delta() -> None:
    context = Context()
    cases = [Case("rng-get-and-update-state", (), "u64[2]", f"delta={delta}") for delta in (3, 2**62, 1)]
    states = [value.tolist() for value in evaluate_all(cases, context)]
    assert states == [[0x7012395, 0], [0x7012398, 0], [0x7012398 + 2**62, 0]]
    assert evaluate_all(cases[:1], context)[0].tolist() == [0x7012399 + 2**62, 0]
    assert evaluate_all(cases[:1])[0].tolist() == [0x7012395, 0]


def test_the_state_has_128_bits() -> None:
    cases = [Case("rng-get-and-update-state", (), "u64[2]", f"delta={2**63 - 1}")] * 4
    assert evaluate_all(cases)[-1].tolist() == [(0x7012395 + 3 * (2**63 - 1)) % 2**64, 1]


# -- stochastic-convert


def stochastic(values: Any, random: Any, source: str, target: str) -> list[int]:
    bits = {"f4e2m1fn": 4, "f8e5m2": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}[source]
    operands = [typed(source, values), np.asarray(random).astype(np.uint64).astype(typed(f"u{bits}", 0).dtype)]
    result = evaluate("stochastic-convert", operands, f"{target}[{len(values)}]")
    return [int(n) for n in result]


def test_the_fraction_is_the_probability() -> None:
    quarter = 2**30
    random = [0, quarter - 1, quarter, 2**32 - 1]
    assert stochastic([2.25] * 4, random, "f32", "s32") == [3, 3, 2, 2]
    assert stochastic([-2.25] * 4, random, "f32", "s32") == [-3, -3, -2, -2]
    assert stochastic([5.0, -5.0, 0.0], [0, 0, 0], "f32", "s8") == [5, -5, 0]
    numbers = np.random.default_rng(4).integers(0, 2**16, 20000)
    assert abs(np.mean(stochastic([6.75] * 20000, numbers, "f16", "s16")) - 6.75) < 0.02


def test_numbers_beyond_the_range_saturate_and_nan_is_0() -> None:
    values = [np.inf, -np.inf, np.nan, 127.5, 126.5, -127.5, -128.5, 1e9]
    assert stochastic(values, [0] * 8, "f32", "s8") == [127, -128, 0, 127, 127, -128, -128, 127]
    values = [2.0**63, -(2.0**63), 2.0**53 + 2, 0.5, 1e300]
    assert stochastic(values, [0] * 5, "f64", "s64") == [2**63 - 1, -(2**63), 2**53 + 2, 1, 2**63 - 1]
    assert stochastic([2.0**51 + 0.5], [2**63 - 1], "f64", "s64") == [2**51 + 1]
    assert stochastic([2.0**51 + 0.5], [2**63], "f64", "s64") == [2**51]


def test_narrow_types() -> None:
    assert stochastic([1.5, 1.5, -6.0], [7, 8, 0], "f4e2m1fn", "s4") == [2, 1, -6]
    assert stochastic([3.5, 3.5], [127, 128], "f8e5m2", "s32") == [4, 3]


@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64"])
def test_stochastic_conversion_agrees_with_xla(source: str) -> None:
    rng = np.random.default_rng(9)
    dtype = typed(source, 0).dtype
    values = np.concatenate(
        [
            special_values(dtype),
            (rng.standard_normal(200) * 10).astype(dtype),
            (rng.standard_normal(200) * 200).astype(dtype),
            random_array((100,), dtype, rng, special=True),
        ]
    )
    random = random_array(values.shape, typed(f"u{dtype.itemsize * 8}", 0).dtype, rng, special=True)
    cases = [
        Case("stochastic-convert", (values, random), f"{target}[{len(values)}]")
        for target in ("s8", "s16", "s32", "s64")
    ]
    for case, ours, theirs in zip(cases, evaluate_all(cases), evaluate_on_xla(cases), strict=True):
        assert_close(ours, theirs, rule="bits", where=case.title)


@pytest.mark.parametrize("target", ["u8", "bf16", "pred"])
def test_conversion_targets_that_xla_does_not_support(target: str) -> None:
    operands = [np.ones(2, np.float32), np.ones(2, np.uint32)]
    with raises(UnsupportedError, shared.ELEMENT_TYPE, target):
        evaluate("stochastic-convert", operands, f"{target}[2]")
