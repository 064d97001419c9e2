"""The kernel that computes complex eigenvectors of a real matrix from the columns that LAPACK returns.

For a conjugate pair of eigenvalues, the one with the positive imaginary part first, two columns v and w represent the
eigenvectors v + i w and v - i w. For a real eigenvalue, a column is its eigenvector.

Does not depend on how the columns were computed.
"""

from __future__ import annotations

import math

from xlapy.codegen.region import kernel_builder
from xlapy.cpu.target import host_target
from xlapy.custom_calls.lapack import LapackCall
from xlapy.loops import F32, F64, I64, AxisKind, Kernel

_PART = {4: F32, 8: F64}


def eigenvector_kernel(name: str, call: LapackCall) -> Kernel:
    """Returns the kernel. Buffers: contiguous columns, imaginary parts of eigenvalues,
    eigenvectors."""
    builder = kernel_builder(name, host_target())
    type, size, count = _PART[call.element_type.byte_size], call.sizes["n"], math.prod(call.batch)
    columns = builder.buffer("columns", type, count * size * size)
    imaginary = builder.buffer("imaginary", type, count * size)
    vectors = builder.buffer("vectors", type, 2 * count * size * size, written=True)
    zero, one = builder.zero(type), builder.constant(I64, 1)
    with builder.loop(count * size, AxisKind.PARALLEL) as place:
        number = builder.remainder(place, size)
        sign = builder.load(imaginary, place)
        is_first, is_second = builder.compare("ogt", sign, zero), builder.compare("olt", sign, zero)
        before = builder.select(is_second, builder.constant(I64, -1), builder.zero(I64))
        after = builder.select(is_first, one, builder.zero(I64))
        matrix = place - number  # what a failed computation left may point outside of it
        real = builder.clamped(builder.add(builder.value_of(number), before), size - 1)
        other = builder.clamped(builder.add(builder.value_of(number), after), size - 1)
        with builder.loop(size, AxisKind.VECTOR, width=builder.lanes(type)) as row:
            v = builder.load(columns, (matrix + real) * size + row)
            w = builder.load(columns, (matrix + other) * size + row)
            turned = builder.select(is_second, builder.unary("neg", w), zero)
            end = (place * size + row) * 2
            builder.store(vectors, end, v)
            builder.store(vectors, end + 1, builder.select(is_first, w, turned))
    return builder.kernel
