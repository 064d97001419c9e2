"""The examples of the generated reference pages print the same on all platforms, up to rounding."""

from __future__ import annotations

import contextlib
import io
import math
import re

import pytest

from docs._generate import broadcasting, operation_semantics
from docs._generate.examples import PREAMBLE, printed, python_blocks

EXAMPLES = {
    f"{section.heading}{number or ''}": code
    for page in operation_semantics.read()
    for section in page.sections
    for number, code in enumerate(python_blocks("\n".join(section.lines) + "\n"))
} | broadcasting.EXAMPLES
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def printed_on(platform: str, code: str) -> str:
    """Runs an example as `printed` does, on another platform."""
    space: dict[str, object] = {"__name__": "example"}
    with contextlib.redirect_stdout(io.StringIO()) as output:
        for text in (PREAMBLE, code):
            exec(compile(text.replace('"reference"', f'"{platform}"'), "example.py", "exec"), space)
    return output.getvalue()


def same_up_to_rounding(left: str, right: str) -> bool:
    numbers = zip(NUMBER.findall(left), NUMBER.findall(right), strict=False)
    return NUMBER.sub("0", left) == NUMBER.sub("0", right) and all(
        math.isclose(float(x), float(y), rel_tol=1e-6) for x, y in numbers
    )


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_the_same(name: str, platform: str) -> None:
    shown, other = printed(EXAMPLES[name]), printed_on(platform, EXAMPLES[name])
    assert same_up_to_rounding(shown, other), f"{shown}\n{platform}:\n{other}"


def test_all_examples_are_found() -> None:
    assert len(EXAMPLES) > 150
    assert all(printed(code) for code in EXAMPLES.values())


def test_a_difference_is_found() -> None:
    assert same_up_to_rounding("f32[2] {1.0000001, -2}\n", "f32[2] {1, -2}\n")
    assert not same_up_to_rounding("f32[2] {1, -2}\n", "f32[2] {1, 2}\n")
    assert not same_up_to_rounding("f32[2] {1, 2}\n", "f32[2] {1, nan}\n")
    assert not same_up_to_rounding("f32[] 1\n", "f32[] 1\nf32[] 1\n")
