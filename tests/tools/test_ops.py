"""`xlapy ops`: the support table."""

from __future__ import annotations

import re

import pytest

from xlapy.interpreter import RULES
from xlapy.opcodes.registry import REGISTRY
from xlapy.tools.command_line import invoke
from xlapy.tools.ops.command import support_of


def test_the_table_states_support_and_reasons():
    for op in REGISTRY.values():
        reason = RULES.refusals.get(op)
        assert support_of("interpreter", op) == ("yes" if op in RULES else f"not yet: {reason}")


def test_one_operation(capsys: pytest.CaptureFixture[str]):
    assert invoke(["ops", "reverse"]) == 0
    output = capsys.readouterr().out
    assert "Reverses the order of the elements along each of dimensions." in output
    assert "y = s32[2,3] reverse(x), dimensions={1}" in output
    assert "=> s32[2,3] {{3, 2, 1}, {6, 5, 4}}" in output


def test_an_unknown_operation_lists_similar_names(capsys: pytest.CaptureFixture[str]):
    assert invoke(["ops", "revers"]) == 1
    assert "unknown operation 'revers'; did you mean reverse" in capsys.readouterr().err


def test_operations_that_a_platform_does_not_support(capsys: pytest.CaptureFixture[str]):
    assert invoke(["ops", "--lacking", "interpreter"]) == 0
    output = capsys.readouterr().out
    for op, reason in RULES.refusals.items():
        assert re.search(rf"{op.name} +{op.family} +{re.escape(reason[:30])}", output)
    assert f"{len(RULES.refusals)} of 136 operations do not run on the interpreter" in output


def test_an_unknown_platform_lists_the_known_ones(capsys: pytest.CaptureFixture[str]):
    assert invoke(["ops", "--lacking", "abacus"]) == 2
    assert "unknown platform 'abacus'; platforms: cpu, interpreter" in capsys.readouterr().err


def test_one_family(capsys: pytest.CaptureFixture[str]):
    assert invoke(["ops", "--family", "tuples"]) == 0
    output = capsys.readouterr().out
    assert re.search(r"get-tuple-element +tuples +1 operand +yes", output)
    assert "add " not in output
    counts = "2 run on the cpu, 2 run on the interpreter, 2 run on the reference"
    assert output.endswith(f"2 operations, {counts}; all of them parse and print\n")


def test_an_unknown_family_lists_the_known_ones(capsys: pytest.CaptureFixture[str]):
    assert invoke(["ops", "--family", "bogus"]) == 2
    message = capsys.readouterr().err
    assert "unknown family 'bogus'; families: " in message
    assert "elementwise" in message


def test_markdown_lists_every_operation(capsys: pytest.CaptureFixture[str]):
    assert invoke(["ops", "--markdown"]) == 0
    rows = re.findall(r"^\| \[([a-z0-9\-]+)\]", capsys.readouterr().out, re.MULTILINE)
    assert sorted(rows) == sorted(REGISTRY)
    assert invoke(["ops", "reverse", "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("# reverse\n\nReverses the order of the elements")
