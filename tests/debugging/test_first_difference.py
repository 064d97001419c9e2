"""The first instruction whose value differs between a platform and the interpreter is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.compilation.compiling import LOWERED_INSTRUCTION
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
RunProgram = Callable[[Any, Any], Any]


def compared(run: RunProgram) -> Comparison:
    return compare_with_interpreter(parse_hlo(TEXT), [X], run, Implementation("other", "none"))


def interpreted(program: Any, arguments: Any) -> Any:
    return plain(xla.Client("interpreter").compile(program)(*arguments))


def text_of(program: Any) -> str:
    return program if isinstance(program, str) else program.to_text()


def test_no_difference():
    found = compared(interpreted)
    assert found.agrees
    assert (
        found.result_difference,
        found.difference,
        found.agreeing_count,
        found.known_divergences,
        found.refused,
    ) == ("", None, 4, (), ())


def test_an_instruction_that_is_wrong_alone():
    def wrong(program: Any, arguments: Any) -> Any:
        return interpreted(text_of(program).replace("subtract(", "add("), arguments)

    found = compared(wrong)
    assert found.result_difference.startswith("result[0]: float32[3]: 3 of 3 elements differ by more")
    assert found.difference is not None
    assert found.difference.compiled_alone
    assert found.difference.step.instruction.name == "d"
    assert np.allclose(found.difference.actual, np.exp(-X) + X)
    assert np.allclose(found.difference.step.value, np.exp(-X) - X)
    assert np.array_equal(found.difference.step.operands[1], X)
    assert "break the rule 'exact'" in found.difference.message


def test_a_fault_of_several_instructions_together():
    """The platform is wrong if the program contains the exponential of a negation, which no module of single
    instructions does.
    """

    def wrong(program: Any, arguments: Any) -> Any:
        together = "exponential(f32[3]{0} %n)" in text_of(program) or "exponential(%n)" in text_of(program)
        together = together and len(arguments) == 1
        return interpreted(text_of(program).replace("exponential(", "tanh(") if together else program, arguments)

    found = compared(wrong)
    assert found.result_difference
    assert found.difference is not None
    assert not found.difference.compiled_alone
    assert found.difference.step.instruction.name == "e"
    assert np.allclose(found.difference.actual, np.tanh(-X))


def test_refused_instructions_are_reported():
    def refuses_exponential(program: Any, arguments: Any) -> Any:
        if "exponential" in text_of(program) and isinstance(program, str):
            raise UnsupportedError(LOWERED_INSTRUCTION, "exponential is not supported")
        return interpreted(program, arguments)

    found = compared(refuses_exponential)
    assert found.agrees
    assert found.refused == (f"e: exponential is not supported [{LOWERED_INSTRUCTION}]",)
    assert found.agreeing_count == 3


def test_a_refused_program_is_an_error():
    def refuses_all(program: Any, arguments: Any) -> Any:
        raise UnsupportedError(LOWERED_INSTRUCTION, "not here")

    with raises(UnsupportedError, LOWERED_INSTRUCTION, "not here"):
        compared(refuses_all)
