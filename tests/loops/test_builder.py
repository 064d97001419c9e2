"""The loops in which the builder places values, and the text of kernels."""

from __future__ import annotations

import numpy as np
import pytest

from xlapy.loops import F32, F64, I1, I8, I32, I64, Affine, AxisKind, Builder, evaluate, print_kernel
from xlapy.loops.ir import For, Value
from xlapy.loops.positions import is_equal_in_lanes


def axpy() -> Builder:
    b = Builder("axpy")
    a, x, out = b.buffer("a", F32, 1), b.buffer("x", F32, 24), b.buffer("out", F32, 24, written=True)
    with b.loop(3, AxisKind.PARALLEL) as i, b.loop(8, AxisKind.VECTOR, width=8) as j:
        scaled = b.mul(b.load(a, i * 0), b.load(x, i * 8 + j))
        b.store(out, i * 8 + j, b.add(scaled, b.constant(F32, 1)))
    return b


def test_the_text_of_a_kernel():
    assert print_kernel(axpy().kernel) == (
        "kernel axpy(a: f32[1], x: f32[24], out: f32[24] written)\n"
        "  %2 = load a[0]\n"
        "  for %0 in 3 parallel\n"
        "    for %1 in 8 vector(8)\n"
        "      %3 = load x[8 * %0 + %1]\n"
        "      %4 = mul f32 %2, %3\n"
        "      %6 = add f32 %4, 1.0\n"
        "      store out[8 * %0 + %1], %6\n"
    )


@pytest.mark.parametrize(("extent", "is_legal"), [(16, True), (32, True), (0, False), (8, False), (20, False)])
def test_evaluation_checks_the_extents_of_sums_in_vectors(extent: int, is_legal: bool):
    """An extent that is known at run time is a positive multiple of the elements of an iteration, here 16."""
    b = Builder("sum")
    count, x, out = b.buffer("n", I64, 1), b.buffer("x", I64, 32), b.buffer("out", I64, 1, written=True)
    zero = b.zero(I64)
    (total,) = b.reduce(
        b.load(count, Affine()),
        [zero],
        lambda position, before: [b.add(before[0], b.load(x, position))],
        kind=AxisKind.VECTOR,
        width=8,
        accumulators=2,
        identities=[zero],
        combine=lambda left, right: [b.add(left[0], right[0])],
    )
    b.store(out, Affine(), total)
    memory = {"n": np.array([extent]), "x": np.arange(32), "out": np.zeros(1, np.int64)}
    if is_legal:
        evaluate(b.kernel, memory)
        assert memory["out"].item() == sum(range(extent))
        return
    with pytest.raises(AssertionError, match=f"ends at {extent}, "):
        evaluate(b.kernel, memory)


def test_evaluation_of_a_kernel():
    memory = {"a": np.array([2], np.float32), "x": np.arange(24, dtype=np.float32), "out": np.zeros(24, np.float32)}
    evaluate(axpy().kernel, memory)
    assert memory["out"].tolist() == [2 * x + 1 for x in range(24)]


def test_loop_invariant_values_are_hoisted():
    b = Builder("k")
    x, out = b.buffer("x", F32, 4), b.buffer("out", F32, 40, written=True)
    with b.loop(4) as i, b.loop(10) as j:
        root = b.unary("sqrt", b.load(x, i))
        b.store(out, i * 10 + j, root)
    (outer,) = [s for s in b.kernel.body.statements if isinstance(s, For)]
    assert [s.op for s in outer.body.statements if isinstance(s, Value)] == ["load", "sqrt"]


def test_common_subexpressions_are_computed_once():
    b = Builder("k")
    x = b.buffer("x", F32, 4)
    with b.loop(4) as i:
        assert b.add(b.load(x, i), b.load(x, i)) is b.add(b.load(x, i), b.load(x, i))


def test_loads_from_a_written_buffer_keep_their_order():
    b = Builder("k")
    x = b.buffer("x", F32, 4, written=True)
    with b.loop(3) as i:
        before = b.load(x, i)
        b.store(x, i, b.add(before, before))
        assert b.load(x, i) is not before


def test_loads_in_a_branch_are_not_hoisted():
    b = Builder("k")
    x, flag, out = b.buffer("x", F32, 4), b.buffer("flag", I8, 4), b.buffer("out", F32, 4, written=True)
    with b.loop(4) as i:
        condition = b.compare("ne", b.load(flag, i), b.zero(I8))
        with b.branch(condition):
            inside = b.block
            loaded = b.load(x, i * 0)
            b.store(out, i, loaded)
        assert loaded.block is inside
    memory = {"x": np.ones(4, np.float32), "flag": np.array([1, 0, 0, 1], np.int8), "out": np.zeros(4, np.float32)}
    evaluate(b.kernel, memory)
    assert memory["out"].tolist() == [1, 0, 0, 1]


def test_a_reduction_carries_its_values():
    b = Builder("k")
    x, out = b.buffer("x", I32, 5), b.buffer("out", I32, 2, written=True)

    def step(i, carried):
        total, greatest = carried
        value = b.load(x, i)
        return [b.add(total, value), b.binary("smax", greatest, value)]

    total, greatest = b.reduce(5, [b.zero(I32), b.constant(I32, -(2**31))], step)
    b.store(out, Affine(), total)
    b.store(out, Affine((), 1), greatest)
    memory = {"x": np.array([3, -7, 9, 1, 2], np.int32), "out": np.zeros(2, np.int32)}
    evaluate(b.kernel, memory)
    assert memory["out"].tolist() == [8, 9]


def test_quotients_that_are_equal_in_all_lanes():
    """i div 128 is the same in 16 lanes, which begin at a multiple of 16; i div 20, or (i + 8) div 128, is not."""
    b = Builder("k")
    with b.loop(1024, AxisKind.VECTOR, width=16) as i, b.loop(8) as j:
        (axis, _), *_ = i.terms
        whole = [b.quotient(i + j * 64, 128), b.quotient(i * 2, 32), b.quotient(i + 48, 16)]
        other = [b.quotient(i, 20), b.quotient(i + 8, 128), b.quotient(i + j * 8, 128), b.quotient(i * 3, 128)]
    quotients = [[v for v, _ in found.terms if v.op == "div"] for found in (*whole, *other)]
    equal = [all(is_equal_in_lanes(v, axis, 16) for v in found) for found in quotients]
    assert equal == [True] * len(whole) + [False] * len(other)


def test_a_loop_without_iterations_is_omitted():
    b = Builder("k")
    x = b.buffer("x", I32, 5, written=True)
    with b.loop(0) as i:
        b.store(x, i + 3, b.load(x, i))
    assert not b.kernel.body.statements


def test_a_while_loop():
    b = Builder("collatz")
    out = b.buffer("out", I64, 1, written=True)
    one = b.constant(I64, 1)

    def step(values):
        n, count = values
        half = b.binary("udiv", n, b.constant(I64, 2))
        odd = b.compare("eq", b.binary("and", n, one), one)
        return [b.select(odd, b.add(b.mul(n, b.constant(I64, 3)), one), half), b.add(count, one)]

    _, count = b.while_loop([b.constant(I64, 27), b.zero(I64)], lambda v: b.compare("ne", v[0], one), step)
    b.store(out, Affine(), count)
    memory = {"out": np.zeros(1, np.int64)}
    evaluate(b.kernel, memory)
    assert memory["out"][0] == 111
    assert "while carrying" in print_kernel(b.kernel)


@pytest.mark.parametrize(("type", "value", "kept"), [(I8, 200, -56), (I1, 3, 1), (F32, 0.1, float(np.float32(0.1)))])
def test_constants_fit_their_type(type, value, kept):
    assert Builder("k").constant(type, value).attribute == kept


def test_zeros_of_both_signs_are_two_constants():
    b = Builder("k")
    assert b.constant(F64, 0.0) is not b.constant(F64, -0.0)
    assert b.constant(F64, 0.0) is b.constant(F64, 0.0)


def test_what_cannot_change_a_quotient_is_left_out():
    """The terms 8 i + 0 to 8 i + 7 are in one block of 128 terms, so that one quotient serves all of them."""
    b = Builder("k")
    with b.loop(64) as i:
        quotients = {b.quotient(i * 8 + n, 128) for n in range(8)}
        remainders = [b.remainder(i * 8 + n, 128) for n in range(8)]
    assert len(quotients) == 1
    assert [remainder - remainders[0] for remainder in remainders] == [Affine((), n) for n in range(8)]
    assert remainders[5].bounds() is not None and remainders[5].bounds()[1] < 128
    assert b.quotient(i * 8 + 5, 128) * 128 + remainders[5] == i * 8 + 5
