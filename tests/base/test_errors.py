"""Errors: the classes, and the source excerpt in a parse error."""

import pickle

import pytest

from xlapy.base import errors
from xlapy.base.error_codes.formats.hlo_text import TOKEN
from xlapy.base.errors import ParseError, XlaError


@pytest.mark.parametrize(
    "name",
    [
        "ShapeError",
        "VerificationError",
        "ParseError",
        "BuilderError",
        "InvalidArgumentError",
        "ExecutionError",
        "UnsupportedError",
    ],
)
def test_every_error_is_an_xla_error(name):
    assert issubclass(getattr(errors, name), XlaError)


def test_positions_count_from_one_and_the_caret_is_below_the_column():
    error = ParseError.at("first\nsecond line\nthird", 13, TOKEN, "no such word", "a.hlo")
    assert (error.line, error.column, error.offset) == (2, 8, 13)
    assert error.source_line == "second line"
    assert str(error) == "a.hlo:2:8: no such word [E3001]\n  second line\n         ^"


def test_errors_at_the_end_of_a_text_and_in_an_empty_text():
    assert str(ParseError.at("ab", 2, TOKEN, "m")) == "<text>:1:3: m [E3001]\n  ab\n    ^"
    assert str(ParseError.at("", 7, TOKEN, "m")) == "<text>:1:1: m [E3001]\n  \n  ^"
    assert ParseError.at("ab\n", 3, TOKEN, "m").line == 2


def test_the_excerpt_keeps_tabs_and_drops_carriage_returns():
    error = ParseError.at("\tab\r\n", 2, TOKEN, "m")
    assert error.source_line == "\tab"
    assert str(error).endswith("\n  \tab\n  \t ^")


@pytest.mark.parametrize("offset", [0, 5, 100, 5000, 9990, 9999])
def test_a_long_line_is_cut_around_the_position(offset):
    text = "".join(chr(97 + i % 26) for i in range(10000))
    shown, caret = str(ParseError.at(text, offset, TOKEN, "m")).split("\n")[1:]
    assert len(shown) <= 2 + 160 + 6
    assert shown[len(caret) - 1] == text[offset]
    assert shown.startswith("  ...") == (offset >= 100)
    assert shown.endswith("...") == (offset < 9900)


def test_parse_errors_pickle():
    error = pickle.loads(pickle.dumps(ParseError.at("x\nyz", 3, TOKEN, "m", "f")))
    assert (error.message, error.offset, error.line, error.column, error.filename) == ("m", 3, 2, 2, "f")
