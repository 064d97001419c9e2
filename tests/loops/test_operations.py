"""The number of arithmetic operations of kernels."""

from __future__ import annotations

from xlapy.loops import F32, I1, I64, AxisKind, Builder
from xlapy.loops.ir import Affine
from xlapy.loops.operations import kernel_operations


def test_operations_are_multiplied_by_trip_counts():
    builder = Builder("k")
    source, target = builder.buffer("a", F32, 800), builder.buffer("b", F32, 800, written=True)
    with builder.loop(8, AxisKind.PARALLEL) as i, builder.loop(100, AxisKind.VECTOR, width=16) as j:
        place = i * 100 + j
        x = builder.load(source, place)
        builder.store(target, place, builder.fma(x, x, builder.mul(x, builder.constant(F32, 3.0))))
    found = kernel_operations(builder.kernel)
    assert found.counts == {"f32": 2400.0} and found.is_known


def test_data_dependent_trip_counts_are_unknown():
    builder = Builder("k")
    source, target = builder.buffer("n", I64, 1), builder.buffer("out", I64, 1, written=True)
    limit = builder.load(source, Affine())
    (last,) = builder.while_loop(
        [builder.constant(I64, 0)],
        lambda values: builder.compare("slt", values[0], limit),
        lambda values: [builder.add(values[0], builder.constant(I64, 1))],
    )
    builder.store(target, Affine(), last)
    found = kernel_operations(builder.kernel)
    assert found.counts == {"i64": 2.0} and not found.is_known


def test_cold_paths_do_not_count():
    builder = Builder("k")
    source, target = builder.buffer("a", F32, 1), builder.buffer("out", F32, 1, written=True)
    x = builder.load(source, Affine())
    is_large = builder.compare("ogt", x, builder.constant(F32, 100.0))
    (y,) = builder.cold_path("large", is_large, [x], lambda: [builder.op("sqrt", F32, builder.op("floor", F32, x))])
    builder.store(target, Affine(), y)
    found = kernel_operations(builder.kernel)
    assert found.counts == {"f32": 1.0} and found.is_known
    assert I1.name not in found.counts
