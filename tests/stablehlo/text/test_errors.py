"""Invalid MLIR text is rejected with its position; no text raises anything but `ParseError`."""

from __future__ import annotations

import random
import re

import pytest

from xlapy.base.errors import ParseError
from xlapy.stablehlo.text import parse_text
from xlapy.testing.stablehlo.forms import FORMS

FUNCTION = "func.func @f(%a: tensor<4xf32>, %i: tensor<i32>) {{\n  {}\n  return\n}}"


def refusal(text: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse_text(text, "f.mlir")
    return caught.value


@pytest.mark.parametrize(
    ("line", "column", "message"),
    [
        ("%0 = stablehlo.abs %b : tensor<4xf32>", 22, "the value '%b' is not defined here"),
        ("%0 = stablehlo.abs %a#1 : tensor<4xf32>", 22, "the value '%a#1' is not defined here"),
        ("%a = stablehlo.abs %a : tensor<4xf32>", 3, "the value '%a' is defined twice"),
        ("%0 = stablehlo.abs %a : tensor<5xf32>", 27,
         "the value '%a' is used with another type than it was defined with"),
        ("%0:2 = stablehlo.abs %a : tensor<4xf32>", 3, "stablehlo.abs has 1 results, but there are names for 2"),
        ("%0 = stablehlo.add %a : tensor<4xf32>", 25, "stablehlo.add takes two operands, but has 1"),
        ("%0 = stablehlo.reshape %a : () -> tensor<4xf32>", 31, "has 1 operands, but there are types for 0"),
        ("%0 = stablehlo.abs %a tensor<4xf32>", 25, "expected ':' before the type of stablehlo.abs, found 'tensor'"),
        ("%0 = stablehlo.abs %a : tensr<4xf32>", 27, "expected a type, found 'tensr'"),
        ("%0 = stablehlo.abs %a : !t", 27, "the type alias '!t' is not defined"),
        ("%0 = stablehlo.absolute %a : tensor<4xf32>", 8,
         "'stablehlo.absolute' has no custom form here; use the generic form"),
        ('"x.y"(%a) {b = 1, b = 2} : (tensor<4xf32>) -> ()', 13, "the attribute 'b' occurs twice"),
        ('"x.y"() {b = #c} : () -> ()', 16, "the attribute alias '#c' is not defined"),
        ('"x.y"() {b = 300 : i8} : () -> ()', 16, "the number 300 is out of the range of s8"),
        ('"x.y"() {b = 1 : f32} : () -> ()', 16, "'1' is not a floating-point number"),
        ('"x.y"() {b = "\\q"} : () -> ()', 16, "the string has a malformed escape"),
        ('"x.y"() {b = dense_resource<r> : tensor<i8>} : () -> ()', 30,
         "the resource 'r' is not defined at the end of the text"),
        ('"x.y"() {b = dense_resource<__elided__> : tensor<i8>} : () -> ()', 30,
         "it was elided when the text was printed"),
        ('"x.y"() {b = #stablehlo.dot<lhs = [1]>} : () -> ()', 31, "'stablehlo.dot' has the fields lhs_batching"),
        ('"x.y"() [^b] : () -> ()', 11, "x.y has successor blocks, which no operation of StableHLO has"),
        ('"x.y"() : () -> () loc(#l)', 27, "the location '#l' is not defined"),
        ('"x.y"() : () -> () loc("a" 3)', 30, "expected ')' at the end of a location, found '3'"),
        ("%c = stablehlo.constant dense<[1, 2]> : tensor<3xi32>", 32,
         "the nested lists do not fit tensor<3xi32>, seen at ']'"),
        ("%c = stablehlo.constant dense<[[1], 2]> : tensor<2xi32>", 32,
         "the nested lists do not fit tensor<2xi32>, seen at '['"),
        ("%c = stablehlo.constant dense<[1 2]> : tensor<2xi32>", 32,
         "the nested lists do not fit tensor<2xi32>, seen at '2'"),
        ("%c = stablehlo.constant dense<> : tensor<2xi32>", 32, "there are no elements for tensor<2xi32>"),
        ("%c = stablehlo.constant dense<1> : tensor<?xi32>", 32,
         "the type of constant elements must have static sizes"),
        ("%c = stablehlo.constant dense<true> : tensor<2xi32>", 32, "'true' is a value of i1 only"),
        ("%c = stablehlo.constant dense<-1> : tensor<2xui32>", 32, "the number -1 is out of the range of u32"),
        ('%c = stablehlo.constant dense<"0x0102"> : tensor<3xi32>', 32, "2 bytes are not 3 elements of 4 bytes"),
        ('%c = stablehlo.constant dense<["a"]> : tensor<1xi32>', 32, "strings cannot be elements of tensor<1xi32>"),
        ("%s = stablehlo.slice %a [0-4] : (tensor<4xf32>) -> tensor<4xf32>", 29, "expected ':' after the start"),
        ("%p = stablehlo.reduce_precision %a, format = f32 : tensor<4xf32>", 48, "expected a format such as e5m10"),
        (
            "%r = stablehlo.reduce(%a init: %i) applies stablehlo.divide across dimensions = [0] : "
            "(tensor<4xf32>, tensor<i32>) -> tensor<i32>",
            38,
            "stablehlo.reduce applies one of stablehlo.add",
        ),
        (
            "%v = stablehlo.convolution(%a, %a) dim_numbers = [b, 0, f]x[0, i, i]->[b, 0, f], window = {}",
            62,
            "expected the dimensions i, o, 0 in some order, found 0, i, i",
        ),
    ],
)  # fmt: skip
def test_errors_in_a_line(line: str, column: int, message: str) -> None:
    error = refusal(FUNCTION.format(line))
    assert message in error.message
    assert (error.filename, error.line) == ("f.mlir", 2)
    assert error.column == column, str(error)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module {", "a region of builtin.module has no closing '}'"),
        ("}", "expected an operation, found '}'"),
        ("func.func @f(tensor<f32>) { return }", "the arguments of a function with a body need names"),
        (
            "func.func @f(%a: i32) { ^b(%b: i32): return }",
            "the arguments of this region's first block are declared before its brace",
        ),
        ('"x.y"() ({ "x.z"() : () -> () ', "a region of x.y has no closing '}'"),
        (
            "module attributes {a = [" + "[" * 500 + "} {}",
            "attributes and locations are nested more than 50 levels deep",
        ),
        (
            "func.func private @f(" + "tuple<" * 500 + ")",
            "attributes and locations are nested more than 50 levels deep",
        ),
        ("#l = loc(#m)\n#m = loc(#l)", "the location '#l' refers to itself or is nested too deep"),
        ("{-# dialect_resources: { builtin: { a: 3 } } #-}", "expected a string in quotes for the value of a resource"),
        ("module attributes {a = <} {}", "expected an attribute, found '<'"),
        ("module attributes {a = #b.c<(>} {}", "the bracket '>' closes none"),
        ("module attributes {a = #b.c<(} {}", "the bracket '}' closes none"),
    ],
)
def test_errors_in_whole_texts(text: str, message: str) -> None:
    assert message in refusal(text).message


def test_values_of_a_region_go_out_of_scope() -> None:
    error = refusal('"x.y"() ({ %0 = "x.z"() : () -> i32 }) : () -> ()\n"x.w"(%0) : (i32) -> ()')
    assert (error.line, error.message) == (2, "the value '%0' is not defined here")


def test_functions_cannot_capture_values() -> None:
    assert "not defined here" in refusal('%0 = "x.z"() : () -> i32\nfunc.func @f() { return %0 : i32 }').message


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
