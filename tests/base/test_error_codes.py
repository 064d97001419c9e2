"""Every error code has an example that raises it, and codes that were released keep their meaning."""

from __future__ import annotations

import itertools
import pickle
import re
from pathlib import Path

import pytest

from xlapy.base.error_codes.code import ErrorCode, families, find_code, split_code
from xlapy.base.error_codes.operations.contraction import DOT_PAIR_SIZES
from xlapy.base.error_codes.operations.operands import OPERAND_COUNT
from xlapy.base.errors import ParseError, ShapeError, UnknownNameError, XlaError, traceback_of
from xlapy.tools.command_line import invoke
from xlapy.tools.explain_error.examples import example_of, run_example
from xlapy.tools.explain_error.page import section

RELEASED = Path(__file__).parent / "error_codes.txt"
"""A line `E1202 DOT_PAIR_SIZES` for each code. Lines are added, and neither changed nor removed."""
CODES = {code: name for family in families() for name, code in family.codes.items()}
every_code = pytest.mark.parametrize("code", sorted(CODES), ids=str)


@every_code
def test_the_example_raises_the_code(code: ErrorCode) -> None:
    example = example_of(code)
    if example is None:
        assert code.why_no_example, f"{CODES[code]} has neither an example nor a reason"
        return
    printed = run_example(example)
    assert f"[{code}]" in printed
    if code.message:
        assert re.fullmatch(".*".join(map(re.escape, code.message.split("..."))), printed), printed


@every_code
def test_a_code_says_what_holds_and_what_to_do(code: ErrorCode) -> None:
    for sentence in (code.rule, code.remedy):
        assert re.fullmatch(r"[A-Z`].*\.", sentence, re.DOTALL), sentence


def test_released_codes_keep_their_meaning() -> None:
    released = dict(line.split() for line in RELEASED.read_text().splitlines())
    assert {str(code): name for code, name in CODES.items()} == released


def test_families_do_not_share_numbers() -> None:
    ranges = [(min(f.codes.values()), max(f.codes.values()), f.name) for f in families()]
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ranges)), ranges


def test_an_error_shows_its_code_once() -> None:
    error = ShapeError(DOT_PAIR_SIZES, "dot: sizes differ")
    assert str(error) == "dot: sizes differ [E1202]"
    wrapped = ShapeError(error.code, f"dot.3: {error}")
    assert (str(wrapped), wrapped.message) == ("dot.3: dot: sizes differ [E1202]", "dot.3: dot: sizes differ")
    assert error.code == "E1202"


def test_the_code_of_a_parse_error_precedes_the_excerpt() -> None:
    error = ParseError.at("ab\ncd", 4, OPERAND_COUNT, "expected x")
    assert str(error) == "<text>:2:2: expected x [E1000]\n  cd\n   ^"


@pytest.mark.parametrize("kind", [ShapeError, UnknownNameError, ParseError])
def test_errors_are_pickled_with_their_code(kind: type[ShapeError]) -> None:
    error = pickle.loads(pickle.dumps(kind(DOT_PAIR_SIZES, "sizes")))
    assert type(error) is kind and error.code is DOT_PAIR_SIZES and error.message == "sizes"


class DatabaseError(XlaError):
    """An error of a user of xlapy, whose constructor takes other arguments."""

    def __init__(self, table: str) -> None:
        super().__init__(OPERAND_COUNT, f"no table {table}")
        self.table = table


def test_an_error_with_its_own_constructor_is_pickled() -> None:
    error = pickle.loads(pickle.dumps(DatabaseError("weights")))
    assert type(error) is DatabaseError and (error.code, error.table) == (OPERAND_COUNT, "weights")
    assert str(error) == f"no table weights [{OPERAND_COUNT}]" and error.message == "no table weights"


def test_a_code_is_found_in_a_message() -> None:
    assert split_code("sizes differ [E1202]") == ("sizes differ", DOT_PAIR_SIZES)
    assert split_code("sizes differ [E9999]") == ("sizes differ [E9999]", None)
    parsed = str(ParseError.at("ab\ncd", 4, OPERAND_COUNT, "expected x"))
    assert split_code(parsed) == ("<text>:2:2: expected x\n  cd\n   ^", OPERAND_COUNT)
    assert find_code("e1202") is DOT_PAIR_SIZES and find_code("E12") is None


def test_a_traceback_ends_with_a_message_without_code() -> None:
    try:
        raise ShapeError(DOT_PAIR_SIZES, "sizes differ")
    except ShapeError as error:
        text = traceback_of(error)
    assert text.startswith("Traceback ") and text.endswith("ShapeError: sizes differ")


def test_a_section_names_rule_remedy_operations_and_example() -> None:
    text = section(DOT_PAIR_SIZES)
    assert text.startswith("## E1202\n\nPaired batch or contracting dimensions of lhs and rhs have the same size.\n")
    assert "Operations with this constraint: dot, " in text
    assert "**What to do**: Transpose" in text
    assert re.search(r"```text\nHloModule refused.*```text\n.*\[E1202\]\n```\n$", text, re.DOTALL)


def test_the_command_shows_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["explain-error", "E1202"]) == 0
    assert "Paired batch or contracting dimensions" in capsys.readouterr().out
    assert invoke(["explain-error", "e0009"]) == 2
    assert "there is no error code 'e0009'" in capsys.readouterr().err
    assert invoke(["explain-error"]) == 0
    assert "E1202" in capsys.readouterr().out
