"""Invalid MLIR text is rejected with its position; no text raises anything but `ParseError`."""

from __future__ import annotations

import random
import re

import pytest

from tests.raising import raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.base.errors import ParseError
from xlapy.stablehlo.text import parse_text
from xlapy.testing.stablehlo.forms import FORMS

FUNCTION = "func.func @f(%a: tensor<4xf32>, %i: tensor<i32>) {{\n  {}\n  return\n}}"


def refusal(text: str, code: ErrorCode, *values: str) -> ParseError:
    with raises(ParseError, code, *values) as caught:
        parse_text(text, "f.mlir")
    assert isinstance(caught.value, ParseError)
    return caught.value


@pytest.mark.parametrize(
    ("line", "column", "code", "values"),
    [
        ("%0 = stablehlo.abs %b : tensor<4xf32>", 22, codes.UNDEFINED_NAME, ("'%b'",)),
        ("%0 = stablehlo.abs %a#1 : tensor<4xf32>", 22, codes.UNDEFINED_NAME, ("'%a#1'",)),
        ("%a = stablehlo.abs %a : tensor<4xf32>", 3, codes.DEFINED_ONCE, ("'%a'",)),
        ("%0 = stablehlo.abs %a : tensor<5xf32>", 27,
         codes.VALUE_TYPE, ("'%a'",)),
        ("%0:2 = stablehlo.abs %a : tensor<4xf32>", 3, codes.FORM_COUNT, ("stablehlo.abs", "has 1", "for 2")),
        ("%0 = stablehlo.add %a : tensor<4xf32>", 25, codes.FORM_COUNT, ("stablehlo.add", "has 1")),
        ("%0 = stablehlo.reshape %a : () -> tensor<4xf32>", 31, codes.FORM_COUNT, ("has 1", "for 0")),
        ("%0 = stablehlo.abs %a tensor<4xf32>", 25, text_codes.TOKEN, ("':'", "stablehlo.abs", "'tensor'")),
        ("%0 = stablehlo.abs %a : tensr<4xf32>", 27, text_codes.TOKEN, ("'tensr'",)),
        ("%0 = stablehlo.abs %a : !t", 27, codes.UNDEFINED_NAME, ("'!t'",)),
        ("%0 = stablehlo.absolute %a : tensor<4xf32>", 8,
         codes.SHORT_FORM, ("'stablehlo.absolute'",)),
        ('"x.y"(%a) {b = 1, b = 2} : (tensor<4xf32>) -> ()', 13, codes.DEFINED_ONCE, ("'b'",)),
        ('"x.y"() {b = #c} : () -> ()', 16, codes.UNDEFINED_NAME, ("'#c'",)),
        ('"x.y"() {b = 300 : i8} : () -> ()', 16, codes.ELEMENT_VALUE, ("300", "s8")),
        ('"x.y"() {b = 1 : f32} : () -> ()', 16, codes.ELEMENT_VALUE, ("'1'", "floating-point")),
        ('"x.y"() {b = "\\q"} : () -> ()', 16, text_codes.ESCAPE, ()),
        ('"x.y"() {b = dense_resource<r> : tensor<i8>} : () -> ()', 30,
         codes.UNDEFINED_NAME, ("'r'",)),
        ('"x.y"() {b = dense_resource<__elided__> : tensor<i8>} : () -> ()', 30,
         codes.UNDEFINED_NAME, ("'__elided__'", "elided when the text was printed")),
        ('"x.y"() {b = #stablehlo.dot<lhs = [1]>} : () -> ()', 31,
         codes.KNOWN_KEYWORD, ("'stablehlo.dot'", "lhs_batching")),
        ('"x.y"() [^b] : () -> ()', 11, codes.SUCCESSOR_BLOCKS, ("x.y",)),
        ('"x.y"() : () -> () loc(#l)', 27, codes.UNDEFINED_NAME, ("'#l'",)),
        ('"x.y"() : () -> () loc("a" 3)', 30, text_codes.TOKEN, ("')'", "'3'")),
        ("%c = stablehlo.constant dense<[1, 2]> : tensor<3xi32>", 32,
         codes.ELEMENT_COUNT, ("tensor<3xi32>", "']'")),
        ("%c = stablehlo.constant dense<[[1], 2]> : tensor<2xi32>", 32,
         codes.ELEMENT_COUNT, ("tensor<2xi32>", "'['")),
        ("%c = stablehlo.constant dense<[1 2]> : tensor<2xi32>", 32,
         codes.ELEMENT_COUNT, ("tensor<2xi32>", "'2'")),
        ("%c = stablehlo.constant dense<> : tensor<2xi32>", 32, codes.ELEMENT_COUNT, ("tensor<2xi32>",)),
        ("%c = stablehlo.constant dense<1> : tensor<?xi32>", 32,
         codes.CONSTANT_SIZES, ("dense<1> : tensor<?xi32>",)),
        ("%c = stablehlo.constant dense<true> : tensor<2xi32>", 32, codes.ELEMENT_VALUE, ("'true'", "i1")),
        ("%c = stablehlo.constant dense<-1> : tensor<2xui32>", 32, codes.ELEMENT_VALUE, ("number -1", "u32")),
        ('%c = stablehlo.constant dense<"0x0102"> : tensor<3xi32>', 32,
         codes.ELEMENT_COUNT, ("2 bytes", "not 3", "4 bytes")),
        ('%c = stablehlo.constant dense<["a"]> : tensor<1xi32>', 32, codes.CONSTANT_TYPE, ("tensor<1xi32>",)),
        ("%s = stablehlo.slice %a [0-4] : (tensor<4xf32>) -> tensor<4xf32>", 29, text_codes.TOKEN, ("':'",)),
        ("%p = stablehlo.reduce_precision %a, format = f32 : tensor<4xf32>", 48, text_codes.TOKEN, ("e5m10",)),
        (
            "%r = stablehlo.reduce(%a init: %i) applies stablehlo.divide across dimensions = [0] : "
            "(tensor<4xf32>, tensor<i32>) -> tensor<i32>",
            38,
            codes.KNOWN_KEYWORD, ("stablehlo.reduce", "stablehlo.add"),
        ),
        (
            "%v = stablehlo.convolution(%a, %a) dim_numbers = [b, 0, f]x[0, i, i]->[b, 0, f], window = {}",
            62,
            text_codes.TOKEN, ("0", "found 0"),
        ),
    ],
)  # fmt: skip
def test_errors_in_a_line(line: str, column: int, code: ErrorCode, values: tuple[str, ...]) -> None:
    error = refusal(FUNCTION.format(line), code, *values)
    assert (error.filename, error.line) == ("f.mlir", 2)
    assert error.column == column, str(error)


@pytest.mark.parametrize(
    ("text", "code", "values"),
    [
        ("module {", text_codes.CLOSING_BRACKET, ("builtin.module", "'}'")),
        ("}", text_codes.TOKEN, ("'}'",)),
        ("func.func @f(tensor<f32>) { return }", text_codes.TOKEN, ()),
        (
            "func.func @f(%a: i32) { ^b(%b: i32): return }",
            codes.DEFINED_ONCE,
            (),
        ),
        ('"x.y"() ({ "x.z"() : () -> () ', text_codes.CLOSING_BRACKET, ("x.y", "'}'")),
        (
            "module attributes {a = [" + "[" * 500 + "} {}",
            codes.TEXT_NESTING,
            ("than 50",),
        ),
        (
            "func.func private @f(" + "tuple<" * 500 + ")",
            codes.TEXT_NESTING,
            ("than 50",),
        ),
        ("#l = loc(#m)\n#m = loc(#l)", codes.TEXT_NESTING, ("'#l'",)),
        ("{-# dialect_resources: { builtin: { a: 3 } } #-}", text_codes.TOKEN, ()),
        ("module attributes {a = <} {}", text_codes.TOKEN, ("'<'",)),
        ("module attributes {a = #b.c<(>} {}", text_codes.CLOSING_BRACKET, ("'>'",)),
        ("module attributes {a = #b.c<(} {}", text_codes.CLOSING_BRACKET, ("'}'",)),
    ],
)
def test_errors_in_whole_texts(text: str, code: ErrorCode, values: tuple[str, ...]) -> None:
    refusal(text, code, *values)


def test_values_of_a_region_go_out_of_scope() -> None:
    error = refusal(
        '"x.y"() ({ %0 = "x.z"() : () -> i32 }) : () -> ()\n"x.w"(%0) : (i32) -> ()', codes.UNDEFINED_NAME, "%0"
    )
    assert error.line == 2


def test_functions_cannot_capture_values() -> None:
    text = '%0 = "x.z"() : () -> i32\nfunc.func @f() { return %0 : i32 }'
    refusal(text, codes.UNDEFINED_NAME, "%0")


PIECES = [
    *'<>()[]{}%#!@":,=-*?x0 \n\\',
    "->",
    "dense<",
    "tensor<",
    "loc(",
    '"0x',
    "9" * 30,
    "^b0",
    "#loc1",
    "%0",
    "{-#",
]


def damaged(text: str, rng: random.Random) -> str:
    words = re.findall(r"\w+|\s+|.", text)
    for _ in range(rng.choice((1, 2, 5))):
        position = rng.randrange(len(words))
        kind = rng.randrange(4)
        if kind == 0:
            words[position] = rng.choice(PIECES)
        elif kind == 1:
            words[position:position] = [rng.choice(PIECES)]
        elif kind == 2:
            del words[position : position + rng.choice((1, 3, 30))]
        else:
            words[position:position] = words[position : position + 20] * rng.choice((1, 40))
        words = words or ["x"]
    return "".join(words)


@pytest.mark.parametrize("name", FORMS)
def test_damaged_texts_raise_only_parse_errors(name: str) -> None:
    rng = random.Random(name)
    refused = 0
    for _ in range(40):
        try:
            parse_text(damaged(FORMS[name], rng))
        except ParseError as error:
            refused += 1
            assert error.line >= 1 and error.message
    assert refused > 20
