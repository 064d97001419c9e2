"""The text cursor: blanks, tokens, integers, strings, lists, and the position of errors."""

import re

import pytest

from tests.raising import Wanted, raises
from xlapy.base.cursor import Cursor, integer_from_text
from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.base.errors import ParseError
from xlapy.base.hlo_cursor import HloCursor


def test_tokens_may_follow_blanks_and_comments() -> None:
    cursor = Cursor(" /* a\n b */ // c\n (x , -3)")
    assert cursor.peek("(") and cursor.accept("(")
    assert not cursor.accept("y")
    assert cursor.word() == "x"
    cursor.expect(",")
    assert cursor.integer() == -3
    assert not cursor.at_end()
    cursor.expect(")")
    assert cursor.at_end()


def test_a_failed_match_leaves_the_cursor_before_the_token() -> None:
    cursor = Cursor("  abc")
    assert cursor.match(re.compile("b")) is None
    assert cursor.consume(re.compile("b")) is None
    assert cursor.position == 2
    assert cursor.consume(re.compile("ab")) == "ab"
    assert cursor.position == 4


def test_a_word_is_accepted_as_a_whole() -> None:
    cursor = Cursor("SC(1)")
    assert not cursor.accept_word("S")
    assert cursor.accept_word("SC")
    with raises(ParseError, codes.TOKEN, "'T'", "'('"):
        cursor.expect_word("T")


def test_separated_reads_up_to_the_closing_bracket() -> None:
    cursor = Cursor("[1, 2,3] []x")
    lists: list[list[int]] = []
    for _ in range(2):
        cursor.expect("[")
        lists.append(cursor.separated("]", cursor.integer))
    assert lists == [[1, 2, 3], []]
    assert cursor.word() == "x"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a b"', "a b"),
        ("'a\"b'", 'a"b'),
        ('""', ""),
        (r'"\n\x41\101\u00e9"', "\nAA\u00e9"),
        (r'"\303\251"', "\u00e9"),
        (r'"\xff"', "\udcff"),
    ],
)
def test_strings(text: str, value: str) -> None:
    assert Cursor(text).string() == value


@pytest.mark.parametrize(
    ("read", "text", "column", "expected"),
    [
        (Cursor.string, "  word", 3, (codes.TOKEN, "'word'")),
        (Cursor.string, r'"\q"', 1, (codes.ESCAPE, r'"\q"')),
        (Cursor.integer, " x", 2, (codes.TOKEN, "'x'")),
        (Cursor.integer, str(2**63), 1, (codes.INTEGER_RANGE, "64")),
        (Cursor.integer, "9" * 5000, 1, (codes.INTEGER_RANGE, "64")),
        (Cursor.word, " ->", 2, (codes.TOKEN, "'->'")),
        (Cursor.word, " ", 2, (codes.TOKEN, "a word")),
        (lambda cursor: cursor.expect_end("list"), "%name rest", 1, (codes.TOKEN, "'%name'")),
        (lambda cursor: cursor.fail_at(3, codes.TOKEN, "here"), "abcdef", 4, (codes.TOKEN, "here")),
    ],
)
def test_errors_have_a_position(read, text: str, column: int, expected: Wanted) -> None:
    with raises(ParseError, *expected) as caught:
        read(Cursor(text))
    assert caught.value.column == column


def test_errors_count_lines() -> None:
    with pytest.raises(ParseError) as caught:
        Cursor("one\n  two").expect("one two", "in the example")
    assert str(caught.value) == ("<text>:1:1: expected 'one two' in the example, found 'one' [E3001]\n  one\n  ^")


def test_integers_of_any_length() -> None:
    assert [integer_from_text(text) for text in ("12", "-12", "0x1F", "-0x1f")] == [12, -12, 31, -31]
    assert integer_from_text("9" * 401) == 2**1000
    assert integer_from_text("-" + "9" * 401) == -(2**1000)


def test_integers_of_hlo_text_wrap_around() -> None:
    assert HloCursor(str(2**64 - 1)).integer() == -1
    with raises(ParseError, codes.INTEGER_RANGE, "64"):
        HloCursor(str(2**64)).integer()
    with raises(ParseError, codes.INTEGER_RANGE, "64"):
        HloCursor("{1, 123456789012345678901}").match(re.compile(r"\{.*\}"))


def test_json_and_names_of_hlo_text() -> None:
    cursor = HloCursor('%add.1: {"a": {"b": "}"}} "text" f32[2]{0} {1, 2}')
    assert cursor.name("an instruction") == "add.1"
    assert cursor.string_or_json() == '{"a": {"b": "}"}}'
    assert cursor.string_or_json() == "text"
    shape = cursor.shape()
    assert shape.to_text() == "f32[2]{0}"
    assert cursor.literal(shape).array.tolist() == [1, 2]
    assert cursor.at_end()
