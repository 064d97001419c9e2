"""Padding given as SAME, VALID or pairs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.raising import Wanted, raises
from xlapy.base import ShapeError
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import attributes as attributes_codes
from xlapy.base.error_codes.operations import operands as shared
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
    ("arguments", "wanted"),
    [
        (([10], [3], [1], "same"), (codes.PADDING_FORM, "SAME", "VALID", "'same'")),
        (([10], [3], [1], [1, 2]), (codes.PADDING_FORM, "SAME", "VALID", "[1, 2]")),
        (([10], [3], [1], [(1.5, 2)]), (codes.PADDING_FORM, "SAME", "VALID")),
        (([10, 2], [3], [1], "SAME"), (shared.ENTRY_PER_DIMENSION, "SAME", "[10, 2]")),
        (([10], [0], [1], "SAME"), (attributes_codes.WINDOW_POSITIVE, "window dimension 0")),
        (([10], [3], [0], "VALID"), (attributes_codes.WINDOW_POSITIVE, "window dimension 0")),
    ],
)
def test_refusals(arguments: tuple[Any, ...], wanted: Wanted) -> None:
    with raises(ShapeError, *wanted):
        make_padding(*arguments)
