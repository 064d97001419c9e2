"""Fourier transforms on cpu agree with NumPy in double precision; tests the plans of their kernels."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from xlapy.codegen.emitters.fft.kernel import max_points
from xlapy.codegen.emitters.fft.kernels import fourier_kernel
from xlapy.codegen.emitters.fft.plan import Axis, Transform, plan_transforms, radices
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.target import host_target
from xlapy.loops import F64
from xlapy.loops.evaluate import evaluate

CPU = xla.Client("cpu")
Array = np.ndarray[Any, Any]
NAMES = {"float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128"}


def sizes(dimensions: tuple[int, ...]) -> str:
    return ",".join(map(str, dimensions))


def transform_text(kind: str, operand: Array, result: tuple[int, ...], lengths: tuple[int, ...]) -> str:
    parts = {4: ("f32", "c64"), 8: ("f64", "c128")}[operand.real.itemsize]
    of_result = parts[0] if kind == "IRFFT" else parts[1]
    return (
        f"HloModule m\nENTRY e {{ x = {NAMES[operand.dtype.name]}[{sizes(operand.shape)}] parameter(0)\n"
        f"ROOT r = {of_result}[{sizes(result)}] fft(x), fft_type={kind}, fft_length={{{sizes(lengths)}}} }}"
    )


def numbers(kind: str, dimensions: tuple[int, ...], dtype: str) -> Array:
    generator = np.random.default_rng(prod(dimensions))
    real = generator.standard_normal(dimensions).astype(dtype)
    return real if kind == "RFFT" else (real + 1j * generator.standard_normal(dimensions).astype(dtype))


def expected(kind: str, x: Array, lengths: tuple[int, ...]) -> Array:
    """Returns NumPy's transform of the numbers in double precision."""
    axes = range(-len(lengths), 0)
    functions = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}
    return functions[kind](x.astype(np.float64 if kind == "RFFT" else np.complex128), lengths, axes)


def error(actual: Array, wanted: Array) -> float:
    """Returns the relative error of all numbers together, in the Euclidean norm."""
    return float(np.linalg.norm((actual - wanted).ravel()) / np.linalg.norm(wanted.ravel()))


def assert_transformed(kind: str, dimensions: tuple[int, ...], count: int, dtype: str) -> None:
    lengths = dimensions[-count:]
    given = (*dimensions[:-1], dimensions[-1] // 2 + 1) if kind == "IRFFT" else dimensions
    x = numbers(kind, given, dtype)
    wanted = expected(kind, x, lengths)
    actual = np.asarray(CPU.compile(transform_text(kind, x, wanted.shape, lengths))(x))
    assert actual.shape == wanted.shape
    assert error(actual, wanted) < np.finfo(dtype).eps * 0.6 * np.log2(2 + prod(lengths))


ROWS = [(1,), (2,), (7, 8), (9, 2), (16, 16), (20, 12), (33, 60), (3, 4, 31), (100,), (17, 1024), (2, 2048), (3, 4800)]


@pytest.mark.parametrize("dimensions", ROWS, ids=str)
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_rows(kind: str, dimensions: tuple[int, ...]):
    assert_transformed(kind, dimensions, 1, "float64" if len(dimensions) == 2 and dimensions[0] % 2 else "float32")


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
@pytest.mark.parametrize("dimensions", [(4, 6, 8), (2, 16, 9), (7, 1, 10), (3, 8, 10, 12)], ids=str)
def test_several_dimensions(kind: str, dimensions: tuple[int, ...]):
    assert_transformed(kind, dimensions, min(3, len(dimensions)), "float32")


@pytest.mark.parametrize("dimensions", [(2, 2048, 20), (1, 1100, 36)], ids=str)
def test_long_outer_dimensions(dimensions: tuple[int, ...]):
    assert_transformed("FFT", dimensions, 2, "float32")


@pytest.mark.parametrize(
    ("kind", "dimensions"),
    [
        ("FFT", (5, 97)),
        ("IFFT", (2, 1009)),
        ("RFFT", (74,)),
        ("IRFFT", (4, 37)),
        ("FFT", (35, 97)),
        ("FFT", (16, 1013)),
        ("IFFT", (20, 1009)),
        ("FFT", (33, 47)),
        ("IFFT", (17, 74)),
        ("FFT", (16, 2018)),
        ("FFT", (16, 4051)),
        ("RFFT", (40, 106)),
        ("RFFT", (16, 37)),
        ("IRFFT", (19, 41)),
    ],
)
def test_large_primes(kind: str, dimensions: tuple[int, ...]):
    assert_transformed(kind, dimensions, 1, "float32")


@pytest.mark.parametrize("kind", ["RFFT", "IRFFT"])
@pytest.mark.parametrize(
    ("dimensions", "dtype"),
    [
        ((16, 1), "float32"),
        ((40, 9), "float64"),
        ((33, 945), "float32"),
        ((19, 37), "float64"),
        ((32, 94), "float32"),
        ((16, 3375), "float32"),
    ],
)
def test_rows_of_real_numbers_that_have_no_halves(kind: str, dimensions: tuple[int, ...], dtype: str):
    """Odd lengths, and those with half a length that is convolved, by both algorithms."""
    assert_transformed(kind, dimensions, 1, dtype)
    assert_transformed(kind, (3, *dimensions), 2, dtype)
    length, prefix = dimensions[-1], "f32" if dtype == "float32" else "f64"
    other = "c64" if dtype == "float32" else "c128"
    spectrum, reals = (
        f"{other}[{sizes((*dimensions[:-1], length // 2 + 1))}]",
        f"{prefix}[{sizes(dimensions)}]",
    )
    operand, result = (reals, spectrum) if kind == "RFFT" else (spectrum, reals)
    text = f"HloModule m\nENTRY e {{ x = {operand} parameter(0)\nROOT r = {result} fft(x), fft_type={kind}"
    compiled = CPU.compile(f"{text}, fft_length={{{length}}} }}")
    assert compiled.memory_analysis().temp_size_in_bytes == 0


@pytest.mark.parametrize("length", [41, 47, 106, 1009, 1019])
def test_many_rows_of_large_primes_are_one_kernel(length: int):
    x = np.zeros((64, length), np.complex64)
    compiled = CPU.compile(transform_text("FFT", x, x.shape, (length,)))
    assert compiled.memory_analysis().temp_size_in_bytes == 0
    assert compiled.as_hlo_text(optimized=True).count(" fft(") == 1


@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT"])
@pytest.mark.parametrize(("dtype", "large"), [("float64", 2.0**1004), ("float32", 2.0**108), ("float32", 2.0**-90)])
@pytest.mark.parametrize("dimensions", [(30021,), (1, 10007), (2, 4099)], ids=str)
def test_convolutions_of_large_numbers_do_not_overflow(
    kind: str, dimensions: tuple[int, ...], dtype: str, large: float
):
    """The results fit; the sums of a transform of the convolution's length would not."""
    x = numbers(kind, dimensions, dtype)
    scaled = x * np.dtype(dtype).type(large)
    wanted = expected(kind, x, dimensions[-1:])
    actual = np.asarray(CPU.compile(transform_text(kind, x, wanted.shape, dimensions[-1:]))(scaled))
    assert error(actual.astype(np.complex128) / large, wanted) < np.finfo(dtype).eps * 0.6 * np.log2(2 + dimensions[-1])


def test_outer_dimensions_of_large_primes():
    assert_transformed("FFT", (3, 37, 20), 2, "float64")
    assert_transformed("IFFT", (2, 47, 37, 16), 3, "float32")


def test_large_primes_use_kernels_of_other_lengths():
    x = np.zeros((3, 1009), np.complex64)
    after = compile_module(xla.parse_hlo(transform_text("FFT", x, x.shape, (1009,)))).module.to_text()
    assert after.count(" fft(") == 2 and " dot(" not in after


def test_single_precision_is_as_accurate_as_numpy():
    for length in (1 << 16, 3**9, 1 << 21):
        x = numbers("IFFT", (length,), "float32")
        actual = np.asarray(CPU.compile(transform_text("IFFT", x, x.shape, x.shape))(x))
        wanted = expected("IFFT", x, x.shape)
        assert error(actual, wanted) < 2 * error(np.fft.ifft(x), wanted)


def test_imaginary_parts_at_the_ends_of_half_a_spectrum_are_ignored():
    x = numbers("IRFFT", (20, 9), "float32")
    text = transform_text("IRFFT", x, (20, 16), (16,))
    ends = x.copy()
    ends[:, [0, -1]] += 5j
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(ends)), np.asarray(CPU.compile(text)(x)))
    long = numbers("IRFFT", (3, 2049), "float32")
    text = transform_text("IRFFT", long, (3, 4096), (4096,))
    found = np.asarray(CPU.compile(text)(long))
    long[:, [0, -1]] += 5j
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(long)), found)
    text = transform_text("IRFFT", x, (20, 17), (17,))
    ends[:, -1] = x[:, -1]
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(ends)), np.asarray(CPU.compile(text)(x)))


@pytest.mark.parametrize(
    ("kind", "length"), [("RFFT", 15), ("IRFFT", 37), ("FFT", 37), ("FFT", 47), ("RFFT", 4096), ("IRFFT", 4096)]
)
def test_a_row_with_nan_does_not_change_other_rows(kind: str, length: int):
    points = length // 2 + 1 if kind == "IRFFT" else length
    x = numbers(kind, (18, points), "float32")
    text = transform_text(kind, x, (18, length // 2 + 1 if kind == "RFFT" else length), (length,))
    wanted = np.asarray(CPU.compile(text)(x))
    x[3, 2] = np.nan
    found = np.asarray(CPU.compile(text)(x))
    assert np.isnan(found[3]).all()
    np.testing.assert_array_equal(np.delete(found, 3, axis=0), np.delete(wanted, 3, axis=0))


def test_empty_operands_give_zeros():
    text = (
        "HloModule m\nENTRY e { x = f32[3,0] parameter(0)\n ROOT r = c64[3,0] fft(x), fft_type=RFFT, fft_length={0} }"
    )
    assert np.asarray(CPU.compile(text)(np.zeros((3, 0), np.float32))).shape == (3, 0)


def test_a_transform_of_many_rows_is_one_kernel_and_little_code():
    x = np.zeros((64, 1024), np.complex64)
    compiled = compile_module(xla.parse_hlo(transform_text("FFT", x, x.shape, (1024,))))
    assert [
        line.split("(")[0].strip() for line in compiled.stages()["thunks.txt"].splitlines() if "kernel " in line
    ] == ["kernel r"]
    assert compiled.code.size < 50_000
    assert "gather" not in compiled.llvm and "scatter" not in compiled.llvm


@pytest.mark.parametrize(
    ("dimensions", "count"), [((1 << 18,), 1), ((1 << 21,), 1), ((40, 2048), 1), ((20, 30, 40), 3), ((2048, 32), 2)]
)
def test_transforms_work_in_the_memory_of_their_results(dimensions: tuple[int, ...], count: int):
    x = np.zeros(dimensions, np.complex64)
    compiled = CPU.compile(transform_text("FFT", x, x.shape, x.shape[-count:]))
    assert compiled.memory_analysis().temp_size_in_bytes == 0


@pytest.mark.parametrize("kind", ["RFFT", "IRFFT"])
@pytest.mark.parametrize("dimensions", [(1 << 18,), (1 << 22,), (3, 96 * 1024), (40, 2048), (2, 32)], ids=str)
def test_transforms_of_real_numbers_work_in_the_memory_of_their_results(kind: str, dimensions: tuple[int, ...]):
    """One to three kernels; few and many rows."""
    *leading, length = dimensions
    half = (*leading, length // 2 + 1)
    x, result = (
        (np.zeros(dimensions, np.float32), half) if kind == "RFFT" else (np.zeros(half, np.complex64), dimensions)
    )
    compiled = CPU.compile(transform_text(kind, x, result, (length,)))
    assert compiled.memory_analysis().temp_size_in_bytes == 0


@pytest.mark.parametrize("kind", ["RFFT", "IRFFT"])
@pytest.mark.parametrize("length", [2 * 64, 2 * 93, 2 * 1023, 2 * 1024, 2 * 2100, 2 * 31**2 * 5])
@pytest.mark.parametrize("rows", [1, 3, 8, 17])
def test_long_rows_of_real_numbers(kind: str, length: int, rows: int):
    """Halves of an even and of an odd number of points, in one kernel and in two."""
    assert_transformed(kind, (rows, length), 1, "float64" if rows == 3 else "float32")


def test_three_kernels_of_real_numbers():
    for kind in ("RFFT", "IRFFT"):
        assert_transformed(kind, (2, 3 * (1 << 21)), 1, "float32")


# -- plans and kernels


def test_plans():
    rows = plan_transforms(1024, 100, 1, 1024, 16)
    assert rows == [Transform(Axis(1024, 1, 1), Axis(100, 1024, 1024))]
    long = plan_transforms(1 << 20, 1, 1, 1024, 16)
    assert long is not None and [each.points.size for each in long] == [1024, 1024]
    longest = plan_transforms(1 << 24, 1, 1, 1024, 16)
    assert longest is not None and len(longest) == 3 and all(each.points.size <= 1024 for each in longest)
    assert [each.keeps_places for each in longest] == [False, True, True]
    prime = plan_transforms(1009, 16, 1, 1024, 16)
    assert prime == [Transform(Axis(1009, 1, 1), Axis(16, 1009, 1009))]
    assert plan_transforms(1009, 15, 1, 1024, 16) is None
    assert plan_transforms(10007, 16, 1, 1024, 16) is None
    assert plan_transforms(1 << 24, 1, 2, 1024, 16) is None


@pytest.mark.parametrize("length", [1, 2, 16, 128, 1024, 60, 31 * 8, 945])
def test_the_product_of_the_radices_is_the_length(length: int):
    assert prod(radices(length)) == length


def test_the_longest_kernel_fits_into_scratch_memory():
    made = plan_transforms(max_points(host_target()), 64, 1, max_points(host_target()), 8)
    assert made is not None and fourier_kernel("longest", host_target(), F64, made[0], -1, 1.0).kernel.scratch


@pytest.mark.parametrize(("points", "rows"), [(6, 11), (8, 8), (5, 3)])
def test_a_kernel_evaluated(points: int, rows: int):
    """The evaluator agrees with NumPy; the last group of lanes is masked."""
    x = numbers("FFT", (rows, points), "float64")
    (transform,) = plan_transforms(points, rows, 1, 1024, 8) or []
    made = fourier_kernel("small", host_target(), F64, transform, -1, 1.0)
    result = np.zeros(2 * x.size)
    evaluate(made.kernel, {"operand": x.view(np.float64).ravel(), "roots": made.twiddles, "result": result})
    np.testing.assert_allclose(result.view(np.complex128).reshape(x.shape), np.fft.fft(x), atol=1e-13)


def test_a_kernel_in_place_evaluated():
    """Elements between the points are lanes; the last group of lanes is masked."""
    x = numbers("FFT", (3, 6, 11), "float64")
    (transform,) = plan_transforms(6, 3, 11, 1024, 8) or []
    made = fourier_kernel("small", host_target(), F64, transform, -1, 1.0, in_place=True)
    result = x.view(np.float64).ravel().copy()
    evaluate(made.kernel, {"roots": made.twiddles, "result": result})
    np.testing.assert_allclose(result.view(np.complex128).reshape(x.shape), np.fft.fft(x, axis=1), atol=1e-13)


@pytest.mark.parametrize(("points", "sign"), [(37, -1), (47, 1)])
def test_a_convolution_evaluated(points: int, sign: int):
    """Both algorithms, in one direction each; the last group of lanes is masked."""
    x = numbers("FFT", (11, points), "float64")
    (transform,) = plan_transforms(points, 11, 1, 1024, 8) or []
    made = fourier_kernel("prime", host_target(), F64, transform, sign, 1.0)
    result = np.zeros(2 * x.size)
    evaluate(made.kernel, {"operand": x.view(np.float64).ravel(), "roots": made.twiddles, "result": result})
    wanted = np.fft.fft(x) if sign < 0 else np.fft.ifft(x) * points
    np.testing.assert_allclose(result.view(np.complex128).reshape(x.shape), wanted, atol=1e-12)


@functools.cache
def big() -> Array:
    return numbers("FFT", (300, 96), "float32")


def test_rows_do_not_depend_on_their_neighbors():
    x = big()
    whole = np.asarray(CPU.compile(transform_text("FFT", x, x.shape, (96,)))(x))
    part = x[5:200]
    np.testing.assert_array_equal(
        np.asarray(CPU.compile(transform_text("FFT", part, part.shape, (96,)))(part)), whole[5:200]
    )
