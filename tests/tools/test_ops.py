"""`xlapy ops`: the support table."""

from __future__ import annotations

import re

import pytest

from xlapy.interpreter import RULES
from xlapy.ops.registry import REGISTRY
from xlapy.tools.command_line import invoke
from xlapy.tools.ops import support_rows


def test_every_operation_has_a_row():
    assert {row.op for row in support_rows()} == set(REGISTRY.values())


def test_the_table_says_what_runs_and_why_not():
    for row in support_rows():
        if row.op in RULES:
            assert row.interpreter == "yes"
        else:
            assert RULES.refusals[row.op] in row.interpreter


def test_one_family(capsys: pytest.CaptureFixture[str]):
    assert invoke(["ops", "--family", "tuples"]) == 0
    output = capsys.readouterr().out
    assert re.search(r"get-tuple-element +tuples +1 operand +yes", output)
    assert "add " not in output
    assert output.endswith("2 operations, 2 run on the interpreter; all of them parse and print\n")


def test_an_unknown_family_names_the_known(capsys: pytest.CaptureFixture[str]):
    assert invoke(["ops", "--family", "bogus"]) == 2
    message = capsys.readouterr().err
    assert "unknown family 'bogus'; families: " in message
    assert "elementwise" in message


def test_markdown_lists_every_operation(capsys: pytest.CaptureFixture[str]):
    assert invoke(["ops", "--markdown"]) == 0
    rows = re.findall(r"^\| `([a-z0-9\-]+)` \|", capsys.readouterr().out, re.MULTILINE)
    assert sorted(rows) == sorted(REGISTRY)
