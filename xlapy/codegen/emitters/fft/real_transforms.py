"""Transforms of real numbers by complex transforms of half the length: the kernels before and after the complex one.

The real numbers x of an even length n, read as complex numbers z[j] = x[2j] + i x[2j+1], have a transform Z of length
m = n/2. E = (Z[k] + conj Z[m-k]) / 2 and O = (Z[k] - conj Z[m-k]) / 2i are the transforms of the even and of the odd
numbers, and X[k] = E + w^k O with w = exp(-2 pi i / n). In the inverse direction, Z[k] = E + i O.
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


def real_twiddle_factors(length: int, sign: int, type: ScalarType) -> Array:
    """exp(sign 2 pi i k / length) for k up to length / 2, real and imaginary parts interleaved."""
    values = np.exp(sign * 2j * np.pi * np.arange(length // 2 + 1) / length)
    return np.ascontiguousarray(values).view(np.float64).astype(type.dtype)


def even_and_odd_parts(builder: Builder, here: Point, mirrored: Point) -> tuple[Point, Point]:
    """Returns 2 E and 2 O, given Z[k] and Z[m-k]."""
    (a, b), (c, d) = here, mirrored
    return (builder.add(a, c), builder.sub(b, d)), (builder.add(b, d), builder.sub(c, a))


def unpacking_kernel(name: str, target: Target, type: ScalarType, rows: int, half: int) -> Kernel:
    """Returns the kernel that computes X from Z.

    Buffers: operand, twiddle factors (sign -1), result. A row of the operand has `half` numbers.
    """
    emitter = _RealKernel(name, target, type, rows, (half, half + 1), half)
    builder, arithmetic = emitter.builder, Butterflies(emitter.builder, -1)
    number = builder.constant(type, 0.5)
    with emitter.tasks() as (begin, end, is_first):
        with emitter.positions() as k:
            position = builder.value_of(k)
            mirrored = builder.select(
                builder.compare("eq", position, builder.zero(I64)), position, builder.value_of(Affine((), half) - k)
            )
            even, odd = even_and_odd_parts(builder, emitter.load(begin + k), emitter.load(begin + Affine.of(mirrored)))
            total = arithmetic.add(even, arithmetic.times(odd, emitter.root(k)))
            emitter.store(end + k, (builder.mul(total[0], number), builder.mul(total[1], number)))
        with builder.branch(is_first):
            a, b = emitter.load(begin)
            emitter.store(end + half, (builder.sub(a, b), builder.zero(type)))
    return builder.kernel


def packing_kernel(name: str, target: Target, type: ScalarType, rows: int, half: int) -> Kernel:
    """Returns the kernel that computes 2 Z from X.

    Buffers: operand, twiddle factors (sign 1), result. A row of the operand has `half` + 1 numbers; the imaginary parts
    of the first and the last one are ignored.
    """
    emitter = _RealKernel(name, target, type, rows, (half + 1, half), half)
    builder, arithmetic = emitter.builder, Butterflies(emitter.builder, 1)
    with emitter.tasks() as (begin, end, is_first):
        with emitter.positions() as k:
            even, odd = even_and_odd_parts(builder, emitter.load(begin + k), emitter.load(begin + half - k))
            emitter.store(end + k, arithmetic.sub(even, arithmetic.times(odd, emitter.root(k))))
        with builder.branch(is_first):
            (a, _), (b, _) = emitter.load(begin), emitter.load(begin + half)
            emitter.store(end, (builder.add(a, b), builder.sub(a, b)))
    return builder.kernel


class _RealKernel:
    """Loops over chunks of rows. sizes: complex numbers in a row of the operand and of the result."""

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
        """Opens a loop over chunks of rows; yields the offsets of the row, and whether it is the first chunk."""
        builder, chunks = self.builder, -(-self.half // TASK_ELEMENTS)
        with builder.loop(self.rows * chunks, AxisKind.PARALLEL) as task:
            row, self.chunk = delinear(builder, task, (self.rows, chunks))
            is_first = builder.compare("eq", builder.value_of(self.chunk), builder.zero(I64))
            yield row * self.sizes[0], row * self.sizes[1], is_first

    @contextmanager
    def positions(self) -> Iterator[Affine]:
        """Opens a vector loop over the positions of a chunk."""
        extent = (
            block_extent(self.builder, self.chunk * TASK_ELEMENTS, self.half, TASK_ELEMENTS)
            if self.half > TASK_ELEMENTS
            else self.half
        )
        with self.builder.loop(extent, AxisKind.VECTOR, width=self.lanes) as position:
            yield self.chunk * TASK_ELEMENTS + position

    def load(self, position: Affine) -> Point:
        return self.builder.load(self.source, position * 2), self.builder.load(self.source, position * 2 + 1)

    def root(self, position: Affine) -> Point:
        return self.builder.load(self.roots, position * 2), self.builder.load(self.roots, position * 2 + 1)

    def store(self, position: Affine, value: Point) -> None:
        self.builder.store(self.target, position * 2, value[0])
        self.builder.store(self.target, position * 2 + 1, value[1])
