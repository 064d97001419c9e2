"""Padding given as SAME, VALID or pairs."""

from __future__ import annotations

from typing import Any

import pytest

from xlapy.base import ShapeError
from xlapy.builder.core.padding import Padding, make_padding
from xlapy.opcodes.attributes.dimensions import Window


@pytest.mark.parametrize(
    ("size", "window", "stride", "pair"),
    [
        (10, 3, 1, (1, 1)),
        (10, 2, 1, (0, 1)),
        (10, 6, 1, (2, 3)),
        (10, 7, 1, (3, 3)),
        (10, 5, 3, (2, 2)),
        (10, 1, 1, (0, 0)),
        (10, 1, 4, (0, 0)),
        (10, 2, 5, (0, 0)),
        (5, 3, 2, (1, 1)),
        (4, 3, 2, (0, 1)),
        (0, 3, 1, (1, 1)),
        (1, 4, 9, (1, 2)),
    ],
)
def test_same_padding_gives_the_input_size_divided_by_the_stride(
    size: int, window: int, stride: int, pair: tuple[int, int]
) -> None:
    assert make_padding([size], [window], [stride], Padding.SAME) == (pair,)
    made = Window.make([window], [stride], [pair])
    if size:
        assert made.output_sizes([size]) == (-(-size // stride),)


def test_valid_padding_is_zero() -> None:
    assert make_padding([10, 1], [3, 9], [1, 2], Padding.VALID) == ((0, 0), (0, 0))
    assert make_padding([], [], [], "SAME") == ()


def test_names_and_pairs() -> None:
    assert make_padding([10], [3], [], "SAME") == ((1, 1),)
    assert make_padding([10], [3], [1], [(2, -3)]) == ((2, -3),)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([10], [3], [1], "same"), "padding is SAME, VALID or a list of .low, high. pairs, given 'same'"),
        (([10], [3], [1], [1, 2]), "padding is SAME, VALID or a list of .low, high. pairs, given .1, 2."),
        (([10], [3], [1], [(1.5, 2)]), "padding is SAME, VALID or a list"),
        (([10, 2], [3], [1], "SAME"), r"padding SAME takes one input size, window size and stride .*, given \[10, 2\]"),
        (([10], [0], [1], "SAME"), "window dimension 0 has a non-positive size: 0"),
        (([10], [3], [0], "VALID"), "window dimension 0 has a non-positive stride: 0"),
    ],
)
def test_refusals(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        make_padding(*arguments)
