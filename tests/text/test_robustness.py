"""Broken, hostile and huge texts raise only errors of xlapy, quickly; valid texts are parsed in linear time."""

from __future__ import annotations

import random

import pytest

from tests.raising import Wanted, raises
from tests.text.modules import MODULES
from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import ParseError, XlaError
from xlapy.debugging.fuzzing.survival import time_limit
from xlapy.hlo.verify import verify
from xlapy.text import PrintOptions, parse_hlo, print_module

HEAD = "HloModule m\nENTRY e {\n  p = f32[4] parameter(0)\n"
PIECES = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    "=",
    '"',
    "%",
    "#",
    ":",
    "/*",
    "//",
    "<=",
    "?",
    "-",
    "0",
    "9" * 22,
    "f32[",
    "ROOT ",
    "ENTRY ",
    "...",
    "nan",
    "\\",
    "\n",
    "{}",
    "T(",
    "metadata={",
    "sharding={",
    "\u00e9",
    "\0",
]


def mutate(text: str, rng: random.Random) -> str:
    """Removes, repeats, swaps or inserts a piece of the text, or cuts it off."""
    at, other = rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)
    action = rng.randrange(6)
    if action == 0:
        return text[:at] + text[at + rng.randrange(1, 6) :]
    if action == 1:
        return text[:at] + rng.choice(PIECES) + text[at:]
    if action == 2:
        return text[:at] + rng.choice(PIECES) + text[at + 1 :]
    if action == 3:
        return text[:at] + text[min(at, other) : min(at, other) + 30] + text[at:]
    if action == 4:
        return text[:at]
    lines = text.split("\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return "\n".join(lines)


@pytest.mark.parametrize("name", MODULES)
def test_mutations_raise_only_errors_of_xlapy(name: str) -> None:
    rng = random.Random(name)
    refused = 0
    for _ in range(250):
        text = MODULES[name]
        for _ in range(rng.choice([1, 1, 2, 4])):
            text = mutate(text, rng)
        try:
            module = parse_hlo(text, verify=False)
            print_module(module)
            print_module(module, PrintOptions.canonical())
            verify(module)
        except XlaError:
            refused += 1
    assert 100 < refused < 250  # most mutations break the text, some do not


HOSTILE: dict[str, tuple[str, Wanted]] = {
    "instructions in instructions": (HEAD + "  r = f32[4] " + "negate(" * 5000 + "p", (codes.NESTING, "64 levels")),
    "computations in computations": (
        HEAD + "  r = f32[4] " + "call(p), to_apply={ p = f32[4] parameter(0)\n q = f32[4] " * 3000,
        (codes.NESTING, "64 levels"),
    ),
    "tuple shapes": (HEAD + "  r = " + "(" * 100_000, (value_codes.SHAPE_DEPTH, "64 levels")),
    "tuple literals": (
        HEAD + '  r = f32[4] custom-call(p), custom_call_target="f", literal=' + "(" * 5000 + ")" * 5000,
        (value_codes.SHAPE_DEPTH, "64 levels"),
    ),
    "open braces": (
        HEAD + "  r = f32[4] copy(p), backend_config=" + "{" * 500_000,
        (codes.CLOSING_BRACKET,),
    ),
    "comment without end": (HEAD + "/*" * 1_000_000, (codes.TOKEN, "the name of an instruction")),
    "many comments": (HEAD + "/**/" * 500_000, (codes.CLOSING_BRACKET, "'e'")),
    "one word": ("a" * 5_000_000, (codes.TOKEN, "a shape or an operation")),
    "digits": (HEAD + "  r = f32[" + "9" * 1_000_000, (codes.INTEGER_RANGE, "64 bits")),
    "string without end": (
        HEAD + '  r = f32[4] copy(p), metadata={op_name="' + '\\"' * 500_000,
        (codes.TOKEN, "a string"),
    ),
    "operands": (HEAD + "  r = f32[4] tuple(" + "q, " * 300_000, (codes.UNDEFINED_NAME, "'q'")),
    "literal": (HEAD + "  r = f32[3] constant({" + "1," * 300_000 + "})", (value_codes.LITERAL_SIZE, "expected 3")),
    "original value": (HEAD + "  r = f32[4] copy(p), origin={" + "(" * 200_000, (codes.TOKEN, "balanced parentheses")),
    "zeros": ("\0" * 1_000_000, (codes.TOKEN, "a shape or an operation")),
    "long numbers": (HEAD + f"  r = f32[4] pad(p, p), padding={'9' * 6000}_1", (codes.INTEGER_RANGE, "64 bits")),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_refused(name: str) -> None:
    text, expected = HOSTILE[name]
    with time_limit(60), raises(ParseError, *expected) as caught:
        parse_hlo(text)
    assert len(str(caught.value)) < 1000


def test_garbage_is_refused() -> None:
    rng = random.Random(5)
    for head in ("", "HloModule m\n", HEAD, HEAD + "  r = f32[4] copy(p), sharding={"):
        garbage = head + "".join(rng.choices('abc{}()[],=%"0123 \n', k=2_000_000))
        with time_limit(60), pytest.raises(ParseError):
            parse_hlo(garbage)


def test_truncated_modules_are_refused() -> None:
    text = MODULES["reduce"].rstrip()
    for end in range(0, len(text) - 1, 7):
        with pytest.raises(XlaError):
            parse_hlo(text[:end])
