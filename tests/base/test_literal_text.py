"""The text of literals, printed and parsed as in XLA."""

import re
import resource

import numpy as np
import pytest
from jax._src.lib import hlo

from tests.raising import raises
from xlapy.base.element_types import ARRAY_TYPES, PRED, PrimitiveType
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import ParseError
from xlapy.base.literal import Literal
from xlapy.base.literal_parser import parse_literal, parse_shaped_literal
from xlapy.base.shape import Shape
from xlapy.testing.samples.sample import JAXLIB_TYPES

FLOATS = [t for t in JAXLIB_TYPES if t.is_floating]


def xla_text(shape: str, text: str) -> str:
    """Parses `text` with XLA and returns the text that XLA prints."""
    options = hlo.HloPrintOptions.short_parsable()
    options.print_large_constants = True
    module = hlo.hlo_module_from_text(f"HloModule m\nENTRY e {{ ROOT c = {shape} constant({text}) }}")
    printed = module.to_string(options)
    return printed[printed.index("constant(") + len("constant(") : printed.rindex(")")]


def our_text(shape: str, text: str) -> str:
    return parse_literal(text, Shape.parse(shape)).to_text()


def random_bits(element_type: PrimitiveType, count: int) -> Literal:
    raw = np.random.default_rng(element_type.number).integers(0, 256, count * element_type.byte_size, dtype=np.uint8)
    if element_type.bits < 8:
        raw &= (1 << element_type.bits) - 1
    return Literal.from_bytes(Shape.array(element_type, (count,)), raw.tobytes())


def exact_text(literal: Literal) -> str:
    """The elements of a floating-point vector with all of their digits; NaNs as they are printed."""
    printed = literal.to_text()[1:-1].split(", ")
    with np.errstate(invalid="ignore"):
        values = literal.array.astype(np.float64).tolist()
    return (
        "{"
        + ", ".join(p if "nan" in p or "inf" in p else f"{v:.17e}" for p, v in zip(printed, values, strict=True))
        + "}"
    )


@pytest.mark.parametrize("element_type", FLOATS, ids=str)
def test_random_bits_print_as_xla_and_read_back(element_type):
    literal = random_bits(element_type, 256 if element_type.bits <= 8 else 4000)
    exact = exact_text(literal)
    assert parse_literal(exact, literal.shape) == literal
    assert literal.to_text() == xla_text(literal.shape.to_text(layout=False), exact)
    assert parse_literal(literal.to_text(), literal.shape) == literal


@pytest.mark.parametrize("element_type", [t for t in FLOATS if t.bits <= 16], ids=str)
def test_every_value_of_a_narrow_type_survives_its_text(element_type):
    width = np.uint16 if element_type.bits == 16 else np.uint8
    every = np.arange(1 << element_type.bits, dtype=np.uint32).astype(width)
    literal = Literal.array_of(every.view(element_type.dtype))
    assert parse_literal(literal.to_text(), literal.shape) == literal


@pytest.mark.parametrize("element_type", FLOATS, ids=str)
def test_random_doubles_round_as_xla(element_type):
    """The values include halfway cases and their neighbors."""
    random = np.random.default_rng(1)
    values = random.standard_normal(300)
    ties = 1 + (2 * random.integers(0, 64, 300) + 1) / 2.0 ** random.integers(1, 13, 300)
    values = np.abs(np.concatenate([values, ties, np.nextafter(ties, 0), np.nextafter(ties, 9)]))
    text = "{" + ", ".join(f"{value:.17g}" if value % 1 else f"{value}" for value in values[values < 5]) + "}"
    shape = f"{element_type}[{np.count_nonzero(values < 5)}]"
    assert our_text(shape, text) == xla_text(shape, text)


@pytest.mark.parametrize("element_type", [t for t in ARRAY_TYPES if t.is_integral], ids=str)
def test_integers_as_xla(element_type):
    literal = random_bits(element_type, 200)
    assert literal.to_text() == xla_text(literal.shape.to_text(layout=False), literal.to_text())
    assert parse_literal(literal.to_text(), literal.shape) == literal


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("f32[]", "1e10"),
        ("f32[]", "123456789"),
        ("f32[]", "1e-5"),
        ("f32[]", "-0.0"),
        ("f32[]", "5."),
        ("f32[]", "1.5E3"),
        ("f32[]", "1e-46"),
        ("f32[]", "1.17549421e-38"),
        ("f32[]", "16777217"),
        ("f64[]", "9007199254740993"),
        ("f64[]", "123456789012345678"),
        ("f16[]", "65519"),
        ("f8e4m3fn[]", "449"),
        ("f8e4m3fn[]", "inf"),
        ("f4e2m1fn[]", "7"),
        ("f4e2m1fn[]", "nan"),
        ("f4e2m1fn[]", "-inf"),
        ("f8e8m0fnu[]", "0.1"),
        ("f32[]", "nan(0x400000)"),
        ("f32[]", "-nan(0x7fffff)"),
        ("f64[]", "nan(0xfffffffffffff)"),
        ("pred[]", "true"),
        ("pred[]", "0"),
        ("pred[]", "2"),
        ("pred[2,2]", "{{true,false},{0,1}}"),
        ("u64[]", "18446744073709551615"),
        ("u64[]", "-1"),
        ("s64[]", "9223372036854775808"),
        ("s64[]", "-9223372036854775808"),
        ("s32[]", "007"),
        ("c64[]", "(1,2)"),
        ("c64[2]", "{(1.5,-nan),(3,inf)}"),
        ("c128[1,1]", "{{(1e-5, 2)}}"),
        ("s32[2,3]", "{{1,2,3},{4,5,6}}"),
        ("s32[2,3]{0,1}", "{{1,2,3},{4,5,6}}"),
        ("s32[0]", "{}"),
        ("s32[2,0]", "{{},{}}"),
        ("s32[0,2]", "{}"),
        ("s32[2,0,3]", "{{},{}}"),
        ("s32[1,0,2,2]", "{{}}"),
        ("s32[1,2,0,2]", "{{{},{}}}"),
        ("s32[1,2,2,0]", "{{{{},{}},{{},{}}}}"),
        ("f32[1,1]", "{{1}}"),
        ("f32[1,2,1]", "{{{1},{2}}}"),
        ("s32[1,1,2,2]", "{{{{1,2},{3,4}}}}"),
        ("s32[2,2,2,1,1]", "{{{{{1}},{{2}}},{{{3}},{{4}}}},{{{{5}},{{6}}},{{{7}},{{8}}}}}"),
        ("s32[2,2]", "{{1 2}{3 4}}"),
        ("s32[3]", "{1,,2,3,}"),
        ("s32[2]", "{/*i*/1,/*x*/2}"),
        ("s32[2]", "{1, // one\n 2}"),
        ("f32[2]", "{1-1}"),
        ("f32[2]", "{-inf-inf}"),
        ("s32[2]", "1"),
        ("f32[2,3]", "1.0"),
        ("s32[<=3]", "{1,2,3}"),
        ("()", "()"),
        ("(s32[],(f32[2]))", "( 1, ( {1,2} ) )"),
        ("b(f32[2])", "{1,2}"),
        ("(f32[2],(pred[],c64[1]),())", "({1,2},(true,{(1,2)}),())"),
    ],
)
def test_reads_and_prints_as_xla(shape, text):
    assert our_text(shape, text) == xla_text(shape, text)


@pytest.mark.parametrize(
    ("shape", "text", "printed"),
    [
        ("f32[]", "-0", "-0"),
        ("f32[2]", "{-0, 1}", "{-0, 1}"),
        ("c64[]", "(nan(0x1), -inf)", "(nan(0x1), -inf)"),
        ("c64[2]", "{(1, nan(0x2)), (-nan, 3)}", "{(1, nan(0x2)), (-nan, 3)}"),
        ("f32[]", "0x1.8p3", "12"),
        ("f64[2]", "{-0x1p-1074, 0x10}", "{-4.94065645841247e-324, 16}"),
        ("f32[]", "+1.5", "1.5"),
        ("s32[]", "+3", "3"),
        ("f32[]", ".5", "0.5"),
        ("s32[4,4]", "{...}", "{...}"),
        ("(token[], s32[])", "(token, 1)", "( token, 1 )"),
    ],
)
def test_texts_that_xla_rejects_or_changes(shape, text, printed):
    assert our_text(shape, text) == printed


@pytest.mark.parametrize(
    ("shape", "text", "column", "expected"),
    [
        ("s8[]", "18446744073709551487", 1, (value_codes.VALUE_RANGE, "value 18446744073709551487")),
        ("u32[]", "-1", 1, (value_codes.VALUE_RANGE, "value -1")),
        ("s8[]", "300", 1, (value_codes.VALUE_RANGE, "value 300", "s8[]", "[-128, 127]")),
        ("s8[2]", "{1, -129}", 5, (value_codes.VALUE_RANGE, "value -129")),
        ("u8[]", "-1", 1, (value_codes.VALUE_RANGE, "[0, 255]")),
        ("u1[]", "2", 1, (value_codes.VALUE_RANGE, "[0, 1]")),
        ("s1[]", "1", 1, (value_codes.VALUE_RANGE, "[-1, 0]")),
        ("s4[3]", "{1,2,8}", 6, (value_codes.VALUE_RANGE, "[-8, 7]")),
        ("u64[]", "18446744073709551616", 1, (value_codes.VALUE_RANGE, "64 bits")),
        ("s32[]", "9" * 5000, 1, (value_codes.VALUE_RANGE, "64 bits")),
        (
            "f32[]",
            "1e39",
            1,
            (value_codes.VALUE_RANGE, "value 1e39", "f32[]", "[-3.40282e+38, 3.40282e+38]"),
        ),
        ("f32[2]", "{0, 1e400}", 5, (value_codes.VALUE_RANGE,)),
        ("f16[]", "65520", 1, (value_codes.VALUE_RANGE, "[-65504, 65504]")),
        ("bf16[]", "3.4e38", 1, (value_codes.VALUE_RANGE,)),
        ("f8e4m3fn[3]", "{1, 2, 465}", 8, (value_codes.VALUE_RANGE, "[-448, 448]")),
        ("f8e8m0fnu[]", "0", 1, (value_codes.VALUE_RANGE,)),
        ("c64[]", "(1, 1e39)", 5, (value_codes.VALUE_RANGE,)),
        ("s32[]", "1.0", 1, (value_codes.LITERAL_ELEMENT, "s32[]", "found 1.0")),
        ("s32[]", "true", 1, (value_codes.LITERAL_ELEMENT, "s32[]")),
        ("f32[]", "true", 1, (value_codes.LITERAL_ELEMENT, "f32[]")),
        ("c64[]", "1", 1, (value_codes.LITERAL_ELEMENT, "c64[]", "(real, imaginary)", "1")),
        ("c64[]", "(1)", 3, (value_codes.LITERAL_ELEMENT, "c64[]", "')'")),
        ("c64[]", "(1, 2", 6, (text_codes.TOKEN, "')'")),
        ("s32[2]", "{(1, 2), 3}", 2, (value_codes.LITERAL_ELEMENT,)),
        ("f32[]", "nan(0x800000)", 1, (value_codes.NAN_PAYLOAD, "payload 0x800000", "0x1", "0x7fffff")),
        ("f32[]", "nan(0x0)", 1, (value_codes.NAN_PAYLOAD, "payload 0x0")),
        ("f8e4m3fn[]", "nan(0x1)", 1, (value_codes.NAN_PAYLOAD,)),
        ("s32[2]", "{1,2,3}", 6, (value_codes.LITERAL_SIZE, "expected 2", "dimension 0", "s32[2]", "[]")),
        ("s32[3]", "{1,2}", 5, (value_codes.LITERAL_SIZE, "expected 3", "dimension 0", "s32[3]", "[]")),
        (
            "s32[2,2]",
            "{{1,2},{3}}",
            10,
            (value_codes.LITERAL_SIZE, "expected 2", "dimension 1", "s32[2,2]", "[1]"),
        ),
        ("s32[2,2]", "{{1,2},{3,4},{5,6}}", 14, (value_codes.LITERAL_SIZE, "dimension 0", "s32[2,2]", "[]")),
        ("s32[2,2]", "{1,2}", 2, (value_codes.LITERAL_BRACES, "s32[2,2]", "needs 2", "1")),
        ("s32[2,2]", "{{1 2,3},{,4}}", 7, (value_codes.LITERAL_SIZE, "dimension 1", "s32[2,2]", "[0]")),
        ("s32[1]", "{{1}}", 2, (value_codes.LITERAL_BRACES, "s32[1]", "takes 1")),
        ("s32[4,4]", "{{...},{...}}", 3, (value_codes.LITERAL_BRACES, "'...'", "inside 2")),
        ("s32[]", "{...}", 1, (value_codes.LITERAL_BRACES, "s32[]", "takes 0")),
        ("s32[]", "}", 1, (value_codes.LITERAL_BRACES, "'}'")),
        ("s32[0]", "1", 1, (value_codes.LITERAL_SIZE, "s32[0]")),
        ("f32[2]", "{1,2", 5, (value_codes.LITERAL_ELEMENT, "f32[2]")),
        ("f32[2]", "{1,-}", 4, (value_codes.LITERAL_ELEMENT, "f32[2]", "'-'")),
        ("f32[]", "", 1, (value_codes.LITERAL_ELEMENT, "f32[]")),
        ("f32[]", "1x2", 1, (value_codes.LITERAL_ELEMENT, "f32[]", "'1x2'")),
        ("f32[2]", "{1_0,2}", 2, (value_codes.LITERAL_ELEMENT, "f32[2]", "'1_0'")),
        ("f32[2]", "{infinity,2}", 2, (value_codes.LITERAL_ELEMENT, "f32[2]", "'infinity'")),
        ("f32[]", "NaN", 1, (value_codes.LITERAL_ELEMENT,)),
        ("f32[]", "1 2", 3, (text_codes.TOKEN, "'2'")),
        ("f32[1]", "{1} {2}", 5, (text_codes.TOKEN, "'{'")),
        ("(s32[], s32[])", "(1)", 3, (value_codes.LITERAL_BRACES, "')'")),
        ("(s32[])", "(1, 2)", 5, (text_codes.TOKEN, "')'", "1", "(s32[])")),
        ("(s32[])", "1", 1, (text_codes.TOKEN, "'('", "1", "(s32[])")),
        ("opaque[]", "1", 1, (value_codes.LITERAL_KIND, "opaque[]")),
        ("s32[2]", "{1, /* 2 */ /* x */ y}", 21, (value_codes.LITERAL_ELEMENT, "s32[2]", "'y'")),
    ],
)
def test_errors_have_a_position(shape, text, column, expected):
    with raises(ParseError, *expected) as caught:
        parse_literal(text, Shape.parse(shape))
    assert (caught.value.line, caught.value.column) == (1, column)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ("u8[]", "-1"),
        ("s8[2]", "{1, -129}"),
        ("f32[]", "1e39"),
        ("f16[]", "65520"),
        ("c64[]", "1"),
        ("s32[2]", "{1,2,3}"),
        ("f8e8m0fnu[]", "0"),
        ("s32[1]", "{{1}}"),
        ("s32[]", "{...}"),
        ("f32[2]", "{1,-}"),
        ("f32[]", "1 2"),
        ("f32[]", "nan(0x800000)"),
    ],
)
def test_xla_refuses_these_too(shape, text):
    with pytest.raises(Exception, match="INVALID_ARGUMENT"):
        xla_text(shape, text)


def test_text_with_shapes():
    literal = parse_shaped_literal("(f32[2]{0} {1, 2}, (pred[] true), token, s32[2,1]{0,1} {{1}, {2}})")
    assert literal.to_text(shape=True) == "( f32[2] {1, 2}, ( pred[] true ), token, s32[2,1] { {1}, {2} } )"
    again = parse_shaped_literal(literal.to_text(shape=True, layout=True))
    assert again == literal and again.shape == literal.shape
    dynamic = parse_literal("{1, 2, 3}", Shape.parse("s32[<=3]"))
    assert dynamic.to_text(shape=True) == "s32[<=3](3) {1, 2, 3}"
    assert parse_shaped_literal(dynamic.to_text(shape=True, layout=True)) == dynamic
    assert parse_shaped_literal("()") == Literal.tuple()
    with raises(ParseError, text_codes.TOKEN, "a shape"):
        parse_shaped_literal("{1}")
    with raises(ParseError, value_codes.SHAPE_DEPTH, "64 levels"):
        parse_shaped_literal("(" * 100000)


def test_the_fast_and_the_slow_path_agree():
    """Text without commas takes the slow path."""
    random = np.random.default_rng(2)
    for array in [
        random.standard_normal((4, 5, 6)).astype(np.float32),
        random.integers(-9, 9, (3, 4), dtype=np.int8),
        random.integers(0, 2**64, 7, dtype=np.uint64),
        random.integers(0, 2, (2, 3)).astype(bool),
        (random.standard_normal(5) + 1j * random.standard_normal(5)).astype(np.complex64),
    ]:
        literal = Literal.array_of(array)
        text = literal.to_text()
        careful = text.replace("(", "/**/(").replace(", ", " ") if array.dtype.kind != "c" else text.replace("}", ",}")
        assert parse_literal(text, literal.shape) == literal
        assert parse_literal(careful, literal.shape) == literal


def test_true_and_false_in_an_array_of_pred():
    assert our_text("pred[4]", "{true, false, 1, 0}") == "{1, 0, 1, 0}"
    assert parse_literal("{true, false}", Shape.array(PRED, (2,))).array.tolist() == [True, False]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
def test_large_literals_survive_their_text(dtype):
    values = (np.random.default_rng(3).standard_normal((1000, 100)) * 1000).astype(dtype)
    literal = Literal.array_of(values)
    text = literal.to_text()
    again = parse_literal(text, literal.shape)
    assert again == literal


@pytest.mark.parametrize(
    ("shape", "text"), [("s1[]", "-1"), ("s4[]", "-2"), ("s8[]", "-128"), ("s64[]", "-9"), ("s32[2]", "{-1, 3}")]
)
def test_integers_from_2_to_the_63_wrap_around_in_signed_types(shape: str, text: str):
    declared = Shape.parse(shape)
    unsigned = re.sub(r"-\d+", lambda match: str(2**64 + int(match[0])), text)
    assert parse_literal(unsigned, declared) == parse_literal(text, declared)


def test_negative_numbers_of_u64():
    assert parse_literal("-1", Shape.parse("u64[]")).to_text() == "18446744073709551615"


def test_one_number_for_a_huge_array_is_read_without_filling_its_memory():
    """Unwritten zeros take no memory; a copy of them would take 8 GiB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    literal = parse_literal("7", Shape.parse("s32[1073741824,2]"))
    assert literal.array[0, 0] == 7 and literal.array[-1, 1] == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20
