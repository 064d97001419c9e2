"""The eigenvalues and eigenvectors of batches of small symmetric matrices, by Jacobi's method: syevd.

A sweep rotates each pair of rows and columns so that the element in which they meet becomes 0. Sweeps end when no
element of a sweep was larger than rounding errors of the largest one; from then on, the matrix of a lane does not
change, while others continue.

Does not depend on memory or on how matrices become lanes. Source: Golub and Van Loan, Matrix Computations, section 8.5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy.cpu.lapack.matrix_lanes import LaneMatrix, MatrixLanes
from xlapy.custom_calls.lapack import LapackCall
from xlapy.loops import I32, I64, Affine, Value

MAX_SWEEPS = 24
"""The largest number of sweeps; matrices with NaN do not converge, others do in about eight."""


def symmetric_eigenvalues(lanes: MatrixLanes, call: LapackCall) -> None:
    """Emits the kernel. Eigenvalues are in ascending order. Without vectors (mode N), their result is the identity."""
    n = call.sizes["n"]
    operand, result = lanes.operand(n * n), lanes.result(n * n)
    values_result, info = lanes.result(n), lanes.result(1, I32)
    with lanes.groups_of_matrices():
        a, vectors, values = lanes.read(operand, n * n), lanes.scratch(n * n), lanes.scratch(n)
        with lanes.lanes():
            size = _largest(lanes, a, n, call.letters["uplo"] == "L")
            scale, inverse = lanes.power_of_two(size)
            _prepare(lanes, a, vectors, n, call.letters["uplo"] == "L", (size, inverse))
            largest = lanes.builder.mul(size, inverse)
            rotated = (a, vectors) if call.letters["mode"] == "V" else (a,)
            _rotate_until_diagonal(lanes, rotated, n, largest)

            def value(i: Affine) -> Value:
                return lanes.builder.mul(lanes.get(a, i * (n + 1)), scale)

            lanes.repeat(Affine((), n), lambda i: lanes.set(values, i, value(i)))
            _sort(lanes, values, vectors, n)
            lanes.write_integers(info, 1, 0, lanes.builder.zero(I32))
        lanes.write(vectors, result)
        lanes.write(values, values_result)


def _largest(lanes: MatrixLanes, a: LaneMatrix, n: int, lower: bool) -> Value:
    """Returns the largest magnitude of a triangle. NaN is the largest."""
    builder = lanes.builder

    def column(j: Affine, state: Sequence[Value]) -> Sequence[Value]:
        def row(number: Affine, state: Sequence[Value]) -> Sequence[Value]:
            below, above = j + number + j * n, (j + number) * n + j
            size = builder.unary("abs", lanes.get(a, below if lower else above))
            return [builder.binary("max", size, state[0])]

        return lanes.carry(Affine((), n) - j, state, row)

    return lanes.carry(Affine((), n), [builder.zero(lanes.type)], column)[0]


def _prepare(
    lanes: MatrixLanes, a: LaneMatrix, vectors: LaneMatrix, n: int, lower: bool, scaling: tuple[Value, Value]
) -> None:
    """Scales one triangle and copies it to the other, and makes the vectors the identity.

    scaling: the largest magnitude, and a factor. If that magnitude is not finite, all elements become NaN.
    """
    builder, (size, inverse) = lanes.builder, scaling
    is_finite = builder.compare("olt", size, builder.constant(lanes.type, math.inf))
    one = builder.constant(lanes.type, 1)
    if n > 1:  # a single element is the eigenvalue, whatever it is
        one = builder.select(is_finite, one, builder.constant(lanes.type, math.nan))
    zero, factor = builder.sub(one, one), builder.mul(inverse, one)

    def column(j: Affine) -> None:
        lanes.repeat(Affine((), n), lambda i: lanes.set(vectors, i + j * n, zero))
        lanes.set(vectors, j * (n + 1), one)

        def row(number: Affine) -> None:
            below, above = j + number + j * n, (j + number) * n + j
            value = builder.mul(lanes.get(a, below if lower else above), factor)
            lanes.set(a, below, value)
            lanes.set(a, above, value)

        lanes.repeat(Affine((), n) - j, row)

    lanes.repeat(Affine((), n), column)


def _rotate_until_diagonal(lanes: MatrixLanes, matrices: Sequence[LaneMatrix], n: int, largest: Value) -> None:
    """Emits the sweeps. matrices: the symmetric one, and that of the vectors if they are wanted."""
    builder = lanes.builder
    bound = builder.mul(largest, builder.constant(lanes.type, 2.0 ** -(lanes.type.float_format.precision + 1)))

    def is_active(state: Sequence[Value]) -> Value:
        more = builder.compare("slt", state[1], builder.constant(I32, MAX_SWEEPS))
        return builder.binary("and", builder.compare("ogt", state[0], bound), more)

    def sweep(state: Sequence[Value]) -> Sequence[Value]:
        active = is_active(state)

        def first(p: Affine, state: Sequence[Value]) -> Sequence[Value]:
            def second(number: Affine, state: Sequence[Value]) -> Sequence[Value]:
                size = _rotate(lanes, matrices, n, p, p + 1 + number, active)
                return [builder.select(builder.compare("ogt", size, state[0]), size, state[0])]

            return lanes.carry(Affine((), n - 1) - p, state, second)

        (size,) = lanes.carry(Affine((), n), [builder.zero(lanes.type)], first)
        return [size, builder.add(state[1], builder.constant(I32, 1))]

    builder.while_any_lane([largest, builder.zero(I32)], is_active, sweep)


def _rotate(lanes: MatrixLanes, matrices: Sequence[LaneMatrix], n: int, p: Affine, q: Affine, active: Value) -> Value:
    """Rotates rows and columns p and q of active lanes; returns the magnitude of their common element before that."""
    builder, type, a = lanes.builder, lanes.type, matrices[0]
    zero, one = builder.zero(type), builder.constant(type, 1)
    common, first, last = lanes.get(a, p + q * n), lanes.get(a, p * (n + 1)), lanes.get(a, q * (n + 1))
    # the tangent of the angle solves t^2 + 2 t theta = 1; the smaller root rotates by at most 45 degrees
    theta = builder.binary("div", builder.sub(last, first), builder.add(common, common))
    root = builder.unary("sqrt", builder.fma(theta, theta, one))
    tangent = builder.binary("div", one, builder.add(builder.unary("abs", theta), root))
    tangent = builder.binary("copysign", tangent, theta)
    rotates = builder.binary("and", active, builder.compare("une", common, zero))
    tangent = builder.select(rotates, tangent, zero)
    cosine = builder.binary("div", one, builder.unary("sqrt", builder.fma(tangent, tangent, one)))
    sine = builder.mul(tangent, cosine)
    ratio = builder.binary("div", sine, builder.add(one, cosine))

    def rotated(x: Value, y: Value) -> tuple[Value, Value]:
        left = builder.fma(ratio, x, y)
        right = builder.fma(builder.unary("neg", ratio), y, x)
        return builder.fma(builder.unary("neg", sine), left, x), builder.fma(sine, right, y)

    def rows(numbers: Sequence[Affine]) -> None:
        for matrix in matrices:
            pairs = [rotated(lanes.get(matrix, r + p * n), lanes.get(matrix, r + q * n)) for r in numbers]
            for r, (x, y) in zip(numbers, pairs, strict=True):
                for column, value in ((p, x), (q, y)):
                    lanes.set(matrix, r + column * n, value)
                    if matrix is a:
                        lanes.set(matrix, column + r * n, value)

    lanes.repeat_in_blocks(Affine((), n), rows)
    change = builder.mul(tangent, common)
    lanes.set(a, p * (n + 1), builder.sub(first, change))
    lanes.set(a, q * (n + 1), builder.add(last, change))
    rest = builder.select(rotates, zero, common)
    lanes.set(a, p + q * n, rest)
    lanes.set(a, q + p * n, rest)
    return builder.unary("abs", common)


def _sort(lanes: MatrixLanes, values: LaneMatrix, vectors: LaneMatrix, n: int) -> None:
    """Exchanges each eigenvalue and its vector with the smallest of those that follow."""
    builder = lanes.builder

    def place(i: Affine) -> None:
        def smaller(number: Affine, state: Sequence[Value]) -> Sequence[Value]:
            value = lanes.get(values, i + 1 + number)
            is_less = builder.compare("olt", value, state[0])
            row = lanes.number(i + 1 + number)
            return [builder.select(is_less, value, state[0]), builder.select(is_less, row, state[1])]

        least, row = lanes.carry(Affine((), n - 1) - i, [lanes.get(values, i), lanes.number(i)], smaller)
        other = builder.clamped(builder.convert("sext", row, I64), n - 1)
        lanes.set(values, other, lanes.get(values, i))
        lanes.set(values, i, least)

        def exchange(r: Affine) -> None:
            x, y = lanes.get(vectors, r + i * n), lanes.get(vectors, r + other * n)
            lanes.set(vectors, r + other * n, x)
            lanes.set(vectors, r + i * n, y)

        lanes.repeat(Affine((), n), exchange)

    lanes.repeat(Affine((), n - 1), place)
