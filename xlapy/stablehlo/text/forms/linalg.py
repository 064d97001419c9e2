"""StableHLO's dot products, convolutions, decompositions, transforms and custom calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.elements import booleans, elements, integers
from xlapy.stablehlo.text.forms.common import (
    assigned,
    case,
    ends_with_function_type,
    ends_with_same_type,
    list_of_integers,
    operands,
    set_case,
    set_integers,
)
from xlapy.stablehlo.text.operations import Form, OperationReader

_WINDOW = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}


def dot(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b, precision = [HIGH, HIGH] {...} : (...) -> ...`"""
    operands(reader, operation, 2)
    _precision_and_algorithm(reader, operation)
    ends_with_function_type(reader, operation)


def dot_general(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [...] {...} : (...) -> ...`"""
    cursor = reader.cursor
    operands(reader, operation, 2)
    cursor.expect(",", "after the operands of stablehlo.dot_general")
    fields: dict[str, Any] = {}
    if cursor.accept_word("batching_dims"):
        _pair(reader, fields, "batching_dimensions")
        cursor.expect(",", "after 'batching_dims'")
    cursor.expect_word("contracting_dims")
    _pair(reader, fields, "contracting_dimensions")
    operation.attributes["dot_dimension_numbers"] = ir.StructAttribute(
        "stablehlo.dot", {field: fields[field] for field in sorted(fields) if fields[field]}
    )
    _precision_and_algorithm(reader, operation)
    ends_with_function_type(reader, operation)


def _pair(reader: OperationReader, fields: dict[str, Any], name: str) -> None:
    """`= [0] x [0]`"""
    reader.cursor.expect("=", "before dimensions")
    fields[f"lhs_{name}"] = tuple(list_of_integers(reader, "dimensions"))
    reader.cursor.expect_word("x")
    fields[f"rhs_{name}"] = tuple(list_of_integers(reader, "dimensions"))


def _precision_and_algorithm(reader: OperationReader, operation: ir.Operation) -> None:
    """`, precision = [HIGH, DEFAULT], algorithm = <...>`, each of which may be missing."""
    cursor = reader.cursor
    if not cursor.accept(","):
        return
    if not cursor.accept_word("algorithm"):
        assigned(reader, "precision")
        cursor.expect("[", "before precisions")
        operation.attributes["precision_config"] = tuple(cursor.separated("]", lambda: case(reader, "a precision")))
        if not cursor.accept(","):
            return
        cursor.expect_word("algorithm")
    cursor.expect("=", "after 'algorithm'")
    operation.attributes["algorithm"] = reader.attributes.structures.body("stablehlo.dot_algorithm")


def convolution(reader: OperationReader, operation: ir.Operation) -> None:
    """`(%a, %b) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1], ...} {...} : (...) -> ...`"""
    cursor = reader.cursor
    cursor.expect("(", "before the operands of a convolution")
    operation.operands = reader.operands()
    cursor.expect(")", "after the operands of a convolution")
    assigned(reader, "dim_numbers")
    operation.attributes["dimension_numbers"] = reader.attributes.structures.convolution()
    cursor.expect(",", "after 'dim_numbers'")
    assigned(reader, "window")
    cursor.expect("{", "before the window")
    while not cursor.accept("}"):  # a comma may stand before the brace
        attribute, value = _window(reader)
        operation.attributes[attribute] = value
        if not cursor.accept(","):
            cursor.expect("}", "after the window")
            break
    ends_with_function_type(reader, operation)


def _window(reader: OperationReader) -> tuple[str, ir.ElementsAttribute]:
    """`stride = [1, 1]`, `pad = [[0, 0], [1, 1]]`, `reverse = [false, true]`."""
    cursor = reader.cursor
    start = cursor.skip()
    word = cursor.word("a part of the window")
    attribute = _WINDOW.get(word)
    if attribute is None:
        cursor.fail_at(start, f"a window has {', '.join(_WINDOW)}; found {word!r}")
    cursor.expect("=", f"after {word!r}")
    if word == "pad":
        return attribute, padding(_list(reader, lambda: _edges(reader)))
    if word == "reverse":
        return attribute, booleans(_list(reader, lambda: _boolean(reader)))
    return attribute, integers(list_of_integers(reader, word))


def _list(reader: OperationReader, read: Callable[[], Any]) -> list[Any]:
    reader.cursor.expect("[", "before a list")
    return reader.cursor.separated("]", read)


def _edges(reader: OperationReader) -> list[int]:
    start = reader.cursor.skip()
    edges = list_of_integers(reader, "padding")
    if len(edges) != 2:
        reader.cursor.fail_at(start, f"padding has two numbers for each dimension, found {len(edges)}")
    return edges


def _boolean(reader: OperationReader) -> bool:
    cursor = reader.cursor
    return cursor.accept_word("true") or (not cursor.accept_word("false") and cursor.integer("a reversal") != 0)


def padding(edges: list[list[int]]) -> ir.ElementsAttribute:
    """`dense<[[low, high], ...]>` of i64."""
    type_ = ir.TensorType((len(edges), 2), PrimitiveType.S64)
    return elements(type_, np.array(edges, np.int64).reshape(len(edges), 2))


def cholesky(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, lower = true {...} : type`"""
    operation.operands = [reader.operand()]
    if reader.cursor.accept(","):
        assigned(reader, "lower")
        operation.attributes["lower"] = _boolean(reader)
    ends_with_same_type(reader, operation)


def fft(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, type = RFFT, length = [8] {...} : (...) -> ...`"""
    operation.operands = [reader.operand()]
    reader.cursor.expect(",", "after the operand of stablehlo.fft")
    set_case(reader, operation, "type", "fft_type")
    reader.cursor.expect(",", "after 'type'")
    set_integers(reader, operation, "length", "fft_length")
    ends_with_function_type(reader, operation)


def _einsum(count: int) -> Form:
    """`%a, %b, config = "ab,bc->ac" {...} : (...) -> ...` of so many operands."""

    def read(reader: OperationReader, operation: ir.Operation) -> None:
        operands(reader, operation, count)
        reader.cursor.expect(",", "before 'config'")
        assigned(reader, "config")
        operation.attributes["einsum_config"] = reader.cursor.string("the configuration of an einsum")
        ends_with_function_type(reader, operation)

    return read


def custom_call(reader: OperationReader, operation: ir.Operation) -> None:
    """`@target(%a, %b) {...} : (...) -> ...`"""
    cursor = reader.cursor
    operation.attributes["call_target_name"] = cursor.symbol("the target of a custom call")
    cursor.expect("(", "before the operands of a custom call")
    operation.operands = reader.operands()
    cursor.expect(")", "after the operands of a custom call")
    ends_with_function_type(reader, operation)


FORMS: dict[str, Form] = {
    "stablehlo.cholesky": cholesky,
    "stablehlo.convolution": convolution,
    "stablehlo.custom_call": custom_call,
    "stablehlo.dot": dot,
    "stablehlo.dot_general": dot_general,
    "stablehlo.einsum": _einsum(2),
    "stablehlo.fft": fft,
    "stablehlo.unary_einsum": _einsum(1),
}
