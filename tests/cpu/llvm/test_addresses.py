"""CSE of addresses: each term is computed once, outside the loops on which it does not depend."""

from __future__ import annotations

import pytest

from tests.cpu.kernel_runner import module_text
from tests.cpu.llvm.test_kernels import assert_same
from xlapy.loops import F32, I1, I64, Affine, AxisKind, Builder, Kernel


def lines_with(kernel: Kernel, words: str) -> list[str]:
    return [line for line in module_text(kernel).split("main")[0].splitlines() if words in line]


def matrices(rows: int, columns: int) -> Kernel:
    """Computes out[i, j] = a[i, j] + a[i, j + 1], where rows of `a` have columns + 1 elements."""
    b = Builder("matrices")
    a = b.buffer("a", F32, rows * (columns + 1))
    out = b.buffer("out", F32, rows * columns, written=True)
    with b.loop(rows) as i, b.loop(columns) as j:
        place = i * (columns + 1) + j
        b.store(out, i * columns + j, b.add(b.load(a, place), b.load(a, place + 1)))
    return b.kernel


def test_the_part_of_the_outer_axis_is_computed_before_the_inner_loop() -> None:
    kernel = matrices(3, 5)
    text = module_text(kernel)
    inner = text.index("phi i64", text.index("phi i64") + 1)
    assert text.index("getelementptr [6 x float], ptr %b0") < inner
    assert text.index("getelementptr [5 x float], ptr %b1") < inner
    assert_same(kernel)


def test_adjacent_addresses_share_common_terms() -> None:
    assert len(lines_with(matrices(3, 5), "getelementptr")) == 5
    assert not lines_with(matrices(3, 5), "mul i64")


def test_a_loop_over_one_element_is_none() -> None:
    assert not lines_with(matrices(1, 1), "phi")
    assert_same(matrices(1, 1))


def test_sums_of_a_branch_are_not_used_after_it() -> None:
    b = Builder("branches")
    taken, a, out = b.buffer("taken", I1, 6), b.buffer("a", F32, 60), b.buffer("out", F32, 12, written=True)
    with b.loop(6) as i:
        chosen = b.load(taken, i)
        doubled = Affine.of(b.binary("mul", b.value_of(i), b.constant(I64, 2)))
        with b.branch(chosen):
            b.store(out, doubled, b.load(a, doubled * 5))
        with b.branch(b.logical_not(chosen)):
            b.store(out, doubled + 1, b.load(a, doubled * 5 + 1))
    assert_same(b.kernel)


def test_sums_in_a_loop_that_may_not_run_are_not_used_after_it() -> None:
    b = Builder("lengths")
    lengths, a, out = b.buffer("lengths", I64, 4), b.buffer("a", F32, 400), b.buffer("out", F32, 404, written=True)
    with b.loop(4) as i:
        extent = b.clamped(b.load(lengths, i), 9)
        count = b.value_of(extent)
        with b.loop(count) as j:
            b.store(out, i * 100 + j, b.load(a, i * 100 + j))
        b.store(out, i * 1 + 400, b.load(a, i * 100 + 9))
    assert_same(b.kernel)


def test_descending_and_strided_lanes_are_loaded_from_the_address_of_the_first() -> None:
    b = Builder("apart")
    a, out = b.buffer("a", F32, 1200), b.buffer("out", F32, 300, written=True)
    with b.loop(3) as i, b.loop(37, AxisKind.VECTOR, width=16) as j:
        backwards = b.load(a, i * 100 - j + 50)
        apart = b.load(a, i * 40 + j * 23)
        b.store(out, i * 100 - j + 60, b.add(backwards, apart))
    assert_same(b.kernel)
    assert len(lines_with(b.kernel, "<16 x i32> <i32 0, i32 23, i32 46")) == 2, (
        "in the loop of whole vectors, and for the rest"
    )


def test_every_iteration_of_an_unrolled_loop_begins_at_the_same_address() -> None:
    b = Builder("unrolled")
    a, out = b.buffer("a", F32, 800), b.buffer("out", F32, 100, written=True)
    with b.loop(100) as i, b.loop(8, AxisKind.UNROLL) as j:
        b.store(out, i, b.add(b.load(a, i * 8 + j), b.load(out, i)))
    assert_same(b.kernel)
    assert len(lines_with(b.kernel, "getelementptr [8 x float]")) == 1


@pytest.mark.parametrize("factor", [1, 34_000_001, 35_000_001, (1 << 40) + 1])
def test_lanes_are_divided_in_as_many_bits_as_positions_need(factor: int) -> None:
    b = Builder("divided")
    out = b.buffer("out", I64, 126, written=True)
    with b.loop(3) as i, b.loop(21, AxisKind.VECTOR, width=16) as j:
        place = i * 21 + j
        b.store(out, place, b.value_of(b.quotient(place * factor, 10)))
        b.store(out, place + 63, b.value_of(b.remainder(place * factor, 10)))
    assert_same(b.kernel)
    assert bool(lines_with(b.kernel, "udiv <16 x i32>")) == (62 * factor < 1 << 31)


@pytest.mark.parametrize("most", [99, 1 << 31])
def test_lane_offsets_have_32_bits_where_possible(most: int) -> None:
    b = Builder("gathered")
    a, indices = b.buffer("a", F32, 300), b.buffer("indices", I64, 64)
    out = b.buffer("out", F32, 64, written=True)
    with b.loop(64, AxisKind.VECTOR, width=16) as i:
        b.store(out, i, b.load(a, b.clamped(b.load(indices, i), most) * 3))
    (line,) = (line for line in lines_with(b.kernel, "getelementptr") if "<16 x i" in line)
    assert ("<16 x i32>" in line) is (most == 99)
    if most == 99:
        assert_same(b.kernel)
