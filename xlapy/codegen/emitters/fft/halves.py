"""Transforms of real numbers by complex ones of half the length: the kernels before and behind.

The numbers x of an even length n, read as complex numbers z[j] = x[2j] + i x[2j+1], have a transform Z of length
m = n/2; E = (Z[k] + conj Z[m-k]) / 2 and O = (Z[k] - conj Z[m-k]) / 2i are the transforms of the even and of the odd
numbers: X[k] = E + w^k O with w = exp(-2 pi i / n). Backwards, Z[k] = E + i O.

Owns: these two kernels. Must not know: how Z is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from xlapy.base.element_types import Array
from xlapy.codegen.emitters.fft.butterflies import Butterflies, Point
from xlapy.codegen.emitters.loop_nest import TASK_ELEMENTS, block_extent
from xlapy.codegen.region import kernel_builder
from xlapy.codegen.target import Target
from xlapy.loops import I64, Affine, AxisKind, Builder, Kernel, ScalarType, Value
from xlapy.lower.core import delinear


def roots_of_halves(length: int, sign: int, type: ScalarType) -> Array:
    """exp(sign 2 pi i k / length) for k up to half of it, real and imaginary parts in turn."""
    values = np.exp(sign * 2j * np.pi * np.arange(length // 2 + 1) / length)
    return np.ascontiguousarray(values).view(np.float64).astype(type.dtype)


def halves(builder: Builder, here: Point, mirrored: Point) -> tuple[Point, Point]:
    """Twice E and twice O, of Z[k] and Z[m-k]."""
    (a, b), (c, d) = here, mirrored
    return (builder.add(a, c), builder.sub(b, d)), (builder.add(b, d), builder.sub(c, a))


def unpacking_kernel(name: str, target: Target, type: ScalarType, rows: int, half: int) -> tuple[Kernel, int]:
    """X out of Z. Buffers: operand, roots (sign -1), result; of the operand each row has `half` numbers."""
    maker = _Maker(name, target, type, rows, (half, half + 1), half)
    builder, arithmetic = maker.builder, Butterflies(maker.builder, -1)
    number = builder.constant(type, 0.5)
    with maker.tasks() as (begin, end, is_first):
        with maker.places() as k:
            place = builder.value_of(k)
            mirrored = builder.select(
                builder.compare("eq", place, builder.zero(I64)), place, builder.value_of(Affine((), half) - k)
            )
            even, odd = halves(builder, maker.load(begin + k), maker.load(begin + Affine.of(mirrored)))
            total = arithmetic.add(even, arithmetic.times(odd, maker.root(k)))
            maker.store(end + k, (builder.mul(total[0], number), builder.mul(total[1], number)))
        with builder.branch(is_first):
            a, b = maker.load(begin)
            maker.store(end + half, (builder.sub(a, b), builder.zero(type)))
    return builder.kernel, 12 * min(half, TASK_ELEMENTS)


def packing_kernel(name: str, target: Target, type: ScalarType, rows: int, half: int) -> tuple[Kernel, int]:
    """Twice Z out of X. Buffers: operand, roots (sign 1), result; of the operand each row has `half` + 1 numbers.

    The first and the last number of a row are real: their imaginary parts do not count.
    """
    maker = _Maker(name, target, type, rows, (half + 1, half), half)
    builder, arithmetic = maker.builder, Butterflies(maker.builder, 1)
    with maker.tasks() as (begin, end, is_first):
        with maker.places() as k:
            even, odd = halves(builder, maker.load(begin + k), maker.load(begin + half - k))
            maker.store(end + k, arithmetic.sub(even, arithmetic.times(odd, maker.root(k))))
        with builder.branch(is_first):
            (a, _), (b, _) = maker.load(begin), maker.load(begin + half)
            maker.store(end, (builder.add(a, b), builder.sub(a, b)))
    return builder.kernel, 12 * min(half, TASK_ELEMENTS)


class _Maker:
    """Loops over chunks of rows. sizes: of a row of the operand and of the result."""

    def __init__(
        self, name: str, target: Target, type: ScalarType, rows: int, sizes: tuple[int, int], half: int
    ) -> None:
        self.builder = kernel_builder(name, target)
        self.rows, self.sizes, self.half = rows, sizes, half
        self.lanes = min(self.builder.lanes(type), 1 << (half.bit_length() - 1))
        self.source = self.builder.buffer("operand", type, 2 * rows * sizes[0])
        self.roots = self.builder.buffer("roots", type, 2 * (half + 1))
        self.target = self.builder.buffer("result", type, 2 * rows * sizes[1], written=True)

    @contextmanager
    def tasks(self) -> Iterator[tuple[Affine, Affine, Value]]:
        """A chunk of a row each: where the row begins in operand and result, whether the chunk is its first."""
        builder, chunks = self.builder, -(-self.half // TASK_ELEMENTS)
        with builder.loop(self.rows * chunks, AxisKind.PARALLEL) as task:
            row, self.chunk = delinear(builder, task, (self.rows, chunks))
            is_first = builder.compare("eq", builder.value_of(self.chunk), builder.zero(I64))
            yield row * self.sizes[0], row * self.sizes[1], is_first

    @contextmanager
    def places(self) -> Iterator[Affine]:
        """The places of a chunk, in vectors."""
        extent = (
            block_extent(self.builder, self.chunk * TASK_ELEMENTS, self.half, TASK_ELEMENTS)
            if self.half > TASK_ELEMENTS
            else self.half
        )
        with self.builder.loop(extent, AxisKind.VECTOR, width=self.lanes) as place:
            yield self.chunk * TASK_ELEMENTS + place

    def load(self, place: Affine) -> Point:
        return self.builder.load(self.source, place * 2), self.builder.load(self.source, place * 2 + 1)

    def root(self, place: Affine) -> Point:
        return self.builder.load(self.roots, place * 2), self.builder.load(self.roots, place * 2 + 1)

    def store(self, place: Affine, value: Point) -> None:
        self.builder.store(self.target, place * 2, value[0])
        self.builder.store(self.target, place * 2 + 1, value[1])
