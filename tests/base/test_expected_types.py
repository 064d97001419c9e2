"""Annotations accept what Python code passes, and are said in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from tests.raising import raises
from xlapy.base.arguments import checking
from xlapy.base.arguments.expected_types import (
    expected_text,
    find_mismatch,
    given_text,
    hints_of,
    plain_types,
    scalar_alternatives,
)
from xlapy.base.error_codes.building import python_calls as codes
from xlapy.base.errors import ArgumentTypeError
from xlapy.hlo.module import Module


@dataclass
class Point:
    x: int
    name: str | None = None


@pytest.mark.parametrize(
    ("hint", "accepted", "refused", "text"),
    [
        (int, [1, np.int8(1)], [True, np.bool_(True), 1.5, "1", None, np.ones(2)], "an integer"),
        (float, [1, 1.5, np.float32(1)], ["1", None, 1j], "a number"),
        (complex, [1, 1j, np.complex64(1)], ["1", None], "a number"),
        (bool, [True, np.bool_(True)], [1, "x", None], "a bool"),
        (str, ["x"], [b"x", None, 1], "a string"),
        (bytes, [b"x", bytearray(b"x"), memoryview(b"x")], ["x", None], "bytes"),
        (None, [None], [0, ""], "None"),
        (Any, [None, 1], [], "anything"),
        (int | None, [1, None], ["x"], "an integer or None"),
        (Sequence[int], [[1], np.ones(2), range(3)], ["x", b"x", 5, None, ["x"], [None]], "a sequence of integers"),
        (tuple[int, ...], [(1, 2), [1]], [("x",), 1], "a sequence of integers"),
        (tuple[int, str], [(1, "x")], [(1,), ("x", 1), 5], "a tuple of 2: an integer, a string"),
        (Sequence[Sequence[str]], [[["x"]]], [[5], [[5]]], "a sequence of sequences of strings"),
        (Mapping[str, int], [{"a": 1}], [{1: 1}, {"a": "x"}, [("a", 1)]], "a mapping of strings to integers"),
        (Callable[[int], int], [len, int], [5, "x"], "a function"),
        (type[Point], [Point, int], [Point(1)], "a class"),
        (Literal["a", "b"], ["a"], ["c", None], "'a' or 'b'"),
        (Point, [Point(1)], [Point("x"), Point(1, 5), 5], "a Point"),
    ],
)  # fmt: skip
def test_hints(hint: Any, accepted: list[Any], refused: list[Any], text: str):
    assert [value for value in accepted if find_mismatch(value, hint) is not None] == []
    assert [value for value in refused if find_mismatch(value, hint) is None] == []
    assert expected_text(hint) == text
    quick = plain_types(hint)
    assert not [value for value in refused if isinstance(value, quick)]


def test_where_a_value_differs():
    found = find_mismatch([Point(1), Point(2, name=5)], Sequence[Point])
    assert found is not None
    assert (found.path, found.expected, found.value) == ("[1].name", "a string or None", 5)


def test_values_in_words():
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert given_text(None) == "None"
    assert given_text("x" * 100) == f"str '{'x' * 59}..."
    assert given_text(Broken()) == "Broken without text"


def test_scalars_are_accepted_before_annotations_are_evaluated(monkeypatch: pytest.MonkeyPatch):
    """So that the first compilation of a text does not import the builder, whose classes are alternatives of it."""
    evaluated: list[str] = []
    monkeypatch.setattr(checking, "hints_of", lambda function: evaluated.append("hints") or hints_of(function))

    @checking.eager_arguments
    def compiled(program: Module | str, count: int = 1) -> object:
        return program

    assert compiled("text", count=2) == "text"
    assert not evaluated
    with raises(ArgumentTypeError, codes.ARGUMENT_TYPE, "count", "True"):
        compiled("text", True)
    with raises(ArgumentTypeError, codes.ARGUMENT_TYPE, "program", "5"):
        compiled(5)
    assert evaluated


def test_scalar_alternatives_are_outside_of_brackets():
    assert scalar_alternatives("Module | str") == {str}
    assert scalar_alternatives("Sequence[int | str | bytes]") == set()
    assert scalar_alternatives("Mapping[str, list[int | str]] | float") == {float}
