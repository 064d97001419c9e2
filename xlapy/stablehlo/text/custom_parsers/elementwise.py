"""Custom parsers of StableHLO's elementwise operations."""

from __future__ import annotations

import re

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.custom_parsers.common import (
    I32,
    enum_case,
    expect_assignment,
    finish_with_function_type,
    finish_with_same_type,
    operands,
)
from xlapy.stablehlo.text.operations import CustomParser, OperationParser

UNARY = (
    "abs", "cbrt", "ceil", "convert", "cosine", "count_leading_zeros", "exponential", "exponential_minus_one",
    "floor", "imag", "log", "log_plus_one", "logistic", "negate", "not", "popcnt", "real", "round_nearest_afz",
    "round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh", "uniform_dequantize",
    "uniform_quantize",
)  # fmt: skip
"""The unary operations of StableHLO whose custom form is `%a : type`."""

BINARY = (
    "add", "and", "atan2", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "subtract", "xor",
)  # fmt: skip
"""The binary operations of StableHLO whose custom form is `%a, %b : type`."""

_FORMAT = re.compile(r"e(\d{1,9})m(\d{1,9})\b", re.ASCII)
_PARTS = {PrimitiveType.C64: PrimitiveType.F32, PrimitiveType.C128: PrimitiveType.F64}


def unary(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a {...} : type`."""
    operation.operands = [parser.operand()]
    finish_with_same_type(parser, operation)


def binary(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, %b {...} : type`."""
    operation.operands = parser.operands()
    if len(operation.operands) != 2:
        parser.cursor.fail(codes.FORM_COUNT, f"{operation.name} takes two operands, but has {len(operation.operands)}")
    finish_with_same_type(parser, operation)


def clamp(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%min, %a, %max {...} : type`."""
    operands(parser, operation, 3)
    finish_with_same_type(parser, operation)


def is_finite(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a {...} : (type) -> type`."""
    operation.operands = [parser.operand()]
    finish_with_function_type(parser, operation)


def complex_(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%real, %imaginary {...} : type`, the type of the result, or with a function type."""
    operands(parser, operation, 2)
    parser.optional_attributes(operation)
    cursor = parser.cursor
    cursor.expect(":", "before the type of stablehlo.complex")
    position = cursor.skip()
    if cursor.peek("("):
        type_ = parser.types.parse_function()
        parser.check_operand_types(operation, type_.inputs, position)
        parser.make_results(operation, type_.results)
        return
    result = parser.types.parse()
    part = _PARTS.get(result.element) if isinstance(result, ir.TensorType) else None  # type: ignore[arg-type]
    if not isinstance(result, ir.TensorType) or part is None:
        cursor.fail_at(position, codes.FORM_TYPE, "the result of stablehlo.complex must be a tensor of complex numbers")
    parser.check_operand_types(
        operation, [ir.TensorType(result.sizes, part, result.bounds, result.encoding)] * 2, position
    )
    parser.make_results(operation, [result])


def compare(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `LT, %a, %b, FLOAT {...} : (...) -> ...`. The comparison type is optional."""
    operation.attributes["comparison_direction"] = enum_case(parser, "the direction of a comparison")
    parser.cursor.expect(",", "after the direction of a comparison")
    operands(parser, operation, 2)
    if parser.cursor.accept(","):
        operation.attributes["compare_type"] = enum_case(parser, "the type of a comparison")
    finish_with_function_type(parser, operation)


def select(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%p, %a, %b {...} : type, type`, the types of the predicate and the result, or with a function type."""
    operands(parser, operation, 3)
    parser.optional_attributes(operation)
    cursor = parser.cursor
    cursor.expect(":", "before the types of stablehlo.select")
    position = cursor.skip()
    if cursor.peek("("):
        type_ = parser.types.parse_function()
        parser.check_operand_types(operation, type_.inputs, position)
        parser.make_results(operation, type_.results)
        return
    predicate = parser.types.parse()
    cursor.expect(",", "between the types of stablehlo.select")
    result = parser.types.parse()
    parser.check_operand_types(operation, [predicate, result, result], position)
    parser.make_results(operation, [result])


def reduce_precision(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a, format = e5m10 {...} : type`."""
    operation.operands = [parser.operand()]
    parser.cursor.expect(",", "after the operand of stablehlo.reduce_precision")
    expect_assignment(parser, "format")
    found = parser.cursor.match(_FORMAT)
    if found is None:
        parser.cursor.fail(text_codes.TOKEN, f"expected a format such as e5m10, found {parser.cursor.describe_next()}")
    operation.attributes["exponent_bits"] = ir.IntegerAttribute(int(found.group(1)), I32)
    operation.attributes["mantissa_bits"] = ir.IntegerAttribute(int(found.group(2)), I32)
    finish_with_same_type(parser, operation)


CUSTOM_PARSERS: dict[str, CustomParser] = {
    **{f"stablehlo.{name}": unary for name in UNARY},
    **{f"stablehlo.{name}": binary for name in BINARY},
    "stablehlo.clamp": clamp,
    "stablehlo.compare": compare,
    "stablehlo.complex": complex_,
    "stablehlo.is_finite": is_finite,
    "stablehlo.reduce_precision": reduce_precision,
    "stablehlo.select": select,
}
