"""Linear algebra through LAPACK on both platforms: the targets of JAX's CPU, XLA's own targets, the operations.

Factors are judged by what they are factors of: two versions of LAPACK may choose other signs and other orders.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax._src.lax.linalg as lax_linalg
import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from tests.xla_reference import print_options
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.native_program import print_program

CLIENTS = {name: xla.Client(name) for name in ("interpreter", "cpu")}
Array = np.ndarray[Any, Any]


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> xla.Client:
    return CLIENTS[request.param]


@pytest.fixture(autouse=True)
def sixty_four_bits():
    with jax.enable_x64(True):
        yield


def lowered(function: Callable[..., Any], *arguments: Any) -> str:
    """The program that JAX passes to XLA:CPU."""
    module = jax.jit(function).lower(*arguments).compiler_ir("hlo")
    return module.as_hlo_module().to_string(print_options(print_large_constants=True))


def run(client: xla.Client, function: Callable[..., Any], *arguments: Array) -> list[Array]:
    results = client.compile(lowered(function, *arguments))(*arguments)
    return [np.asarray(each) for each in (results if isinstance(results, tuple | list) else [results])]


def numbers(dtype: str, *dimensions: int, seed: int = 0) -> Array:
    generator = np.random.default_rng(seed)
    values = generator.standard_normal(dimensions)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.standard_normal(dimensions)
    return values.astype(dtype)


def adjoint(matrices: Array) -> Array:
    return matrices.swapaxes(-1, -2).conj()


def hermitian(matrices: Array) -> Array:
    return matrices + adjoint(matrices)


def definite(matrices: Array) -> Array:
    return (matrices @ adjoint(matrices) + np.eye(matrices.shape[-1])).astype(matrices.dtype)


def assert_near(actual: Array, expected: Array, size: int = 8) -> None:
    """Asserts equality within a few rounding errors of the largest element."""
    assert actual.shape == expected.shape
    scale = np.max(np.abs(expected), initial=1.0)
    assert np.max(np.abs(actual - expected), initial=0.0) <= 30 * size * np.finfo(actual.dtype).eps * scale


def assert_orthonormal(columns: Array) -> None:
    size = columns.shape[-1]
    gram = adjoint(columns) @ columns
    assert_near(gram, np.broadcast_to(np.eye(size, dtype=columns.dtype), gram.shape), max(columns.shape[-2:]))


# -- targets of JAX


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("float32", (5, 5)), ("float64", (2, 6, 4)), ("complex64", (3, 1, 1)), ("complex128", (2, 3, 5, 7))],
)
def test_qr(client: xla.Client, dtype: str, shape: tuple[int, ...]):
    a = numbers(dtype, *shape)
    q, r = run(client, lambda a: lax_linalg.qr(a, full_matrices=False), a)
    assert_near(q @ r, a)
    assert_orthonormal(q)
    assert not np.tril(r, -1).any()


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_qr_with_pivoting(client: xla.Client, dtype: str):
    a = numbers(dtype, 3, 6, 4)
    q, r, order = run(client, lambda a: lax_linalg.qr(a, pivoting=True), a)
    assert_near(q @ r, np.take_along_axis(a, order[:, None, :], axis=-1))
    diagonal = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
    assert (np.diff(diagonal, axis=-1) <= 1e-6).all()


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("float32", (40, 40)), ("float64", (2, 4, 6)), ("complex64", (3, 1, 1)), ("complex128", (2, 3, 5, 4))],
)
def test_lu(client: xla.Client, dtype: str, shape: tuple[int, ...]):
    a = numbers(dtype, *shape)
    packed, _, order = run(client, lax_linalg.lu, a)
    short = min(shape[-2:])
    lower = np.tril(packed, -1)[..., :short] + np.eye(shape[-2], short)
    assert_near(
        (lower @ np.triu(packed)[..., :short, :]).astype(dtype), np.take_along_axis(a, order[..., None], -2), 40
    )


@pytest.mark.parametrize(
    ("dtype", "uplo"), [("float32", True), ("float64", False), ("complex64", True), ("complex128", False)]
)
def test_eigh(client: xla.Client, dtype: str, uplo: bool):
    a = hermitian(numbers(dtype, 2, 3, 7, 7))
    vectors, values = run(client, lambda a: lax_linalg.eigh(a, lower=uplo), a)
    assert_near(a @ vectors, vectors * values[..., None, :], 30)
    assert_orthonormal(vectors)
    assert (np.diff(values, axis=-1) >= 0).all()


@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 7), ("float64", 2), ("float64", 1), ("complex64", 7), ("complex128", 3)]
)
def test_eig(client: xla.Client, dtype: str, size: int):
    a = numbers(dtype, 2, size, size)
    values, left, right = run(client, lax_linalg.eig, a)
    assert_near(a @ right, right * values[..., None, :], 50)
    assert_near(adjoint(left) @ a, values[..., None] * adjoint(left), 50)
    only = run(
        client, lambda a: lax_linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False), a
    )[0]
    assert_near(np.sort_complex(only), np.sort_complex(values), 100)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_schur(client: xla.Client, dtype: str):
    a = numbers(dtype, 2, 6, 6)
    form, vectors = run(client, lax_linalg.schur, a)
    assert_near(vectors @ form @ adjoint(vectors), a, 50)
    assert_orthonormal(vectors)
    assert not np.tril(form, -1 if form.dtype.kind == "c" else -2).any()


@pytest.mark.parametrize(
    ("dtype", "full", "algorithm"),
    [
        ("float32", True, "DIVIDE_AND_CONQUER"),
        ("complex64", False, "DIVIDE_AND_CONQUER"),
        ("complex128", True, "DIVIDE_AND_CONQUER"),
        ("float64", False, "QR"),
        ("complex64", True, "QR"),
    ],
)
def test_svd(client: xla.Client, dtype: str, full: bool, algorithm: str):
    a = numbers(dtype, 2, 4, 6)
    chosen = lax_linalg.SvdAlgorithm[algorithm]
    left, values, right = run(client, lambda a: lax_linalg.svd(a, full_matrices=full, algorithm=chosen), a)
    assert left.shape[-1] == 4 and right.shape[-2] == (6 if full else 4)
    assert_near(left * values[:, None, :] @ right[:, :4], a)
    assert_orthonormal(left)
    assert_orthonormal(adjoint(right))
    (only,) = run(client, lambda a: lax_linalg.svd(a, compute_uv=False, algorithm=chosen), a)
    assert_near(only, values)


PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "cholesky": (
        lambda a: lax_linalg.cholesky(a @ adjoint(a) + np.eye(5, dtype=a.dtype), symmetrize_input=False),
        [(2, 5, 5)],
    ),
    "hessenberg": (lax_linalg.hessenberg, [(2, 5, 5)]),
    "tridiagonal": (lambda a: lax_linalg.tridiagonal(a + adjoint(a)), [(2, 5, 5)]),
    "tridiagonal_upper": (lambda a: lax_linalg.tridiagonal(a + adjoint(a), lower=False), [(5, 5)]),
    "tridiagonal_solve": (lax_linalg.tridiagonal_solve, [(2, 5), (2, 5), (2, 5), (2, 5, 3)]),
    "householder_product": (lax_linalg.householder_product, [(2, 6, 4), (2, 3)]),
    "ormqr": (lambda a, t, c: lax_linalg.ormqr(a, t, c, left=False, transpose=True), [(6, 4), (4,), (3, 6)]),
    "solve": (jax.numpy.linalg.solve, [(2, 5, 5), (2, 5, 3)]),
    "det": (jax.numpy.linalg.det, [(2, 5, 5)]),
}


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_unique_results_equal_those_of_jax(client: xla.Client, name: str, dtype: str):
    function, shapes = PROGRAMS[name]
    arguments = [numbers(dtype, *shape, seed=number) for number, shape in enumerate(shapes)]
    expected = jax.tree.leaves(jax.jit(function)(*arguments))
    for actual, wanted in zip(run(client, function, *arguments), expected, strict=True):
        assert_near(actual, np.asarray(wanted), 200)


@pytest.mark.parametrize("left_side", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transposition", ["N", "T", "C"])
def test_triangular_solve(client: xla.Client, transposition: str, lower: bool, left_side: bool):
    dtype = "complex64" if lower else "float64"
    a, b = numbers(dtype, 2, 5, 5) + 3 * np.eye(5, dtype=dtype), numbers(dtype, 2, *((5, 3) if left_side else (3, 5)))

    def solve(a: Any, b: Any) -> Any:
        return lax_linalg.triangular_solve(
            a,
            b,
            left_side=left_side,
            lower=lower,
            transpose_a=transposition != "N",
            conjugate_a=transposition == "C",
        )

    (x,) = run(client, solve, a, b)
    triangle = np.tril(a) if lower else np.triu(a)
    acting = {"N": triangle, "T": triangle.swapaxes(-1, -2), "C": adjoint(triangle)}[transposition]
    assert_near(acting @ x if left_side else x @ acting, b, 50)


@pytest.mark.parametrize("name", ["cholesky", "lu", "qr", "eigh", "eig", "schur", "hessenberg"])
def test_small_and_empty_matrices(client: xla.Client, name: str):
    function = getattr(lax_linalg, name)
    shapes = [(0, 3, 3), (1, 1), *([(0, 0)] if name != "hessenberg" else [])]  # JAX has no reflectors of -1 scalars

    def each(*matrices: Any) -> Any:
        return [function(a) for a in matrices]

    given = [np.ones(shape, np.float32) for shape in shapes]
    for actual, wanted in zip(run(client, each, *given), jax.tree.leaves(jax.jit(each)(*given)), strict=True):
        np.testing.assert_allclose(np.abs(actual), np.abs(np.asarray(wanted)))


@pytest.mark.parametrize("name", ["cholesky", "eigh", "eig", "schur", "svd", "svd_qr", "lu", "qr"])
def test_matrices_with_nan_or_infinity_terminate(client: xla.Client, name: str):
    a = np.stack([np.eye(40)] * 3).astype(np.float32)
    a[1, 30, 20] = a[1, 20, 30] = np.nan
    a[2] = np.inf
    by_steps = functools.partial(lax_linalg.svd, algorithm=lax_linalg.SvdAlgorithm.QR)
    results = run(client, by_steps if name == "svd_qr" else getattr(lax_linalg, name), a)
    assert all(np.isfinite(each[0]).all() for each in results)
    floats = [each for each in results if each.dtype.kind in "fc"]
    assert all(any(not np.isfinite(each[n]).all() for each in floats) for n in (1, 2))


def test_only_indefinite_matrices_of_a_batch_become_nan(client: xla.Client):
    a = np.stack([4 * np.eye(3), -np.eye(3)])
    (factor,) = run(client, lax_linalg.cholesky, a)
    np.testing.assert_array_equal(factor[0], 2 * np.eye(3))
    assert np.isnan(factor[1][np.tril_indices(3)]).all()


# -- handwritten custom calls


def call_text(target: str, operands: list[str], result: str, config: str) -> str:
    parameters = "\n".join(f"  p{n} = {shape} parameter({n})" for n, shape in enumerate(operands))
    names = ", ".join(f"p{n}" for n in range(len(operands)))
    return (
        f"HloModule m\nENTRY e {{\n{parameters}\n  ROOT r = {result} custom-call({names}), "
        f'custom_call_target="{target}", operand_layout_constraints={{{", ".join(operands)}}}, '
        f"api_version=API_VERSION_TYPED_FFI, backend_config={config}\n}}"
    )


@pytest.mark.parametrize(
    ("text", "code", "values"),
    [
        (
            call_text("lapack_spotrf_ffi", ["f32[3,4]{0,1}"], "(f32[3,4]{0,1}, s32[])", "{uplo = 76 : ui8}"),
            codes.LAPACK_CALL,
            ["a[n,n] -> a[n,n] i[]", "(f32[3,4])"],
        ),
        (
            call_text("lapack_dpotrf_ffi", ["f32[3,3]{0,1}"], "(f32[3,3]{0,1}, s32[])", "{uplo = 76 : ui8}"),
            codes.LAPACK_CALL,
            ["a is f64"],
        ),
        (
            call_text("lapack_spotrf_ffi", ["f32[3,3]{0,1}"], "(f32[3,3]{0,1}, s32[])", "{uplo = 88 : ui8}"),
            codes.LAPACK_CALL,
            ["uplo 76 (L) or 85 (U)", "given 88"],
        ),
        (
            call_text("lapack_spotrf_ffi", ["f32[3,3]{0,1}"], "(f32[3,3]{0,1}, s32[])", "{}"),
            codes.LAPACK_CALL,
            ["uplo, given none"],
        ),
        (
            call_text("lapack_sorgqr_ffi", ["f32[3,4]{0,1}", "f32[3]{0}"], "f32[3,4]{0,1}", "{}"),
            codes.LAPACK_CALL,
            ["m = 3, n = 4, t = 3"],
        ),
        (
            call_text(
                "lapack_sgehrd_ffi",
                ["f32[3,3]{0,1}"],
                "(f32[3,3]{0,1}, f32[2]{0}, s32[])",
                "{low = 0 : i32, high = 3 : i32}",
            ),
            codes.LAPACK_CALL,
            ["1 <= low <= high <= n"],
        ),
        (
            call_text(
                "lapack_sgesdd_ffi",
                ["f32[3,3]{0,1}"],
                "(f32[3,3]{0,1}, f32[3]{0}, f32[3,2]{0,1}, f32[3,3]{0,1}, s32[])",
                "{mode = 83 : ui8}",
            ),
            codes.LAPACK_CALL,
            ["mode S", "3 left singular vectors"],
        ),
        (
            call_text("Qr", ["f32[3,4]{1,0}"], "(f32[3,4]{1,0}, f32[4]{0})", "{}"),
            codes.BUILT_IN_CALL,
            ["Qr", "a[..., m, n]"],
        ),
    ],
)
def test_invalid_calls_are_rejected(client: xla.Client, text: str, code: ErrorCode, values: list[str]):
    with raises(UnsupportedError, code, *values):
        client.compile(text)


def test_operand_layouts_are_honored(client: xla.Client):
    """LAPACK sees row-major operands and results as their transposes: the upper factor of A^T is the lower one of A."""
    a = definite(numbers("complex128", 2, 4, 4))
    text = call_text(
        "lapack_zpotrf_ffi", ["c128[2,4,4]{2,1,0}"], "(c128[2,4,4]{2,1,0}, s32[2]{0})", "{uplo = 85 : ui8}"
    )
    factor, info = client.compile(text)(a)
    lower = np.tril(np.asarray(factor))
    assert_near(lower @ adjoint(lower), a)
    assert not np.asarray(info).any()


def test_fixed_columns_come_first(client: xla.Client):
    a, fixed = numbers("float64", 5, 4), np.array([0, 0, 7, 0], np.int32)
    text = call_text("lapack_dgeqp3_ffi", ["f64[5,4]{0,1}", "s32[4]{0}"], "(f64[5,4]{0,1}, s32[4]{0}, f64[4]{0})", "{}")
    packed, order, _ = map(np.asarray, client.compile(text)(a, fixed))
    assert order[0] == 3 and sorted(order) == [1, 2, 3, 4]
    r = np.triu(packed[:4])
    assert_near(adjoint(r) @ r, adjoint(a[:, order - 1]) @ a[:, order - 1], 30)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_targets_of_xla(client: xla.Client, dtype: str):
    t = {"float32": "f32", "complex128": "c128"}[dtype]
    a = numbers(dtype, 2, 5, 3)
    text = f"""HloModule m
    ENTRY e {{
      a = {t}[2,5,3] parameter(0)
      qr = ({t}[2,5,3], {t}[2,3]) custom-call(a), custom_call_target="Qr"
      packed = {t}[2,5,3] get-tuple-element(qr), index=0
      tau = {t}[2,3] get-tuple-element(qr), index=1
      q = {t}[2,5,3] custom-call(packed, tau), custom_call_target="ProductOfElementaryHouseholderReflectors"
      lu = ({t}[2,5,3], s32[2,3], s32[2,5]) custom-call(a), custom_call_target="LuDecomposition"
      ROOT r = tuple(packed, q, lu)
    }}""".replace("ROOT r =", f"ROOT r = ({t}[2,5,3], {t}[2,5,3], ({t}[2,5,3], s32[2,3], s32[2,5]))")
    packed, q, (factors, _, order) = jax.tree.map(np.asarray, client.compile(text)(a))
    assert_near(q @ np.triu(packed[:, :3]), a)
    assert_orthonormal(q)
    lower = (np.tril(factors, -1) + np.eye(5, 3)).astype(dtype)
    assert_near(lower @ np.triu(factors[:, :3]), np.take_along_axis(a, order[..., None], -2))


def test_eigh_of_xla(client: xla.Client):
    a = hermitian(numbers("complex64", 6, 6))
    text = """HloModule m
    ENTRY e {
      a = c64[6,6] parameter(0)
      ROOT r = (c64[6,6], f32[6]) custom-call(a), custom_call_target="Eigh", backend_config="1,1,15,1e-5"
    }"""
    vectors, values = map(np.asarray, client.compile(text)(np.tril(a)))
    assert_near(a @ vectors, vectors * values, 30)


def test_approx_top_k_is_exact(client: xla.Client):
    text = """HloModule m
    gt { a = f32[] parameter(0)  b = f32[] parameter(1)  i = s32[] parameter(2)  j = s32[] parameter(3)
         ROOT r = pred[] compare(a, b), direction=GT }
    ENTRY e {
      x = f32[7,3] parameter(0)
      i = s32[7,3] iota(), iota_dimension=0
      least = f32[] constant(-inf)
      none = s32[] constant(-1)
      ROOT r = (f32[2,3], s32[2,3]) custom-call(x, i, least, none), custom_call_target="ApproxTopK",
        called_computations={gt}, backend_config={aggregate_to_topk = true, recall_target = 0.95 : f32,
        reduction_dim = 0 : i64, reduction_input_size_override = -1 : i64, top_k = 2 : i64}
    }"""
    x = numbers("float32", 7, 3)
    values, places = map(np.asarray, client.compile(text)(x))
    order = np.argsort(-x, axis=0)[:2]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, 0))


CSR = """HloModule m
    ENTRY e {
      a = f64[6] parameter(0)
      starts = s32[4] parameter(1)
      columns = s32[6] parameter(2)
      b = f64[5,2] parameter(3)
      ROOT r = f64[3,2] custom-call(a, starts, columns, b), custom_call_target="cpu_csr_sparse_dense_ffi",
        api_version=API_VERSION_TYPED_FFI
    }"""


def test_sparse_matrix_product(client: xla.Client):
    elements, columns = np.arange(1.0, 7), np.array([4, 0, 1, 1, 3, 99], np.int32)
    dense = np.zeros((3, 5))
    for row, column, element in zip([0, 2, 2, 2, 2], columns[:5], elements[:5], strict=True):
        dense[row, column] += element
    b = numbers("float64", 5, 2)
    product = client.compile(CSR)(elements, np.array([0, 1, 1, 5], np.int32), columns, b)
    assert_near(np.asarray(product), dense @ b)
    with raises(ExecutionError, codes.SPARSE_INDICES, "column 99", "5 columns"):
        client.compile(CSR)(elements, np.array([0, 1, 1, 6], np.int32), columns, b).block_until_ready()
    with raises(ExecutionError, codes.SPARSE_INDICES, "6 elements"):
        client.compile(CSR)(elements, np.array([0, 1, 1, 7], np.int32), columns, b).block_until_ready()


# -- operations, and native calls on cpu


@pytest.mark.parametrize("element", ["f32", "c128", "bf16"])
@pytest.mark.parametrize("lower", ["true", "false"])
def test_cholesky_of_large_matrices(client: xla.Client, element: str, lower: str):
    text = f"""HloModule m
    ENTRY e {{
      a = {element}[2,50,50] parameter(0)
      ROOT r = {element}[2,50,50] cholesky(a), lower={lower}
    }}"""
    dtype = xla.Shape.parse(f"{element}[]").dtype
    a = definite(numbers("complex128" if element == "c128" else "float64", 2, 50, 50)).astype(dtype)
    factor = np.asarray(client.compile(text)(np.tril(a) if lower == "true" else np.triu(a)))
    wide = factor.astype(np.complex128 if element == "c128" else np.float64)
    other = np.triu(wide, 1) if lower == "true" else np.tril(wide, -1)
    assert not other.any()
    product = wide @ adjoint(wide) if lower == "true" else adjoint(wide) @ wide
    bound = 50 * float(np.abs(a.astype(wide.dtype)).max()) * {"f32": 2e-7, "c128": 1e-15, "bf16": 1e-2}[element]
    assert np.abs(product - a.astype(wide.dtype)).max() < bound


def test_calls_are_native_and_serializable():
    a = definite(numbers("float32", 2, 40, 40))
    executable = CLIENTS["cpu"].compile(lowered(lax_linalg.cholesky, a))
    program = compile_module(xla.parse_hlo(lowered(lax_linalg.cholesky, a))).program
    assert "scipy_spotrf_" in print_program(program) and not program.host_calling_thunks
    again = CLIENTS["cpu"].deserialize(executable.serialize())
    np.testing.assert_array_equal(np.asarray(again(a)), np.asarray(executable(a)))


def test_calls_do_not_modify_their_operands():
    a, b = definite(numbers("float32", 3, 40, 40)), numbers("float32", 3, 40, 2)
    program = CLIENTS["cpu"].compile(lowered(lambda a, b: (lax_linalg.cholesky(a), a, lax_linalg.lu(a)[0] @ b), a, b))
    before = a.copy()
    a.setflags(write=False)
    _, same, _ = program(a, b)
    np.testing.assert_array_equal(np.asarray(same), before)
    np.testing.assert_array_equal(a, before)


def test_registered_targets_take_precedence(client: xla.Client):
    text = call_text("lapack_spotrf_ffi", ["f32[2,2]{0,1}"], "(f32[2,2]{0,1}, s32[])", "{uplo = 76 : ui8}")
    xla.register_custom_call_target("lapack_spotrf_ffi", lambda a: (a + 1, np.int32(7)))
    try:
        made, info = xla.block_until_ready(client.compile(text)(np.zeros((2, 2), np.float32)))
    finally:
        xla.unregister_custom_call_target("lapack_spotrf_ffi")
    np.testing.assert_array_equal(np.asarray(made), np.ones((2, 2)))
    assert np.asarray(info) == 7
