"""Cholesky, triangular-solve and fft: values, corner cases, and comparison with XLA:CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interpreter.runners.instruction import Array, Case, evaluate, evaluate_all, evaluate_on_xla, typed
from xlapy.base.shape import Shape
from xlapy.testing.comparison import assert_close

TYPES = ["f32", "f64", "c64", "c128"]
NARROW = ["f16", "bf16", "f8e5m2"]
NAN = float("nan")


def values(element_type: str, shape: tuple[int, ...], seed: int) -> Array:
    """Returns normally distributed numbers, drawn in float64 or complex128."""
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal(shape)
    if element_type.startswith("c"):
        numbers = numbers + 1j * rng.standard_normal(shape)
    return typed(element_type, numbers)


def adjoint(matrices: Array) -> Array:
    return matrices.swapaxes(-1, -2).conj()


def wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


# -- cholesky


def positive_definite(element_type: str, shape: tuple[int, ...], seed: int) -> Array:
    numbers = wide(values(element_type, shape, seed))
    size = shape[-1]
    return typed(element_type, numbers @ adjoint(numbers) / max(size, 1) + np.eye(size))


def cholesky(a: Any, shape: str, lower: bool = True) -> Any:
    return evaluate("cholesky", [a], shape, f"lower={str(lower).lower()}")


def test_cholesky_reads_and_writes_one_triangle() -> None:
    assert cholesky([[4, NAN], [2, 5]], "f32[2,2]").tolist() == [[2, 0], [1, 2]]
    assert cholesky([[4, 2], [NAN, 5]], "f32[2,2]", lower=False).tolist() == [[2, 1], [0, 2]]
    a = np.array([[4 + 9j, NAN], [2 + 2j, 6]], np.complex64)
    assert cholesky(a, "c64[2,2]").tolist() == [[2, 0], [1 + 1j, 2]]
    assert cholesky(a.T.copy(), "c64[2,2]", lower=False).tolist() == [[2, 1 + 1j], [0, 2]]


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("element_type", TYPES + NARROW)
def test_the_factor_times_its_adjoint_is_the_matrix(element_type: str, lower: bool) -> None:
    a = positive_definite(element_type, (2, 3, 7, 7), 1)
    factor = wide(cholesky(a, f"{element_type}[2,3,7,7]", lower))
    product = factor @ adjoint(factor) if lower else adjoint(factor) @ factor
    other = np.triu(factor, 1) if lower else np.tril(factor, -1)
    assert not other.any()
    diagonal = np.sqrt(np.diagonal(wide(a), axis1=-2, axis2=-1).real)
    magnitude = diagonal[..., :, np.newaxis] * diagonal[..., np.newaxis, :]
    assert_close(typed(element_type, product), wide(a), rule="accumulation", terms=7, magnitude=magnitude)


@pytest.mark.parametrize(
    "a",
    [
        [[-1]],
        [[0]],
        [[NAN]],
        [[0, 0], [0, 0]],
        [[1, 1], [1, 1]],
        [[1, 0], [NAN, 1]],
        [[1, 2], [2, 1]],
        [[1, 0, 0], [0, -1, 0], [0, 0, 1]],
    ],
)
def test_a_matrix_that_is_not_positive_definite_gives_nan_throughout(a: list[list[float]]) -> None:
    size = len(a)
    assert np.isnan(cholesky(a, f"f32[{size},{size}]")).all()
    assert np.isnan(cholesky(np.array(a, np.complex64).T.copy(), f"c64[{size},{size}]", lower=False)).all()


def test_the_rest_of_the_batch_is_not_affected() -> None:
    result = cholesky([[[-1, 0], [0, 1]], [[4, 0], [2, 5]]], "f32[2,2,2]")
    assert np.isnan(result[0]).all() and result[1].tolist() == [[2, 0], [1, 2]]


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (3, 0, 0)])
def test_cholesky_of_empty_arrays(shape: tuple[int, ...]) -> None:
    text = f"f32{list(shape)}".replace(" ", "")
    assert cholesky(np.zeros(shape, np.float32), text).shape == shape


def test_cholesky_agrees_with_xla() -> None:
    cases = [
        Case("cholesky", (positive_definite(element_type, shape, seed),), "", f"lower={lower}")
        for element_type in TYPES + NARROW
        for seed, (shape, lower) in enumerate([((1, 1), "true"), ((5, 5), "false"), ((2, 3, 3), "true")])
    ]
    cases += [Case("cholesky", (positive_definite(t, (150, 150), 7),), "", "lower=true") for t in ("f32", "c64")]
    cases = [Case(c.op, c.operands, str(Shape.of(c.operands[0])), c.attributes) for c in cases]
    for case, ours, theirs in zip(cases, evaluate_all(cases), evaluate_on_xla(cases), strict=True):
        a = wide(case.operands[0])
        magnitude = np.sqrt(np.max(np.diagonal(a, axis1=-2, axis2=-1).real)) * np.ones(a.shape)
        assert_close(ours, theirs, rule="accumulation", terms=a.shape[-1], magnitude=magnitude, where=case.title)


# -- triangular-solve

TRANSPOSES = ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]


def solve_attributes(left: bool, lower: bool, unit: bool, transpose: str) -> str:
    flags = {"left_side": left, "lower": lower, "unit_diagonal": unit}
    return ", ".join([*(f"{k}={str(v).lower()}" for k, v in flags.items()), f"transpose_a={transpose}"])


def triangle(a: Array, lower: bool, unit: bool) -> Array:
    """Returns the triangle of `a` that is read, in float64 or complex128."""
    part = np.tril(wide(a)) if lower else np.triu(wide(a))
    identity = np.eye(a.shape[-1])
    return np.where(identity == 1, 1, part) if unit else part


def transposed(a: Array, transpose: str) -> Array:
    return {"NO_TRANSPOSE": a, "TRANSPOSE": a.swapaxes(-1, -2), "ADJOINT": adjoint(a)}[transpose]


def triangular(element_type: str, shape: tuple[int, ...], seed: int) -> Array:
    """Returns a well-conditioned matrix in which both triangles have elements."""
    size = shape[-1]
    return typed(element_type, wide(values(element_type, shape, seed)) / max(size, 1) + 1.5 * np.eye(size))


def solve_case(element_type: str, batch: tuple[int, ...], sizes: tuple[int, int], seed: int, **flags: Any) -> Case:
    size, columns = sizes
    a = triangular(element_type, (*batch, size, size), seed)
    b = values(element_type, (*batch, size, columns) if flags["left"] else (*batch, columns, size), seed + 1)
    return Case("triangular-solve", (a, b), str(Shape.of(b)), solve_attributes(**flags))


def all_flags() -> list[dict[str, Any]]:
    yes_no = (True, False)
    return [
        {"left": left, "lower": lower, "unit": unit, "transpose": transpose}
        for left in yes_no
        for lower in yes_no
        for unit in yes_no
        for transpose in TRANSPOSES
    ]


def test_solving_by_substitution() -> None:
    a, attributes = [[2, NAN], [1, 4]], "transpose_a=NO_TRANSPOSE"
    lower = f"left_side=true, lower=true, {attributes}"
    assert evaluate("triangular-solve", [a, [[2], [9]]], "f32[2,1]", lower).tolist() == [[1], [2]]
    unit = f"{lower}, unit_diagonal=true"
    assert evaluate("triangular-solve", [[[NAN, 0], [3, NAN]], [[2], [9]]], "f32[2,1]", unit).tolist() == [[2], [3]]
    right = f"left_side=false, lower=true, {attributes}"
    assert evaluate("triangular-solve", [a, [[4, 8]]], "f32[1,2]", right).tolist() == [[1, 2]]
    upper = f"left_side=true, lower=false, {attributes}"
    assert evaluate("triangular-solve", [[[2, 1], [NAN, 4]], [[4], [8]]], "f32[2,1]", upper).tolist() == [[1], [2]]


def test_transpose_and_adjoint() -> None:
    a, b = np.array([[1, 0], [2j, 1]], np.complex64), np.array([[1], [1]], np.complex64)
    solved = {
        transpose: evaluate("triangular-solve", [a, b], "c64[2,1]", solve_attributes(True, True, False, transpose))
        for transpose in TRANSPOSES
    }
    assert solved["NO_TRANSPOSE"].tolist() == [[1], [1 - 2j]]
    assert solved["TRANSPOSE"].tolist() == [[1 - 2j], [1]]
    assert solved["ADJOINT"].tolist() == [[1 + 2j], [1]]


@pytest.mark.parametrize("element_type", TYPES)
def test_the_solution_solves_the_equation(element_type: str) -> None:
    flags = all_flags()
    cases = [solve_case(element_type, (2, 2), (6, 3), 7 * i, **f) for i, f in enumerate(flags)]
    for case, f, x in zip(cases, flags, evaluate_all(cases), strict=True):
        a = transposed(triangle(case.operands[0], f["lower"], f["unit"]), f["transpose"])
        product = a @ wide(x) if f["left"] else wide(x) @ a
        magnitude = np.abs(a) @ np.abs(wide(x)) if f["left"] else np.abs(wide(x)) @ np.abs(a)
        assert_close(
            typed(element_type, product),
            wide(case.operands[1]),
            rule="accumulation",
            terms=6,
            magnitude=magnitude,
            where=case.title,
        )


@pytest.mark.parametrize("element_type", TYPES + NARROW)
def test_solutions_agree_with_xla(element_type: str) -> None:
    """Bounds the error by |inverse(a)| (|a| |x|): the bound of the residual, multiplied by the inverse matrix."""
    flags = all_flags() if element_type in ("f32", "c64") else all_flags()[::5]
    sizes = [((), (5, 3)), ((3,), (4, 1)), ((2, 1), (1, 2))]
    cases = [solve_case(element_type, *sizes[i % 3], 3 * i, **f) for i, f in enumerate(flags)]
    if element_type == "f32":
        flags = [*flags, flags[0]]
        cases.append(solve_case("f32", (), (140, 5), 99, **flags[0]))
    for case, f, ours, theirs in zip(cases, flags, evaluate_all(cases), evaluate_on_xla(cases), strict=True):
        a = transposed(triangle(case.operands[0], f["lower"], f["unit"]), f["transpose"])
        absolute, inverse, x = np.abs(a), np.abs(np.linalg.inv(a)), np.abs(wide(ours))
        magnitude = inverse @ (absolute @ x) if f["left"] else (x @ absolute) @ inverse
        assert_close(ours, theirs, rule="accumulation", terms=a.shape[-1], magnitude=magnitude, where=case.title)


@pytest.mark.parametrize(("a", "b"), [((0, 0), (0, 2)), ((3, 3), (3, 0)), ((0, 3, 3), (0, 3, 2))])
def test_solve_of_empty_arrays(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    operands = [np.ones(a, np.float32), np.ones(b, np.float32)]
    shape = str(Shape.of(operands[1]))
    assert evaluate("triangular-solve", operands, shape, solve_attributes(True, True, False, "TRANSPOSE")).shape == b


def test_a_zero_on_the_diagonal_divides() -> None:
    attributes = solve_attributes(True, True, False, "NO_TRANSPOSE")
    x = evaluate("triangular-solve", [[[0, 0], [1, 2]], [[1], [1]]], "f32[2,1]", attributes)
    assert x.tolist() == [[np.inf], [-np.inf]]


# -- fft


def fft(x: Any, shape: str, kind: str, *length: int) -> Any:
    return evaluate("fft", [x], shape, fft_attributes(kind, length))


def fft_attributes(kind: str, length: tuple[int, ...]) -> str:
    return f"fft_type={kind}, fft_length={{{','.join(map(str, length))}}}"


def test_values_of_transforms() -> None:
    x = np.array([1, 2, 3, 4], np.complex64)
    assert fft(x, "c64[4]", "FFT", 4).tolist() == [10, -2 + 2j, -2, -2 - 2j]
    assert fft(x, "c64[4]", "IFFT", 4).tolist() == [2.5, -0.5 - 0.5j, -0.5, -0.5 + 0.5j]
    assert fft([1, 2, 3, 4], "c64[3]", "RFFT", 4).tolist() == [10, -2 + 2j, -2]
    assert fft([1, 2, 3], "c64[2]", "RFFT", 3)[0] == 6
    half = np.array([10 + 7j, -2 + 2j, -2 - 5j], np.complex64)
    assert fft(half, "f32[4]", "IRFFT", 4).tolist() == [1, 2, 3, 4]
    assert fft(np.array([6 + 1j], np.complex64), "f32[1]", "IRFFT", 1).tolist() == [6]


def definition(x: Array, dimension: int, sign: int) -> Array:
    """Computes the sum of the definition over one dimension."""
    size = x.shape[dimension]
    angles = sign * 2j * np.pi * np.outer(np.arange(size), np.arange(size)) / size
    return np.moveaxis(np.tensordot(np.exp(angles), x, (1, dimension)), 0, dimension)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_each_kind_is_the_sum_of_its_definition(rank: int) -> None:
    length = (3, 6, 5)[-rank:]
    x, real = values("c128", (2, 3, 6, 5), 1), values("f64", (2, 3, 6, 5), 2)
    forward, backward, spectrum = x, x, real
    for dimension in range(4 - rank, 4):
        forward, backward = definition(forward, dimension, -1), definition(backward, dimension, 1)
        spectrum = definition(spectrum, dimension, -1)
    half = spectrum[..., :3]
    for kind, operand, shape, expected in [
        ("FFT", x, "c128[2,3,6,5]", forward),
        ("IFFT", x, "c128[2,3,6,5]", backward / np.prod(length)),
        ("RFFT", real, "c128[2,3,6,3]", half),
        ("IRFFT", np.ascontiguousarray(half), "f64[2,3,6,5]", real),
    ]:
        assert np.abs(fft(operand, shape, kind, *length) - expected).max() < 1e-13 * np.prod(length), kind


def test_single_precision_transforms_are_computed_in_single_precision() -> None:
    """Compares bits with XLA, except for the rounding of a length that is not a power of two."""
    cases = [
        Case("fft", (values("f32", (3, 16), 3),), "c64[3,9]", fft_attributes("RFFT", (16,))),
        Case("fft", (values("c64", (3, 8), 4),), "c64[3,8]", fft_attributes("FFT", (8,))),
        Case("fft", (values("c64", (3, 15), 5),), "c64[3,15]", fft_attributes("IFFT", (15,))),
        Case("fft", (values("c64", (3, 9), 6),), "f32[3,17]", fft_attributes("IRFFT", (17,))),
    ]
    for case, ours, theirs in zip(cases, evaluate_all(cases), evaluate_on_xla(cases), strict=True):
        assert_close(ours, theirs, rule="exact", where=case.title)


def test_infinite_elements_make_infinite_sums() -> None:
    """Checks that real and imaginary parts do not mix if the transform only multiplies by the length."""
    x = np.array([np.inf + 1j, 2], np.complex64)
    assert str(fft(x, "c64[2]", "FFT", 2).tolist()) == "[(inf+1j), (inf+1j)]"


def fft_cases(real: str, seed: int) -> list[Case]:
    """Returns every kind of transform over odd, even and prime sizes, including IRFFT of spectra of no real array."""
    pair = {"f32": "c64", "f64": "c128"}[real]
    cases: list[Case] = []
    for batch, length in [
        ((), (1,)),
        ((), (8,)),
        ((3,), (7,)),
        ((2,), (3, 6)),
        ((), (4, 5)),
        ((2,), (2, 3, 4)),
        ((), (64,)),
        ((2,), (97,)),
        ((), (1, 1, 3)),
        ((), (30, 15)),
    ]:
        whole, half = (*batch, *length), (*batch, *length[:-1], length[-1] // 2 + 1)
        shapes = {
            "FFT": (pair, whole, pair, whole),
            "IFFT": (pair, whole, pair, whole),
            "RFFT": (real, whole, pair, half),
            "IRFFT": (pair, half, real, whole),
        }
        for kind, (source, dimensions, target, result) in shapes.items():
            operand = values(source, dimensions, seed + len(cases))
            shape = f"{target}[{','.join(map(str, result))}]"
            cases.append(Case("fft", (operand,), shape, fft_attributes(kind, length)))
    return cases


@pytest.mark.parametrize("real", ["f32", "f64"])
def test_transforms_agree_with_xla(real: str) -> None:
    cases = fft_cases(real, 5)
    for case, ours, theirs in zip(cases, evaluate_all(cases), evaluate_on_xla(cases), strict=True):
        rank = len(case.attributes.partition("{")[2].split(","))
        axes = tuple(range(-rank, 0))
        total = np.abs(wide(case.operands[0])).sum(axis=axes, keepdims=True)
        if "IRFFT" in case.attributes:
            total = 2 * total
        if "IFFT" in case.attributes or "IRFFT" in case.attributes:
            total = total / np.prod(ours.shape[-rank:])
        magnitude = np.broadcast_to(total, ours.shape)
        assert_close(ours, theirs, rule="accumulation", magnitude=magnitude, where=case.title)


@pytest.mark.parametrize(
    ("source", "dimensions", "shape", "kind", "length"),
    [
        ("c64", (5,), "c64[5]", "FFT", (0,)),
        ("c64", (2, 0), "c64[2,0]", "FFT", (5,)),
        ("c64", (0, 4), "c64[0,4]", "IFFT", (4,)),
        ("c64", (0, 3), "f32[0,4]", "IRFFT", (4,)),
        ("c64", (0,), "f32[0]", "IRFFT", (0,)),
        ("c64", (1,), "f32[0]", "IRFFT", (0,)),
        ("f64", (3, 0), "c128[3,0]", "RFFT", (0,)),
        ("f32", (0, 4), "c64[0,3]", "RFFT", (0, 4)),
    ],
)
def test_lengths_of_zero_give_zeros(
    source: str, dimensions: tuple[int, ...], shape: str, kind: str, length: tuple[int, ...]
) -> None:
    result = fft(typed(source, np.ones(dimensions)), shape, kind, *length)
    assert result.shape == Shape.parse(shape).dimensions and not result.any()


def test_inverse_transforms_undo_transforms() -> None:
    x = values("c64", (5, 6, 7), 3)
    spectrum = fft(x, "c64[5,6,7]", "FFT", 5, 6, 7)
    again = fft(spectrum, "c64[5,6,7]", "IFFT", 5, 6, 7)
    assert_close(again, x, rule="accumulation", magnitude=np.full(x.shape, np.abs(x).max() * 4))
