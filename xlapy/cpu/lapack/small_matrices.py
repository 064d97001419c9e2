"""Kernels for batches of small matrices, which take the place of calls of LAPACK.

Matrices are column-major, and results are those of the routine; elements that LAPACK leaves unspecified differ. Sums
are in an order of their own, and each term is added with one rounding.

Does not depend on memory or on how matrices become lanes. Source: Golub and Van Loan, Matrix Computations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from xlapy.base.element_types import F32 as HLO_F32
from xlapy.cpu.lapack.matrix_lanes import MAX_UNROLLED_SIZE, LaneMatrix, MatrixLanes
from xlapy.cpu.lapack.small_eigenvalues import symmetric_eigenvalues
from xlapy.cpu.lapack.small_reflectors import product_of_reflectors, qr_factors
from xlapy.custom_calls.lapack import LapackCall
from xlapy.loops import F32, F64, I32, I64, Affine, Kernel, Value

MAX_SIZE = 32
"""The most rows and columns of matrices for which kernels are faster than LAPACK."""

MAX_EIGENVALUES = 16
"""The most rows of matrices for which Jacobi's method is faster than LAPACK's."""

MIN_COUNT = 2
"""The smallest number of matrices in a batch."""

Terms = tuple[Affine, Callable[[Affine], tuple[Affine, Affine]]]
"""An element of a matrix, and a function that returns the elements of the product of a number."""


def has_kernel(call: LapackCall) -> bool:
    """Whether a call has a kernel."""
    sizes = [call.sizes[letter] for letter in "mnst" if letter in call.sizes]
    return (
        call.routine in _ALGORITHMS
        and not call.element_type.is_complex
        and min(sizes) > 0
        and max(sizes) <= (MAX_EIGENVALUES if call.routine == "syevd" else MAX_SIZE)
        and math.prod(call.batch) >= MIN_COUNT
    )


def small_matrix_kernel(name: str, call: LapackCall) -> Kernel:
    """Returns the kernel of a call that has one. Its buffers are the operands and the results of the call."""
    sizes = [call.sizes[letter] for letter in "mnst" if letter in call.sizes]
    type = F32 if call.element_type is HLO_F32 else F64
    is_unrolled = call.routine != "syevd" and max(sizes) <= MAX_UNROLLED_SIZE
    lanes = MatrixLanes(name, type, math.prod(call.batch), unrolled=is_unrolled)
    _ALGORITHMS[call.routine](lanes, call)
    return lanes.kernel


def _cholesky(lanes: MatrixLanes, call: LapackCall) -> None:
    """potrf: computes the factor row by row of the lower triangle, or column by column of the upper one."""
    n = call.sizes["n"]
    operand, result, info = lanes.operand(n * n), lanes.result(n * n), lanes.result(1, I32)
    builder = lanes.builder

    def at(i: Affine, j: Affine) -> Affine:
        return i + j * n if call.letters["uplo"] == "L" else i * n + j

    with lanes.groups_of_matrices():
        a = lanes.read(operand, n * n)
        with lanes.lanes():

            def column(j: Affine, state: Sequence[Value]) -> Sequence[Value]:
                (pivot,) = _differences(lanes, a, a, j, [(at(j, j), lambda k: (at(j, k), at(j, k)))])
                is_bad = builder.logical_not(builder.compare("ogt", pivot, builder.zero(lanes.type)))
                is_first = builder.compare("eq", state[0], builder.zero(I32))
                number = builder.add(lanes.number(j), builder.constant(I32, 1))
                failed = builder.select(is_first, builder.select(is_bad, number, state[0]), state[0])
                root = builder.unary("sqrt", pivot)
                lanes.set(a, at(j, j), root)
                inverse = builder.binary("div", builder.constant(lanes.type, 1), root)

                def terms(i: Affine) -> Terms:
                    return at(i, j), lambda k: (at(i, k), at(j, k))

                def rows(numbers: Sequence[Affine]) -> None:
                    below = [j + 1 + number for number in numbers]
                    sums = _differences(lanes, a, a, j, [terms(i) for i in below])
                    for i, each in zip(below, sums, strict=True):
                        lanes.set(a, at(i, j), builder.mul(each, inverse))

                lanes.repeat_in_blocks(Affine((), n - 1) - j, rows)
                return [failed]

            (status,) = lanes.carry(Affine((), n), [builder.zero(I32)], column)
            lanes.write_integers(info, 1, 0, status)
        lanes.write(a, result)


def _lu(lanes: MatrixLanes, call: LapackCall) -> None:
    """getrf: computes the factors column by column, from the columns to the left, with partial pivoting."""
    m, n, count = call.sizes["m"], call.sizes["n"], min(call.sizes["m"], call.sizes["n"])
    operand, result = lanes.operand(m * n), lanes.result(m * n)
    pivots, info = lanes.result(count, I32), lanes.result(1, I32)
    builder = lanes.builder

    def at(i: Affine, j: Affine) -> Affine:
        return i + j * m

    with lanes.groups_of_matrices():
        a = lanes.read(operand, m * n)
        with lanes.lanes():

            def upper(j: Affine, rows: Affine) -> None:
                """Computes the first rows of a column of the upper factor."""

                def row(i: Affine) -> None:
                    (value,) = _differences(lanes, a, a, i, [(at(i, j), lambda k: (at(i, k), at(k, j)))])
                    lanes.set(a, at(i, j), value)

                lanes.repeat(rows, row)

            def column(j: Affine, state: Sequence[Value]) -> Sequence[Value]:
                upper(j, j)

                def terms(i: Affine) -> Terms:
                    return at(i, j), lambda k: (at(i, k), at(k, j))

                def rows(numbers: Sequence[Affine]) -> None:
                    below = [j + number for number in numbers]
                    sums = _differences(lanes, a, a, j, [terms(i) for i in below])
                    for i, each in zip(below, sums, strict=True):
                        lanes.set(a, at(i, j), each)

                lanes.repeat_in_blocks(Affine((), m) - j, rows)
                pivot, row = _largest(lanes, a, lambda i: at(i, j), j, m)
                lanes.write_integers(pivots, count, j, builder.add(row, builder.constant(I32, 1)))
                is_zero = builder.compare("oeq", pivot, builder.zero(lanes.type))
                is_first = builder.compare("eq", state[0], builder.zero(I32))
                number = builder.add(lanes.number(j), builder.constant(I32, 1))
                failed = builder.select(is_first, builder.select(is_zero, number, state[0]), state[0])
                _exchange(lanes, a, at, j, row, (m, n))
                divisor = builder.select(is_zero, builder.constant(lanes.type, 1), lanes.get(a, at(j, j)))

                def scale(numbers: Sequence[Affine]) -> None:
                    for i in [j + 1 + number for number in numbers]:
                        lanes.set(a, at(i, j), builder.binary("div", lanes.get(a, at(i, j)), divisor))

                lanes.repeat_in_blocks(Affine((), m - 1) - j, scale)
                return [failed]

            (status,) = lanes.carry(Affine((), count), [builder.zero(I32)], column)
            lanes.repeat(Affine((), n - count), lambda j: upper(j + count, Affine((), m)))
            lanes.write_integers(info, 1, 0, status)
        lanes.write(a, result)


def _largest(
    lanes: MatrixLanes, a: LaneMatrix, at: Callable[[Affine], Affine], first: Affine, end: int
) -> tuple[Value, Value]:
    """Returns the largest magnitude of a column's elements from `first` on, and its row: the first one of equals."""
    builder = lanes.builder

    def compare(number: Affine, state: Sequence[Value]) -> Sequence[Value]:
        row = first + 1 + number
        size = builder.unary("abs", lanes.get(a, at(row)))
        is_larger = builder.compare("ogt", size, state[0])
        return builder.select(is_larger, size, state[0]), builder.select(is_larger, lanes.number(row), state[1])

    initial = [builder.unary("abs", lanes.get(a, at(first))), lanes.number(first)]
    size, row = lanes.carry(Affine((), end - 1) - first, initial, compare)
    return size, row


def _exchange(
    lanes: MatrixLanes,
    a: LaneMatrix,
    at: Callable[[Affine, Affine], Affine],
    here: Affine,
    there: Value,
    extents: tuple[int, int],
) -> None:
    """Exchanges row `here` with the row that each lane has chosen, which is not above."""
    builder, (rows, columns) = lanes.builder, extents
    if lanes.unrolled:
        for row in range(here.constant + 1, rows):
            is_chosen = builder.compare("eq", there, builder.constant(I32, row))
            for column in range(columns):
                first, second = at(here, Affine((), column)), at(Affine((), row), Affine((), column))
                x, y = lanes.get(a, first), lanes.get(a, second)
                lanes.set(a, first, builder.select(is_chosen, y, x))
                lanes.set(a, second, builder.select(is_chosen, x, y))
        return
    other = builder.clamped(builder.convert("sext", there, I64), rows - 1)

    def column_of(j: Affine) -> None:
        first, second = at(here, j), at(other, j)
        x, y = lanes.get(a, first), lanes.get(a, second)
        lanes.set(a, second, x)
        lanes.set(a, first, y)

    lanes.repeat(Affine((), columns), column_of)


def _triangular_solve(lanes: MatrixLanes, call: LapackCall) -> None:
    """trsm: solves for the unknowns in the order in which the triangle determines them, several columns at a time."""
    letters, (m, n, s) = call.letters, (call.sizes[letter] for letter in "mns")
    left, is_transposed = letters["side"] == "L", letters["trans_x"] != "N"
    # x op(a) = b is op(a)^T x^T = b^T
    by_rows = is_transposed == left
    rows, columns = (s, 1) if by_rows else (1, s)
    forward = (letters["uplo"] == "L") != by_rows
    unknowns, sides = (1, m) if left else (m, 1)
    operand, right, result = lanes.operand(s * s), lanes.operand(m * n), lanes.result(m * n)

    def place(t: Affine) -> Affine:
        return t if forward else Affine((), s - 1) - t

    with lanes.groups_of_matrices():
        a, x = lanes.read(operand, s * s), lanes.read(right, m * n)
        with lanes.lanes():

            def solve(numbers: Sequence[Affine]) -> None:
                def step(t: Affine) -> None:
                    i = place(t)
                    terms = [
                        (
                            i * unknowns + c * sides,
                            lambda k, c=c: (i * rows + place(k) * columns, place(k) * unknowns + c * sides),
                        )
                        for c in numbers
                    ]
                    for c, each in zip(numbers, _differences(lanes, x, (a, x), t, terms), strict=True):
                        value = each
                        if letters["diag"] == "N":
                            value = lanes.builder.binary("div", each, lanes.get(a, i * (rows + columns)))
                        lanes.set(x, i * unknowns + c * sides, value)

                lanes.repeat(Affine((), s), step)

            lanes.repeat_in_blocks(Affine((), n if left else m), solve)
        lanes.write(x, result)


def _differences(
    lanes: MatrixLanes,
    minuend: LaneMatrix,
    factors: LaneMatrix | tuple[LaneMatrix, LaneMatrix],
    extent: Affine,
    terms: Sequence[Terms],
) -> Sequence[Value]:
    """Returns elements minus sums of as many products as `extent`."""
    first, second = factors if isinstance(factors, tuple) else (factors, factors)

    def subtract(k: Affine, sums: Sequence[Value]) -> Sequence[Value]:
        places = [product(k) for _, product in terms]
        return [
            lanes.minus_product(each, lanes.get(first, x), lanes.get(second, y))
            for each, (x, y) in zip(sums, places, strict=True)
        ]

    return lanes.carry(extent, [lanes.get(minuend, element) for element, _ in terms], subtract)


_ALGORITHMS: Mapping[str, Callable[[MatrixLanes, LapackCall], None]] = {
    "potrf": _cholesky,
    "getrf": _lu,
    "trsm": _triangular_solve,
    "geqrf": qr_factors,
    "orgqr": product_of_reflectors,
    "syevd": symmetric_eigenvalues,
}
