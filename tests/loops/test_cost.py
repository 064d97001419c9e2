"""The estimated time of kernels."""

from __future__ import annotations

import pytest

from xlapy.loops import F32, F64, I64, AxisKind, Builder
from xlapy.loops.cost import KernelCost
from xlapy.loops.ir import Affine


def sum_of_arrays(size: int, type=F32, stride: int = 1) -> KernelCost:
    """The cost of out[i] = a[stride * i] + a[stride * i] in vectors of 64 bytes."""
    builder = Builder("k")
    source = builder.buffer("a", type, size * stride)
    target = builder.buffer("b", type, size, written=True)
    with builder.loop(size, AxisKind.VECTOR, width=16) as i:
        x = builder.load(source, i * stride)
        builder.store(target, i, builder.add(x, x))
    return KernelCost(builder.kernel)


def test_arithmetic_counts_once_a_register():
    cost = sum_of_arrays(1600)
    ((iterations, cycles),) = cost.loops.values()
    assert (iterations, cycles) == (100, 0.5 + 0.5 + 1.0 + 1.0)  # a load, an addition, a store, the loop
    ((iterations, wide),) = sum_of_arrays(1600, F64).loops.values()
    assert (iterations, wide - 1.0) == (100, 2 * (cycles - 1.0))


def test_the_bytes_that_a_kernel_touches_bound_its_time():
    assert sum_of_arrays(1600).cycles == 2 * 1600 * 4 / 32


@pytest.mark.parametrize(("stride", "load"), [(1, 0.5), (2, 1.0), (4, 2.0), (5, 16.0)])
def test_lanes_that_are_far_apart_are_loaded_one_by_one(stride: int, load: float):
    ((_, cycles),) = sum_of_arrays(1600, stride=stride).loops.values()
    assert cycles == load + 2.5


def test_a_scalar_for_all_lanes_is_part_of_the_operation():
    builder = Builder("k")
    source, target = builder.buffer("a", F32, 8), builder.buffer("b", F32, 128, written=True)
    with builder.loop(8, AxisKind.SERIAL) as row, builder.loop(16, AxisKind.VECTOR, width=16) as i:
        builder.store(target, row * 16 + i, builder.load(source, row))
    assert {cycles for _, cycles in KernelCost(builder.kernel).loops.values()} == {2.0, 2.0 + 0.5 + 1.0}


def test_extents_of_unknown_size_are_bounded_by_the_largest_array():
    builder = Builder("k")
    limits, target = builder.buffer("n", I64, 10), builder.buffer("out", I64, 1000, written=True)
    with builder.loop(10, AxisKind.PARALLEL) as row, builder.loop(builder.load(limits, row)) as i:
        builder.store(target, i, builder.constant(I64, 1))
    loops = {loop.kind: iterations for loop, (iterations, _) in KernelCost(builder.kernel).loops.items()}
    assert loops == {AxisKind.PARALLEL: 10, AxisKind.SERIAL: 1000 // 10}


def test_loops_that_end_by_what_they_load():
    builder = Builder("k")
    source, target = builder.buffer("n", I64, 500), builder.buffer("out", I64, 1, written=True)
    (last,) = builder.while_loop(
        [builder.constant(I64, 0)],
        lambda values: builder.compare("slt", builder.load(source, Affine.of(values[0])), values[0]),
        lambda values: [builder.add(values[0], builder.constant(I64, 1))],
    )
    builder.store(target, Affine(), last)
    ((expected, _),) = KernelCost(builder.kernel).loops.values()
    ((most, _),) = KernelCost(builder.kernel, while_iterations=None).loops.values()
    assert (expected, most) == (1, 500)


def test_cold_paths_do_not_count():
    builder = Builder("k")
    source, target = builder.buffer("a", F32, 1), builder.buffer("out", F32, 1, written=True)
    x = builder.load(source, Affine())
    is_large = builder.compare("ogt", x, builder.constant(F32, 100.0))
    (y,) = builder.cold_path("large", is_large, [x], lambda: [builder.op("sqrt", F32, x)])
    builder.store(target, Affine(), y)
    assert KernelCost(builder.kernel).cycles < 6
