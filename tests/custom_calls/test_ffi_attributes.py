"""The attribute dictionary of typed FFI calls: allowed values, and the positions of errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.raising import raises
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ParseError
from xlapy.custom_calls.ffi.attributes import read_attributes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", np.int64(1)),
        ("-7 : i16", np.int16(-7)),
        ("200 : i8", np.int8(-56)),
        ("0xFF : ui8", np.uint8(255)),
        ("3 : si32", np.int32(3)),
        ("1 : i1", np.bool_(True)),
        ("false", np.bool_(False)),
        ("1.5", np.float64(1.5)),
        ("-1.25e+02 : f32", np.float32(-125)),
        ("1.0e400", np.float64(np.inf)),
        ("0x7F800000 : f32", np.float32(np.inf)),
        ("0xFFF0000000000000 : f64", np.float64(-np.inf)),
    ],
)
def test_scalars(text: str, expected: Any) -> None:
    value = read_attributes(f"{{x = {text}}}")["x"]
    assert (value, value.dtype) == (expected, expected.dtype)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("array<i8>", np.array([], np.int8)),
        ("array<f32: 1.0, -0.5>", np.array([1, -0.5], np.float32)),
        ("dense<[1, 2]> : tensor<2xui16>", np.array([1, 2], np.uint16)),
        ("dense<1.5> : tensor<2x2xf64>", np.full(4, 1.5)),
        ("dense<7> : tensor<i32>", np.array([7], np.int32)),
        ("dense<> : tensor<0x3xi64>", np.array([], np.int64)),
        ('dense<"0x0100000002000000"> : tensor<2xi32>', np.array([1, 2], np.int32)),
        ("dense<[[1], [2]]> : vector<2x1xi8>", np.array([1, 2], np.int8)),
    ],
)
def test_arrays_have_one_dimension(text: str, expected: Any) -> None:
    value = read_attributes(f"{{x = {text}}}")["x"]
    assert (value.tolist(), value.dtype) == (expected.tolist(), expected.dtype)


def test_names_strings_and_order() -> None:
    found = read_attributes('{ b = "a\\\\b\\n\\00", "x y" = {}, A.1$ = "" }')
    assert list(found.items()) == [("A.1$", b""), ("b", b"a\\b\n\0"), ("x y", {})]
    assert read_attributes("") == read_attributes("{}") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "expected a dictionary {name = value, ...}, found 'x'"),
        ("{x}", "1:3: x is a unit attribute; attributes of a call need a value"),
        ("{x = 1, x = 2}", "1:9: the attribute x is given twice"),
        ("{x = foo}", "x must be a number, true or false, a string, array<...>, dense<...> or a dictionary, found 'fo"),
        ("{x = [1]}", "x must be a number"),
        ("{x = 256 : i8}", "1:6: 256 does not fit in 8 bits"),
        ("{x = -1 : ui8}", "-1 does not fit in 8 bits"),
        ("{x = 1.5 : i8}", "1.5 is not an integer"),
        ("{x = 1 : f32}", "1 is an integer, float32 takes a number with a point"),
        ("{x = 1.0 : bf16}", "1:12: 'bf16' is not a type of attributes"),
        ("{x = 1 : index}", "'index' is not a type of attributes"),
        ("{x = array<i1: true>}", "'i1' is not a type of attributes"),
        ("{x = array<ui8: 1>}", "array<...> holds signed or floating-point numbers, not uint8"),
        ("{x = dense<[1, 2]> : tensor<3xi32>}", "dense<...> has 2 elements, its type 3"),
        (
            "{x = dense<1> : tensor<99999999999xi32>}",
            "an attribute has at most 16777216 elements, the sizes [99999999999] give more",
        ),
        ('{x = dense<"0x01"> : tensor<1xi32>}', "1 bytes are not a multiple of the size of int32"),
        ('{x = dense<"xyz"> : tensor<1xi32>}', "are not a hexadecimal string"),
        ("{x = 1", "expected '}' in the attributes, found the end of the text"),
        ("{x = 1} y", "unexpected 'y' after the dictionary"),
        ("{x = " * 70, "dictionaries are nested more than 64 deep"),
        ("{x = dense<" + "[" * 70, "dense<...> is nested more than 64 deep"),
        ("{x = " + "9" * 5000 + "}", "an integer of more than 64 bits"),
        ("{x = 0x" + "f" * 5000 + " : f32}", "an integer of more than 64 bits"),
    ],
)  # fmt: skip
def test_malformed_dictionaries_of_attributes(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_attributes(text)
    assert message in str(caught.value)
    if text not in ("{x = 1", "{x = 1} y"):  # tokens that no dictionary has there
        assert caught.value.code == codes.CALL_ATTRIBUTES


def test_a_size_of_very_many_digits_is_refused():
    with raises(ParseError, codes.CALL_ATTRIBUTES, "16777216 elements"):
        read_attributes("{x = dense<1> : tensor<" + "9x" * 3000 + "i32>}")
