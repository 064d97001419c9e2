"""Affine functions, and their simplification when an index is delinearized and linearized again."""

from __future__ import annotations

import pytest

from xlapy.loops import I64, Affine, Builder
from xlapy.lower.core import delinear, linear


def test_sums_combine_equal_terms_and_drop_zeros():
    b = Builder("k")
    with b.loop(10) as i, b.loop(20) as j:
        assert str(i * 3 + j + 4 - j * 1) == f"3 * {i} + 4"
        assert (i - i).is_constant
        assert (i * 2 + j * -1 + 5).bounds() == (5 - 19, 5 + 18)


def test_a_constant_is_not_a_term():
    b = Builder("k")
    assert Affine.of(b.constant(I64, 7)) == Affine((), 7)


@pytest.mark.parametrize("dimensions", [(5, 7), (2, 3, 4), (6, 1, 5), (4,)])
def test_the_index_of_a_position_simplifies_to_the_position(dimensions):
    b = Builder("k")
    size = 1
    for d in dimensions:
        size *= d
    with b.loop(size) as i:
        assert linear(delinear(b, i, dimensions), dimensions) == i


def test_the_index_in_another_shape_simplifies_too():
    """Reading f32[4,6] row by row through a reshape to f32[8,3] is one contiguous access."""
    b = Builder("k")
    with b.loop(8) as row, b.loop(3) as column:
        position = linear((row, column), (8, 3))
        assert linear(delinear(b, position, (4, 6)), (4, 6)) == position


def test_quotients_of_known_multiples_need_no_division():
    b = Builder("k")
    with b.loop(8) as i, b.loop(16) as j:
        assert b.quotient(i * 16 + j, 16) == i
        assert b.remainder(i * 16 + j, 16) == j
        assert b.quotient(i * 16 + j + 16, 16) == i + 1
        assert not [s for s in b.kernel.statements() if getattr(s, "op", "") in ("div", "mod")]


def test_a_quotient_of_a_possibly_negative_position_is_computed_at_run_time():
    b = Builder("k")
    with b.loop(8) as i, b.loop(4) as j:
        assert b.quotient(i * 4 - j + 8, 4).terms[0][0].op == "div"
