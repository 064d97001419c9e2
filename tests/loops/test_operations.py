"""The number of arithmetic operations of kernels."""

from __future__ import annotations

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.loops import F32, I1, I16, I32, I64, AxisKind, Builder
from xlapy.loops.dot_instructions import BF16_PAIRS
from xlapy.loops.ir import Affine
from xlapy.loops.operations import kernel_operations
from xlapy.lower.core import delinear


def test_operations_are_multiplied_by_trip_counts():
    builder = Builder("k")
    source, target = builder.buffer("a", F32, 800), builder.buffer("b", F32, 800, written=True)
    with builder.loop(8, AxisKind.PARALLEL) as i, builder.loop(100, AxisKind.VECTOR, width=16) as j:
        place = i * 100 + j
        x = builder.load(source, place)
        builder.store(target, place, builder.fma(x, x, builder.mul(x, builder.constant(F32, 3.0))))
    found = kernel_operations(builder.kernel)
    assert found.counts == {"f32": 2400.0} and found.is_known


def test_extents_at_edges_count_as_they_are():
    """Blocks of 16 x 4 of 35 x 9 elements, in which every element counts once."""
    builder = Builder("k")
    source, target = builder.buffer("a", F32, 315), builder.buffer("b", F32, 315, written=True)
    with builder.loop(3 * 3, AxisKind.PARALLEL) as task:
        row, column = delinear(builder, task, (3, 3))
        rows, columns = block_extent(builder, row * 16, 35, 16), block_extent(builder, column * 4, 9, 4)
        with builder.loop(rows) as i, builder.loop(columns) as j:
            place = (row * 16 + i) * 9 + column * 4 + j
            builder.store(target, place, builder.op("neg", F32, builder.load(source, place)))
    assert kernel_operations(builder.kernel).counts["f32"] == 35 * 9


def test_extents_may_depend_on_loops_of_varying_extent():
    """The triangle j <= i of 10 x 10 elements, and its 220 triples k <= j <= i."""
    builder = Builder("k")
    target = builder.buffer("b", I64, 10, written=True)
    with builder.loop(10) as i, builder.loop(builder.value_of(i + 1)) as j, builder.loop(builder.value_of(j + 1)) as k:
        builder.store(target, k, builder.add(builder.value_of(k), builder.constant(I64, 1)))
    assert kernel_operations(builder.kernel).counts == {"i64": 220}


def test_an_extent_that_depends_on_data_counts_as_the_mean_of_its_bounds():
    builder = Builder("k")
    source, target = builder.buffer("n", I64, 1), builder.buffer("out", I64, 5, written=True)
    extent = builder.clamped(builder.load(source, Affine()), 5)
    with builder.loop(builder.value_of(extent)) as i:
        builder.store(target, i, builder.add(builder.value_of(i), builder.constant(I64, 1)))
    found = kernel_operations(builder.kernel)
    assert not found.is_known
    assert found.counts == {"i64": 2 + 2.5}


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


def test_values_that_are_equal_in_all_lanes_are_computed_once():
    builder = Builder("k")
    source, target = builder.buffer("a", F32, 100), builder.buffer("b", F32, 3200, written=True)
    with builder.loop(3200, AxisKind.VECTOR, width=16) as place:
        row, _ = delinear(builder, place, (100, 32))
        x = builder.op("floor", F32, builder.load(source, row))
        builder.store(target, place, builder.fma(x, builder.load(target, place), x))
    assert kernel_operations(builder.kernel).counts["f32"] == 3200 / 16 + 2 * 3200


def test_a_maximum_is_one_operation_however_it_is_written():
    """A comparison with two selections: a maximum, which is one instruction, and another one, which is two."""
    builder = Builder("k")
    source, target = builder.buffer("a", F32, 8), builder.buffer("out", F32, 8, written=True)
    with builder.loop(8) as i:
        x, zero = builder.load(source, i), builder.constant(F32, 0.0)
        is_negative = builder.compare("olt", x, zero)
        raised = builder.select(is_negative, zero, x)
        builder.store(target, i, builder.select(is_negative, raised, x))
    assert kernel_operations(builder.kernel).counts == {"f32": 2 * 8}


def test_rounding_to_bf16_includes_the_move_of_its_bits():
    builder = Builder("k")
    source, target = builder.buffer("a", F32, 8), builder.buffer("out", I16, 8, written=True)
    with builder.loop(8) as i:
        rounded = builder.bitcast(builder.unary("round_bf16", builder.load(source, i)), I32)
        upper = builder.binary("lshr", rounded, builder.constant(I32, 16))
        builder.store(target, i, builder.convert("trunc", upper, I16))
    assert kernel_operations(builder.kernel).counts == {"f32": 8}


def test_dot_instructions_count_their_products():
    builder = Builder("k")
    factors, target = builder.buffer("a", I32, 16), builder.buffer("out", F32, 16, written=True)
    with builder.loop(16, AxisKind.VECTOR, width=16) as i:
        pair = builder.load(factors, i)
        builder.store(target, i, builder.op("dot", F32, pair, pair, builder.load(target, i), attribute=BF16_PAIRS))
    assert kernel_operations(builder.kernel).counts == {"dot bf16": 4 * 16}


def test_cold_branches_do_not_count():
    builder = Builder("k")
    source, target = builder.buffer("a", F32, 8), builder.buffer("out", F32, 8, written=True)
    with builder.loop(8) as i:
        x = builder.load(source, i)
        is_usual = builder.compare("olt", x, builder.constant(F32, 100.0))
        with builder.branch(is_usual):
            builder.store(target, i, builder.op("floor", F32, x))
        with builder.branch(builder.logical_not(is_usual), is_cold=True):
            builder.store(target, i, builder.op("sqrt", F32, builder.op("ceil", F32, x)))
    assert kernel_operations(builder.kernel).counts["f32"] == 8 * 2  # the comparison and `floor`


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
