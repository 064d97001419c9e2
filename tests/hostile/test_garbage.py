"""Invalid texts of ten million characters are rejected quickly, with a short error that has a position."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from tests.raising import Wanted, raises
from tests.tools.programs import xlapy
from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import ParseError, XlaError
from xlapy.debugging.fuzzing.survival import time_limit
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import core
from xlapy.interpreter.core import is_dynamic
from xlapy.runtime import Client
from xlapy.stablehlo.text import parse_text
from xlapy.text import parse_hlo

SIZE = 10_000_000
HEAD = "HloModule m\nENTRY e {\n"
IN_PARAMETER = HEAD + "a = f32[1] parameter(0), "
AN_OPERAND = HEAD + "p = f32[1] parameter(0)\n b = "
IN_CONSTANT = HEAD + "a = f32[2] constant("


def many(piece: str, size: int = SIZE) -> str:
    return piece * (size // len(piece))


def random_text(first: int, last: int) -> str:
    table = bytes(first + i % (last - first) for i in range(256))
    return random.Random(0).randbytes(SIZE).translate(table).decode("latin-1")


WHOLE: dict[str, Callable[[], str]] = {
    "random bytes": lambda: random_text(0, 256),
    "random printable characters": lambda: random_text(32, 127),
    "random printable characters in a module": lambda: HEAD + random_text(32, 127),
    "one huge word": lambda: many("a"),
    "digits": lambda: many("1"),
    "nulls": lambda: many("\0"),
    "open braces": lambda: many("{"),
    "open braces in a computation": lambda: HEAD + many("{"),
    "open parentheses": lambda: HEAD + "a = " + many("("),
    "a comment without end": lambda: "/*" + many("a"),
    "comments without end": lambda: HEAD + many("/*"),
    "closed comments": lambda: many("/**/"),
    "line comments": lambda: many("//\n"),
    "blanks": lambda: many(" "),
    "line ends": lambda: many("\r"),
    "a string without end": lambda: IN_PARAMETER + 'metadata={op_name="' + many("a"),
    "a string of escapes": lambda: IN_PARAMETER + 'metadata={op_name="' + many('\\"'),
    "a huge name": lambda: HEAD + many("a") + " = f32[] add(x, y)",
    "a huge operand": lambda: HEAD + "a = f32[] parameter(0)\n b = f32[] add(a, " + many("b") + ")\n}",
    "a huge operation": lambda: HEAD + "a = f32[] " + many("b") + "(x)\n}",
    "a huge attribute": lambda: IN_PARAMETER + many("b") + "=1\n}",
    "a huge number of a parameter": lambda: HEAD + "a = s32[] parameter(" + many("1") + ")\n}",
    "a huge size": lambda: HEAD + "a = s32[" + many("1") + "] parameter(0)\n}",
    "a huge integer in a list": lambda: AN_OPERAND + "broadcast(p), dimensions={" + many("9") + "}\n}",
    "a huge integer in a slice": lambda: AN_OPERAND + "slice(p), slice={[0:" + many("9") + "]}\n}",
    "a huge integer in a window": lambda: (
        AN_OPERAND + "reduce-window(p, p), window={size=" + many("9") + "}, to_apply=x\n}"
    ),
    "a huge constant": lambda: IN_CONSTANT + "{" + many("1") + ", 2})\n}",
    "a huge exponent": lambda: IN_CONSTANT + "{1e" + many("1") + ", 2})\n}",
    "a huge payload": lambda: IN_CONSTANT + "{nan(0x" + many("1") + "), 2})\n}",
    "a constant without end": lambda: IN_CONSTANT + many("{"),
    "a constant of comments": lambda: IN_CONSTANT + "{" + many("/*"),
    "constants of comments": lambda: HEAD + many("a = s32[1] constant({/*"),
    "a layout of blanks": lambda: HEAD + "a = (s32[1] {" + many(" ") + "x",
    "a layout of comments": lambda: HEAD + "a = (s32[1] /**/{" + many("/**/ ") + "x",
    "nested instructions": lambda: HEAD + "a = f32[] parameter(0)\n b = f32[] " + many("add("),
    "nested computations": lambda: HEAD + many("b = f32[] call(a), to_apply={ p = f32[] parameter(0)\n "),
    "nested shardings": lambda: IN_PARAMETER + "sharding=" + many("{"),
    "nested dictionaries": lambda: IN_PARAMETER + "backend_config=" + many("{"),
    "tiles without number": lambda: IN_PARAMETER + "sharding={devices=[" + many("2,", 1_000_000) + "2]0}\n}",
    "commas": lambda: HEAD + "a = f32[] parameter(0)" + many(","),
    "percent signs": lambda: HEAD + many("%"),
    "a header without end": lambda: "HloModule m, debug_attributes=" + many("{"),
    "attributes of a header": lambda: "HloModule m" + many(", is_scheduled=true"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WHOLE)
def test_garbage_is_rejected_quickly_with_a_short_error(kind: str):
    text = WHOLE[kind]()
    with time_limit(60), pytest.raises(ParseError) as caught:
        parse_hlo(text)
    assert len(str(caught.value)) < 3000
    assert 0 <= caught.value.offset <= len(text)


SMALL: dict[str, tuple[str, Wanted]] = {
    "shapes nested too deep": (
        f"{HEAD}a = {'(' * 66}f32[]{')' * 66} parameter(0)\n}}",
        (value_codes.SHAPE_DEPTH, "64 levels"),
    ),
    "tuples nested too deep": (
        HEAD + "t0 = f32[] parameter(0)\n" + "".join(f"t{i + 1} = tuple(t{i})\n" for i in range(66)) + "}",
        (value_codes.SHAPE_DEPTH, "65 deep", "64"),
    ),
    "computations nested too deep": (
        HEAD + "a = f32[] parameter(0)\n" + "ROOT b = f32[] call(a), to_apply={ a = f32[] parameter(0)\n" * 70,
        (codes.NESTING, "64 levels"),
    ),
    "a value of too many dimensions": (
        f"{HEAD}a = s32[{','.join('1' * 65)}] constant({'{' * 65}1{'}' * 65})\n}}",
        (value_codes.ARRAY_RANK, "65 dimensions", "at most 64"),
    ),
    "a constant larger than any memory": (
        HEAD + "a = f32[1000000000000000] constant(1)\n}",
        (value_codes.LITERAL_MEMORY, "f32[1000000000000000]"),
    ),
    "a constant with few elements of very many": (
        HEAD + "a = f32[10000000000] constant({1})\n}",
        (value_codes.LITERAL_SIZE, "f32[10000000000]", "1"),
    ),
    "a shape of too many elements": (
        HEAD + "a = f32[9223372036854775807,3] parameter(0)\n}",
        (value_codes.ARRAY_BYTES, "2**63"),
    ),
    "an integer of 30 digits": (
        f"{AN_OPERAND}broadcast(p), dimensions={{{'9' * 30}}}\n}}",
        (codes.INTEGER_RANGE, "64 bits"),
    ),
    "a truncated module": (HEAD + "a = f32[1] parameter(0)", (codes.CLOSING_BRACKET, "'e'")),
    "nothing": ("", (codes.TOKEN, "a shape or an operation", "the end of the text")),
}


@pytest.mark.parametrize("kind", SMALL)
def test_errors_state_the_limit(kind: str):
    text, expected = SMALL[kind]
    with time_limit(20), raises(ParseError, *expected):
        parse_hlo(text)


def test_truncated_modules_are_rejected_or_smaller():
    text = (
        "HloModule m, is_scheduled=true\nf {\n x = f32[2]{0} parameter(0)\n"
        ' ROOT y = (f32[2]) tuple(x), metadata={op_name="a"}\n}\n'
        "ENTRY e {\n a = f32[2] constant({1, 2})\n ROOT b = (f32[2]) call(a), to_apply=f\n}\n"
    )
    whole = parse_hlo(text).instruction_count
    for end in range(len(text) - 2):
        try:
            assert parse_hlo(text[:end]).instruction_count < whole  # the truncated text is itself a valid module
        except XlaError as error:
            assert isinstance(error, ParseError)


def test_many_instructions_in_reverse_order_of_their_numbers():
    count = 20_000
    lines = "".join(f"k{i} = f32[] parameter({count - 1 - i})\n" for i in range(count))
    parameters = parse_hlo(HEAD + lines + "}\n").entry_computation.parameters
    assert [parameter.number for parameter in parameters] == list(range(count))


def test_deep_and_wide_modules_need_no_recursion():
    limit = sys.getrecursionlimit()
    chain = "".join(f"v{i + 1} = f32[] negate(v{i})\n" for i in range(20_000))
    module = parse_hlo(HEAD + "v0 = f32[] parameter(0)\n" + chain + "}\n")
    assert parse_hlo(module.to_text()).instruction_count == 20_001
    calls = "".join(
        f"c{i + 1} {{ a = f32[] parameter(0)\n b = f32[] call(a), to_apply=c{i}\n d = f32[] call(b), to_apply=c{i} }}\n"
        for i in range(3000)
    )
    module = parse_hlo("HloModule m\nc0 { a = f32[] parameter(0) }\n" + calls)
    assert len(module.computations) == 3001
    assert module.to_text().count("call(") == 6000
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize(
    "data", [b"\xff\xfe" * 5_000_000, b"\x80", b"HloModule m\n\xc3("], ids=["long", "one byte", "late"]
)
def test_bytes_that_are_not_text(tmp_path, data: bytes):
    (tmp_path / "bytes.hlo").write_bytes(data)
    done = xlapy("opt", str(tmp_path / "bytes.hlo"))
    place = next(i for i, byte in enumerate(data) if byte >= 0x80)
    message = f"xlapy: {tmp_path}/bytes.hlo is not HLO text: byte {place} is not UTF-8 [E7025]\n"
    assert (done.returncode, done.stdout, done.stderr.decode()) == (1, b"", message)


def test_ten_million_braces_from_the_command_line(tmp_path):
    (tmp_path / "braces.hlo").write_text(HEAD + many("{"))
    done = xlapy("run", str(tmp_path / "braces.hlo"))
    assert (done.returncode, done.stdout) == (1, b"")
    first, line, caret = done.stderr.decode().splitlines()
    assert first == f"xlapy: {tmp_path}/braces.hlo:3:1: expected the name of an instruction, found '{{' [E3001]"
    assert len(line) < 200
    assert caret == "  ^"


def test_branches_of_a_conditional_do_not_each_look_at_all_its_operands(monkeypatch: pytest.MonkeyPatch):
    count = 300
    branches = "".join(f"b{i} {{ p = f32[] parameter(0)  ROOT n = f32[] negate(p) }}\n" for i in range(count))
    operands, names = ", ".join(["p"] * count), ", ".join(f"b{i}" for i in range(count))
    entry = f"ENTRY e {{ i = s32[] parameter(0)  p = f32[] parameter(1)  ROOT c = f32[] conditional(i, {operands}), "
    asked = Counter[str]()

    def counted(instruction: Instruction) -> bool:
        asked[instruction.name] += 1
        return is_dynamic(instruction)

    monkeypatch.setattr(core, "is_dynamic", counted)
    program = f"HloModule m\n{branches}{entry}branch_computations={{{names}}} }}"
    executable = Client("interpreter").compile(program)
    assert 1 <= asked["c"] <= 3
    assert executable(3, 2.0).item() == -2.0


@pytest.mark.parametrize("parse", [parse_hlo, parse_text])
def test_halves_of_characters_are_rejected(parse: Callable[[str], object]):
    with raises(ParseError, codes.CHARACTERS, "U+D800"):
        parse('HloModule m\nENTRY e { ROOT p = f32[] parameter(0), metadata={op_name="\ud800"} }')
