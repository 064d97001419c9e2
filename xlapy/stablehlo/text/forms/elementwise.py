"""StableHLO's operations on elements."""

from __future__ import annotations

import re

from xlapy.base.element_types import PrimitiveType
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.forms.common import (
    I32,
    assigned,
    case,
    ends_with_function_type,
    ends_with_same_type,
    operands,
)
from xlapy.stablehlo.text.operations import Form, OperationReader

_UNARY = (
    "abs", "cbrt", "ceil", "convert", "cosine", "count_leading_zeros", "exponential", "exponential_minus_one",
    "floor", "imag", "log", "log_plus_one", "logistic", "negate", "not", "popcnt", "real", "round_nearest_afz",
    "round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "tan", "tanh", "uniform_dequantize",
    "uniform_quantize",
)  # fmt: skip
_BINARY = (
    "add", "and", "atan2", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "subtract", "xor",
)  # fmt: skip
_FORMAT = re.compile(r"e(\d{1,9})m(\d{1,9})\b")
_PARTS = {PrimitiveType.C64: PrimitiveType.F32, PrimitiveType.C128: PrimitiveType.F64}


def unary(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a {...} : type`"""
    operation.operands = [reader.operand()]
    ends_with_same_type(reader, operation)


def binary(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, %b {...} : type`"""
    operation.operands = reader.operands()
    if len(operation.operands) != 2:
        reader.cursor.fail(f"{operation.name} takes two operands, there are {len(operation.operands)}")
    ends_with_same_type(reader, operation)


def clamp(reader: OperationReader, operation: ir.Operation) -> None:
    """`%min, %a, %max {...} : type`"""
    operands(reader, operation, 3)
    ends_with_same_type(reader, operation)


def is_finite(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a {...} : (type) -> type`"""
    operation.operands = [reader.operand()]
    ends_with_function_type(reader, operation)


def complex_(reader: OperationReader, operation: ir.Operation) -> None:
    """`%real, %imaginary {...} : type` of the result, or the types of a function."""
    operands(reader, operation, 2)
    reader.attribute_dictionary(operation)
    cursor = reader.cursor
    cursor.expect(":", "before the type of stablehlo.complex")
    position = cursor.skip()
    if cursor.peek("("):
        type_ = reader.types.read_function()
        reader.check(operation, type_.inputs, position)
        reader.results(operation, type_.results)
        return
    result = reader.types.read()
    part = _PARTS.get(result.element) if isinstance(result, ir.TensorType) else None  # type: ignore[arg-type]
    if not isinstance(result, ir.TensorType) or part is None:
        cursor.fail_at(position, "the result of stablehlo.complex has to be a tensor of complex numbers")
    reader.check(operation, [ir.TensorType(result.sizes, part, result.bounds, result.encoding)] * 2, position)
    reader.results(operation, [result])


def compare(reader: OperationReader, operation: ir.Operation) -> None:
    """`LT, %a, %b, FLOAT {...} : (...) -> ...`; the kind of comparison may be missing."""
    operation.attributes["comparison_direction"] = case(reader, "the direction of a comparison")
    reader.cursor.expect(",", "after the direction of a comparison")
    operands(reader, operation, 2)
    if reader.cursor.accept(","):
        operation.attributes["compare_type"] = case(reader, "the kind of a comparison")
    ends_with_function_type(reader, operation)


def select(reader: OperationReader, operation: ir.Operation) -> None:
    """`%p, %a, %b {...} : type of the predicate, type`, or the types of a function."""
    operands(reader, operation, 3)
    reader.attribute_dictionary(operation)
    cursor = reader.cursor
    cursor.expect(":", "before the types of stablehlo.select")
    position = cursor.skip()
    if cursor.peek("("):
        type_ = reader.types.read_function()
        reader.check(operation, type_.inputs, position)
        reader.results(operation, type_.results)
        return
    predicate = reader.types.read()
    cursor.expect(",", "between the types of stablehlo.select")
    result = reader.types.read()
    reader.check(operation, [predicate, result, result], position)
    reader.results(operation, [result])


def reduce_precision(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a, format = e5m10 {...} : type`"""
    operation.operands = [reader.operand()]
    reader.cursor.expect(",", "after the operand of stablehlo.reduce_precision")
    assigned(reader, "format")
    found = reader.cursor.match(_FORMAT)
    if found is None:
        reader.cursor.fail(f"expected a format such as e5m10, found {reader.cursor.describe_next()}")
    operation.attributes["exponent_bits"] = ir.IntegerAttribute(int(found.group(1)), I32)
    operation.attributes["mantissa_bits"] = ir.IntegerAttribute(int(found.group(2)), I32)
    ends_with_same_type(reader, operation)


FORMS: dict[str, Form] = {
    **{f"stablehlo.{name}": unary for name in _UNARY},
    **{f"stablehlo.{name}": binary for name in _BINARY},
    "stablehlo.clamp": clamp,
    "stablehlo.compare": compare,
    "stablehlo.complex": complex_,
    "stablehlo.is_finite": is_finite,
    "stablehlo.reduce_precision": reduce_precision,
    "stablehlo.select": select,
}
