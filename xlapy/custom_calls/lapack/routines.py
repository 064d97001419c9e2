"""Calls each LAPACK routine on one matrix through SciPy's wrapper, and orders its results as in the signature.

Matrices are NumPy arrays of two dimensions. Does not depend on instructions, batches or layouts.
Source: LAPACK Users' Guide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from scipy.linalg import blas
from scipy.linalg import lapack as scipy_lapack

from xlapy.base.element_types import Array
from xlapy.custom_calls.lapack.calls import LapackCall

_WORKSPACE_COLUMNS: Final = 64
"""Block size, in columns, of the workspace of routines whose wrappers do not query LAPACK for the optimal size."""

Results = Sequence[Any]


def _function(call: LapackCall) -> Callable[..., Any]:
    return getattr(scipy_lapack, call.symbol)


def _potrf(call: LapackCall, a: Array) -> Results:
    if not a.size:
        return a, 0
    return _function(call)(a, lower=call.letters["uplo"] == "L", clean=0)


def _trsm(call: LapackCall, a: Array, b: Array) -> Results:
    if not b.size:
        return (b,)
    letters = call.letters
    solved = getattr(blas, call.symbol)(
        1,
        a,
        b,
        side=letters["side"] == "R",
        lower=letters["uplo"] == "L",
        trans_a="NTC".index(letters["trans_x"]),
        diag=letters["diag"] == "U",
    )
    return (solved,)


def _getrf(call: LapackCall, a: Array) -> Results:
    if not a.size:
        return a, _zeros(call, "k", np.int32), 0
    factors, pivots, info = _function(call)(a)
    return factors, pivots + 1, info


def _geqrf(call: LapackCall, a: Array) -> Results:
    if not a.size:
        return a, _zeros(call, "k", a.dtype)
    packed, tau, *_ = _function(call)(a)
    return packed, tau


def _geqp3(call: LapackCall, a: Array, fixed: Array) -> Results:
    """Moves columns whose number in `fixed` is not 0 to the front, where they are not pivoted."""
    order = np.argsort(fixed == 0, kind="stable")
    count, size = int(np.count_nonzero(fixed)), call.sizes["k"]
    if not a.size:
        return a, order + 1, _zeros(call, "k", a.dtype)
    packed, tau = np.asfortranarray(a[:, order]), _zeros(call, "k", a.dtype)
    first = min(count, size)
    if first:
        done = LapackCall("geqrf", call.element_type, {}, {}, ())
        packed[:, :first], tau[:first], *_ = _function(done)(packed[:, :first])
        packed[:, first:] = _product(call, packed[:, :first], tau[:first], packed[:, first:], "L", True)
    if count < size:
        rest, pivots, tau[count:], *_ = _function(call)(packed[count:, count:])
        packed[:count, count:] = packed[:count, count + pivots - 1]
        packed[count:, count:] = rest
        order[count:] = order[count + pivots - 1]
    return packed, order + 1, tau


def _product(call: LapackCall, reflectors: Array, tau: Array, c: Array, side: str, adjoint: bool) -> Array:
    """Returns Q times c, or c times Q, where Q is the product of the reflectors."""
    if not c.size or not tau.size:
        return c
    function = _function(LapackCall("ormqr", call.element_type, {}, {}, ()))
    transposition = "N" if not adjoint else "C" if call.element_type.is_complex else "T"
    product, *_ = function(side, transposition, reflectors, tau, c, _WORKSPACE_COLUMNS * max(c.shape))
    result: Array = product
    return result


def _orgqr(call: LapackCall, a: Array, tau: Array) -> Results:
    if not tau.size:
        return (np.eye(*a.shape, dtype=a.dtype),)
    return (_function(call)(a, tau)[0],)


def _ormqr(call: LapackCall, a: Array, tau: Array, c: Array) -> Results:
    side = "L" if call.numbers["left"] else "R"
    return (_product(call, a[:, : tau.size], tau, c, side, bool(call.numbers["transpose"])),)


def _syevd(call: LapackCall, a: Array) -> Results:
    if not a.size:
        return a, np.zeros(0), 0
    values, vectors, info = _function(call)(a, compute_v=call.letters["mode"] == "V", lower=call.letters["uplo"] == "L")
    return vectors, values, info


def _sytrd(call: LapackCall, a: Array) -> Results:
    if not a.size:
        return a, np.zeros(0), np.zeros(0), np.zeros(0), 0
    packed, diagonal, off_diagonal, tau, info = _function(call)(
        a, lower=call.letters["uplo"] == "L", lwork=_WORKSPACE_COLUMNS * len(a)
    )
    return packed, diagonal, off_diagonal, tau, info


def _geev(call: LapackCall, a: Array) -> Results:
    """Computes eigenvectors; for a real matrix, LAPACK returns a complex pair as two columns, real and imaginary."""
    wanted = [call.letters[name] == "V" for name in ("compute_left", "compute_right")]
    if not a.size:
        return *[np.zeros(0)] * (1 if a.dtype.kind == "c" else 2), a, a, 0
    *values, left, right, info = _function(call)(a, compute_vl=wanted[0], compute_vr=wanted[1])
    vectors = [v if w else np.zeros(a.shape, a.dtype) for v, w in zip((left, right), wanted, strict=True)]
    if a.dtype.kind != "c":
        vectors = [_unpacked(each, values[1]) for each in vectors]
    return *values, *vectors, info


def _unpacked(columns: Array, imaginary: Array) -> Array:
    """Returns complex eigenvectors: v + i w for an eigenvalue with positive imaginary part and the columns v and w."""
    vectors = columns.astype(np.result_type(columns, np.complex64))
    for j in np.flatnonzero(imaginary[:-1] > 0):
        vectors[:, j] = columns[:, j] + 1j * columns[:, j + 1]
        vectors[:, j + 1] = vectors[:, j].conj()
    return vectors


def _gees(call: LapackCall, a: Array) -> Results:
    if not a.size:
        return a, a, *[np.zeros(0)] * (1 if a.dtype.kind == "c" else 2), 0, 0
    wanted = call.letters["mode"] == "V"
    form, selected, *values, vectors, _, info = _function(call)(lambda *_: False, a, compute_v=wanted, sort_t=0)
    return form, vectors if wanted else np.zeros(a.shape, a.dtype), *values, selected, info


def _singular_values(call: LapackCall, a: Array) -> Results:
    """Computes singular values and vectors; the overwritten matrix is unspecified, and returned unchanged here."""
    shapes = (call.sizes["m"], call.sizes["u"]), (call.sizes["v"], call.sizes["n"])
    if not a.size:
        return a, np.zeros(0), *[np.eye(*shape, dtype=a.dtype) for shape in shapes], 0
    wanted = call.letters["mode"] != "N"
    left, values, right, info = _function(call)(a, compute_uv=wanted, full_matrices=call.letters["mode"] == "A")
    vectors = (left, right) if wanted else [np.zeros(shape, a.dtype) for shape in shapes]
    return a, values, *vectors, info


def _gehrd(call: LapackCall, a: Array) -> Results:
    if not a.size:
        return a, np.zeros(0), 0
    return _function(call)(a, lo=call.numbers["low"] - 1, hi=call.numbers["high"] - 1)


def _gtsv(call: LapackCall, below: Array, diagonal: Array, above: Array, b: Array) -> Results:
    """Solves a tridiagonal system; the first element of `below` and the last one of `above` are unused."""
    if not diagonal.size:
        return below, diagonal, above, b, 0
    if not b.size:
        b = np.zeros((len(diagonal), 1), b.dtype)
    rest, main, beside, solved, info = _function(call)(below[1:], diagonal, above[:-1], b)
    columns = call.sizes["n"]
    return [*below[:1], *rest], main, [*beside, *above[-1:]], solved[:, :columns], info


def _zeros(call: LapackCall, size: str, dtype: Any) -> Array:
    return np.zeros(call.sizes[size], dtype)


ROUTINES: Final[dict[str, Callable[..., Results]]] = {
    "potrf": _potrf,
    "trsm": _trsm,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "geqp3": _geqp3,
    "orgqr": _orgqr,
    "ormqr": _ormqr,
    "syevd": _syevd,
    "sytrd": _sytrd,
    "geev": _geev,
    "gees": _gees,
    "gesdd": _singular_values,
    "gesvd": _singular_values,
    "gehrd": _gehrd,
    "gtsv": _gtsv,
}
