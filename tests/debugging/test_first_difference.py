"""Where a platform leaves the interpreter: alone, only together with others, or nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from xlapy.base.errors import UnsupportedError
from xlapy.debugging.first_difference import Comparison, compare_with_interpreter
from xlapy.debugging.fuzzing.implementations import Implementation, plain
from xlapy.text import parse_hlo

TEXT = """
HloModule m
ENTRY main {
  x = f32[3] parameter(0)
  n = f32[3] negate(x)
  e = f32[3] exponential(n)
  d = f32[3] subtract(e, x)
  ROOT t = (f32[3], f32[3]) tuple(d, n)
}
"""
X = np.array([1, 2, 3], np.float32)
Run = Callable[[Any, Any], Any]


def compared(run: Run) -> Comparison:
    return compare_with_interpreter(parse_hlo(TEXT), [X], run, Implementation("other", "none"))


def interpreted(program: Any, arguments: Any) -> Any:
    return plain(xla.Client("interpreter").compile(program)(*arguments))


def text_of(program: Any) -> str:
    return program if isinstance(program, str) else program.to_text()


def test_nowhere():
    found = compared(interpreted)
    assert found.agrees
    assert (found.whole, found.difference, found.agreeing, found.excused, found.refused) == ("", None, 4, (), ())


def test_an_instruction_that_is_wrong_by_itself():
    def wrong(program: Any, arguments: Any) -> Any:
        return interpreted(text_of(program).replace("subtract(", "add("), arguments)

    found = compared(wrong)
    assert found.whole.startswith("result[0]: float32[3]: 3 of 3 elements break")
    assert found.difference is not None
    assert found.difference.alone
    assert found.difference.step.instruction.name == "d"
    assert np.allclose(found.difference.actual, np.exp(-X) + X)
    assert np.allclose(found.difference.step.value, np.exp(-X) - X)
    assert np.array_equal(found.difference.step.operands[1], X)
    assert "break the rule 'exact'" in found.difference.message


def test_what_is_wrong_only_together():
    """Wrong wherever the exponential of a negation is in the program: of the flat module it has no part."""

    def wrong(program: Any, arguments: Any) -> Any:
        together = "exponential(f32[3]{0} %n)" in text_of(program) or "exponential(%n)" in text_of(program)
        together = together and len(arguments) == 1
        return interpreted(text_of(program).replace("exponential(", "tanh(") if together else program, arguments)

    found = compared(wrong)
    assert found.whole
    assert found.difference is not None
    assert not found.difference.alone
    assert found.difference.step.instruction.name == "e"
    assert np.allclose(found.difference.actual, np.tanh(-X))


def test_instructions_that_are_refused_are_told():
    def choosy(program: Any, arguments: Any) -> Any:
        if "exponential" in text_of(program) and isinstance(program, str):
            raise UnsupportedError("no exponentials here")
        return interpreted(program, arguments)

    found = compared(choosy)
    assert found.agrees
    assert found.refused == ("e: no exponentials here",)
    assert found.agreeing == 3


def test_what_is_refused_as_a_whole_is_an_error():
    def never(program: Any, arguments: Any) -> Any:
        raise UnsupportedError("not here")

    with pytest.raises(UnsupportedError, match="not here"):
        compared(never)
