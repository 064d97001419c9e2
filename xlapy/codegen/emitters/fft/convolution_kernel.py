"""Emits kernels for lengths with a large prime factor: as cyclic convolutions, by transforms of another length m.

With w = exp(sign 2 pi i / n), a transform is

- by Bluestein, with c[j] = w^(j^2 / 2):  X[k] = c[k] sum_j (x[j] c[j]) / c[k - j], where m is at least 2 n - 1;
- by Rader, for a prime n and a primitive root g:  X[g^-k] = x[0] + sum_j x[g^j] w^(g^(j - k)), where m is n - 1.

The convolution of a with b is conj F(conj(F a * F b / m)), where F is the transform of length m with the same sign.
Both transforms and the products that follow are one loop of two iterations.

Does not depend on where points are loaded and stored. Source: Bluestein (1970); Rader (1968).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from xlapy.base.element_types import Array
from xlapy.codegen.emitters.fft.kernel import FftEmitter, Load, Store
from xlapy.codegen.emitters.fft.plan import convolution_points, is_convolved_by_rader
from xlapy.loops import I64, Affine, Value


class ConvolutionEmitter(FftEmitter):
    """Emits the kernel of a length with a large prime factor."""

    def transformed_points(self) -> int:
        return convolution_points(self.transform.points.size)

    def scratch_points(self) -> int:
        spare = 2 if is_convolved_by_rader(self.transform.points.size) else 0
        return max(self.length + spare, self.points_in, self.points_out)

    def add_own_tables(self) -> None:
        n, m = self.transform.points.size, self.length
        if is_convolved_by_rader(n):
            powers = powers_of_root(n)
            inverse = np.roll(powers[::-1], 1)
            kernel, last = np.exp(self.sign * 2j * np.pi * inverse / n), np.ones(m)
            results = np.minimum(inverse, n - inverse) if self.stores_half else inverse
            self.order = self.add_numbers(powers), self.add_numbers(results)
            self.signs = self.add_numbers(np.where(inverse > n // 2, -1, 1)) if self.stores_half else 0
        else:
            numbers = np.arange(n)
            chirp = np.exp(self.sign * 1j * np.pi * (numbers**2 % (2 * n)) / n)
            kernel = np.zeros(m, np.complex128)
            kernel[:n] = kernel[-numbers] = chirp.conj()
            last = np.concatenate([chirp.conj(), np.zeros(m - n)])
            self.chirp = self.add_complex(chirp)
        spectrum = np.fft.fft(kernel) / m if self.sign < 0 else np.fft.ifft(kernel)
        self.factors = self.add_complex(np.concatenate([spectrum, last]))

    @property
    def stores_half(self) -> bool:
        """Whether the operand is real, so that the other results are conjugates of those that are stored."""
        return self.transform.reals and self.sign < 0

    def emit_passes(self, count: Value | None) -> None:
        load, there, here = self.first_load(count)
        if self.transform.reals and self.sign > 0:
            self.mirror(load, self.scratch_store(there))
            load = self.scratch_load(there)
            there, here = here, there
        by_rader = is_convolved_by_rader(self.transform.points.size)
        data, spare = self.scratch_load(there), self.scratch_store(there)
        if by_rader:
            self.permute(load, spare)
        else:
            self.chirp_points(load, spare)
        with self.builder.loop(2) as iteration:
            found = self.scratch_load(self.emit_all_passes(there, here))
            if by_rader:
                self.add_up(iteration, found, data, spare)
            with self.builder.loop(self.length) as q:
                factor = self.root(self.factors, iteration * self.length + q)
                with self.vector() as lane:
                    real, imaginary = self.butterflies.times(found(q, lane), factor)
                    spare(q, lane, (real, self.builder.unary("neg", imaginary)))
            if by_rader:
                self.add_first_point(iteration, data, spare)
        store = self.result_store(here, count)
        if by_rader:
            self.store_permuted(data, store)
        else:
            self.store_first_half(data, store)
        if self.writes_tiles:
            self.write_tiles(here, there, count)

    # -- Bluestein

    def chirp_points(self, load: Load, store: Store) -> None:
        """Stores the points times the chirp, and zeros up to the length of the convolution."""
        points, zero = self.transform.points.size, self.builder.zero(self.type)
        with self.builder.loop(points) as q:
            factor = self.root(self.chirp, q)
            with self.vector() as lane:
                store(q, lane, self.butterflies.times(load(q, lane), factor))
        with self.builder.loop(self.length - points) as q, self.vector() as lane:
            store(q + points, lane, (zero, zero))

    # -- Rader

    def permute(self, load: Load, store: Store) -> None:
        """Stores the points in the order of the powers of the primitive root, and the first one behind them."""
        with self.vector() as lane:
            store(Affine((), self.length), lane, load(Affine(), lane))
        with self.builder.loop(self.length) as q:
            point = self.place(self.order[0], q)
            with self.vector() as lane:
                store(q, lane, load(point, lane))

    @contextmanager
    def after_first_transform(self, iteration: Affine) -> Iterator[Affine]:
        builder = self.builder
        with (
            builder.branch(builder.compare("eq", builder.value_of(iteration), builder.zero(I64))),
            self.vector() as lane,
        ):
            yield lane

    def add_up(self, iteration: Affine, found: Load, load: Load, store: Store) -> None:
        """Computes the first result: the sum of the first point and of the others, which is their transform at 0."""
        with self.after_first_transform(iteration) as lane:
            total = self.butterflies.add(found(Affine(), lane), load(Affine((), self.length), lane))
            store(Affine((), self.length + 1), lane, total)

    def add_first_point(self, iteration: Affine, load: Load, store: Store) -> None:
        """Adds the first point to all other results: its conjugate to the number at frequency 0."""
        with self.after_first_transform(iteration) as lane:
            real, imaginary = load(Affine((), self.length), lane)
            first = real, self.builder.unary("neg", imaginary)
            store(Affine(), lane, self.butterflies.add(load(Affine(), lane), first))

    def store_permuted(self, load: Load, store: Store) -> None:
        """Stores the results; if half of them is enough, one of each pair of conjugates, which are half of the numbers
        apart."""
        with self.vector() as lane:
            store(Affine(), lane, load(Affine((), self.length + 1), lane))
        with self.builder.loop(self.length // 2 if self.stores_half else self.length) as q:
            point = self.place(self.order[1], q)
            sign = self.builder.load(self.twiddles, q + self.signs) if self.stores_half else None
            with self.vector() as lane:
                real, imaginary = load(q, lane)
                store(point, lane, (real, imaginary if sign is None else self.builder.mul(imaginary, sign)))

    def place(self, table: int, q: Affine) -> Affine:
        """A number of a table of points."""
        builder = self.builder
        number = builder.convert("fptosi", builder.load(self.twiddles, q + table), I64)
        return builder.clamped(number, self.transform.points.size - 1)

    def add_complex(self, values: Array) -> int:
        """Appends complex numbers to the tables."""
        return self.add_numbers(np.ascontiguousarray(values, np.complex128).view(np.float64))


def powers_of_root(prime: int) -> Array:
    """The powers of the smallest primitive root, from 0 to prime - 2."""
    for root in range(1, prime):
        powers = [1]
        while (following := powers[-1] * root % prime) != 1:
            powers.append(following)
        if len(powers) == prime - 1:
            return np.array(powers)
    raise AssertionError(f"{prime} has no primitive root")
