"""QR factors of batches of small matrices by Householder's reflectors: geqrf and orgqr.

Column j of a factored matrix holds, below the diagonal, the vector v of the reflector I - tau v v^T, whose element j is
1 and not stored.

Does not depend on memory or on how matrices become lanes. Source: Golub and Van Loan, Matrix Computations, section 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy.cpu.lapack.matrix_lanes import LaneMatrix, MatrixLanes
from xlapy.custom_calls.lapack import LapackCall
from xlapy.loops import Affine, Value

At = Callable[[Affine, Affine], Affine]


def qr_factors(lanes: MatrixLanes, call: LapackCall) -> None:
    """geqrf: computes the triangular factor, with the reflectors below it, and their factors tau."""
    m, n, count = call.sizes["m"], call.sizes["n"], min(call.sizes["m"], call.sizes["n"])
    operand, result, factors = lanes.operand(m * n), lanes.result(m * n), lanes.result(count)

    def at(i: Affine, j: Affine) -> Affine:
        return i + j * m

    with lanes.groups_of_matrices():
        a, taus = lanes.read(operand, m * n), lanes.scratch(count)
        with lanes.lanes():

            def column(j: Affine) -> None:
                tau = _reflector(lanes, a, at, j, m)
                lanes.set(taus, j, tau)
                _reflect(lanes, a, at, j, (m, n), tau)

            lanes.repeat(Affine((), count), column)
        lanes.write(a, result)
        lanes.write(taus, factors)


def product_of_reflectors(lanes: MatrixLanes, call: LapackCall) -> None:
    """orgqr: computes the first columns of the product of the reflectors, the last reflector first."""
    m, n, count = call.sizes["m"], call.sizes["n"], call.sizes["t"]
    operand, factors, result = lanes.operand(m * n), lanes.operand(count), lanes.result(m * n)
    builder = lanes.builder
    zero, one = builder.zero(lanes.type), builder.constant(lanes.type, 1)

    def at(i: Affine, j: Affine) -> Affine:
        return i + j * m

    with lanes.groups_of_matrices():
        a, taus = lanes.read(operand, m * n), lanes.read(factors, count)
        with lanes.lanes():

            def unit(number: Affine) -> None:
                j = number + count
                lanes.repeat(Affine((), m), lambda i: lanes.set(a, at(i, j), zero))
                lanes.set(a, at(j, j), one)

            def column(number: Affine) -> None:
                j = Affine((), count - 1) - number
                tau = lanes.get(taus, j)
                _reflect(lanes, a, at, j, (m, n), tau)
                negative = builder.unary("neg", tau)

                def below(i: Affine) -> None:
                    place = at(i + j + 1, j)
                    lanes.set(a, place, builder.mul(negative, lanes.get(a, place)))

                lanes.repeat(Affine((), m - 1) - j, below)
                lanes.repeat(j, lambda i: lanes.set(a, at(i, j), zero))
                lanes.set(a, at(j, j), builder.sub(one, tau))

            lanes.repeat(Affine((), n - count), unit)
            lanes.repeat(Affine((), count), column)
        lanes.write(a, result)


def _reflector(lanes: MatrixLanes, a: LaneMatrix, at: At, j: Affine, rows: int) -> Value:
    """Replaces a column by the element of the triangular factor and the vector of its reflector; returns tau, which is
    0 if all elements below the diagonal are. Squares are of elements relative to a power of two near the largest."""
    builder, type = lanes.builder, lanes.type
    zero, one = builder.zero(type), builder.constant(type, 1)
    first, below = lanes.get(a, at(j, j)), Affine((), rows - 1) - j

    def larger(i: Affine, state: Sequence[Value]) -> Sequence[Value]:
        size = builder.unary("abs", lanes.get(a, at(i + j + 1, j)))
        return [builder.binary("max", size, state[0])]

    (largest,) = lanes.carry(below, [zero], larger)
    is_done = builder.compare("oeq", largest, zero)
    size = builder.unary("abs", first)
    scale, inverse = lanes.power_of_two(builder.binary("max", size, largest))
    start = builder.mul(first, inverse)

    def add_square(i: Affine, state: Sequence[Value]) -> Sequence[Value]:
        value = builder.mul(lanes.get(a, at(i + j + 1, j)), inverse)
        return [builder.fma(value, value, state[0])]

    (square,) = lanes.carry(below, [builder.mul(start, start)], add_square)
    norm = builder.binary("copysign", builder.unary("sqrt", square), first)
    beta = builder.unary("neg", norm)
    # relative to the scale: tau = (beta - first) / beta, v = x / (first - beta)
    tau = builder.binary("div", builder.sub(beta, start), beta)
    divisor = builder.sub(start, beta)
    factor = builder.binary("div", one, builder.select(is_done, one, divisor))

    def vector(i: Affine) -> None:
        place = at(i + j + 1, j)
        value = lanes.get(a, place)
        scaled = builder.mul(builder.mul(value, inverse), factor)
        lanes.set(a, place, builder.select(is_done, value, scaled))

    lanes.repeat(below, vector)
    lanes.set(a, at(j, j), builder.select(is_done, first, builder.mul(beta, scale)))
    return builder.select(is_done, zero, tau)


def _reflect(lanes: MatrixLanes, a: LaneMatrix, at: At, j: Affine, extents: tuple[int, int], tau: Value) -> None:
    """Applies reflector j to the columns behind it. Without a reflection, where tau is 0, they do not change, even if
    they are not finite."""
    builder, (rows, columns) = lanes.builder, extents
    zero = builder.zero(lanes.type)
    reflects = builder.compare("une", tau, zero)
    below = Affine((), rows - 1) - j

    def reflect(numbers: Sequence[Affine]) -> None:
        behind = [j + 1 + number for number in numbers]

        def add_products(i: Affine, sums: Sequence[Value]) -> Sequence[Value]:
            v = lanes.get(a, at(i + j + 1, j))
            return [builder.fma(v, lanes.get(a, at(i + j + 1, c)), each) for c, each in zip(behind, sums, strict=True)]

        sums = lanes.carry(below, [lanes.get(a, at(j, c)) for c in behind], add_products)
        changes = [builder.select(reflects, builder.mul(tau, each), zero) for each in sums]
        for c, change in zip(behind, changes, strict=True):
            lanes.set(a, at(j, c), builder.sub(lanes.get(a, at(j, c)), change))

        def subtract(i: Affine) -> None:
            v = lanes.get(a, at(i + j + 1, j))
            for c, change in zip(behind, changes, strict=True):
                place = at(i + j + 1, c)
                lanes.set(a, place, lanes.minus_product(lanes.get(a, place), v, change))

        lanes.repeat(below, subtract)

    lanes.repeat_in_blocks(Affine((), columns - 1) - j, reflect)
