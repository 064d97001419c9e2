"""Expansion of random bits and stochastic rounding, equal bit by bit."""

from __future__ import annotations

import pytest

from tests.passes.runner import assert_same_results, assert_unchanged, program, run_passes
from tests.raising import raises
from xlapy import opcodes
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.edit import clone_module
from xlapy.passes.expand.expand import Expand
from xlapy.text import parse_hlo


def assert_expanded(*lines: str, rule: str = "bits") -> None:
    before = parse_hlo(program(*lines))
    after = clone_module(before)
    assert run_passes(after, "expand{ops=all}")
    assert_same_results(before, after, rule)


@pytest.mark.parametrize("element_type", ["s4", "u8", "bf16", "f32", "u64", "f64", "f4e2m1fn"])
@pytest.mark.parametrize("algorithm", ["rng_three_fry 2", "rng_philox 2", "rng_philox 3", "rng_default 3"])
def test_bits_of_every_width(algorithm, element_type):
    name, words = algorithm.split()
    state = f"u64[{words}]"
    for sizes in ("", "1", "7", "2,3", "3,5", "3,0,5"):
        result = f"({state}, {element_type}[{sizes}])"
        assert_expanded(f"s = {state} parameter(0)", f"ROOT r = {result} rng-bit-generator(s), algorithm={name}")


@pytest.mark.parametrize("words", [2, 3])
def test_a_counter_that_overflows_carries(words):
    most = 2**64 - 1
    assert_expanded(
        f"s = u64[{words}] constant({{{', '.join([str(most)] * words)}}})",
        f"ROOT r = (u64[{words}], u32[40]) rng-bit-generator(s), algorithm=rng_philox",
    )


@pytest.mark.parametrize("operand", ["f64 u64", "f32 u32", "bf16 u16", "f16 u16", "f8e4m3b11fnuz u8", "f4e2m1fn u4"])
def test_rounding_at_random(operand):
    real, random = operand.split()
    for target in ("s2", "s4", "s8", "s16", "s32", "s64"):
        assert_expanded(
            f"x = {real}[200] parameter(0)",
            f"u = {random}[200] parameter(1)",
            f"ROOT r = {target}[200] stochastic-convert(x, u)",
        )


def test_undefined_operations_are_not_expanded():
    assert_unchanged(
        program("x = f32[2] parameter(0)", "u = u32[2] parameter(1)", "ROOT r = u8[2] stochastic-convert(x, u)"),
        "expand{ops=stochastic-convert}",
    )
    assert_unchanged(
        program("s = u32[4] parameter(0)", "ROOT r = u32[7] rng-bit-generator(s), algorithm=rng_default"),
        "expand{ops=rng-bit-generator}",
    )
    with raises(InvalidArgumentError, codes.EXPANDED_OPERATION, "rng-get-and-update-state"):
        Expand(ops=("rng-get-and-update-state",))


def drawn(t: str, distribution: str, low: str, high: str) -> list[str]:
    """Returns two draws and the state of the counter after them."""
    draw = f"rng(a, b), distribution=rng_{distribution}"
    return [
        f"a = {t}[] constant({low})",
        f"b = {t}[] constant({high})",
        f"x = {t}[7,3] {draw}",
        f"y = {t}[] {draw}, control-predecessors={{x}}",
        "s = u64[2] rng-get-and-update-state(), delta=1, control-predecessors={y}",
        f"ROOT r = ({t}[7,3], {t}[], u64[2]) tuple(x, y, s)",
    ]


@pytest.mark.parametrize(
    "limits",
    [
        *[f"{t} -1 2" for t in ("f4e2m1fn", "f8e5m2", "f8e4m3b11fnuz", "bf16", "f16", "f32", "f64", "s4", "s8", "s64")],
        *[
            "f32 2 1",
            "f8e3m4 -1 0",
            "bf16 -2 -1",
            "f16 1 inf",
            "f8e8m0fnu 1 4",
            "s64 -9223372036854775808 5",
            "s4 3 -3",
        ],
        *["u2 0 3", "u32 7 4294967295", "u64 1 18446744073709551615", "u8 9 9", "pred false true", "pred true false"],
    ],
)
def test_uniform_numbers(limits):
    element_type, low, high = limits.split()
    assert_expanded(*drawn(element_type, "uniform", low, high))


@pytest.mark.parametrize("element_type", ["f8e5m2", "bf16", "f16", "f32", "f64"])
def test_normal_numbers(element_type):
    assert_expanded(*drawn(element_type, "normal", "3", "2"))


def test_control_edges_of_a_draw_are_transferred_to_its_counter():
    module = parse_hlo(program(*drawn("f32", "uniform", "0", "1")))
    assert run_passes(module, "expand{ops=rng}")
    counters = [i for i in module.entry_computation if i.op is opcodes.RNG_GET_AND_UPDATE_STATE]
    first = next(counter for counter in counters if counter.delta == 6)
    assert [len(counter.control_predecessors) for counter in counters if counter is not first] == [1, 1]
    assert not first.control_predecessors and len(first.control_successors) == 1
