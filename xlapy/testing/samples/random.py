"""Samples of operations that create or use random bits."""

from __future__ import annotations

from xlapy.testing.samples.sample import REFUSED_AT_RUN, Sample

_INTEGERS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
_FLOATS = ("f8e5m2", "f8e4m3fn", "f16", "bf16", "f32", "f64")
_SIGNED = ("s4", "s8", "s16", "s32", "s64")
_NARROW = ("f16", "bf16", "f8e5m2", "f8e4m3fn", "f4e2m1fn", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32")


def _module(name: str, body: str, note: str = "") -> Sample:
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return Sample(name, f"HloModule {name}\n\nENTRY main {{\n{lines}\n}}\n", note)


def _rng(name: str, t: str, sizes: str, distribution: str) -> Sample:
    return _module(
        name,
        f"""
        a = {t}[] parameter(0)
        b = {t}[] parameter(1)
        ROOT r = {t}[{sizes}] rng(a, b), distribution={distribution}
        """,
    )


def _bits(name: str, state: str, result: str, algorithm: str, note: str = "") -> Sample:
    body = f"s = {state} parameter(0)\nROOT r = {result} rng-bit-generator(s), algorithm={algorithm}"
    return _module(name, body, note)


def _generated(algorithm: str, words: int, t: str) -> Sample:
    state = f"u64[{words}]"
    return _bits(f"{algorithm}_{words}_{t}", state, f"({state}, {t}[3,5])", algorithm)


def _stochastic(operand: str, random: str, result: str, sizes: str = "2,3") -> Sample:
    """Returns a stochastic-convert. XLA's verifier accepts any result type; the op is defined only for signed
    integers."""
    note = "" if result in _SIGNED else REFUSED_AT_RUN
    return _module(
        f"stochastic_convert_{operand}_{result}",
        f"""
        x = {operand}[{sizes}] parameter(0)
        u = {random}[{sizes}] parameter(1)
        ROOT r = {result}[{sizes}] stochastic-convert(x, u)
        """,
        note,
    )


SAMPLES = [
    *(_rng(f"rng_uniform_{t}", t, "2,3", "rng_uniform") for t in ("pred", *_INTEGERS, *_FLOATS)),
    *(_rng(f"rng_normal_{t}", t, "2,3", "rng_normal") for t in _FLOATS),
    _rng("rng_uniform_scalar", "f32", "", "rng_uniform"),
    _rng("rng_normal_empty", "f32", "0,4", "rng_normal"),
    _rng("rng_uniform_dynamic", "f32", "<=4", "rng_uniform"),
    *(
        _generated(algorithm, words, t)
        for algorithm, words in (("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3), ("rng_default", 2))
        for t in ("u8", "u16", "u32", "u64")
    ),
    _bits("rng_bit_generator_of_u32_state", "u32[4]", "(u32[4], u32[7])", "rng_default", REFUSED_AT_RUN),
    _bits("rng_bit_generator_of_floats", "u64[2]", "(u64[2], f32[7])", "rng_three_fry"),
    _bits("rng_bit_generator_without_state", "u64[3]", "u32[2,2]", "rng_philox"),
    _bits("rng_bit_generator_of_none", "u64[2]", "(u64[2], u32[0])", "rng_three_fry"),
    _bits("rng_bit_generator_scalar", "u64[2]", "(u64[2], u64[])", "rng_three_fry"),
    _module("rng_get_and_update_state", "ROOT r = u64[2] rng-get-and-update-state(), delta=4096"),
    *(_stochastic("f32", "u32", t) for t in _NARROW),
    _stochastic("f64", "u64", "f32"),
    _stochastic("f16", "u16", "f8e5m2"),
    _stochastic("bf16", "u16", "s8"),
    _stochastic("f8e5m2", "u8", "s4"),
    _stochastic("f64", "u64", "s64", ""),
]
