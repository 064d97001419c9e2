"""The order in which reductions combine their terms."""

from __future__ import annotations

import pytest

from xlapy.loops.reduction_order import (
    accumulator_vectors,
    accumulators_for_body,
    combine_halves,
    combine_pairwise,
    contraction_block,
    rows_per_step,
)


def parenthesized(left: str, right: str) -> str:
    return f"({left}+{right})"


@pytest.mark.parametrize(
    ("terms", "expected"),
    [("a", "a"), ("ab", "(a+b)"), ("abcd", "((a+c)+(b+d))"), ("abcde", "(((a+d)+c)+(b+e))")],
)
def test_halves(terms: str, expected: str):
    assert combine_halves(list(terms), parenthesized) == expected


@pytest.mark.parametrize(("terms", "expected"), [("a", "a"), ("abc", "(c+(a+b))"), ("abcd", "((a+b)+(c+d))")])
def test_pairwise(terms: str, expected: str):
    assert combine_pairwise(list(terms), parenthesized) == expected


@pytest.mark.parametrize(
    ("extent", "lanes", "sums", "expected"), [(1000, 16, 1, 4), (40, 16, 1, 2), (10, 16, 1, 1), (1000, 16, 4, 2)]
)
def test_accumulators_follow_from_the_number_of_terms_and_sums(extent: int, lanes: int, sums: int, expected: int):
    assert accumulator_vectors(extent, lanes, sums=sums) == expected


def test_long_bodies_have_fewer_accumulators():
    assert [accumulators_for_body(4, statements) for statements in (1, 16, 17, 33, 100)] == [4, 4, 2, 1, 1]


def test_rows_of_a_step_of_a_column_reduction():
    assert [rows_per_step(instructions) for instructions in (1, 8, 16, 100)] == [8, 8, 4, 2]


@pytest.mark.parametrize(
    ("outer", "inner", "block"),
    [(1, 1000, (1, 250)), (1, 256, (1, 256)), (9, 64, (3, 64)), (9, 300, (1, 150))],
)
def test_terms_of_a_packed_matmul_form_blocks_of_about_equal_size(
    outer: int, inner: int, block: tuple[int, int]
) -> None:
    assert contraction_block(outer, inner) == block
