"""Custom parsers of StableHLO's contractions, convolutions, decompositions, Fourier transforms and custom calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.custom_parsers.common import (
    enum_case,
    expect_assignment,
    finish_with_function_type,
    finish_with_same_type,
    integer_list,
    operands,
    set_case,
    set_integers,
)
from xlapy.stablehlo.text.elements import booleans, elements, integers
from xlapy.stablehlo.text.operations import CustomParser, OperationParser

_WINDOW = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}


def dot(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b, precision = [HIGH, HIGH] {...} : (...) -> ...`."""
    operands(parser, operation, 2)
    _precision_and_algorithm(parser, operation)
    finish_with_function_type(parser, operation)


def dot_general(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [...] {...} : (...) -> ...`.

    The batching dimensions and the precision are optional.
    """
    cursor = parser.cursor
    operands(parser, operation, 2)
    cursor.expect(",", "after the operands of stablehlo.dot_general")
    fields: dict[str, Any] = {}
    if cursor.accept_word("batching_dims"):
        _pair(parser, fields, "batching_dimensions")
        cursor.expect(",", "after 'batching_dims'")
    cursor.expect_word("contracting_dims")
    _pair(parser, fields, "contracting_dimensions")
    operation.attributes["dot_dimension_numbers"] = ir.StructAttribute(
        "stablehlo.dot", {field: fields[field] for field in sorted(fields) if fields[field]}
    )
    _precision_and_algorithm(parser, operation)
    finish_with_function_type(parser, operation)


def _pair(parser: OperationParser, fields: dict[str, Any], name: str) -> None:
    """Parses `= [0] x [0]`."""
    parser.cursor.expect("=", "before dimensions")
    fields[f"lhs_{name}"] = tuple(integer_list(parser, "dimensions"))
    parser.cursor.expect_word("x")
    fields[f"rhs_{name}"] = tuple(integer_list(parser, "dimensions"))


def _precision_and_algorithm(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses the optional `, precision = [HIGH, DEFAULT]` and `, algorithm = <...>`."""
    cursor = parser.cursor
    if not cursor.accept(","):
        return
    if not cursor.accept_word("algorithm"):
        expect_assignment(parser, "precision")
        cursor.expect("[", "before precisions")
        operation.attributes["precision_config"] = tuple(
            cursor.separated("]", lambda: enum_case(parser, "a precision"))
        )
        if not cursor.accept(","):
            return
        cursor.expect_word("algorithm")
    cursor.expect("=", "after 'algorithm'")
    operation.attributes["algorithm"] = parser.attributes.structs.body("stablehlo.dot_algorithm")


def convolution(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1]} {...} : (...) -> ...`."""
    cursor = parser.cursor
    cursor.expect("(", "before the operands of a convolution")
    operation.operands = parser.operands()
    cursor.expect(")", "after the operands of a convolution")
    expect_assignment(parser, "dim_numbers")
    operation.attributes["dimension_numbers"] = parser.attributes.structs.convolution()
    cursor.expect(",", "after 'dim_numbers'")
    expect_assignment(parser, "window")
    cursor.expect("{", "before the window")
    while not cursor.accept("}"):  # A trailing comma is accepted.
        attribute, value = _window(parser)
        operation.attributes[attribute] = value
        if not cursor.accept(","):
            cursor.expect("}", "after the window")
            break
    finish_with_function_type(parser, operation)


def _window(parser: OperationParser) -> tuple[str, ir.ElementsAttribute]:
    """`stride = [1, 1]`, `pad = [[0, 0], [1, 1]]`, `reverse = [false, true]`."""
    cursor = parser.cursor
    start = cursor.skip()
    word = cursor.word("a part of the window")
    attribute = _WINDOW.get(word)
    if attribute is None:
        cursor.fail_at(start, codes.KNOWN_KEYWORD, f"a window has {', '.join(_WINDOW)}; found {word!r}")
    cursor.expect("=", f"after {word!r}")
    if word == "pad":
        return attribute, padding(_list(parser, lambda: _edges(parser)))
    if word == "reverse":
        return attribute, booleans(_list(parser, lambda: _boolean(parser)))
    return attribute, integers(integer_list(parser, word))


def _list(parser: OperationParser, read: Callable[[], Any]) -> list[Any]:
    parser.cursor.expect("[", "before a list")
    return parser.cursor.separated("]", read)


def _edges(parser: OperationParser) -> list[int]:
    start = parser.cursor.skip()
    edges = integer_list(parser, "padding")
    if len(edges) != 2:
        parser.cursor.fail_at(
            start, text_codes.TOKEN, f"expected two numbers of padding for each dimension, found {len(edges)}"
        )
    return edges


def _boolean(parser: OperationParser) -> bool:
    cursor = parser.cursor
    return cursor.accept_word("true") or (not cursor.accept_word("false") and cursor.integer("a reversal") != 0)


def padding(edges: list[list[int]]) -> ir.ElementsAttribute:
    """Returns `dense<[[low, high], ...]>` of i64."""
    type_ = ir.TensorType((len(edges), 2), PrimitiveType.S64)
    return elements(type_, np.array(edges, np.int64).reshape(len(edges), 2))


def cholesky(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, lower = true {...} : type`."""
    operation.operands = [parser.operand()]
    if parser.cursor.accept(","):
        expect_assignment(parser, "lower")
        operation.attributes["lower"] = _boolean(parser)
    finish_with_same_type(parser, operation)


def fft(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, type = RFFT, length = [8] {...} : (...) -> ...`."""
    operation.operands = [parser.operand()]
    parser.cursor.expect(",", "after the operand of stablehlo.fft")
    set_case(parser, operation, "type", "fft_type")
    parser.cursor.expect(",", "after 'type'")
    set_integers(parser, operation, "length", "fft_length")
    finish_with_function_type(parser, operation)


def _einsum(count: int) -> CustomParser:
    """Returns the parser of `%a, %b, config = "ab,bc->ac" {...} : (...) -> ...` with `count` operands."""

    def parse(parser: OperationParser, operation: ir.Operation) -> None:
        operands(parser, operation, count)
        parser.cursor.expect(",", "before 'config'")
        expect_assignment(parser, "config")
        operation.attributes["einsum_config"] = parser.cursor.string("the configuration of an einsum")
        finish_with_function_type(parser, operation)

    return parse


def custom_call(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `@target(%a, %b) {...} : (...) -> ...`."""
    cursor = parser.cursor
    operation.attributes["call_target_name"] = cursor.symbol("the target of a custom call")
    cursor.expect("(", "before the operands of a custom call")
    operation.operands = parser.operands()
    cursor.expect(")", "after the operands of a custom call")
    finish_with_function_type(parser, operation)


CUSTOM_PARSERS: dict[str, CustomParser] = {
    "stablehlo.cholesky": cholesky,
    "stablehlo.convolution": convolution,
    "stablehlo.custom_call": custom_call,
    "stablehlo.dot": dot,
    "stablehlo.dot_general": dot_general,
    "stablehlo.einsum": _einsum(2),
    "stablehlo.fft": fft,
    "stablehlo.unary_einsum": _einsum(1),
}
