"""Transforms of real numbers by complex transforms of half the length: what comes before and after the complex ones.

The real numbers x of an even length n, read as complex numbers z[j] = x[2j] + i x[2j+1], have a transform Z of length
m = n/2. E = (Z[k] + conj Z[m-k]) / 2 and O = (Z[k] - conj Z[m-k]) / 2i are the transforms of the even and of the odd
numbers, and X[k] = E + w^k O with w = exp(-2 pi i / n). In the inverse direction, Z[k] = E + i O.
"""

from __future__ import annotations

import numpy as np

from xlapy.base.element_types import Array
from xlapy.codegen.emitters.fft.butterflies import Butterflies, Point
from xlapy.codegen.emitters.loop_nest import TASK_ELEMENTS, block_extent
from xlapy.codegen.region import kernel_builder
from xlapy.codegen.target import Target
from xlapy.loops import I64, Affine, AxisKind, Buffer, Builder, Kernel, ScalarType, Value
from xlapy.lower.core import delinear


def unpacking_twiddle_factors(half: int, type: ScalarType) -> Array:
    """exp(-pi i k / half) for k up to half / 2, real and imaginary parts interleaved."""
    values = np.exp(-1j * np.pi * np.arange(half // 2 + 1) / half)
    return np.ascontiguousarray(values).view(np.float64).astype(type.dtype)


def even_and_odd_parts(builder: Builder, here: Point, mirrored: Point) -> tuple[Point, Point]:
    """Returns 2 E and 2 O, given Z[k] and Z[m-k]."""
    (a, b), (c, d) = here, mirrored
    return (builder.add(a, c), builder.sub(b, d)), (builder.add(b, d), builder.sub(c, a))


def unpacking_kernel(name: str, target: Target, type: ScalarType, rows: int, half: int) -> Kernel:
    """Returns the kernel that computes X from Z in place, each number together with its mirror.

    Buffers: twiddle factors (sign -1), the rows. A row has `half` numbers before, and one more afterwards.
    """
    builder, pairs = kernel_builder(name, target), half // 2
    roots = builder.buffer("roots", type, 2 * (pairs + 1))
    numbers = builder.buffer("result", type, 2 * rows * (half + 1), written=True)
    arithmetic, factor = Butterflies(builder, -1), builder.constant(type, 0.5)

    def load(buffer: Buffer, place: Affine) -> Point:
        return builder.load(buffer, place * 2), builder.load(buffer, place * 2 + 1)

    def store(place: Affine, real: Value, imaginary: Value) -> None:
        builder.store(numbers, place * 2, real)
        builder.store(numbers, place * 2 + 1, imaginary)

    chunks = -(-pairs // TASK_ELEMENTS)
    with builder.loop(rows * chunks, AxisKind.PARALLEL) as task:
        row, chunk = delinear(builder, task, (rows, chunks))
        begin = row * (half + 1)
        count = block_extent(builder, chunk * TASK_ELEMENTS, pairs, TASK_ELEMENTS) if chunks > 1 else pairs
        lanes = min(builder.lanes(type), 1 << (pairs.bit_length() - 1))
        with builder.loop(count, AxisKind.VECTOR, width=lanes) as position:
            k = chunk * TASK_ELEMENTS + position + 1
            here, mirrored = begin + k, begin + half - k
            even, odd = even_and_odd_parts(builder, load(numbers, here), load(numbers, mirrored))
            rotated = arithmetic.times(odd, load(roots, k))
            (a, b), (c, d) = arithmetic.add(even, rotated), arithmetic.sub(even, rotated)
            store(here, builder.mul(a, factor), builder.mul(b, factor))
            store(mirrored, builder.mul(c, factor), builder.unary("neg", builder.mul(d, factor)))
        with builder.branch(builder.compare("eq", builder.value_of(chunk), builder.zero(I64))):
            a, b = load(numbers, begin)
            store(begin, builder.add(a, b), builder.zero(type))
            store(begin + half, builder.sub(a, b), builder.zero(type))
    return builder.kernel
