"""Batches of small matrices, which kernels factor and solve in place of LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.native_program import print_program

Array = np.ndarray[Any, Any]
SHAPES = [("f32", 33, 4), ("f64", 8, 3), ("f32", 16, 9), ("f64", 19, 17), ("f32", 2, 32), ("f64", 3, 1)]
"""Types, counts and sizes: complete and incomplete groups of lanes, with and without loops, whole tiles and others."""


def text_of(call: str, *operands: str) -> str:
    parameters = "".join(f"  p{n} = {shape} parameter({n})\n" for n, shape in enumerate(operands))
    return f"HloModule m\nENTRY e {{\n{parameters}  ROOT r = {call}\n}}\n"


def lapack_text(target: str, operands: list[str], result: str, attributes: str) -> str:
    names = ", ".join(f"p{n}" for n in range(len(operands)))
    call = (
        f'{result} custom-call({names}), custom_call_target="lapack_{target}_ffi", '
        f"operand_layout_constraints={{{', '.join(operands)}}}, api_version=API_VERSION_TYPED_FFI, "
        f"backend_config={attributes}"
    )
    return text_of(call, *operands)


def run(text: str, *arguments: Array) -> list[Array]:
    """Runs a program that must not call LAPACK."""
    assert "scipy_" not in print_program(compile_module(xla.parse_hlo(text)).program)
    results = xla.Client("cpu").compile(text)(*arguments)
    return [np.asarray(each) for each in (results if isinstance(results, tuple | list) else [results])]


def numbers(t: str, *dimensions: int, seed: int = 0) -> Array:
    dtype = np.float32 if t == "f32" else np.float64
    return np.random.default_rng(seed).standard_normal(dimensions).astype(dtype)


def definite(t: str, count: int, n: int) -> Array:
    a = numbers(t, count, n, n)
    return a @ a.swapaxes(-1, -2) + np.eye(n, dtype=a.dtype) / 8


def assert_near(found: Array, expected: Array, size: int) -> None:
    eps = np.finfo(found.dtype).eps
    wide = expected.astype(np.float64)
    scale = np.abs(wide).max(axis=(-1, -2), keepdims=True, initial=0)
    assert (np.abs(found.astype(np.float64) - wide) <= 8 * size * eps * scale).all()


# -- Cholesky factors


@pytest.mark.parametrize(("t", "count", "n"), SHAPES)
@pytest.mark.parametrize("uplo", "LU")
def test_cholesky_with_status(t: str, count: int, n: int, uplo: str) -> None:
    a = definite(t, count, n)
    a[1, n - 1, n - 1] = -1
    matrix, prefix = f"{t}[{count},{n},{n}]{{1,2,0}}", "s" if t == "f32" else "d"
    text = lapack_text(f"{prefix}potrf", [matrix], f"({matrix}, s32[{count}]{{0}})", f"{{uplo = {ord(uplo)} : ui8}}")
    packed, info = run(text, a)
    assert list(info) == [n if number == 1 else 0 for number in range(count)]
    good = info == 0
    factor = np.tril(packed) if uplo == "L" else np.triu(packed).swapaxes(-1, -2)
    product = factor[good].astype(np.float64) @ factor[good].astype(np.float64).swapaxes(-1, -2)
    assert_near(product.astype(a.dtype), a[good], n)


@pytest.mark.parametrize("lower", ["true", "false"])
def test_matrices_without_a_factor_are_nan(lower: str) -> None:
    a = definite("f32", 20, 6)
    a[0], a[3, 2, 2], a[5, 4, 4], a[7, 0, 0] = 0, -1, np.nan, np.inf
    factor = run(text_of(f"f32[20,6,6] cholesky(p0), lower={lower}", "f32[20,6,6]"), a)[0]
    expected = xla.Client("interpreter").compile(text_of(f"f32[20,6,6] cholesky(p0), lower={lower}", "f32[20,6,6]"))(a)
    np.testing.assert_array_equal(np.isnan(factor), np.isnan(np.asarray(expected)))
    assert np.isnan(factor[[0, 3, 5]]).all()
    assert np.isfinite(np.delete(factor, [0, 3, 5, 7], axis=0)).all()


# -- LU


def lu(a: Array) -> list[Array]:
    count, m, n = a.shape
    t, prefix = ("f32", "s") if a.dtype == np.float32 else ("f64", "d")
    matrix = f"{t}[{count},{m},{n}]{{1,2,0}}"
    result = f"({matrix}, s32[{count},{min(m, n)}]{{1,0}}, s32[{count}]{{0}})"
    return run(lapack_text(f"{prefix}getrf", [matrix], result, "{}"), a)


def rows_exchanged(a: Array, pivots: Array) -> Array:
    made = a.copy()
    for number, row in enumerate(pivots):
        made[[number, row - 1]] = made[[row - 1, number]]
    return made


@pytest.mark.parametrize(("t", "count", "n"), SHAPES)
@pytest.mark.parametrize("excess", [-2, 0, 3])
def test_lu(t: str, count: int, n: int, excess: int) -> None:
    m = max(1, min(32, n + excess))
    a, k = numbers(t, count, m, n), min(m, n)
    packed, pivots, info = lu(a)
    lower = np.tril(packed, -1)[..., :k] + np.eye(m, k)
    product = lower.astype(np.float64) @ np.triu(packed)[..., :k, :].astype(np.float64)
    assert_near(product.astype(a.dtype), np.stack([rows_exchanged(*each) for each in zip(a, pivots, strict=True)]), m)
    assert not info.any()
    assert (np.abs(lower) <= 1).all()


@pytest.mark.parametrize("n", [3, 9])
def test_lu_of_singular_matrices(n: int) -> None:
    """A column without a pivot stays as it is, and the first one is the status. Of equal pivots, the first is taken."""
    a = numbers("f64", 11, n, n)
    a[0], a[1, :, 1], a[2] = 0, 0, 1
    a[3, 1, 0] = np.nan
    packed, pivots, info = lu(a)
    assert list(info[:3]) == [1, 2, 2]
    assert not info[4:].any()
    assert not packed[0].any()
    np.testing.assert_array_equal(pivots[0], np.arange(1, n + 1))
    np.testing.assert_array_equal(packed[2], np.tri(n, k=-1)[:, :1] * np.eye(1, n) + np.eye(n, 1) * np.ones((1, n)))
    assert np.isnan(packed[3]).any()
    assert np.isfinite(packed[4:]).all()


# -- triangular systems


@pytest.mark.parametrize("transposition", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("side", ["true", "false"])
@pytest.mark.parametrize("lower", ["true", "false"])
@pytest.mark.parametrize(("t", "count", "n", "columns"), [("f32", 18, 4, 3), ("f64", 9, 13, 1), ("f32", 16, 32, 7)])
def test_triangular_solve(t: str, count: int, n: int, columns: int, lower: str, side: str, transposition: str) -> None:
    a = numbers(t, count, n, n) / n
    a += 2 * np.eye(n, dtype=a.dtype)
    for unit in ("true", "false"):
        b = numbers(t, *((count, n, columns) if side == "true" else (count, columns, n)), seed=1)
        shapes = f"{t}[{count},{n},{n}]", f"{t}[{','.join(map(str, b.shape))}]"
        attributes = f"left_side={side}, lower={lower}, unit_diagonal={unit}, transpose_a={transposition}"
        text = text_of(f"{shapes[1]} triangular-solve(p0, p1), {attributes}", *shapes)
        (found,) = run(text, a, b)
        assert_near(found, np.asarray(xla.Client("interpreter").compile(text)(a, b)), n)


def test_a_zero_on_the_diagonal_divides() -> None:
    a, b = np.zeros((2, 2, 2), np.float32), np.array([[[1], [0]], [[-1], [2]]], np.float32)
    attributes = "left_side=true, lower=true, unit_diagonal=false, transpose_a=NO_TRANSPOSE"
    text = text_of(f"f32[2,2,1] triangular-solve(p0, p1), {attributes}", "f32[2,2,2]", "f32[2,2,1]")
    (found,) = run(text, a, b)
    np.testing.assert_array_equal(found[:, 0, 0], [np.inf, -np.inf])
    assert np.isnan(found[:, 1, 0]).all()


# -- QR


def qr(a: Array, columns: int) -> tuple[Array, Array, Array]:
    """Returns the first columns of Q, the packed factors and the factors of the reflectors."""
    count, m, n = a.shape
    t, prefix, k = ("f32" if a.dtype == np.float32 else "f64"), ("s" if a.dtype == np.float32 else "d"), min(m, n)
    matrix, taus = f"{t}[{count},{m},{n}]{{1,2,0}}", f"{t}[{count},{k}]{{1,0}}"
    packed, factors = run(lapack_text(f"{prefix}geqrf", [matrix], f"({matrix}, {taus})", "{}"), a)
    wide = np.zeros((count, m, columns), a.dtype)
    wide[..., : min(n, columns)] = packed[..., :columns]
    matrix = f"{t}[{count},{m},{columns}]{{1,2,0}}"
    (q,) = run(lapack_text(f"{prefix}orgqr", [matrix, taus], matrix, "{}"), wide, factors)
    return q, packed, factors


@pytest.mark.parametrize(
    ("t", "count", "m", "n", "columns"),
    [
        ("f32", 33, 4, 4, 4),
        ("f64", 8, 3, 2, 3),
        ("f32", 16, 9, 5, 7),
        ("f64", 19, 12, 17, 12),
        ("f32", 2, 32, 32, 32),
        ("f64", 3, 1, 1, 1),
    ],
)
def test_qr(t: str, count: int, m: int, n: int, columns: int) -> None:
    """The diagonal of R has the signs that LAPACK gives it."""
    a, k = numbers(t, count, m, n), min(m, n)
    q, packed, _ = qr(a, columns)
    r = np.triu(packed)[..., :k, :].astype(np.float64)
    assert_near((q[..., :k].astype(np.float64) @ r).astype(a.dtype), a, m)
    gram = q.swapaxes(-1, -2).astype(np.float64) @ q
    assert np.abs(gram - np.eye(columns)).max() <= 2 * m * np.finfo(a.dtype).eps
    expected = np.diagonal(np.linalg.qr(a[0].astype(np.float64))[1])
    np.testing.assert_array_equal(np.sign(np.diagonal(r[0])), np.sign(expected))


def test_qr_of_special_matrices() -> None:
    """Columns that are zeros below the diagonal have no reflector. Squares neither overflow nor vanish."""
    a = numbers("f32", 18, 6, 4)
    a[0], a[1], a[2], a[3] = 0, np.triu(a[1]), a[2] * np.float32(1e-30), a[3] * np.float32(1e30)
    a[4, 2, 1], a[5, :, 0] = np.nan, 0
    q, packed, factors = qr(a, 6)
    assert not factors[:2].any()
    np.testing.assert_array_equal(packed[:2], a[:2])
    np.testing.assert_array_equal(q[:2], np.broadcast_to(np.eye(6, dtype=np.float32), (2, 6, 6)))
    assert np.isnan(q[4]).any()
    assert factors[5, 0] == 0
    good = np.delete(np.arange(18), 4)
    r = np.triu(packed[good]).astype(np.float64)
    assert_near((q[good].astype(np.float64) @ r).astype(np.float32), a[good], 6)
    gram = q[good].swapaxes(-1, -2).astype(np.float64) @ q[good]
    assert np.abs(gram - np.eye(6)).max() <= 12 * np.finfo(np.float32).eps


@pytest.mark.parametrize(("t", "size"), [("f32", 1.5e38), ("f64", 6e307)])
def test_qr_of_huge_matrices(t: str, size: float) -> None:
    """The inverse of their largest element is a denormal number."""
    a = numbers(t, 19, 6, 4)
    a = np.clip(a / 4, -1, 1) * a.dtype.type(size)
    q, packed, _ = qr(a, 6)
    r = np.triu(packed) / a.dtype.type(size)
    assert_near(q @ r, a / a.dtype.type(size), 6)
    assert np.abs(q.swapaxes(-1, -2) @ q - np.eye(6)).max() <= 12 * np.finfo(a.dtype).eps


def test_a_column_without_a_reflector_changes_no_others() -> None:
    a = np.zeros((5, 3, 3), np.float32)
    a[..., 0, 0], a[..., 1, 1], a[3, 2, 2] = 1, 2, np.inf
    _, packed, _ = qr(a, 3)
    np.testing.assert_array_equal(packed, a)


# -- eigenvalues


def eigenvalues(a: Array, uplo: str = "L", mode: str = "V") -> list[Array]:
    count, n, _ = a.shape
    t, prefix = ("f32", "s") if a.dtype == np.float32 else ("f64", "d")
    matrix = f"{t}[{count},{n},{n}]{{1,2,0}}"
    result = f"({matrix}, {t}[{count},{n}]{{1,0}}, s32[{count}]{{0}})"
    attributes = f"{{mode = {ord(mode)} : ui8, uplo = {ord(uplo)} : ui8}}"
    return run(lapack_text(f"{prefix}syevd", [matrix], result, attributes), a)


def symmetric(t: str, count: int, n: int) -> Array:
    a = numbers(t, count, n, n)
    return a + a.swapaxes(-1, -2)


@pytest.mark.parametrize(
    ("t", "count", "n"), [("f32", 33, 4), ("f64", 9, 7), ("f32", 16, 16), ("f64", 3, 1), ("f32", 2, 2)]
)
@pytest.mark.parametrize("uplo", "LU")
def test_eigenvalues_and_vectors(t: str, count: int, n: int, uplo: str) -> None:
    """The other triangle is not read. Residuals are within 2 n rounding errors of the largest element."""
    a = symmetric(t, count, n)
    given = (
        np.tril(a) + 7 * np.triu(np.ones((n, n)), 1) if uplo == "L" else np.triu(a) + 7 * np.tril(np.ones((n, n)), -1)
    )
    vectors, values, info = eigenvalues(given.astype(a.dtype), uplo)
    assert not info.any()
    assert (np.diff(values, axis=-1) >= 0).all()
    wide, bound = vectors.astype(np.float64), 2 * n * float(np.finfo(a.dtype).eps)
    scale = np.abs(a).max(axis=(-1, -2), keepdims=True)
    assert (np.abs(a @ wide - wide * values[:, None, :]) <= bound * scale).all()
    assert np.abs(wide.swapaxes(-1, -2) @ wide - np.eye(n)).max() <= bound
    only = eigenvalues(given.astype(a.dtype), uplo, "N")[1]
    np.testing.assert_array_equal(only, values)


def test_eigenvalues_of_special_matrices() -> None:
    """Zeros, multiple and tiny eigenvalues, ranges of exponents, and matrices that do not converge."""
    n, a = 6, symmetric("f64", 20, 6)
    a[0], a[1], a[2] = 0, np.eye(n), 1
    a[3], a[4] = a[3] * 1e-200, a[4] * 1e200
    a[5], a[6] = np.diag(np.arange(n)[::-1]), np.diag(10.0 ** -np.arange(n))
    a[7, 0, 0], a[8, 2, 1] = np.nan, np.inf
    vectors, values, _ = eigenvalues(a)
    good = [number for number in range(20) if number not in (7, 8)]
    expected = np.linalg.eigvalsh(a[good])
    scale = np.abs(expected).max(axis=-1, keepdims=True)
    assert (np.abs(values[good] - expected) <= 20 * np.finfo(np.float64).eps * scale).all()
    gram = vectors[good].swapaxes(-1, -2) @ vectors[good]
    assert np.abs(gram - np.eye(n)).max() <= 20 * np.finfo(np.float64).eps
    np.testing.assert_array_equal(values[5], np.arange(n))
    assert np.isnan(values[7:9]).any(axis=-1).all()


@pytest.mark.parametrize(("t", "exponent"), [("f32", -112), ("f32", 120), ("f64", -1008), ("f64", 1016)])
def test_eigenvalues_of_huge_and_tiny_matrices(t: str, exponent: int) -> None:
    """Products of rotations and elements lose no digits."""
    a = symmetric(t, 18, 6)
    factor = a.dtype.type(2.0**exponent)
    vectors, values, _ = eigenvalues(a)
    scaled_vectors, scaled_values, _ = eigenvalues(a * factor)
    np.testing.assert_array_equal(scaled_vectors, vectors)
    np.testing.assert_array_equal(scaled_values, values * factor)


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_eigenvalues_of_matrices_that_are_not_finite(bad: float, n: int) -> None:
    """They are NaN, wherever the element is and whatever the other matrices of the batch are."""
    for others in (np.eye(n), symmetric("f32", 1, n)[0]):
        a = np.broadcast_to(others.astype(np.float32), (5, n, n)).copy()
        a[1, 0, 0], a[2, n - 1, n - 1], a[3, n - 1, 0] = bad, bad, bad
        a[3, 0, n - 1] = bad
        vectors, values, _ = eigenvalues(a)
        assert np.isnan(vectors[1:4]).all()
        assert np.isnan(values[1:4]).all()
        assert np.isfinite(vectors[[0, 4]]).all()


def test_the_eigenvalue_of_a_single_element() -> None:
    a = np.array([1, np.inf, -np.inf, np.nan, 0], np.float32)[:, None, None]
    vectors, values, _ = eigenvalues(a)
    np.testing.assert_array_equal(values, a[:, 0])
    np.testing.assert_array_equal(vectors, np.ones_like(a))


# -- all of them


def test_results_do_not_depend_on_the_place_in_the_batch() -> None:
    a, order = numbers("f32", 100, 9, 9), np.random.default_rng(1).permutation(100)
    for one, other in zip(lu(a), lu(a[order]), strict=True):
        np.testing.assert_array_equal(one[order], other)
    a += a.swapaxes(-1, -2) * (np.arange(100) % 7)[:, None, None]  # some converge earlier than others
    for one, other in zip(eigenvalues(a), eigenvalues(a[order]), strict=True):
        np.testing.assert_array_equal(one[order], other)


@pytest.mark.parametrize(("count", "n"), [(33, 4), (8, 9), (19, 17), (5, 32)])
def test_results_overwrite_operands_that_nothing_reads_later(count: int, n: int) -> None:
    """Complete and incomplete groups of lanes. No temporaries: all arrays but the arguments lie in the result."""
    shape = f"f64[{count},{n},{n}]"
    solve = "left_side=true, lower=true, transpose_a=NO_TRANSPOSE"
    text = (
        f"HloModule m\nENTRY e {{ l = {shape} parameter(0)\n b = {shape} parameter(1)\n c = {shape} multiply(b, b)\n"
        f" x = {shape} triangular-solve(l, c), {solve}\n y = {shape} triangular-solve(l, x), {solve}\n"
        f" ROOT r = {shape} multiply(y, c) }}"
    )
    once = text.replace("multiply(y, c)", "multiply(y, y)")
    a, b = np.tril(definite("f64", count, n)), numbers("f64", count, n, n)
    for program, arrays in ((text, 1), (once, 0)):
        compiled = xla.Client("cpu").compile(program)
        assert compiled.memory_analysis().temp_size_in_bytes == -(-arrays * count * n * n * 8 // 64) * 64
        np.testing.assert_allclose(compiled(a, b), xla.Client("interpreter").compile(program)(a, b), rtol=1e-9)


@pytest.mark.parametrize("n", [3, 8])
def test_factors_overwrite_their_matrices(n: int) -> None:
    shape = f"f64[21,{n},{n}]"
    text = (
        f"HloModule m\nENTRY e {{ a = {shape} parameter(0)\n b = {shape} add(a, a)\n"
        f" c = {shape} cholesky(b), lower=true\n ROOT r = {shape} negate(c) }}"
    )
    a = definite("f64", 21, n)
    compiled = xla.Client("cpu").compile(text)
    assert compiled.memory_analysis().temp_size_in_bytes < 2 * 21 * n * n * 8
    np.testing.assert_allclose(compiled(a), xla.Client("interpreter").compile(text)(a), rtol=1e-9)
