"""Integer powers with negative exponents, and roots of denormal numbers: the same on all platforms, as on XLA:CPU."""

from __future__ import annotations

from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.xla_reference import run_hlo
from xlapy.base import flags
from xlapy.base.flags import Flags
from xlapy.base.shape import Shape

SIGNED, UNSIGNED = ("s2", "s4", "s8", "s16", "s32", "s64"), ("u2", "u4", "u8", "u16", "u32", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
NARROW_FLOATS = ("f8e5m2", "f8e4m3fn", "f8e3m4")


def run(platform: str, text: str, *arguments: Any) -> Any:
    if platform == "xla":
        return np.asarray(run_hlo(text, list(arguments)))
    return np.asarray(xla.Client(platform).compile(text)(*arguments))


def array_type(name: str) -> Any:
    return Shape.parse(f"{name}[]").dtype


def power_of(t: str, size: int, exponent: str) -> str:
    """Returns a module of p to the power of e, which is parameter 1 or a constant."""
    return f"""HloModule m
ENTRY m {{
  p = {t}[{size}] parameter(0)
  {exponent}
  ROOT r = {t}[{size}] power(p, e)
}}
"""


def whole_power(base: int, exponent: int) -> int:
    """The power rounded towards zero; 0 for the base 0 and a negative exponent."""
    if exponent >= 0:
        return base**exponent
    return {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)


@pytest.mark.parametrize("t", (*SIGNED, *UNSIGNED))
def test_integer_powers(t: str) -> None:
    """Exponents are small, as XLA:CPU reads six bits of large ones."""
    limits = ml_dtypes.iinfo(array_type(t))
    chosen = [n for n in (limits.min, -64, -7, -3, -2, -1, 0, 1, 2, 3, 7, limits.max) if limits.min <= n <= limits.max]
    pairs = [(base, exponent) for base in chosen for exponent in chosen if exponent < 60]
    bases, exponents = (np.array(column, array_type(t)) for column in zip(*pairs, strict=True))
    period = int(limits.max) - int(limits.min) + 1
    expected = [(whole_power(*pair) - limits.min) % period + limits.min for pair in pairs]
    text = power_of(t, len(pairs), f"e = {t}[{len(pairs)}] parameter(1)")
    for platform in ("interpreter", "cpu", "xla"):
        assert list(map(int, run(platform, text, bases, exponents))) == expected, platform


@pytest.mark.parametrize("t", SIGNED)
@pytest.mark.parametrize("exponent", [-1, -2, -3])
def test_powers_with_constant_exponents(t: str, exponent: int) -> None:
    """Simplification keeps the values of powers with exponents that are not known. XLA divides 1 by the base if the
    exponent is -1, so that there 0 to the power of -1 is 1 / 0 = -1."""
    limits = ml_dtypes.iinfo(array_type(t))
    if exponent < limits.min:
        return
    chosen = sorted({n for n in (limits.min, -3, -2, -1, 0, 1, 2, 3, limits.max) if limits.min <= n <= limits.max})
    bases, size = np.array(chosen, array_type(t)), len(chosen)
    expected = [whole_power(base, exponent) for base in chosen]
    for literal in (
        f"c = {t}[] constant({exponent})\n  e = {t}[{size}] broadcast(c), dimensions={{}}",
        f"e = {t}[{size}] constant({{{', '.join([str(exponent)] * size)}}})",
    ):
        text = power_of(t, size, literal)
        for platform in ("interpreter", "cpu"):
            assert list(map(int, run(platform, text, bases))) == expected, platform
        by_xla = [-1 if base == 0 and exponent == -1 else value for base, value in zip(chosen, expected, strict=True)]
        assert list(map(int, run("xla", text, bases))) == by_xla


@pytest.mark.parametrize("t", ("s4", "u8", "s32", "u64"))
@pytest.mark.parametrize("exponent", [3, 6, 7])
def test_constant_exponents_of_integers_wrap(t: str, exponent: int) -> None:
    limits = ml_dtypes.iinfo(array_type(t))
    chosen = sorted({n for n in (limits.min, -3, -2, -1, 0, 1, 2, 3, limits.max) if limits.min <= n <= limits.max})
    bases, period = np.array(chosen, array_type(t)), int(limits.max) - int(limits.min) + 1
    expected = [(base**exponent - int(limits.min)) % period + int(limits.min) for base in map(int, chosen)]
    text = power_of(
        t, len(chosen), f"c = {t}[] constant({exponent})\n  e = {t}[{len(chosen)}] broadcast(c), dimensions={{}}"
    )
    for platform in ("interpreter", "cpu"):
        assert list(map(int, run(platform, text, bases))) == expected, platform


@pytest.mark.parametrize("t", FLOATS)
@pytest.mark.parametrize("exponent", [-17, -16, -3, -2, -1, -0.5, 0.5, 1.5, 2.5, 3, 4, 5, 7, 16, 17])
def test_constant_exponents_of_floats(t: str, exponent: float) -> None:
    """Powers have the values and signs of C's pow, within 2 ULP; zeros and infinities are exact."""
    dtype, generator = array_type(t), np.random.default_rng(0)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0, -2.0, 0.5, -0.25, 30.0, -30.0, 1e-4, -1e-4]
    scales = np.exp(generator.uniform(-9, 9, 200) * (1 if t == "f16" else 9))
    with np.errstate(all="ignore"):
        bases = np.array([*special, *(scales * np.sign(generator.standard_normal(200)))]).astype(dtype)
        exact = np.power(bases.astype(np.longdouble), np.longdouble(exponent))
        expected = exact.astype(dtype).astype(np.longdouble)
    text = power_of(
        t, len(bases), f"c = {t}[] constant({exponent})\n  e = {t}[{len(bases)}] broadcast(c), dimensions={{}}"
    )
    found = run("cpu", text, bases).astype(np.longdouble)
    tiny = float(ml_dtypes.finfo(dtype).tiny)
    normal = np.isfinite(expected) & (np.abs(expected) >= tiny)
    rest = ~normal & ~(np.abs(expected) < tiny) | (expected == 0)
    np.testing.assert_array_equal(found[rest], expected[rest])
    assert (
        np.abs(found[normal] - exact[normal]) <= 2 * float(ml_dtypes.finfo(dtype).eps) * np.abs(exact[normal])
    ).all()
    assert (np.abs(found[~normal & ~rest]) <= tiny).all()
    signed = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[signed]), np.signbit(expected[signed]))


# -- roots


def root_of(op: str, t: str, size: int) -> str:
    return f"HloModule m\nENTRY e {{\n  p = {t}[{size}] parameter(0)\n  ROOT r = {t}[{size}] {op}(p)\n}}\n"


def small_numbers(t: str) -> Any:
    """Returns denormal numbers, the smallest normal ones and zeros, of both signs."""
    limits = ml_dtypes.finfo(array_type(t))
    tiny, least = float(limits.tiny), float(limits.smallest_subnormal)
    positive = [least, 3 * least, tiny / 2, tiny * 0.75, tiny, 4 * tiny, 0.0]
    return np.array([*positive, *[-number for number in positive]]).astype(array_type(t))


def roots(op: str, values: Any) -> Any:
    """Returns the true roots; the reciprocal root of a zero is an infinity of its sign."""
    with np.errstate(all="ignore"):
        found = np.sqrt(values.astype(np.float64))
        return found if op == "sqrt" else 1 / found


def assert_close(found: Any, expected: Any, t: str) -> None:
    """Compares numbers with one unit in the last place, and signs of zeros and infinities."""
    found, expected = found.astype(np.float64), expected.astype(array_type(t)).astype(np.float64)
    np.testing.assert_allclose(found, expected, rtol=float(ml_dtypes.finfo(array_type(t)).eps))
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[is_number]), np.signbit(expected[is_number]))


@pytest.mark.parametrize("op", ["rsqrt", "sqrt"])
@pytest.mark.parametrize("t", FLOATS)
def test_roots_of_denormal_numbers(op: str, t: str) -> None:
    """The interpreter keeps denormal numbers. On cpu and XLA:CPU they are zeros of their sign, except for f16, which is
    computed in f32, where its denormal numbers are normal."""
    values = small_numbers(t)
    text = root_of(op, t, len(values))
    assert_close(run("interpreter", text, values), roots(op, values), t)
    is_denormal = np.abs(values.astype(np.float64)) < float(ml_dtypes.finfo(array_type(t)).tiny)
    flushed = values if t == "f16" else np.where(is_denormal, np.copysign(0, values), values).astype(values.dtype)
    for platform in ("cpu", "xla"):
        assert_close(run(platform, text, values), roots(op, flushed), t)


@pytest.mark.parametrize("op", ["rsqrt", "sqrt"])
@pytest.mark.parametrize("t", FLOATS)
def test_roots_of_denormal_numbers_that_are_kept(op: str, t: str) -> None:
    values = small_numbers(t)
    kept = Flags({"denormals": "keep"})
    with mock.patch.object(flags, "current", lambda: kept):
        found = run("cpu", root_of(op, t, len(values)), values)
    assert_close(found, roots(op, values), t)


@pytest.mark.parametrize("op", ["rsqrt", "sqrt"])
@pytest.mark.parametrize("t", NARROW_FLOATS)
def test_roots_in_narrow_types(op: str, t: str) -> None:
    """Their denormal numbers are normal in f32, in which they are computed."""
    values = small_numbers(t)
    text = root_of(op, t, len(values))
    results = [run(platform, text, values).astype(np.float64) for platform in ("interpreter", "cpu", "xla")]
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[1], results[2])
