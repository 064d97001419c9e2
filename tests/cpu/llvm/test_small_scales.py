"""Numbers of f8e8m0fnu, of which the smallest is a denormal f32, and complex numbers by bitcasts."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from xlapy.testing.comparison import assert_close


def compare(text: str, *arguments: np.ndarray) -> None:
    expected, actual = (np.asarray(xla.Client(name).compile(text)(*arguments)) for name in ("interpreter", "cpu"))
    assert_close(actual, expected, rule="exact")


def smallest(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.uint8).view(ml_dtypes.float8_e8m0fnu)


def test_a_sum_of_tiny_products_is_the_smallest_number_not_nan():
    dot = """HloModule m ENTRY e { a = f8e8m0fnu[3,K] parameter(0)  b = f8e8m0fnu[K,3] parameter(1)
      ROOT d = f8e8m0fnu[3,3] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    for terms in (1, 2, 40):
        compare(dot.replace("K", str(terms)), smallest(3, terms), smallest(terms, 3))


def test_a_narrowed_number_is_the_smallest_one_unless_it_is_0():
    convert = "HloModule m ENTRY e { x = f64[5] parameter(0)  ROOT r = f8e8m0fnu[5] convert(x) }"
    compare(convert, np.array([1e-60, 2.0**-150, 0.0, 1.0, -1.0]))


def test_the_smallest_scale_does_not_make_products_0():
    scaled = """HloModule m ENTRY e { a = f8e4m3[2,4] parameter(0)  b = f8e4m3[4,2] parameter(1)
      s = f8e8m0fnu[2,2] parameter(2)  t = f8e8m0fnu[2,2] parameter(3)
      ROOT d = f32[2,2] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    ones = np.full((2, 2), 127, np.uint8).view(ml_dtypes.float8_e8m0fnu)
    large = np.full((2, 4), 100, np.float32).astype(ml_dtypes.float8_e4m3)
    compare(scaled, large, large.reshape(4, 2), smallest(2, 2), ones)


@pytest.mark.parametrize(("source", "target"), [("c64[4,2]", "c128[4]"), ("c128[4]", "c64[4,2]")])
def test_complex_numbers_by_bitcasts(source: str, target: str):
    text = f"HloModule m ENTRY e {{ x = {source} parameter(0)  ROOT r = {target} bitcast-convert(x) }}"
    shape = xla.Shape.parse(source)
    parts = np.random.default_rng(0).standard_normal((2, *shape.dimensions))
    compare(text, (parts[0] + 1j * parts[1]).astype(shape.dtype))
